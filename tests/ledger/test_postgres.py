"""In a database, roles keep rights apart, a lost answer is looked up, and a superuser's tampering shows."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from postgres_server import Server

from reticent.core.errors import (
    BudgetExceeded,
    DataError,
    IntegrityError,
    InvalidArgument,
    OutcomeUnknown,
    Unavailable,
)
from reticent.ledger.address import PostgresAddress, parse_address, without_password
from reticent.ledger.chain import next_entry
from reticent.ledger.ledger import Ledger
from reticent.ledger.storage import postgres as backend
from reticent.ledger.storage import postgres_schema as schemas
from reticent.ledger.storage.interface import COLUMNS
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'reticent[postgres]'")


def charge(ledger: Ledger, noise: float = 30.0, purpose: str = "test", fingerprint: str | None = None) -> Any:
    return ledger.for_dataset("patients", fingerprint=fingerprint).charge(
        Gaussian(noise_multiplier=noise), adjacency=Adjacency.ADD_OR_REMOVE, purpose=purpose
    )


@pytest.fixture
def kept(database: str) -> Iterator[Ledger]:
    """A ledger of four entries, two of them charges."""
    with Ledger.create(database) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
        charge(made)
        charge(made)
        yield made


def schema_of(ledger: Ledger) -> str:
    assert isinstance(ledger.address, PostgresAddress)
    return ledger.address.schema


def as_user(ledger: Ledger, postgres: Server, right: str) -> str:
    """The address for a new user of the database with one of the three rights."""
    schema = schema_of(ledger)
    name = f"{schema}_{right}_user"
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN IN ROLE {schema}_{right}")
    return postgres.address(user=name, schema=schema)


def tamper(ledger: Ledger, postgres: Server, *statements: str) -> None:
    """As a superuser, without the triggers."""
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute("SET session_replication_role = replica")
        admin.execute(f"SET search_path = {schema_of(ledger)}")
        for statement in statements:
            admin.execute(statement)


# Rights


def test_an_analyst_charges_and_sets_no_limit(kept: Ledger, postgres: Server):
    with Ledger.open(as_user(kept, postgres, "analyst")) as analyst:
        mark = "0-ab"
        charge(analyst, fingerprint=mark)
        charge(analyst, fingerprint=mark)
        before = kept.head
        for attempt in (
            lambda: analyst.limit("patients", epsilon=9.0, delta=1e-6),
            lambda: analyst.limit("others", epsilon=9.0, delta=1e-6),
            lambda: analyst.alias("others", same_rows_as="patients"),
            lambda: analyst.new_version("patients", "0-cd", reason="mine"),
        ):
            with pytest.raises(
                Unavailable, match=r"lacks the right.*Nothing was recorded.*Limits are set by"
            ):
                attempt()
        with pytest.raises(BudgetExceeded):
            charge(analyst, noise=0.1)
        assert kept.head == before
    kept.verify()


def test_an_owner_sets_limits_and_an_auditor_only_reads(kept: Ledger, postgres: Server):
    with Ledger.open(as_user(kept, postgres, "owner")) as owner:
        owner.limit("patients", epsilon=4.0, delta=1e-6)
        owner.new_version("patients", "0-ab", reason="first")
        owner.new_version("patients", "0-cd", reason="second")
    with Ledger.open(as_user(kept, postgres, "auditor")) as auditor:
        assert auditor.verify().entries == 7
        assert auditor.account("patients").limit.epsilon == 4.0
        for attempt in (lambda: charge(auditor), lambda: auditor.limit("x", epsilon=1.0, delta=1e-6)):
            with pytest.raises(Unavailable, match="lacks the right"):
                attempt()


def test_a_stranger_sees_nothing(kept: Ledger, postgres: Server):
    schema = schema_of(kept)
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {schema}_stranger LOGIN")
    with pytest.raises(Unavailable, match=r"lacks the right.*GRANT one of them"):
        Ledger.open(postgres.address(user=f"{schema}_stranger", schema=schema))


BY_HAND = (
    "UPDATE {schema}.entries SET payload = '{{}}' WHERE sequence = 3",
    "DELETE FROM {schema}.entries WHERE sequence = 4",
    "TRUNCATE {schema}.entries",
    "ALTER TABLE {schema}.entries DISABLE TRIGGER ALL",
    "ALTER TABLE {schema}.entries DISABLE ROW LEVEL SECURITY",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION {schema}.is_first_fingerprint(new_payload text) RETURNS boolean "
    "LANGUAGE sql AS 'SELECT true'",
)


@pytest.mark.parametrize("right", ["analyst", "owner", "auditor"])
def test_no_role_can_change_or_delete_by_hand(kept: Ledger, postgres: Server, right: str):
    before = kept.export()
    with psycopg.connect(libpq(as_user(kept, postgres, right)), autocommit=True) as user:
        for statement in BY_HAND:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                user.execute(statement.format(schema=schema_of(kept)))
    assert kept.export() == before


def libpq(address: str) -> str:
    parsed = parse_address(address)
    assert isinstance(parsed, PostgresAddress)
    return parsed.uri


def insert(connection: Any, ledger: Ledger, kind: Any, values: dict[str, Any], **changes: Any) -> None:
    entry = next_entry(ledger.head, kind, values)
    row = {name: getattr(entry, name) for name in COLUMNS} | changes
    marks = ", ".join(f"%({name})s" for name in COLUMNS)
    connection.execute(f"INSERT INTO {schema_of(ledger)}.entries VALUES ({marks})", row)


LIMIT = {"epsilon": 99.0, "delta": 1e-6, "adjacency": "add-or-remove", "unit": "record", "filters": []}


def test_an_analyst_with_sql_at_hand_opens_no_budget_and_breaks_no_chain(kept: Ledger, postgres: Server):
    kept.new_version("patients", "0-ab", reason="first")
    before = kept.head
    event = {"kind": "gaussian", "noise_multiplier": 30.0}
    paid = {"dataset": "patients", "event": event, "purpose": "by hand", "version": 1}
    with psycopg.connect(libpq(as_user(kept, postgres, "analyst")), autocommit=True) as user:
        for kind, values in (
            ("limit", {"dataset": "patients", "limit": LIMIT}),
            ("alias", {"dataset": "x", "same_rows_as": "patients"}),
            ("dataset", {"dataset": "patients", "version": 1, "fingerprint": "0-cd", "reason": "x"}),
            ("dataset", {"dataset": "patients", "version": 2, "fingerprint": "0-cd", "reason": "x"}),
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                insert(user, kept, kind, values)
        for changes in (
            {"hash": "0" * 64},
            {"previous": "0" * 64},
            {"sequence": 99},
            {"payload": '{"dataset":"patients"}'},
            {"time": "now"},
        ):
            with pytest.raises(psycopg.errors.CheckViolation, match="appended, one after the other"):
                insert(user, kept, "charge", paid, **changes)
        assert kept.head == before
        insert(user, kept, "charge", paid)
        kept.verify()
        # Past the limit: only reticent works out costs, so verify is what finds it.
        insert(user, kept, "charge", {**paid, "event": {"kind": "gaussian", "noise_multiplier": 0.1}})
    with pytest.raises(IntegrityError, match=r"'patients' was charged past its limit of \(3, 1e-06\)"):
        kept.verify()


def test_an_analyst_with_sql_at_hand_says_one_first_fingerprint_that_is_nobody_elses(
    kept: Ledger, postgres: Server
):
    for name in ("visits", "wards", "rooms"):
        kept.limit(name, epsilon=3.0, delta=1e-6)
    charge(kept, fingerprint="0-ab")
    kept.new_version("rooms", "0-ef", reason="declared")
    kept.alias("rooms", same_rows_as="wards")

    def mark(name: str, content: str) -> dict[str, Any]:
        return {"dataset": name, "version": 1, "fingerprint": content, "reason": "by hand"}

    one = next_entry(kept.head, "dataset", mark("visits", "0-cd"))
    two = next_entry(one.head, "dataset", mark("visits", "0-ce"))
    marks = ", ".join(["%s"] * len(COLUMNS))
    both = [getattr(entry, name) for entry in (one, two) for name in COLUMNS]
    before = kept.head
    with psycopg.connect(libpq(as_user(kept, postgres, "analyst")), autocommit=True) as user:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):  # two in one statement
            user.execute(f"INSERT INTO {schema_of(kept)}.entries VALUES ({marks}), ({marks})", both)
        for values in (mark("visits", "0-ab"), mark("visits", "0-ef"), mark("wards", "0-cd")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                insert(user, kept, "dataset", values)
        assert kept.head == before
        insert(user, kept, "dataset", mark("visits", "0-cd"))
    kept.verify()


# Tampering by a superuser


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET payload = replace(payload, '30.0', '90.0') WHERE sequence = 3",
        "UPDATE entries SET time = '2020-01-01T00:00:00.000+00:00' WHERE sequence = 4",
        "UPDATE entries SET kind = 'dataset' WHERE sequence = 2",
        "UPDATE entries SET hash = repeat('0', 64) WHERE sequence = 4",
        "DELETE FROM entries WHERE sequence = 1",
        "DELETE FROM entries WHERE sequence = 3",
        "DELETE FROM entries",
        "INSERT INTO entries SELECT 5, time, kind, payload, previous, hash FROM entries WHERE sequence = 4",
        "ALTER TABLE entries DISABLE TRIGGER never_change",
        "DROP TRIGGER only_append ON entries",
        "DROP POLICY analyst_charges ON entries",
        "ALTER TABLE entries DISABLE ROW LEVEL SECURITY",
        "ALTER FUNCTION is_first_fingerprint STABLE",
        "CREATE RULE quiet AS ON DELETE TO entries DO INSTEAD NOTHING",
        "CREATE OR REPLACE FUNCTION never_change() RETURNS trigger LANGUAGE plpgsql "
        "AS 'BEGIN RETURN NEW; END'",
    ],
)
def test_tampering_is_found_and_stops_every_charge(kept: Ledger, postgres: Server, statement: str):
    tamper(kept, postgres, statement)
    address = f"{libpq(str(kept.address))}&schema={schema_of(kept)}"
    with pytest.raises(IntegrityError, match="is broken"):
        Ledger.open(address)
    fresh = Ledger(address, timeout=5.0)
    for attempt in (fresh.verify, lambda: charge(fresh)):
        with pytest.raises(IntegrityError, match="is broken"):
            attempt()
    fresh.close()


def test_a_cut_tail_shows_beside_a_noted_head_and_to_whoever_had_it_open(kept: Ledger, postgres: Server):
    noted = kept.verify().head
    tamper(kept, postgres, "DELETE FROM entries WHERE sequence = 4")
    with pytest.raises(IntegrityError, match="no longer the one"):
        charge(kept)
    with Ledger.open(str(kept.address)) as fresh:
        assert fresh.verify().entries == 3
        with pytest.raises(IntegrityError, match="which has 3, has the hash"):
            fresh.verify(noted)


# What goes wrong


class Cut:
    """A connection that breaks when a charge is committed, before or after the server has heard of it."""

    def __init__(self, connection: Any, *, is_heard: bool) -> None:
        self._connection, self._is_heard, self._has_written = connection, is_heard, False

    def execute(self, statement: str, *values: Any) -> Any:
        self._has_written |= statement.startswith("INSERT")
        if statement != "COMMIT" or not self._has_written:
            return self._connection.execute(statement, *values)
        if self._is_heard:
            self._connection.execute(statement)
        self._connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


@pytest.mark.parametrize("is_heard", [True, False])
def test_a_commit_whose_answer_was_lost_is_looked_up(kept: Ledger, is_heard: bool):
    kept._store._connection = Cut(kept._store._connection, is_heard=is_heard)
    if is_heard:
        receipt = charge(kept, purpose="cut")
        assert kept.head == (receipt.sequence, receipt.hash)
    else:
        with pytest.raises(Unavailable, match="Nothing was recorded"):
            charge(kept, purpose="cut")
    assert kept.has_charge("patients", purpose="cut") is is_heard
    charge(kept)
    kept.verify()


def test_a_server_that_stays_away_leaves_the_question_open(kept: Ledger, monkeypatch: pytest.MonkeyPatch):
    kept._store._connection = Cut(kept._store._connection, is_heard=True)
    kept._store._timeout = 0.3

    def refuse(*_: object) -> Any:
        raise psycopg.OperationalError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(backend, "connect", refuse)
        with pytest.raises(OutcomeUnknown, match=r"whether entry 5 was recorded is not known"):
            charge(kept, purpose="cut")
    assert kept.has_charge("patients", purpose="cut")


def test_a_connection_that_broke_while_idle_is_opened_again(kept: Ledger, postgres: Server):
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s)", (kept._store._connection.info.backend_pid,))
    charge(kept)
    assert kept.verify().entries == 5


def test_a_locked_ledger_can_be_read_and_not_charged(kept: Ledger, database: str):
    with Ledger.open(database, timeout=0.1) as other:
        with kept._store.writing():
            assert other.account("patients").charges == 2
            with pytest.raises(
                Unavailable, match=r"locked by another process for 0\.1 s\. Nothing was recorded"
            ):
                charge(other)
        charge(other)


def test_a_commit_is_synced_whatever_the_user_is_set_to(kept: Ledger, postgres: Server):
    address = as_user(kept, postgres, "analyst")
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {schema_of(kept)}_analyst_user SET synchronous_commit = off")
    with Ledger.open(address) as analyst, analyst._store.writing() as transaction:
        assert transaction.connection.execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_server_that_may_forget_is_refused(kept: Ledger, monkeypatch: pytest.MonkeyPatch):
    careless = schemas.PARTS.replace("pg_catalog.current_setting('fsync')", "'off'")
    monkeypatch.setattr(schemas, "PARTS", careless)
    with pytest.raises(Unavailable, match=r"fsync off: it may lose charges\. Nothing was recorded"):
        charge(kept)
    assert kept.verify().entries == 4


def test_no_server_no_database_no_schema_and_no_ledger_are_one_line_each(postgres: Server, tmp_path: Path):
    for address, complaint in (
        (f"postgresql://admin@/postgres?host={tmp_path}", "cannot be used"),
        (postgres.address(database="nosuch"), 'database "nosuch" does not exist'),
        (postgres.address(schema="nosuch"), "has no schema 'nosuch'"),
        (postgres.address(schema="public"), "is not a ledger of reticent"),
        (postgres.address(nosuch="1"), "cannot be read"),
        ("postgresql://ana@db/clinic?schema=No-Such", "not a usable name"),
    ):
        with pytest.raises((Unavailable, DataError, InvalidArgument), match=complaint) as refused:
            Ledger.open(address)
        assert "\n" not in str(refused.value)


def test_a_ledger_is_never_overwritten_and_two_live_beside_each_other(kept: Ledger, database: str):
    with pytest.raises(InvalidArgument, match="never overwritten"):
        Ledger.create(database)
    with Ledger.create(f"{database}_too") as other:
        other.limit("patients", epsilon=1.0, delta=1e-6)
        charge(other)
    assert kept.verify().entries == 4


def test_who_may_not_create_roles_is_told_what_to_ask_for(postgres: Server, database: str):
    name = str(parse_address(database)).rpartition("=")[2]
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name}_maker LOGIN")
        admin.execute(f"GRANT CREATE ON DATABASE postgres TO {name}_maker")
    address = postgres.address(user=f"{name}_maker", schema=name)
    with pytest.raises(Unavailable, match=f"CREATE ROLE {name}_owner NOLOGIN; CREATE ROLE {name}_analyst"):
        Ledger.create(address)
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        for right in ("owner", "analyst", "auditor"):
            admin.execute(f"CREATE ROLE {name}_{right} NOLOGIN")
    with Ledger.create(address) as made:
        made.limit("patients", epsilon=1.0, delta=1e-6)
        charge(made)
        made.verify()


# Passwords and keys


def test_a_password_is_neither_printed_nor_stored(postgres: Server, database: str):
    secret = "s3cret-word"
    address = database.replace("admin@", f"admin:{secret}@")
    assert without_password(address) == database
    parsed = parse_address(address)
    assert isinstance(parsed, PostgresAddress)
    assert parsed.secrets == {"password": secret}
    with Ledger.create(address) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
        shown = [repr(made), repr(made.for_dataset("patients")), str(made.export())]
        held = pickle.dumps(made.for_dataset("patients"))
        for attempt in (lambda: Ledger.create(address), lambda: made.account("nosuch")):
            with pytest.raises(InvalidArgument) as refused:
                attempt()
            shown.append(str(refused.value))
    assert secret not in "".join(shown)
    assert secret.encode() not in held
    with pytest.raises(Unavailable) as refused:
        Ledger.open(f"postgresql://admin:{secret}@/?host=/nosuch&password={secret}")
    assert secret not in str(refused.value)


def test_a_password_opens_the_door_from_the_address_or_from_the_environment(
    kept: Ledger, postgres: Server, monkeypatch: pytest.MonkeyPatch
):
    with psycopg.connect(postgres.address(), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE locked LOGIN PASSWORD 'r1ght-word' IN ROLE {schema_of(kept)}_analyst")
    address = postgres.address(user="locked", schema=schema_of(kept))
    with pytest.raises(Unavailable, match=r"PGPASSWORD, or put the password into ~/\.pgpass"):
        Ledger.open(address)
    with pytest.raises(Unavailable, match="password authentication failed") as refused:
        Ledger.open(address.replace("locked@", "locked:wr0ng-word@"))
    assert "wr0ng" not in str(refused.value)
    monkeypatch.setattr("reticent.core.postgres._passwords", {})
    monkeypatch.setenv("PGPASSWORD", "r1ght-word")
    Ledger.open(address).close()
    monkeypatch.delenv("PGPASSWORD")
    with Ledger.open(address.replace("locked@", "locked:r1ght-word@")) as analyst:
        charge(analyst)
    Ledger.open(address).close()  # by what the process was told


def test_the_key_of_fingerprints_is_in_the_configuration(
    kept: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RETICENT_CONFIG", str(tmp_path / "config"))
    mark = kept.fingerprint(np.arange(3.0))
    charge(kept, fingerprint=mark)
    key = tmp_path / "config" / f"ledger-{kept.id}.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert kept.fingerprint(np.arange(3.0)) == mark
    key.unlink()
    with pytest.raises(Unavailable, match=r"Cannot read the key.*Put a copy there"):
        kept.fingerprint(np.arange(3.0))


def test_a_budget_goes_to_another_process_and_back(kept: Ledger):
    budget = pickle.loads(pickle.dumps(kept.for_dataset("patients")))
    budget.charge(Gaussian(noise_multiplier=30.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="there")
    assert kept.has_charge("patients", purpose="there")
    budget.ledger.close()
