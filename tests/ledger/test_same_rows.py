"""The same rows have one budget, under however many names, in a file and in a database."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import BudgetExceeded, DataError, IntegrityError, InvalidArgument
from reticent.ledger.ledger import Ledger
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian

ROWS, MORE = np.arange(6.0), np.arange(7.0)


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETICENT_CONFIG", str(tmp_path / "config"))


def charge(ledger: Ledger, name: str, rows: np.ndarray | None, noise: float = 30.0) -> None:
    mark = None if rows is None else ledger.fingerprint(rows)
    ledger.for_dataset(name, fingerprint=mark).charge(
        Gaussian(noise_multiplier=noise), adjacency=Adjacency.ADD_OR_REMOVE, purpose="test"
    )


def test_the_same_rows_under_another_name_are_refused_and_the_name_is_told(anywhere: Ledger):
    anywhere.limit("others", epsilon=3.0, delta=1e-6)
    charge(anywhere, "patients", ROWS)
    before = anywhere.head
    said = (
        r"in the ledger already, as 'patients'.*Charge 'patients' instead, or.*ledger alias .* others --same-"
    )
    with pytest.raises(DataError, match=said):
        charge(anywhere, "others", ROWS)
    with pytest.raises(DataError, match=said):
        anywhere.new_version("others", anywhere.fingerprint(ROWS), reason="mine")
    assert anywhere.head == before
    charge(anywhere, "others", MORE)


def test_rows_of_an_earlier_version_are_known_as_well(anywhere: Ledger):
    anywhere.limit("others", epsilon=3.0, delta=1e-6)
    charge(anywhere, "patients", ROWS)
    anywhere.new_version("patients", anywhere.fingerprint(MORE), reason="one more")
    for rows in (ROWS, MORE):
        with pytest.raises(DataError, match="already, as 'patients'"):
            charge(anywhere, "others", rows)
    charge(anywhere, "others", None)
    with pytest.raises(DataError, match=r"Charge 'patients' instead\.$"):  # it cannot become another name
        charge(anywhere, "others", ROWS)


def test_both_names_spend_from_one_budget(anywhere: Ledger):
    anywhere.limit("admissions", epsilon=50.0, delta=1e-6)  # void once it is another name
    anywhere.alias("admissions", same_rows_as="patients")
    charge(anywhere, "patients", ROWS, noise=2.0)
    with pytest.raises(BudgetExceeded, match="'patients' past its limit"):
        charge(anywhere, "admissions", ROWS, noise=2.0)
    charge(anywhere, "admissions", ROWS)
    for name in ("patients", "admissions"):
        assert anywhere.account(name).charges == 2
        assert anywhere.has_charge(name, purpose="test")
    assert anywhere.datasets() == ("patients",)
    anywhere.limit("admissions", epsilon=4.0, delta=1e-6)
    with Ledger.open(str(anywhere.address)) as again:
        assert again.account("patients").limit.epsilon == 4.0
        assert again.verify().entries == anywhere.head.sequence


def test_a_name_with_charges_or_names_of_its_own_cannot_become_another(anywhere: Ledger):
    for name in ("visits", "wards"):
        anywhere.limit(name, epsilon=3.0, delta=1e-6)
    charge(anywhere, "visits", None)
    with pytest.raises(InvalidArgument, match="1 charges of its own"):
        anywhere.alias("visits", same_rows_as="patients")
    anywhere.alias("rooms", same_rows_as="wards")
    with pytest.raises(InvalidArgument, match="other names of its own"):
        anywhere.alias("wards", same_rows_as="patients")
    with pytest.raises(InvalidArgument, match="another name of 'wards' already"):
        anywhere.alias("rooms", same_rows_as="patients")
    with pytest.raises(InvalidArgument, match="the dataset itself"):
        anywhere.alias("wards", same_rows_as="rooms")
    with pytest.raises(InvalidArgument, match="no dataset 'nosuch'"):
        anywhere.alias("new", same_rows_as="nosuch")


def test_other_data_say_what_to_type_next(anywhere: Ledger):
    charge(anywhere, "patients", ROWS)
    with pytest.raises(
        DataError, match=r"\(version 1\).*reticent ledger new-version .* patients TABLE --reason"
    ):
        charge(anywhere, "patients", MORE)
    assert anywhere.new_version("patients", anywhere.fingerprint(MORE), reason="one more") == 2
    assert anywhere.new_version("patients", anywhere.fingerprint(MORE), reason="again") == 2
    charge(anywhere, "patients", MORE)


def test_a_file_is_known_by_its_bytes_whatever_its_name(anywhere: Ledger, tmp_path: Path):
    one, copy, other = (tmp_path / name for name in ("a.csv", "b.csv", "c.csv"))
    one.write_text("age\n1\n")
    copy.write_text("age\n1\n")
    other.write_text("age\n1\n\n")
    marks = [anywhere.fingerprint(path) for path in (one, copy, other)]
    assert marks[0] == marks[1] != marks[2]
    assert anywhere.fingerprint(np.frombuffer(b"age\n1\n", np.uint8)) != marks[0]


def enter_by_hand(ledger: Ledger, name: str, mark: str) -> None:
    """A first fingerprint, from a program that does not ask what other datasets hold."""
    values = {"dataset": name, "version": 1, "fingerprint": mark, "reason": "by hand"}
    with ledger._store.writing() as transaction:
        transaction.append(ledger._accounts.head, "dataset", values)


def test_another_name_keeps_what_it_was_declared_to_hold(anywhere: Ledger):
    for name in ("admissions", "others"):
        anywhere.limit(name, epsilon=3.0, delta=1e-6)
    anywhere.new_version("admissions", anywhere.fingerprint(ROWS), reason="declared")
    anywhere.alias("admissions", same_rows_as="patients")
    with Ledger.open(str(anywhere.address)) as again:
        for ledger in (anywhere, again):
            with pytest.raises(DataError, match="already, as 'patients'"):
                charge(ledger, "others", ROWS)
            charge(ledger, "admissions", ROWS)
            with pytest.raises(DataError, match=r"'patients' \(version 1\) was charged for before"):
                charge(ledger, "patients", MORE)
    anywhere.verify()


def test_another_name_leaves_the_content_that_is_charged_for_as_it_was(ledger: Ledger):
    charge(ledger, "patients", MORE)
    ledger.limit("admissions", epsilon=3.0, delta=1e-6)
    ledger.new_version("admissions", ledger.fingerprint(ROWS), reason="declared")
    ledger.alias("admissions", same_rows_as="patients")
    charge(ledger, "admissions", MORE)
    assert ledger.account("patients").fingerprints == (ledger.fingerprint(ROWS), ledger.fingerprint(MORE))
    ledger.verify()


def test_the_same_rows_entered_twice_by_hand_have_one_budget_and_verify_says_so(anywhere: Ledger):
    anywhere.limit("others", epsilon=3.0, delta=1e-6)
    charge(anywhere, "patients", ROWS)
    enter_by_hand(anywhere, "others", anywhere.fingerprint(ROWS))
    for rows in (ROWS, None):
        with pytest.raises(DataError, match="already, as 'patients'"):
            charge(anywhere, "others", rows)
    charge(anywhere, "patients", ROWS)
    with pytest.raises(IntegrityError, match=r"two budgets: 'others' was declared to hold what 'patients'"):
        anywhere.verify()
    anywhere.alias("others", same_rows_as="patients")
    anywhere.verify()
