"""A secret key of the user, kept in the configuration: what it marks or names, nobody else can."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from reticent.core.errors import DataError
from reticent.core.files import open_new, read_inside

_KEY_BYTES = 32


def configuration() -> Path:
    """The folder of the user's configuration: `RETICENT_CONFIG`, or the usual one."""
    if named := os.environ.get("RETICENT_CONFIG"):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "reticent"


def user_key(*, may_create: bool = True) -> bytes:
    """This user's key of 256 bits.

    Args:
        may_create: make one when it is first needed.

    Raises:
        DataError: it cannot be read, or cannot be made.
    """
    folder = configuration()
    try:
        if may_create:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _create(folder)
        key = read_inside(folder, "key", most=1 << 16)
    except OSError as error:
        raise DataError(
            f"Cannot keep a key in {folder}: {error.strerror}.",
            remedy="Set RETICENT_CONFIG to a folder that you may write to.",
        ) from error
    if len(key) != _KEY_BYTES:
        raise DataError(
            f"{folder / 'key'} is damaged.",
            remedy="Delete it: runs can be trusted again, but journals are lost.",
        )
    return key


def _create(folder: Path) -> None:
    """A key appears whole or not at all, and never over one that another process has just made."""
    if (folder / "key").exists():
        return
    draft = folder / f".key.{secrets.token_hex(8)}"
    try:
        with open_new(draft, is_private=True) as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, folder / "key")
    finally:
        draft.unlink(missing_ok=True)
