"""A ledger with one dataset, in a file or in a database, and a way to pay for something small."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import NoServer, Server

from reticent.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clinic.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """An open ledger in which 'patients' may spend (3, 1e-6)."""
    with Ledger.create(path) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
        yield made


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server of our own; where PostgreSQL cannot be had, the test is skipped and says why."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'reticent[postgres]'")
    try:
        server = Server()
    except NoServer as error:
        pytest.skip(str(error))
    yield server
    server.stop()


@pytest.fixture
def database(postgres: Server) -> str:
    """The address of a ledger that does not exist yet, in a running database."""
    return postgres.address(schema=f"t{secrets.token_hex(4)}")


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest) -> str:
    """Where a ledger may be created: a file, then a database."""
    return str(request.getfixturevalue("path" if request.param == "sqlite" else "database"))


@pytest.fixture
def anywhere(address: str) -> Iterator[Ledger]:
    """The same ledger in each place."""
    with Ledger.create(address) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
        yield made
