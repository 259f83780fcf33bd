"""A server under attack: copies of its folder, second servers, full disks, updates that are no updates."""

from __future__ import annotations

import collections
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import reticent as rt
from reticent.core.errors import DataError, IntegrityError
from reticent.federated.aggregation import Aggregation
from reticent.federated.plan import FederatedPlan
from reticent.federated.rounds import Rounds
from reticent.training.local_training import LocalTraining
from reticent.training.step import Remembering

NAMES = [str(number) for number in range(12)]
LOCAL = LocalTraining(learning_rate=0.5)


def plan_for(**changes: Any) -> FederatedPlan:
    given: dict[str, Any] = {"clients": 12, "sampling": "full", "rounds": 12, "max_norm": 0.25}
    given |= {"epsilon": 8.0, "delta": 1e-3, "rows_per_client": 4, "local": LOCAL}
    return FederatedPlan.for_budget(**{**given, **changes})


def start() -> dict[str, Any]:
    return {"a": jnp.zeros(5), "b": jnp.zeros(3)}


@pytest.fixture
def rounds_without_sums(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is summed does not matter here: a round ends with the next state, and nothing is compiled."""
    drawn: list[Any] = []

    def step(self: Any, state: Any, updates: Any, batch: Any, roots: Any) -> Any:
        drawn.append(batch)
        if isinstance(state, Remembering):
            return state._replace(state=state.state._replace(step=state.step + 1))
        return state._replace(step=state.step + 1)

    monkeypatch.setattr(Aggregation, "step", step)
    return drawn


def take_round(rounds: Rounds) -> tuple[int, tuple[str, ...]]:
    current = rounds.begin()
    rounds.finish(current)
    return current.number, current.clients


def test_updates_that_are_no_updates_are_left_out_and_cost_no_round() -> None:
    current = Rounds(plan_for(), start(), NAMES).begin()
    a, b = np.ones(5, np.float32), np.ones(3, np.float32)
    swapped = collections.OrderedDict([("b", b), ("a", a)])  # the same names in another order
    for sent in (
        swapped,
        {1: a, "a": a, "b": b},
        [a, b],
        None,
        "x",
        object(),
        {"a": a},
        {"a": a, "b": "zzz"},
    ):
        with pytest.raises(DataError) as caught:
            current.take("1", sent)
        assert "\n" not in str(caught.value)
    with pytest.raises(DataError, match="sent nothing for parameter 'a'"):
        current.take("1", swapped)
    current.take("1", {"a": a, "b": b})
    # Two leaves of one name: a missing one is missed.
    twin = Rounds(plan_for(), {"a/b": a, "a": {"b": a}}, NAMES).begin()
    with pytest.raises(DataError, match="sent nothing"):
        twin.take("1", {"a/b": a})


@pytest.mark.usefixtures("rounds_without_sums")
def test_a_round_that_fails_is_not_tried_again_with_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(plan_for(), start(), NAMES, folder=tmp_path)

    def fail(*given: Any, **more: Any) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(rounds._checkpoints, "save", fail)
        with pytest.raises(OSError, match="no space"):
            take_round(rounds)
    with pytest.raises(DataError, match="Round 0 failed while its sum was made"):
        rounds.begin()
    rounds = Rounds(plan_for(), start(), NAMES, folder=tmp_path)
    with monkeypatch.context() as patch:
        current = rounds.begin()
        patch.setattr(rounds.journal, "note", fail)
        with pytest.raises(OSError, match="no space"):
            rounds.finish(current)
    assert take_round(rounds)[0] == 1, "the model of round 0 was saved before its journal failed"


@pytest.mark.usefixtures("rounds_without_sums")
def test_a_second_server_and_an_older_checkpoint_release_nothing_twice(tmp_path: Path) -> None:
    one, two = (Rounds(plan_for(), start(), NAMES, folder=tmp_path) for _ in range(2))
    shutil.copy(tmp_path / "checkpoint", tmp_path / "old")
    begun = two.begin()
    assert take_round(one)[0] == 0
    with pytest.raises(IntegrityError, match="Another server takes the rounds"):
        two.finish(begun)
    assert take_round(one)[0] == 1
    shutil.copy(tmp_path / "old", tmp_path / "checkpoint")
    with pytest.raises(IntegrityError, match="Round 1 is over, and the checkpoint"):
        Rounds(plan_for(), start(), NAMES, folder=tmp_path)
    (tmp_path / "private" / "journal.json").write_text('{"clients": [], "rounds": []}')
    with pytest.raises(IntegrityError, match="is damaged"):
        Rounds(plan_for(), start(), NAMES, folder=tmp_path)


@pytest.mark.usefixtures("rounds_without_sums")
def test_a_model_that_was_saved_when_its_journal_failed_counts_as_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = Rounds(plan_for(), start(), NAMES, folder=tmp_path)
    shutil.copy(tmp_path / "checkpoint", tmp_path / "old")
    current = rounds.begin()
    with monkeypatch.context() as patch:
        patch.setattr(rounds.journal, "note", lambda *given, **more: 1 / 0)  # the server dies here
        with pytest.raises(ZeroDivisionError):
            rounds.finish(current)
    assert Rounds(plan_for(), start(), NAMES, folder=tmp_path).number == 1  # and its model is sent
    shutil.copy(tmp_path / "old", tmp_path / "checkpoint")
    with pytest.raises(IntegrityError, match="Round 0 is over, and the checkpoint"):
        Rounds(plan_for(), start(), NAMES, folder=tmp_path)


@pytest.mark.parametrize("sampling", ["shuffled", "parts"])
@pytest.mark.usefixtures("rounds_without_sums")
def test_clients_are_in_no_more_rounds_however_often_the_server_is_killed(
    sampling: str, tmp_path: Path
) -> None:
    """Orders and parts are drawn anew by a new server: what is left of an epoch is not taken."""
    if sampling == "parts":
        sampler = rt.data.CyclicPoisson(examples=12, batch_size=2, parts=3)
        plan = plan_for(clients=None, sampling=sampler, noise=rt.noise.banded(bands=3))
    else:
        plan = plan_for(clients_per_round=4, sampling="shuffled")
    taken = collections.Counter()
    asked: list[int] = []
    while True:
        rounds = Rounds(plan, start(), NAMES, folder=tmp_path)
        if rounds.is_complete:
            break
        number, clients = take_round(rounds)
        asked.append(number)
        taken.update(clients)
    assert asked == [0, 3, 6, 9]
    assert max(taken.values()) <= 4


def test_who_came_decides_about_no_shape_in_which_others_are_summed() -> None:
    shapes: list[Any] = []

    def look(state: Any, rows: Any, batch: Any, roots: Any) -> Any:
        shapes.append(rows["0000"].shape)
        return state

    for answering in (0, 12):
        rounds = Rounds(
            plan_for(sampling="poisson", clients_per_round=11), start(), NAMES, keys=rt.Keys.seeded(1)
        )
        current = rounds.begin()
        rounds._aggregation._step = look  # type: ignore[assignment]
        for client in current.clients[:answering]:
            current.take(client, {"a": np.ones(5, np.float32), "b": np.ones(3, np.float32)})
        rounds.finish(current)
    assert len(current.clients) > 8
    assert shapes[0] == shapes[1]
