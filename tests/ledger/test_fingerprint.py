"""Equal data have equal fingerprints, other data are refused, and without the key nothing can be told."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import BudgetExceeded, DataError, Unavailable
from reticent.data.dataset import Dataset
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

X, Y = np.arange(12.0).reshape(6, 2), np.arange(6)


def charge(ledger: Ledger, fingerprint: str | None = None, noise: float = 30.0) -> None:
    ledger.for_dataset("patients", fingerprint=fingerprint).charge(
        Gaussian(noise_multiplier=noise), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test"
    )


def test_the_same_data_have_the_same_fingerprint_however_they_are_held(ledger: Ledger, tmp_path: Path):
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    marks = {
        ledger.fingerprint({"x": X, "y": Y}),
        ledger.fingerprint({"y": Y, "x": X}),
        ledger.fingerprint({"x": mapped, "y": Y.tolist()}),
        ledger.fingerprint({"x": np.asfortranarray(X), "y": Y}),
        ledger.fingerprint(Dataset(arrays={"x": X, "y": Y})),
    }
    assert len(marks) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"x": X, "y": Y + 1},
        {"x": X},
        {"x": X, "z": Y},
        {"x": Y, "y": X},
        {"x": X.reshape(3, 4), "y": Y},
        {"x": X.astype(np.float32), "y": Y},
        {"x": X[:5], "y": Y[:5]},
        {"x": X[::-1], "y": Y[::-1]},
        X,
        Dataset(arrays={"x": X, "y": Y}, users=Y),
    ],
    ids=range(10),
)
def test_other_data_have_another(ledger: Ledger, other: Any):
    assert ledger.fingerprint(other) != ledger.fingerprint({"x": X, "y": Y})


def test_large_arrays_are_hashed_in_parts_and_whole(ledger: Ledger):
    large = np.zeros((3, 2_000_000))
    mark = ledger.fingerprint(large)
    large[2, -1] = 1
    assert ledger.fingerprint(large) != mark


def test_text_is_hashed_by_its_characters(ledger: Ledger):
    def mark(*texts: str) -> str:
        return ledger.fingerprint(np.array(texts, dtype=np.dtypes.StringDType()))

    long = "a sentence that is too long to be kept inside the array itself"
    assert mark(long, "b") == mark(long, "b")
    assert len({mark(long, "b"), mark(long, "c"), mark("ab", ""), mark("a", "b"), mark("", "ab")}) == 5


def test_objects_have_no_fingerprint(ledger: Ledger):
    with pytest.raises(DataError, match="Python objects"):
        ledger.fingerprint({"x": np.array([object()])})


def test_the_key_is_beside_the_ledger_for_its_owner_only_and_never_exported(ledger: Ledger, path: Path):
    assert not Path(f"{path}.key").exists()
    mark = ledger.fingerprint(X)
    charge(ledger, mark)
    key = Path(f"{path}.key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert len(key.read_bytes()) == 32
    ledger.close()
    held = path.read_bytes() + json.dumps(ledger.export()).encode()
    assert mark.encode() in held
    assert key.read_bytes() not in held
    assert key.read_bytes().hex().encode() not in held
    assert [file.name for file in path.parent.glob("*.key*")] == ["clinic.ledger.key"]


def test_without_the_key_a_guess_at_the_data_cannot_be_confirmed(ledger: Ledger, tmp_path: Path):
    mark = ledger.fingerprint(X)
    with Ledger.create(tmp_path / "other.ledger") as other:
        assert other.fingerprint(X).partition("-")[2] != mark.partition("-")[2]
    guesses = {hashlib.new(name, X.tobytes()).hexdigest() for name in ("sha256", "blake2b", "md5")}
    assert not any(guess in mark for guess in guesses)


def test_the_first_charge_fixes_the_content_and_another_is_refused(ledger: Ledger):
    charge(ledger)
    charge(ledger, ledger.fingerprint(X))
    charge(ledger, ledger.fingerprint(X))
    charge(ledger)
    before = ledger.head
    with pytest.raises(DataError, match=r"not the data that 'patients' \(version 1\).*new_version"):
        charge(ledger, ledger.fingerprint(Y))
    assert ledger.head == before
    kinds = [entry.kind for entry in ledger.entries()]
    assert kinds == ["create", "limit", "charge", "dataset", "charge", "charge", "charge"]


def test_a_refused_charge_fixes_nothing(ledger: Ledger):
    before = ledger.head
    with pytest.raises(BudgetExceeded):
        charge(ledger, ledger.fingerprint(X), noise=0.01)
    assert ledger.head == before
    charge(ledger, ledger.fingerprint(Y))


def test_a_new_version_goes_on_with_the_same_budget(ledger: Ledger):
    charge(ledger, ledger.fingerprint(X))
    assert ledger.new_version("patients", ledger.fingerprint(Y), reason="ten more rows") == 2
    charge(ledger, ledger.fingerprint(Y))
    with pytest.raises(DataError, match="version 2"):
        charge(ledger, ledger.fingerprint(X))
    account = ledger.account("patients")
    assert (account.version, account.charges) == (2, 2)
    assert [entry.values["version"] for entry in ledger.entries() if entry.kind == "charge"] == [1, 2]


def test_a_lost_key_is_not_replaced_by_another(ledger: Ledger, path: Path):
    charge(ledger, ledger.fingerprint(X))
    Path(f"{path}.key").unlink()
    with pytest.raises(Unavailable, match="Cannot read the key"):
        ledger.fingerprint(X)
    assert not Path(f"{path}.key").exists()
    charge(ledger)


def test_a_key_of_another_ledger_is_noticed(ledger: Ledger, path: Path):
    charge(ledger, ledger.fingerprint(X))
    Path(f"{path}.key").write_bytes(os.urandom(32))
    with pytest.raises(DataError, match="another key"):
        charge(ledger, ledger.fingerprint(X))
    Path(f"{path}.key").write_bytes(b"short")
    with pytest.raises(DataError, match="is not a key"):
        ledger.fingerprint(X)
