"""The owner of a ledger: whoever holds the private key that signs its limits.

A ledger that was created with an owner has the public half of an Ed25519 key in its first entry. Everybody
can check a signature with it, and nobody can make one. What opens or moves a budget (a limit, a new version,
a second name) has to be signed; charges need not be.

Guarantee:
    A signature covers the ledger's id, the number and the kind of the entry, everything the entry says, and
    the hash of the entry before it, so of the whole chain up to there. It fits no other place, dataset or
    ledger, and cannot be used a second time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from reticent.core.errors import DataError, InvalidArgument, Unavailable
from reticent.ledger.chain import Head, canonical

SIGNATURE = "signature"  # the field of an entry that holds it, in hexadecimal


class OwnerKey:
    """The private key of a ledger's owner, from a file that only the owner can read.

    Example:
        >>> import tempfile
        >>> key = OwnerKey.create(tempfile.mkdtemp() + "/owner.key")
        >>> len(key.public)
        64
    """

    def __init__(self, private: Any) -> None:
        self._private = private
        self.public: str = private.public_key().public_bytes_raw().hex()

    def __repr__(self) -> str:
        return f"OwnerKey(public='{self.public}')"

    @classmethod
    def create(cls, path: str | Path) -> OwnerKey:
        """A new key in a new file with mode 0600.

        Raises:
            InvalidArgument: there is a file already.
            Unavailable: it cannot be written, or `cryptography` is not installed.
        """
        ed25519, serialization = _cryptography()
        private = ed25519.Ed25519PrivateKey.generate()
        text = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            raise InvalidArgument(
                f"{path} exists already.", remedy="Choose another name: a key is never overwritten."
            ) from None
        except OSError as error:
            raise Unavailable(
                f"Cannot create {path}: {error.strerror}.", remedy="Choose a folder you may write."
            ) from None
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            with suppress(OSError):
                os.unlink(path)
            raise Unavailable(f"Cannot write {path}: {error.strerror}.", remedy="Free some space.") from None
        return cls(private)

    @classmethod
    def read(cls, path: str | Path) -> OwnerKey:
        """The key in a file.

        Raises:
            Unavailable: it cannot be read, or `cryptography` is not installed.
            DataError: it is not a key, or others can read it too.
        """
        ed25519, serialization = _cryptography()
        try:
            with open(path, "rb") as file:
                mode, text = os.fstat(file.fileno()).st_mode, file.read(1 << 16)
        except OSError as error:
            raise Unavailable(
                f"Cannot read the owner's key {path} ({error.strerror}).", remedy="Check its name and rights."
            ) from None
        if os.name == "posix" and mode & 0o077:
            raise DataError(
                f"Others can read the owner's key {path} (mode {mode & 0o777:o}).",
                remedy=f"Take their rights away: chmod 600 {path}",
            )
        try:
            private = serialization.load_pem_private_key(text, password=None)
        except (ValueError, TypeError):
            private = None
        if not isinstance(private, ed25519.Ed25519PrivateKey):
            raise DataError(
                f"{path} is not an owner's key.",
                remedy="Name the file that `reticent ledger init --owner-key` wrote.",
            )
        return cls(private)

    def sign(self, ledger: str, head: Head, kind: str, values: dict[str, Any]) -> str:
        """The signature of the entry that follows a head."""
        return self._private.sign(_signed_text(ledger, head, kind, values)).hex()


def is_signed(owner: str, ledger: str, head: Head, kind: str, values: dict[str, Any]) -> bool:
    """Whether the entry that follows a head bears the owner's signature.

    Args:
        owner: the public key, in hexadecimal.
        values: of the entry, with its signature.

    Raises:
        Unavailable: `cryptography` is not installed.
    """
    ed25519, _ = _cryptography()
    from cryptography.exceptions import InvalidSignature

    plain = {name: value for name, value in values.items() if name != SIGNATURE}
    try:
        key = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(owner))
        key.verify(bytes.fromhex(values[SIGNATURE]), _signed_text(ledger, head, kind, plain))
    except (InvalidSignature, KeyError, TypeError, ValueError):
        return False
    return True


def _signed_text(ledger: str, head: Head, kind: str, values: dict[str, Any]) -> bytes:
    said = {
        "what": "entry of a reticent ledger, signed by its owner",
        "ledger": ledger,
        "sequence": head.sequence + 1,
        "previous": head.hash,
        "kind": kind,
        "values": values,
    }
    return canonical(said).encode("ascii")


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise Unavailable(
            "A ledger with an owner needs the package 'cryptography', which is not installed.",
            remedy="Install it: pip install 'reticent[ledger]'",
        ) from None
    return ed25519, serialization
