"""Whatever is wrong with the file or its disk: a clear error, and nothing has changed."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from reticent.core.errors import DataError, IntegrityError, InvalidArgument, ReticentError, Unavailable
from reticent.ledger.ledger import Ledger
from reticent.ledger.storage import sqlite
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian


def charge(ledger: Ledger, purpose: str = "test") -> None:
    ledger.for_dataset("patients").charge(
        Gaussian(noise_multiplier=50.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose=purpose
    )


@pytest.fixture(scope="module")
def thirty(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("ledger") / "clinic.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=3.0, delta=1e-6)
        for _ in range(30):
            charge(ledger)
    return path.read_bytes()


@pytest.fixture
def written(thirty: bytes, path: Path) -> Path:
    """A closed ledger of 32 entries, 30 of them charges."""
    path.write_bytes(thirty)
    return path


# No ledger


def test_a_missing_file_is_not_created(path: Path):
    with pytest.raises(Unavailable, match=r"There is no ledger at .* reticent ledger init"):
        Ledger.open(path)
    assert not path.exists()


def test_a_ledger_that_vanishes_while_it_is_open_is_not_created_anew(ledger: Ledger, path: Path):
    charge(ledger)
    path.unlink()
    with pytest.raises(Unavailable, match="There is no ledger"):
        charge(ledger)
    assert not path.exists()


def test_a_folder_is_no_ledger(tmp_path: Path):
    with pytest.raises(DataError, match="is a folder"):
        Ledger.open(tmp_path)


@pytest.mark.parametrize("content", [b"age,income\n1,2\n" * 500, b"\0" * 5000, b"SQLite format 3\0", b"x"])
def test_a_file_that_is_none_is_refused_and_left_alone(path: Path, content: bytes):
    path.write_bytes(content)
    with pytest.raises(DataError, match="is not a ledger of reticent"):
        Ledger.open(path)
    assert path.read_bytes() == content


def test_an_empty_file_says_what_may_have_happened(path: Path):
    path.touch()
    with pytest.raises(DataError, match="its creation was interrupted"):
        Ledger.open(path)


def test_a_database_of_somebody_else_is_refused(path: Path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE entries (sequence INTEGER)")
    connection.close()
    with pytest.raises(DataError, match="is not a ledger of reticent"):
        Ledger.open(path)


@pytest.mark.parametrize("version", [0, 2, 77])
def test_another_schema_version_is_refused(written: Path, version: int):
    connection = sqlite3.connect(written)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = written.read_bytes()
    with pytest.raises(DataError, match=f"has schema version {version}; this reticent reads version 1"):
        Ledger.open(written)
    assert written.read_bytes() == before


def test_nothing_is_overwritten(written: Path):
    before = written.read_bytes()
    with pytest.raises(InvalidArgument, match="never overwritten"):
        Ledger.create(written)
    assert written.read_bytes() == before


def test_a_ledger_in_no_folder_is_not_made(tmp_path: Path):
    with pytest.raises(Unavailable, match="Cannot create"):
        Ledger.create(tmp_path / "nosuch" / "clinic.ledger")


def test_a_ledger_that_cannot_be_made_leaves_nothing_behind(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sqlite._SCHEMA, "never_delete", "CREATE NONSENSE")
    with pytest.raises(ReticentError):
        Ledger.create(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("name", ["a b.ledger", "ünïcode.ledger", "50%.ledger", "what?.ledger", "a#b.ledger"])
def test_any_name_will_do(tmp_path: Path, name: str):
    with Ledger.create(tmp_path / name) as ledger:
        ledger.limit("patients", epsilon=3.0, delta=1e-6)
        charge(ledger)
    with Ledger.open(tmp_path / name) as ledger:
        assert ledger.account("patients").charges == 1
    assert [file.name for file in tmp_path.iterdir()] == [name]


# Damage


def outcome(path: Path) -> list[str] | None:
    """The hashes of a ledger that verifies; None if anything is found to be wrong with it."""
    try:
        with Ledger.open(path) as ledger:
            ledger.verify()
            return [entry.hash for entry in ledger.entries()]
    except (DataError, Unavailable):
        return None


def test_damage_at_any_byte_is_found_or_touches_no_entry(written: Path):
    whole, sound = written.read_bytes(), outcome(written)
    assert sound
    chance, found = random.Random(1), 0
    for _ in range(300):
        place = chance.randrange(len(whole))
        wrong = whole[place] ^ chance.randrange(1, 256)
        written.write_bytes(whole[:place] + bytes([wrong]) + whole[place + 1 :])
        seen = outcome(written)
        found += seen is None
        assert seen in (None, sound), f"byte {place}"
    assert found > 100  # the rest is room that no entry uses yet


def test_a_file_cut_off_anywhere_is_found(written: Path):
    whole = written.read_bytes()
    chance = random.Random(2)
    for _ in range(60):
        written.write_bytes(whole[: chance.randrange(len(whole))])
        assert outcome(written) is None


def test_a_charge_on_a_damaged_file_changes_nothing(written: Path):
    whole = written.read_bytes()
    place = whole.index(b'"purpose":"test"')
    written.write_bytes(whole[:place] + b'"purpose":"best"' + whole[place + 16 :])
    before = written.read_bytes()
    ledger = Ledger(written, timeout=1.0)
    with pytest.raises(IntegrityError, match="was changed after it was written"):
        charge(ledger)
    ledger.close()
    assert written.read_bytes() == before


# Locks


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_locked_ledger_can_be_read_and_not_charged(written: Path, lock: str):
    other = sqlite3.connect(written, isolation_level=None)
    other.execute(lock)
    with Ledger.open(written, timeout=0.05) as ledger:
        before = ledger.head
        with pytest.raises(
            Unavailable, match=r"locked by another process for 0\.05 s\. Nothing was recorded"
        ):
            charge(ledger)
        with pytest.raises(Unavailable, match="locked"):
            ledger.limit("patients", epsilon=4.0, delta=1e-6)
        assert ledger.head == before
        other.execute("ROLLBACK")
        charge(ledger)
        assert ledger.head.sequence == before.sequence + 1
    other.close()


def test_an_exclusive_mode_locks_out_readers_too(written: Path):
    other = sqlite3.connect(written, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="locked"):
        Ledger.open(written, timeout=0.05)
    other.close()


# Disks


def test_a_full_disk_records_nothing(ledger: Ledger):
    charge(ledger)
    connection = ledger._store._connection_for(is_reader=False)
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    charged = []
    with pytest.raises(Unavailable, match=r"The disk of .* is full\. Nothing was recorded"):  # noqa: PT012
        while len(charged) < 100:
            charge(ledger, "x" * 400)
            charged.append(1)
    found = ledger.verify()
    assert found.entries == 3 + len(charged)
    charge(ledger)


_LIMITED = """
import resource, sys
from reticent.core.errors import Unavailable
from reticent.ledger.ledger import Ledger
from reticent.ledger.storage import sqlite
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

ledger = Ledger.open(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
done = 0
try:
    while done < 1000:
        ledger.for_dataset("patients").charge(
            Gaussian(noise_multiplier=500.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test")
        done += 1
except Unavailable as error:
    print(done, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
assert ledger.verify().entries == 32 + done
"""


def test_no_room_for_the_log_records_nothing(written: Path):
    done = run(_LIMITED, str(written), "100000")
    assert "The system refused to read or write" in done
    with Ledger.open(written) as ledger:
        assert ledger.verify().entries == 32 + int(done.split()[0])
        charge(ledger)


_READ_ONLY = """
import os, sys
from reticent.core.errors import Unavailable
from reticent.ledger.ledger import Ledger
from reticent.ledger.storage import sqlite
from reticent.ledger import cost, fingerprint
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
ledger = Ledger.open(sys.argv[1])
print(ledger.verify().entries)
for attempt in (
    lambda: ledger.for_dataset("patients").charge(
        Gaussian(noise_multiplier=50.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test"),
    lambda: ledger.limit("patients", epsilon=9.0, delta=1e-6),
    lambda: Ledger.create(sys.argv[1] + ".new"),
):
    try:
        attempt()
    except Unavailable as error:
        print(error)
"""


@pytest.mark.skipif(os.name != "posix", reason="permissions of files are those of POSIX")
@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_a_read_only_ledger_can_be_read_and_not_charged(written: Path, folder_mode: int):
    # In a folder of its own: pytest's are closed to all but their owner, and the owner may be root.
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "clinic.ledger"
        copy.write_bytes(written.read_bytes())
        copy.chmod(0o444)
        Path(folder).chmod(folder_mode)
        first, *complaints = run(_READ_ONLY, str(copy)).splitlines()
        Path(folder).chmod(0o755)
        assert first == "32"
        assert "cannot be written: it or its folder is read-only. Nothing was recorded" in complaints[0]
        assert "read-only" in complaints[1]
        if folder_mode == 0o555:
            assert "Cannot create" in complaints[2]
        assert copy.read_bytes() == written.read_bytes()


def run(code: str, *words: str) -> str:
    """A script in a process of its own: what it printed."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
