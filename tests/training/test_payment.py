"""A resumed run is charged for what it has not paid yet: to another account, or for other rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.data.dataset import Dataset
from reticent.training import loop, payment
from reticent.training.checkpoint import Checkpoints
from reticent.training.loop import Run
from reticent.training.step import TrainState

ROWS = {"x": np.linspace(-1, 1, 64, dtype=np.float32).reshape(64, 1)}
OTHERS = {"x": np.where(np.arange(64)[:, None] == 40, np.float32(0.25), ROWS["x"])}
PLAN = rt.Plan.for_budget(epsilon=1, delta=1e-5, examples=64, sampling="full", steps=4, max_norm=1)
SGD = optax.sgd(0.1)
HOW = rt.Execution(program="payments")  # compiled once


def loss(params: Any, example: Any) -> Any:
    return jnp.sum((params - example["x"]) ** 2)


def train(path: Path, budget: Any, rows: Any = ROWS, on_progress: Any = None) -> Run:
    kept = Checkpoints(path=path / "run", seconds=0)
    given = {"checkpoints": kept, "budget": budget, "on_progress": on_progress}
    return rt.train(loss, jnp.zeros(1), rows, PLAN, optimizer=SGD, execution=HOW, progress_every=2, **given)


def half(path: Path, budget: Any, rows: Any = ROWS) -> None:
    run = train(path, budget, rows, on_progress=lambda moment: rt.Stop("half") if moment.step == 2 else None)
    assert not run.is_complete


class Anonymous:
    """A budget that does not say which account it charges."""

    def __init__(self) -> None:
        self.charges = 0

    def charge(self, event: Any, **terms: Any) -> None:
        self.charges += 1


def ledger_at(path: Path) -> rt.Ledger:
    ledger = rt.Ledger.create(path)
    for name in ("ours", "theirs"):
        ledger.limit(name, epsilon=10, delta=1e-3)
    return ledger


def test_the_same_account_is_charged_once_and_any_other_too(tmp_path: Path) -> None:
    """By its name in the ledger: the object of another process is another one."""
    with ledger_at(tmp_path / "a.ledger") as first, ledger_at(tmp_path / "b.ledger") as second:
        half(tmp_path, first.for_dataset("ours"))
        for budget in (first.for_dataset("ours"), second.for_dataset("ours"), first.for_dataset("theirs")):
            for _ in range(2):  # the second time it is known
                assert train(tmp_path, budget).is_complete
                assert budget.ledger.account(budget.name).charges == 1


def test_the_ledger_knows_its_account_when_it_is_opened_anew(tmp_path: Path) -> None:
    with ledger_at(tmp_path / "a.ledger") as ledger:
        half(tmp_path, ledger.for_dataset("ours"))
    shutil.move(tmp_path / "a.ledger", tmp_path / "moved.ledger")
    with rt.Ledger.open(tmp_path / "moved.ledger") as ledger:
        train(tmp_path, ledger.for_dataset("ours"))
        assert ledger.account("ours").charges == 1


def test_who_was_not_charged_at_first_is_charged_later(tmp_path: Path) -> None:
    half(tmp_path, None)
    budget = Anonymous()
    train(tmp_path, budget)
    assert budget.charges == 1


def test_other_rows_are_charged(tmp_path: Path) -> None:
    budget = Anonymous()
    half(tmp_path, budget)
    train(tmp_path, budget, OTHERS)
    assert budget.charges == 2


@pytest.mark.parametrize(
    "other",
    [
        Dataset(OTHERS),
        Dataset({"x": ROWS["x"].astype(np.float64)}),
        Dataset({"y": ROWS["x"]}),
        Dataset({"x": ROWS["x"][:-1]}),
        Dataset(ROWS, users=np.arange(64)),
    ],
    ids=["a value", "a type", "a name", "a number", "users"],
)
def test_everything_about_rows_is_compared(other: Dataset) -> None:
    assert payment._digests(other) != payment._digests(Dataset(ROWS))
    again = {key: np.copy(array) for key, array in other.arrays.items()}
    assert payment._digests(other) == payment._digests(Dataset(again, users=other.users))


def test_budgets_that_name_no_account_are_told_apart(tmp_path: Path) -> None:
    first, second = Anonymous(), Anonymous()
    half(tmp_path, first)
    train(tmp_path, second)
    train(tmp_path, first)
    assert (first.charges, second.charges) == (1, 1)


def test_a_refused_charge_takes_no_step(tmp_path: Path) -> None:
    half(tmp_path, Anonymous())
    saved = (tmp_path / "run").read_bytes()
    with rt.Ledger.create(tmp_path / "a.ledger") as ledger:
        ledger.limit("ours", epsilon=0.1, delta=1e-3)
        with pytest.raises(rt.BudgetExceeded):
            train(tmp_path, ledger.for_dataset("ours"))
    assert (tmp_path / "run").read_bytes() == saved


def test_a_crash_between_the_charge_and_its_note_is_charged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = Anonymous()

    def crash(self: Checkpoints, paid: list[str]) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "note_payment", crash)
        with pytest.raises(InterruptedError):
            train(tmp_path, budget)
    assert not (tmp_path / "run").exists()  # no step was taken
    train(tmp_path, budget)
    assert budget.charges == 2


def test_the_note_of_another_run_does_not_count(tmp_path: Path) -> None:
    """A run whose checkpoint was deleted and that begins anew draws everything anew."""
    budget = Anonymous()
    half(tmp_path, budget)
    note = (tmp_path / "run.unreleased.json").read_bytes()
    (tmp_path / "run").unlink()
    half(tmp_path, budget)
    assert budget.charges == 2
    (tmp_path / "run.unreleased.json").write_bytes(note)  # of the run that is gone
    train(tmp_path, budget)
    assert budget.charges == 3


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"paid": 3}', b'{"paid": [3, ["a"]]}'])
def test_a_damaged_note_is_no_payment(content: bytes, tmp_path: Path) -> None:
    budget = Anonymous()
    kept = Checkpoints(path=tmp_path / "run")
    payment.pay(budget, PLAN, Dataset(ROWS), kept)
    state = TrainState(jnp.int32(0), jnp.zeros(1), (), jnp.float32(1), jnp.zeros(1))
    kept.save(state)
    for charges in (1, 2):
        again = Checkpoints(path=tmp_path / "run")
        assert again.load(state) is not None
        payment.pay(budget, PLAN, Dataset(ROWS), again)
        assert budget.charges == charges
        said = json.loads(kept.history.read_bytes())
        worse = json.dumps({**said, **json.loads(content)}) if content.startswith(b'{"') else content
        kept.history.write_bytes(worse.encode() if isinstance(worse, str) else worse)


def test_the_note_is_for_its_owner_alone(tmp_path: Path) -> None:
    half(tmp_path, Anonymous())
    path = tmp_path / "run.unreleased.json"
    assert path.stat().st_mode & 0o077 == 0
    (account, kind, content), *more = json.loads(path.read_text())["paid"]
    assert not more
    for digest in (account, kind, content):
        assert digest.encode() not in (tmp_path / "run").read_bytes()


def test_it_is_paid_before_anything_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Anonymous()

    def steps(*_: object) -> Any:
        assert budget.charges == 1
        assert not (tmp_path / "run").exists()
        raise InterruptedError

    monkeypatch.setattr(loop, "take_steps", steps)
    with pytest.raises(InterruptedError):
        train(tmp_path, budget)


def test_of_rows_elsewhere_some_are_compared(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", ROWS["x"])
    np.save(tmp_path / "others.npy", OTHERS["x"])
    ours, again, others = (
        payment._digests(Dataset({"x": np.load(tmp_path / name, mmap_mode="r")}))
        for name in ("x.npy", "x.npy", "others.npy")
    )
    assert ours == again
    assert ours != others


def test_other_processes_have_other_shares_of_the_same_rows() -> None:
    paid = [["account", "kind", ""]]
    assert payment._is_noted(paid, "account", ("kind", "content"))
    assert not payment._is_noted(paid, "account", ("another", "content"))
    assert not payment._is_noted(paid, "other", ("kind", "content"))
