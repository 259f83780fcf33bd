"""The address of a ledger: a file, or a PostgreSQL database. A password is taken out before it is kept.

clinic.ledger
postgresql://ana@db.example/clinic
postgresql://ana@db.example/clinic?schema=trials
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from reticent.core.errors import InvalidArgument
from reticent.core.postgres import is_database, looks_like_database, not_an_address, parse_uri, secrets_of

WHOSE = "the ledger"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class PostgresAddress:
    """A database, and the schema in it that holds the ledger.

    Attributes:
        uri: for libpq, without a password.
        schema: the name of the ledger in the database.
    """

    uri: str
    schema: str

    def __str__(self) -> str:
        if self.schema == "reticent":
            return self.uri
        return f"{self.uri}{'&' if '?' in self.uri else '?'}schema={self.schema}"

    @property
    def secrets(self) -> dict[str, str]:
        """What this process was told besides the address: a password, or nothing."""
        return secrets_of(self.uri)


Address = Path | PostgresAddress


def parse_address(text: str | Address) -> Address:
    """The address in a text; a path is a path.

    Raises:
        InvalidArgument: it looks like a database's, and cannot be one. The message repeats nothing of it.

    Example:
        >>> print(parse_address("postgresql://ana:secret@db/clinic?schema=trials"))
        postgresql://ana@db/clinic?schema=trials
        >>> parse_address("clinic.ledger")
        PosixPath('clinic.ledger')
    """
    if isinstance(text, Path | PostgresAddress):
        return text
    if not is_database(text):
        if looks_like_database(text):
            raise not_an_address(WHOSE, "It looks like a database's, but does not start with postgresql://.")
        return Path(text)
    uri, own = parse_uri(text, whose=WHOSE, own=("schema",))
    schema = own.get("schema", "reticent")
    if not _SCHEMA.fullmatch(schema):
        raise InvalidArgument(
            "The schema in the ledger's address is not a usable name.",
            remedy="Use at most 40 small Latin letters, digits and underscores.",
        )
    return PostgresAddress(uri, schema)


def without_password(text: str | None) -> str | None:
    """An address as it may be stored and printed; a file's name is left as it is."""
    if text is None:
        return None
    address = parse_address(text)
    return text if isinstance(address, Path) else str(address)
