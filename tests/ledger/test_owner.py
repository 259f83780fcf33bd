"""With an owner, whoever may charge cannot open a budget: not by the library, and not by writing the file."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reticent.core.errors import DataError, IntegrityError, InvalidArgument, Unavailable
from reticent.ledger.chain import Entry, Head, next_entry
from reticent.ledger.ledger import Ledger
from reticent.ledger.owner import SIGNATURE, OwnerKey, is_signed
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

pytest.importorskip("cryptography", reason="cryptography is not installed: pip install 'reticent[ledger]'")

LIMIT = {"epsilon": 99.0, "delta": 1e-6, "adjacency": "add-or-remove", "unit": "record", "filters": []}


@pytest.fixture
def key(tmp_path: Path) -> OwnerKey:
    return OwnerKey.create(tmp_path / "owner.key")


@pytest.fixture
def owned(address: str, key: OwnerKey) -> Iterator[Ledger]:
    """A ledger with an owner, opened by somebody who only charges."""
    with Ledger.create(address, owner=key) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
    with Ledger.open(address) as analyst:
        yield analyst


@pytest.fixture
def file(path: Path, key: OwnerKey) -> Path:
    with Ledger.create(path, owner=key) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
    return path


def charge(ledger: Ledger, fingerprint: str | None = None) -> None:
    ledger.for_dataset("patients", fingerprint=fingerprint).charge(
        Gaussian(noise_multiplier=30.0), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test"
    )


def append(path: Path, *entries: Entry) -> None:
    connection = sqlite3.connect(path)
    for entry in entries:
        row = (entry.sequence, entry.time, entry.kind, entry.payload, entry.previous, entry.hash)
        connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()


def test_who_charges_cannot_open_a_budget(owned: Ledger, key: OwnerKey):
    assert owned.owner == key.public
    charge(owned)
    charge(owned, "0-ab")  # the first to say what the data are
    before = owned.head
    for attempt in (
        lambda: owned.limit("patients", epsilon=9.0, delta=1e-6),
        lambda: owned.limit("patients", epsilon=2.0, delta=1e-6),
        lambda: owned.limit("others", epsilon=1.0, delta=1e-6),
        lambda: owned.alias("others", same_rows_as="patients"),
        lambda: owned.new_version("patients", "0-cd", reason="mine"),
    ):
        with pytest.raises(InvalidArgument, match=r"has an owner, who alone may change limits.*--owner-key"):
            attempt()
    assert owned.head == before
    owned.verify(owner=key.public)


def test_the_owner_does_all_of_it_and_everybody_can_check(owned: Ledger, key: OwnerKey):
    with Ledger.open(str(owned.address), owner=key) as owner:
        owner.limit("patients", epsilon=9.0, delta=1e-6)
        owner.limit("others", epsilon=1.0, delta=1e-6)
        owner.alias("admissions", same_rows_as="patients")
        charge(owner, "0-ab")
        assert owner.new_version("patients", "0-cd", reason="new") == 2
    charge(owned, "0-cd")
    found = owned.verify(owner=key.public.upper())
    assert (found.owner, found.entries) == (key.public, 9)


def test_another_key_is_refused(owned: Ledger, tmp_path: Path):
    other = OwnerKey.create(tmp_path / "other.key")
    with (
        Ledger.open(str(owned.address), owner=other) as stranger,
        pytest.raises(InvalidArgument, match="not that of the owner"),
    ):
        stranger.limit("patients", epsilon=9.0, delta=1e-6)
    with pytest.raises(IntegrityError, match=f"has the owner {owned.owner}, not {other.public}"):
        owned.verify(owner=other.public)


def forged(ledger: Ledger, key: OwnerKey, tmp_path: Path) -> dict[str, Entry]:
    """Entries that continue the chain and open a budget, each without a signature that is right there."""
    values: dict[str, Any] = {"dataset": "patients", "limit": LIMIT}
    head, id = ledger.head, ledger.id
    other = OwnerKey.create(tmp_path / "other.key")
    old = next(entry for entry in ledger.entries() if entry.kind == "limit")
    raised = {**values, "limit": {**LIMIT, "epsilon": 999.0}}

    def signed(signature: str, says: dict[str, Any] = values) -> Entry:
        return next_entry(head, "limit", {**says, SIGNATURE: signature})

    return {
        "unsigned": next_entry(head, "limit", values),
        "by another": signed(other.sign(id, head, "limit", values)),
        "replayed": next_entry(head, "limit", old.values),
        "of another place": signed(key.sign(id, Head(head.sequence - 1, head.hash), "limit", values)),
        "after another entry": signed(key.sign(id, Head(head.sequence, "0" * 64), "limit", values)),
        "of another ledger": signed(key.sign("0" * 32, head, "limit", values)),
        "of another kind": signed(key.sign(id, head, "alias", values)),
        "of another dataset": signed(key.sign(id, head, "limit", {**values, "dataset": "others"})),
        "of a lower limit": signed(key.sign(id, head, "limit", values), raised),
        "not hexadecimal": signed("signature"),
        "not text": next_entry(head, "limit", {**values, SIGNATURE: 7}),
        "a new version": next_entry(
            head, "dataset", {"dataset": "patients", "version": 2, "fingerprint": "0-ab", "reason": "x"}
        ),
        "another name": next_entry(head, "alias", {"dataset": "x", "same_rows_as": "patients"}),
    }


@pytest.mark.parametrize(
    "what",
    [
        *("unsigned", "by another", "replayed", "of another place", "after another entry"),
        *("of another ledger", "of another kind", "of another dataset", "of a lower limit"),
        *("not hexadecimal", "not text", "a new version", "another name"),
    ],
)
def test_a_signature_fits_one_place_of_one_ledger(file: Path, key: OwnerKey, tmp_path: Path, what: str):
    with Ledger.open(file) as ledger:
        charge(ledger)
        entry = forged(ledger, key, tmp_path)[what]
    append(file, entry)
    with pytest.raises(
        IntegrityError, match=rf"entry 4 \({entry.kind}\) is not signed by the ledger's owner"
    ):
        Ledger.open(file)
    fresh = Ledger(file, timeout=1.0)
    for attempt in (fresh.verify, lambda: charge(fresh)):
        with pytest.raises(IntegrityError, match="not signed"):
            attempt()
    fresh.close()


def test_what_the_owner_signed_pins_everything_before_it(file: Path, key: OwnerKey):
    with Ledger.open(file, owner=key) as ledger:
        charge(ledger)
        ledger.limit("patients", epsilon=4.0, delta=1e-6)
        create, limit, _, raised = ledger.entries()
    # Without the charge, chained anew: the signature of the raise is over a chain that had it.
    again = next_entry(limit.head, "limit", raised.values)
    values = raised.values
    assert is_signed(key.public, ledger.id, Head(3, raised.previous), "limit", values)
    assert not is_signed(key.public, ledger.id, limit.head, "limit", again.values)
    assert create.values["owner"] == key.public


def test_a_whole_new_chain_shows_only_beside_the_owner_noted_elsewhere(
    path: Path, key: OwnerKey, tmp_path: Path
):
    with Ledger.create(path) as forged_ledger:  # no owner at all
        forged_ledger.limit("patients", epsilon=99.0, delta=1e-6)
        forged_ledger.verify()
        with pytest.raises(IntegrityError, match="has no owner, not"):
            forged_ledger.verify(owner=key.public)


def test_a_key_file_is_for_its_owner_alone_and_never_overwritten(tmp_path: Path, key: OwnerKey):
    path = tmp_path / "owner.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert OwnerKey.read(path).public == key.public
    assert path.read_text().splitlines()[1] not in repr(key)
    with pytest.raises(InvalidArgument, match="never overwritten"):
        OwnerKey.create(path)
    path.chmod(0o640)
    with pytest.raises(DataError, match=r"Others can read.*chmod 600"):
        OwnerKey.read(path)
    path.write_text("no key")
    path.chmod(0o600)
    with pytest.raises(DataError, match="is not an owner's key"):
        OwnerKey.read(path)
    with pytest.raises(Unavailable, match="Cannot read the owner's key"):
        OwnerKey.read(tmp_path / "nosuch")


def test_without_the_library_the_remedy_is_one_line(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    for attempt in (lambda: Ledger.open(file), lambda: OwnerKey.create(tmp_path / "new.key")):
        with pytest.raises(Unavailable, match=r"pip install 'reticent\[ledger\]'"):
            attempt()
