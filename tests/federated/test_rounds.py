"""The server of a real deployment: the simulator's model, messages that do not belong, and kills."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import killed_server
import numpy as np
import pytest

import reticent as rt
from reticent.core.errors import BudgetExceeded, DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.cyclic import CyclicPoisson
from reticent.federated.journal import Journal
from reticent.federated.plan import FederatedPlan
from reticent.federated.rounds import OpenRound, Rounds
from reticent.federated.simulator import train
from reticent.noise.participation import Participation
from reticent.training.local_training import LocalTraining, client_update
from reticent.training.plan import AdaptiveNorm

CLIENTS, ROWS, WIDTH = 12, 4, 300
LOCAL = LocalTraining(learning_rate=0.5, epochs=2, batch_size=2)
NAMES = [str(number) for number in range(CLIENTS)]
NORM = 0.25


def loss(params, row):
    return 0.5 * jnp.sum((jnp.tanh(params["w"] * row["x"]) - row["x"]) ** 2)


def start():
    return {"w": jnp.zeros(WIDTH)}


def plan_for(**changes) -> FederatedPlan:
    values: dict[str, Any] = {
        "epsilon": 4.0,
        "delta": 1e-3,
        "clients": CLIENTS,
        "clients_per_round": 5,
        "rounds": 4,
        "max_norm": NORM,
        "rows_per_client": ROWS,
        "local": LOCAL,
    }
    return FederatedPlan.for_budget(**{**values, **changes})


def quiet(**changes) -> FederatedPlan:
    values: dict[str, Any] = {"clients": CLIENTS, "rounds": 2, "max_norm": NORM, "rows_per_client": ROWS}
    return FederatedPlan.without_privacy(**{**values, "local": LOCAL, "sampling": "full", **changes})


def answers(rounds: Rounds, current: OpenRound, rows: np.ndarray, users: np.ndarray) -> None:
    """What honest clients do."""
    for client, seed in current.seeds.items():
        own = rows[users == int(client)]
        filled = np.concatenate([own, np.repeat(own[:1], ROWS - len(own), axis=0)])
        update, _ = client_update(
            loss,
            LOCAL,
            rounds.params,
            {"x": filled},
            jnp.arange(ROWS) < len(own),
            jnp.array(seed, jnp.uint32),
        )
        current.take(client, update, number=current.number)


def test_the_server_gives_the_model_of_the_simulator_also_when_it_begins_again(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    users = np.concatenate([np.full(1 + client % ROWS, client) for client in range(CLIENTS)])
    rows = draw.normal(size=(len(users), WIDTH)).astype(np.float32)
    plan = plan_for(adaptive=AdaptiveNorm())
    data = rt.Dataset({"x": rows}, users=users)
    simulated = train(loss, start(), data, plan, keys=Keys.seeded(3))

    def two_rounds() -> Rounds:
        rounds = Rounds(plan, start(), NAMES, keys=Keys.seeded(3), folder=tmp_path)
        for _ in range(2):
            current = rounds.begin()
            answers(rounds, current, rows, users)
            rounds.finish(current)
        return rounds

    two_rounds()
    rounds = two_rounds()  # another server goes on where the first one stopped
    assert rounds.is_complete
    done = rounds.result()
    # Updates of clients one by one are rounded in another way than those of many: by a step of the grid.
    np.testing.assert_allclose(done.params["w"], simulated.params["w"], atol=2e-6)
    assert float(np.max(np.abs(done.params["w"]))) > 0.01
    assert done.state.max_norm == pytest.approx(simulated.state.max_norm)
    assert done.guarantee.epsilon == simulated.guarantee.epsilon
    assert {"no user has two of the registered clients", plan.own_assumptions[0]} <= set(
        done.guarantee.assumptions
    )
    with pytest.raises(InvalidArgument, match="All 4 rounds of the plan were taken"):
        rounds.begin()


def test_a_server_that_begins_again_between_two_turns_asks_nobody_once_more_than_counted(
    tmp_path: Path,
) -> None:
    """Its new keys lay clients into other parts: it goes on with the first one, however often it restarts."""
    sampler = CyclicPoisson(examples=CLIENTS, batch_size=4, parts=3)  # everybody is asked in each turn
    plan = quiet(clients=None, sampling=sampler, rounds=6)

    def server(seed: int, rounds: int) -> Rounds:
        found = Rounds(plan, start(), NAMES, keys=Keys.seeded(seed), folder=tmp_path)
        for _ in range(rounds):
            found.finish(found.begin())
        return found

    assert server(0, 1).number == 1
    assert server(1, 0).number == 3
    done = server(2, 3)
    assert done.is_complete
    turns = [len(rounds) for rounds in done.journal.rounds_of_clients().values()]
    assert max(turns) == plan.rounds // sampler.parts


def test_messages_that_do_not_belong_are_left_out_in_one_sentence_each() -> None:
    rounds = Rounds(quiet(), start(), NAMES, keys=Keys.seeded(0))
    first, good = rounds.begin(), {"w": np.full(WIDTH, 0.01, np.float32)}
    first.take("1", good)
    for client, update, number, said in (
        ("1", good, 0, "sent a second update in round 0"),
        ("nobody", good, 0, "was not asked in round 0"),
        ("2", good, 7, "is for round 7, which is over"),
        ("2", {"w": good["w"][:5]}, 0, r"sent float32\[5\] for parameter 'w'"),
        ("2", {"w": good["w"].astype(np.float64)}, 0, "sent float64"),
        ("2", {"v": good["w"]}, 0, "sent nothing for parameter 'w'"),
    ):
        with pytest.raises(DataError, match=said) as caught:
            first.take(client, update, number=number)
        assert "\n" not in str(caught.value)
    first.take("2", {"w": np.full(WIDTH, np.nan, np.float32)})
    first.take("3", {"w": np.full(WIDTH, 1e12, np.float32)})
    first.take("5", {"w": np.full(WIDTH, 3e38, np.float32)})  # beyond what is measured: counts as zero
    first.take("4", {"w": np.zeros(WIDTH, np.float32)})  # a client without rows
    rounds.finish(first)
    moved = np.asarray(rounds.params["w"], np.float64) * CLIENTS
    expected = 0.01 + NORM / np.sqrt(WIDTH)  # of clients 1 and 3; NaN counts as zero
    np.testing.assert_allclose(moved, expected, rtol=1e-3)
    assert np.linalg.norm(moved - 0.01) <= NORM
    with pytest.raises(DataError, match="which is over"):
        first.take("6", good)
    with pytest.raises(DataError, match="Round 0 is over"):
        rounds.finish(first)
    assert rounds.begin().number == 1


def test_clients_that_vanish_change_neither_the_divisor_nor_the_noise() -> None:
    plan, width = plan_for(rounds=1, epsilon=2.0), 20_000
    noise = []
    for answering in (False, True):
        rounds = Rounds(plan, {"w": jnp.zeros(width)}, NAMES, keys=Keys.seeded(5))
        current = rounds.begin()
        if answering:
            sent = np.zeros(width, np.float32)
            sent[0] = NORM
            for client in current.clients:
                current.take(client, {"w": sent})
        rounds.finish(current)
        noise.append(np.asarray(rounds.params["w"], np.float64))
    alone, together = noise
    np.testing.assert_array_equal(alone[1:], together[1:])
    assert together[0] - alone[0] == pytest.approx(len(current.clients) * NORM / 5, rel=1e-3)
    # The deviation of 20,000 normals is within 3% of theirs, but for one run in a billion.
    assert np.std(alone) == pytest.approx(plan.server.noise_multiplier * NORM / 5, rel=0.03)


def test_a_realised_schedule_that_breaks_the_plan_is_refused_before_anybody_is_asked() -> None:
    plan = plan_for(sampling="cyclic", clients_per_round=4, rounds=6, noise=rt.noise.banded(bands=2))
    rounds = Rounds(plan, start(), NAMES, keys=Keys.seeded(0))
    assert rounds.begin().clients == ("0", "3", "6", "9")
    rounds.journal.note(0, asked=[1, 4, 7, 10])  # as if others had been asked: their turn is round 1
    rounds._open, rounds._state = (
        None,
        rounds._state._replace(state=rounds._state.state._replace(step=jnp.int32(1))),
    )
    with pytest.raises(DataError, match=r"'1' would be asked in rounds \[0, 1\].*3 rounds apart"):
        rounds.begin()
    with pytest.raises(DataError, match="made for 12 users and the data have 11"):
        Rounds(plan, start(), NAMES[1:])
    journal = Journal(["ann", "bob"])
    for number in (0, 2):
        journal.note(number, asked=[0])
    limit = Participation(times=2, separation=2)
    journal.require_covered(limit, 3, [1])
    with pytest.raises(DataError, match="at most 2 times"):
        journal.require_covered(limit, 4, [0])


def test_clients_that_come_when_they_can_are_kept_to_their_limits_also_after_a_restart(
    tmp_path: Path,
) -> None:
    limited = rt.data.Limited(examples=CLIENTS, batch_size=4, times=2, separation=2)
    plan = quiet(clients=None, sampling=limited, rounds=8)
    sent = {"w": np.full(WIDTH, 0.01, np.float32)}
    asked: list[tuple[str, ...]] = []
    for there in (("7", "3", "5"), ("7", "3", "8"), ("7", "3", "5"), ("7", "3"), ("7", "3"), NAMES):
        rounds = Rounds(plan, start(), NAMES, folder=tmp_path)
        current = rounds.begin(there)
        asked.append(current.clients)
        for client in current.clients:
            current.take(client, sent)
        rounds.finish(current)
    assert asked == [("3", "5", "7"), ("8",), ("3", "5", "7"), (), (), ("0", "1", "2", "4")]
    # Nine updates in all: each round divides by 4, whoever comes.
    np.testing.assert_allclose(rounds.params["w"], (3 + 1 + 3 + 4) * 0.01 / 4, rtol=1e-3)
    (tmp_path / "private" / "journal.json").unlink()
    with pytest.raises(DataError, match="does not say who was in round 0"):
        Rounds(plan, start(), NAMES, folder=tmp_path)


def test_two_clients_of_one_name_and_other_clients_than_before_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="'1' is registered twice: one user would count as two"):
        Rounds(quiet(), start(), [*NAMES[:-1], "1"])
    Rounds(quiet(), start(), NAMES, folder=tmp_path).begin()
    assert (tmp_path / "private" / "journal.json").stat().st_mode & 0o77 == 0
    with pytest.raises(DataError, match="began with 12 other clients"):
        Rounds(quiet(), start(), NAMES[::-1], folder=tmp_path)
    with pytest.raises(DataError, match="another plan"):
        Rounds(
            dataclasses.replace(quiet(), local=LocalTraining(learning_rate=1.0)),
            start(),
            NAMES,
            folder=tmp_path,
        )


class _Account:
    account = "an account"

    def __init__(self, *, refuses: bool = False) -> None:
        self.charged: list[Any] = []
        self.refuses = refuses

    def charge(self, event, *, adjacency, purpose, unit) -> None:
        if self.refuses:
            raise BudgetExceeded("No budget is left.", remedy="None.")
        self.charged.append((event, adjacency, unit))


def test_the_plan_is_paid_for_once_and_before_anybody_is_asked(tmp_path: Path) -> None:
    plan, account = plan_for(), _Account()
    with pytest.raises(BudgetExceeded):
        Rounds(plan, start(), NAMES, budget=_Account(refuses=True), folder=tmp_path / "refused")
    assert not (tmp_path / "refused" / "checkpoint").exists()
    for _ in range(2):
        Rounds(plan, start(), NAMES, budget=account, folder=tmp_path / "run")
    assert account.charged == [(plan.event, plan.server.adjacency, "user")]


@pytest.mark.thorough
def test_a_server_that_is_killed_at_any_moment_repeats_nothing_and_forgets_nothing(tmp_path: Path) -> None:
    ledger = killed_server.open_ledger(tmp_path)
    told: list[list[str]] = []
    for moment in ("charge", "answers", "journal", "never"):
        folder = tmp_path / "run"
        found = subprocess.run(
            [sys.executable, killed_server.__file__, str(tmp_path), moment],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
            check=False,
        )
        assert found.returncode == (0 if moment == "never" else -signal.SIGKILL), found.stderr
        told.append(found.stdout.split())
        if moment == "charge":  # nobody was asked, and nothing is there to release
            assert not told[-1]
            assert not (folder / "checkpoint").exists()
    assert told[1] == ["asked:0"]  # killed while it waited, after a third of the clients had vanished
    assert told[2] == ["asked:0", "asked:1"]  # killed when the model was saved, before the journal was
    assert told[3] == ["asked:2", "asked:3", "done"]
    assert len(killed_server.charges(ledger)) == 1
    alone = killed_server.new_rounds(None)
    while not alone.is_complete:
        killed_server.take_round(alone)
    saved = np.load(tmp_path / "model.npy")
    np.testing.assert_array_equal(saved, np.asarray(alone.params))
