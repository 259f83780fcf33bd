"""The store for an address. The driver of PostgreSQL is imported only for a database."""

from __future__ import annotations

from pathlib import Path

from reticent.ledger.address import Address
from reticent.ledger.storage.interface import Store


def open_store(address: Address, *, timeout: float) -> Store:
    """The place of an existing ledger. Nothing is read before the first transaction."""
    if isinstance(address, Path):
        from reticent.ledger.storage.sqlite import SqliteStore

        return SqliteStore(address, timeout=timeout)
    from reticent.ledger.storage.postgres import PostgresStore

    return PostgresStore(address, timeout=timeout)


def create_store(address: Address, values: dict[str, object], *, timeout: float) -> None:
    """A new ledger with its first entry, where none was."""
    if isinstance(address, Path):
        from reticent.ledger.storage import sqlite

        sqlite.create(address, values)
    else:
        from reticent.ledger.storage import postgres

        postgres.create(address, values, timeout=timeout)
