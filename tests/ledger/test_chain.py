"""What was written stays as it was, or it shows."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from reticent.core.errors import IntegrityError, InvalidArgument
from reticent.ledger.chain import START, Entry, _digest, canonical, follow, next_entry
from reticent.ledger.ledger import Ledger
from reticent.ledger.storage import sqlite
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian


def charge(ledger: Ledger) -> None:
    ledger.for_dataset("patients").charge(
        Gaussian(noise_multiplier=30.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test"
    )


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("ledger") / "clinic.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=3.0, delta=1e-6)
        for _ in range(5):
            charge(ledger)
    return path.read_bytes()


@pytest.fixture
def written(five: bytes, path: Path) -> Path:
    """A closed ledger with seven entries, five of them charges."""
    path.write_bytes(five)
    return path


def edit(path: Path, *statements: str) -> None:
    """As somebody with SQLite at hand would: without the triggers, and putting them back."""
    connection = sqlite3.connect(path)
    for name in ("only_append", "never_update", "never_delete"):
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    for name in ("only_append", "never_update", "never_delete"):
        connection.execute(sqlite._SCHEMA[name])
    connection.commit()
    connection.close()


# Append-only


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET payload = '{}' WHERE sequence = 3",
        "UPDATE OR REPLACE entries SET sequence = 3 WHERE sequence = 4",
        "DELETE FROM entries WHERE sequence = 7",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE sequence = 3",
        "REPLACE INTO entries VALUES (7, 'now', 'charge', '{}', '', '')",
        "INSERT INTO entries VALUES (9, 'now', 'charge', '{}', '', '')",
        "INSERT INTO entries VALUES (NULL, 'now', 'charge', '{}', '', '')",
    ],
)
def test_sqlite_itself_refuses_to_change_an_entry(written: Path, statement: str):
    with Ledger.open(written) as ledger:
        before = ledger.export()
    connection = sqlite3.connect(written)
    with pytest.raises(sqlite3.IntegrityError, match="entries are"):
        connection.execute(statement)
    connection.close()
    with Ledger.open(written) as ledger:
        assert ledger.export() == before


def test_the_pragmas_are_the_ones_that_make_it_durable(written: Path):
    with Ledger.open(written) as ledger:
        connection = ledger._store._connection_for(is_reader=False)
        read = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        }
        assert read == {"journal_mode": "wal", "synchronous": 2}
        assert connection.execute("PRAGMA busy_timeout").fetchone()[0] == 30_000


# Tampering


@pytest.mark.parametrize("sequence", [1, 2, 4, 7])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("time", "'2020-01-01T00:00:00.000+00:00'"),
        ("kind", "'dataset'"),
        ("payload", "replace(payload, ':', ' : ')"),
        ("payload", "payload || ' '"),
        ("payload", "CAST(payload AS BLOB)"),
        ("payload", "CAST(x'ff' AS TEXT)"),
        ("previous", "hash"),
        ("hash", "lower(hex(randomblob(32)))"),
        ("sequence", "sequence + 100"),
    ],
)
def test_an_edited_field_is_found_and_stops_every_charge(
    written: Path, sequence: int, field: str, value: str
):
    edit(written, f"UPDATE entries SET {field} = {value} WHERE sequence = {sequence}")
    before = written.read_bytes()
    with pytest.raises(IntegrityError, match="is broken"):
        Ledger.open(written)
    fresh = Ledger(written, timeout=1.0)
    for attempt in (fresh.verify, lambda: charge(fresh), lambda: fresh.limit("x", epsilon=1.0, delta=1e-6)):
        with pytest.raises(IntegrityError, match="is broken"):
            attempt()
    fresh.close()
    assert written.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE sequence = 1",
        "DELETE FROM entries WHERE sequence = 4",
        "DELETE FROM entries",
        "UPDATE entries SET payload = (SELECT payload FROM entries WHERE sequence = 2) WHERE sequence = 5",
        "INSERT INTO entries SELECT 8, time, kind, payload, previous, hash FROM entries WHERE sequence = 7",
    ],
)
def test_entries_that_are_gone_moved_or_copied_are_found(written: Path, statement: str):
    edit(written, statement)
    with pytest.raises(IntegrityError, match="is broken"):
        Ledger.open(written)


def test_a_change_behind_the_back_of_an_open_ledger_is_found(ledger: Ledger, path: Path):
    charge(ledger)
    edit(path, "DELETE FROM entries WHERE sequence = 3")
    with pytest.raises(IntegrityError, match="no longer the one"):
        charge(ledger)


def test_an_older_copy_put_in_its_place_is_found_while_it_is_open(ledger: Ledger, path: Path):
    ledger.close()
    old = path.read_bytes()
    charge(ledger)
    ledger.close()
    path.write_bytes(old)
    with pytest.raises(IntegrityError, match="no longer the one"):
        charge(ledger)


def test_another_file_under_the_same_name_is_found_while_it_is_open(ledger: Ledger, path: Path):
    charge(ledger)
    path.rename(path.with_suffix(".old"))
    Ledger.create(path).close()
    with pytest.raises(IntegrityError, match="replaced by another"):
        charge(ledger)


@pytest.mark.parametrize("name", ["only_append", "never_update", "never_delete"])
def test_a_missing_trigger_is_found(written: Path, name: str):
    connection = sqlite3.connect(written)
    connection.execute(f"DROP TRIGGER {name}")
    connection.close()
    with pytest.raises(IntegrityError, match=f"schema was changed .{name}"):
        Ledger.open(written)


def test_a_trigger_that_was_added_never_runs(written: Path):
    connection = sqlite3.connect(written)
    connection.execute(
        "CREATE TRIGGER sly AFTER INSERT ON entries BEGIN UPDATE entries SET kind = 'dataset'; END"
    )
    connection.close()
    with pytest.raises(IntegrityError, match=r"schema was changed .sly"):
        Ledger.open(written)


CHARGE = {
    "dataset": "patients",
    "purpose": "by hand",
    "version": 1,
    "event": {"kind": "gaussian", "noise_multiplier": 30.0},
}
DATASET = {"dataset": "patients", "version": 1, "fingerprint": "0-ab", "reason": "by hand"}
LIMIT = {"epsilon": 3.0, "delta": 1e-6, "adjacency": "add-or-remove", "unit": "record", "filters": []}


def append_by_hand(path: Path, entry: Entry) -> None:
    connection = sqlite3.connect(path)
    row = (entry.sequence, entry.time, entry.kind, entry.payload, entry.previous, entry.hash)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(("kind", "values"), [("charge", CHARGE), ("dataset", DATASET)])
def test_a_well_chained_entry_that_makes_sense_is_read(written: Path, kind, values):
    with Ledger.open(written) as ledger:
        append_by_hand(written, next_entry(ledger.head, kind, values))
        assert ledger.verify().entries == 8


@pytest.mark.parametrize("adaptive", [False, True])
def test_more_releases_than_can_be_counted_name_the_entry(path: Path, adaptive: bool):
    event = {"kind": "gaussian", "noise_multiplier": 1e12}
    values = {**CHARGE, "event": {"kind": "repeated", "times": 6 * 10**14, "event": event}}
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=3.0, delta=1e-6, adaptive=adaptive)
        append_by_hand(path, next_entry(ledger.head, "charge", values))
        ledger.verify()
        with pytest.raises(InvalidArgument, match=r"more than 10\^15 releases"):  # ours never get so far
            ledger.for_dataset("patients").charge(
                events.from_json(values["event"]), adjacency=Adjacency.ADD_OR_REMOVE, purpose="again"
            )
        append_by_hand(path, next_entry(ledger.head, "charge", values))
    with pytest.raises(IntegrityError, match=r"clinic\.ledger is broken: entry 4 makes no sense .*10\^15"):
        Ledger.open(path)


def test_an_entry_with_no_time_is_refused(written: Path):
    with Ledger.open(written) as ledger:
        head = ledger.head
    entry, time = next_entry(head, "charge", CHARGE), "2020\x1b[31m"
    digest = _digest(head.hash, entry.sequence, "charge", time, entry.payload)
    append_by_hand(written, replace(entry, time=time, hash=digest))
    with pytest.raises(IntegrityError, match="the time of entry 8 is not one"):
        Ledger.open(written)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("charge", {}),
        ("charge", {**CHARGE, "dataset": "nosuch"}),
        ("charge", {**CHARGE, "dataset": ["patients"]}),
        ("charge", {**CHARGE, "event": {"kind": "gaussian", "noise_multiplier": -1.0}}),
        ("charge", {**CHARGE, "event": {"kind": "repeated", "times": 10**16, "event": CHARGE["event"]}}),
        ("charge", {**CHARGE, "event": None}),
        ("charge", {name: value for name, value in CHARGE.items() if name != "purpose"}),
        ("charge", {**CHARGE, "purpose": ["a model"]}),
        ("charge", {**CHARGE, "purpose": "a\x1b[2Jmodel"}),
        ("charge", {**CHARGE, "purpose": "two\nlines"}),
        ("charge", {**CHARGE, "version": "x"}),
        ("charge", {**CHARGE, "version": True}),
        ("charge", {**CHARGE, "version": 2}),
        ("charge", ["patients"]),
        ("dataset", {**DATASET, "version": "x"}),
        ("dataset", {**DATASET, "version": 3}),
        ("dataset", {**DATASET, "fingerprint": "0-\x1b[2J"}),
        ("dataset", {**DATASET, "reason": None}),
        ("alias", {"dataset": "a\x1b[2J", "same_rows_as": "patients"}),
        ("limit", {"dataset": "a\x1b[2J", "limit": LIMIT}),
        ("limit", {"dataset": "patients", "limit": {"epsilon": 5}}),
        ("create", {"id": "another"}),
        ("refund", {"dataset": "patients"}),
    ],
    ids=str,
)
def test_a_well_chained_entry_that_makes_no_sense_is_refused(written: Path, kind, values):
    with Ledger.open(written) as ledger:
        append_by_hand(written, next_entry(ledger.head, kind, values))
    with pytest.raises(IntegrityError, match="entry 8 makes no sense"):
        Ledger.open(written)


# The end of a chain


def test_a_cut_tail_shows_only_beside_a_head_kept_elsewhere(written: Path):
    with Ledger.open(written) as ledger:
        noted = ledger.verify()
    assert (noted.entries, noted.since) == (7, None)
    edit(written, "DELETE FROM entries WHERE sequence > 5")
    with Ledger.open(written) as ledger:
        assert ledger.verify().entries == 5
        with pytest.raises(IntegrityError, match=r"which has 5, has the hash"):
            ledger.verify(noted.head)


def test_a_head_noted_earlier_is_still_in_a_ledger_that_went_on(written: Path):
    with Ledger.open(written) as ledger:
        noted = ledger.verify()
        charge(ledger)
        charge(ledger)
        found = ledger.verify(noted.head.upper())
    assert (found.entries, found.since) == (9, 2)
    assert found.id == noted.id


# What anybody can check with an export


def test_an_export_holds_everything_to_check_the_chain_with(written: Path):
    with Ledger.open(written) as ledger:
        exported = json.loads(json.dumps(ledger.export()))
    previous = "0" * 64
    for number, entry in enumerate(exported["entries"], start=1):
        payload = json.dumps(entry["payload"], sort_keys=True, separators=(",", ":"))
        fields = [previous, number, entry["kind"], entry["time"], payload]
        previous = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
        assert entry["hash"] == previous
    assert exported["head"] == previous


def test_no_two_lists_of_fields_have_the_same_hash():
    one = next_entry(START, "charge", {"a": 1})
    assert follow(START, one, where="here") == one.head
    assert canonical({"b": 1, "a": "é"}) == '{"a":"\\u00e9","b":1}'


def test_ledgers_have_ids_of_their_own(tmp_path: Path):
    ids = set()
    for number in range(3):
        with Ledger.create(tmp_path / f"{number}.ledger") as ledger:
            ids.add(ledger.id)
    assert len(ids) == 3
