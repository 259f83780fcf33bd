from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import BudgetExceeded, IntegrityError, ReticentError
from reticent.core.keys import Keys
from reticent.ledger.ledger import Ledger
from reticent.pate import Confident, GaussianMax, Oracle, Votes, allowance_for

NOISE = GaussianMax(sigma=10.0)
ALLOWANCE = allowance_for(NOISE, epsilon=1.0, delta=1e-6)  # two answers


def agree(x: np.ndarray) -> Votes:
    """A hundred teachers who tell the sign of the first number."""
    counts = np.where(x[:, :1] > 0, [0, 100], [100, 0])
    return Votes(counts=counts, teachers=100)


class Counted:
    """A budget that counts, and can be too small."""

    def __init__(self, limit: int = 10) -> None:
        self.charges: list[str] = []
        self.limit = limit

    def charge(self, event: object, *, adjacency: object, purpose: str, unit: object) -> None:
        if len(self.charges) == self.limit:
            raise BudgetExceeded("Too much.", remedy="Stop.")
        self.charges.append(purpose)


def fresh(journal: Path | None = None, *, seed: int = 0, budget: Counted | None = None) -> Oracle:
    return Oracle(agree, NOISE, ALLOWANCE, keys=Keys.seeded(seed), journal=journal, budget=budget)


X = np.arange(-8.0, 8.0).reshape(-1, 2)


def test_it_answers_until_the_budget_ends_and_then_only_what_it_said():
    oracle = fresh()
    most = int(ALLOWANCE.limit / ALLOWANCE.answer)
    told = oracle.ask(X[:most])
    assert told == [0] * most
    with pytest.raises(BudgetExceeded, match=f"{most} questions"):
        oracle.ask(X[most : most + 1])
    assert oracle.ask(X[:most]) == told
    assert oracle.asked == most


def test_the_same_question_is_not_asked_twice_after_a_restart(tmp_path: Path):
    calls = []

    def vote(x: np.ndarray) -> Votes:
        calls.append(len(x))
        return Votes(counts=np.tile([50, 50], (len(x), 1)), teachers=100)

    budget, journal = Counted(), tmp_path / "journal"
    first = Oracle(vote, NOISE, ALLOWANCE, keys=Keys.seeded(0), journal=journal, budget=budget)
    told = first.ask(X[:2])
    again = Oracle(vote, NOISE, ALLOWANCE, keys=Keys.seeded(1), journal=journal, budget=budget)
    assert again.ask(X[:2]) == told
    assert len(calls) == 2
    assert again.asked == 2
    assert len(budget.charges) == 1


def test_it_is_charged_before_anything_is_answered(tmp_path: Path):
    with pytest.raises(BudgetExceeded):
        fresh(tmp_path / "journal", budget=Counted(limit=0))
    # The next try pays: nothing says that it has been.
    budget = Counted()
    fresh(tmp_path / "journal", budget=budget)
    assert len(budget.charges) == 1


@pytest.mark.parametrize("lines", range(1, 7))
def test_a_crash_after_any_line_loses_no_charge_and_tells_nothing_twice(tmp_path: Path, lines: int):
    whole = tmp_path / "whole"
    fresh(whole, budget=Counted()).ask(X[:2])
    written = whole.read_bytes().splitlines(keepends=True)
    assert [next(iter(json.loads(line))) for line in written] == [
        *("opened", "paid"),
        *("asked", "answered") * 2,
    ]
    cut = tmp_path / "cut"
    cut.write_bytes(b"".join(written[:lines]) + b'{"ask')  # killed while it wrote the next one
    budget = Counted()
    oracle = fresh(cut, seed=1, budget=budget)
    assert len(budget.charges) == (lines < 2)  # paid again only if nothing shows that it was
    before = [json.loads(line) for line in written[:lines]]
    known = [line["label"] for line in before if "answered" in line]
    assert oracle.asked == sum("asked" in line for line in before)
    assert oracle.ask(X[:2])[: len(known)] == known
    assert oracle.asked == 2
    with pytest.raises(BudgetExceeded):
        oracle.ask(X)


def test_a_crash_within_the_vote_is_paid_for(tmp_path: Path):
    def broken(x: np.ndarray) -> Votes:
        raise RuntimeError("power cut")

    journal = tmp_path / "journal"
    with pytest.raises(RuntimeError):
        Oracle(broken, NOISE, ALLOWANCE, keys=Keys.seeded(0), journal=journal).ask(X[:1])
    oracle = fresh(journal, seed=1)
    assert (oracle.asked, oracle.answered) == (1, 1)
    assert oracle.ask(X[:1]) == [0]
    assert (oracle.asked, oracle.answered) == (1, 1)


def test_disagreeing_teachers_are_not_quoted(tmp_path: Path):
    noise = Confident(threshold=90.0, sigma_check=5.0, sigma=10.0)
    limit = allowance_for(noise, epsilon=4.0, delta=1e-6)

    def vote(x: np.ndarray) -> Votes:
        return Votes(counts=np.where(x[:, :1] > 0, [0, 100], [50, 50]), teachers=100)

    oracle = Oracle(vote, noise, limit, keys=Keys.seeded(5), journal=tmp_path / "journal")
    assert oracle.ask(np.array([[-1.0], [1.0], [2.0]])) == [None, 1, 1]
    assert (oracle.asked, oracle.answered) == (3, 2)


def test_records_are_not_readable_in_the_journal(tmp_path: Path):
    fresh(tmp_path / "a").ask(X[:1])
    fresh(tmp_path / "b").ask(X[:1])
    digests = [json.loads((tmp_path / name).read_bytes().splitlines()[2])["asked"] for name in "ab"]
    assert digests[0] != digests[1]


def test_what_keys_the_digests_is_not_in_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    oracle, path = fresh(tmp_path / "journal"), tmp_path / "journal"
    oracle.ask(X[:1])
    entries = [json.loads(line) for line in path.read_bytes().splitlines()]
    asked = entries[2]["asked"]
    assert oracle._digest(X[0]) == asked

    words = {word for word in re.split(r"[^0-9A-Za-z]+", path.read_text()) if word}
    for word in words:
        for known in {word, word[:32], word[:64]}:
            oracle._secret = known[:64]
            assert oracle._digest(X[0]) != asked, known

    monkeypatch.setenv("RETICENT_CONFIG", str(tmp_path / "of somebody else"))
    with pytest.raises(IntegrityError, match="started with the key of another user"):
        fresh(path)


@pytest.mark.parametrize("content", [b"hello\n", b"[1]\n", b'{"paid": true}\n', b"\xff\xfe\n"])
def test_another_file_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "journal").write_bytes(content)
    with pytest.raises(IntegrityError, match="journal"):
        fresh(tmp_path / "journal")
    assert (tmp_path / "journal").read_bytes() == content


def test_other_settings_are_refused(tmp_path: Path):
    fresh(tmp_path / "journal")
    noise = GaussianMax(sigma=11.0)
    limit = allowance_for(noise, epsilon=1.0, delta=1e-6)
    with pytest.raises(IntegrityError, match="of other noise"):
        Oracle(agree, noise, limit, journal=tmp_path / "journal")
    with pytest.raises(ReticentError):
        fresh(tmp_path / "no" / "such" / "folder")


def test_a_real_ledger_is_charged_the_whole_allowance(tmp_path: Path):
    ledger = Ledger.create(tmp_path / "l.ledger")
    ledger.limit("patients", epsilon=1.5, delta=1e-5)
    Oracle(agree, NOISE, ALLOWANCE, budget=ledger.for_dataset("patients"), journal=tmp_path / "journal").ask(
        X[:1]
    )
    spent = ledger.for_dataset("patients").guarantee()
    assert 0.8 < spent.epsilon <= 1.0


def test_two_who_share_a_journal_share_the_allowance(tmp_path: Path):
    """Both are open at once; together they are told no more than one would be."""
    budget = Counted()
    first = fresh(tmp_path / "journal", seed=1, budget=budget)
    second = fresh(tmp_path / "journal", seed=2, budget=budget)
    most = int(ALLOWANCE.limit / ALLOWANCE.answer)
    told = first.ask(X[:most])
    assert second.ask(X[:most]) == told
    with pytest.raises(BudgetExceeded):
        second.ask(X[most : most + 1])
    assert second.asked == first.asked == most
    assert len(budget.charges) == 1
