"""`federated.train` through its public door, jitted: what one client can do, and what it costs."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.errors import BudgetExceeded, DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.federated.plan import FederatedPlan
from reticent.federated.simulator import train
from reticent.training.local_training import SECRET_COINS, TRUSTED_SERVER, LocalTraining
from reticent.training.plan import AdaptiveNorm

CLIENTS, ROWS, WIDTH = 20, 5, 4
LOCAL = LocalTraining(learning_rate=0.5, epochs=2, batch_size=2)
NORM = 0.25


def loss(params, row):
    return 0.5 * jnp.sum((params["w"] - row["x"]) ** 2)


def start():
    return {"w": jnp.zeros(WIDTH)}


def dataset(clients: int = CLIENTS, *, value: float = 1.0) -> rt.Dataset:
    """Clients with 1 to 5 rows."""
    users = np.concatenate([np.full(1 + client % ROWS, client) for client in range(clients)])
    return rt.Dataset({"x": np.full((len(users), WIDTH), value, np.float32)}, users=users)


def quiet(**changes) -> FederatedPlan:
    values: dict[str, Any] = {
        "clients": CLIENTS,
        "rounds": 1,
        "max_norm": NORM,
        "rows_per_client": ROWS,
        "local": LOCAL,
        "sampling": "full",
    }
    return FederatedPlan.without_privacy(**{**values, **changes})


def loud(**changes) -> FederatedPlan:
    values: dict[str, Any] = {
        "epsilon": 2.0,
        "delta": 1e-3,
        "clients": CLIENTS,
        "clients_per_round": 8,
        "rounds": 3,
        "max_norm": NORM,
        "rows_per_client": ROWS,
        "local": LOCAL,
    }
    return FederatedPlan.for_budget(**{**values, **changes})


def run(data: rt.Dataset | None = None, plan: FederatedPlan | None = None, **options) -> Any:
    with warnings.catch_warnings():  # of losses that are not finite, which some clients here have
        warnings.simplefilter("ignore")
        return train(loss, start(), data or dataset(), plan or quiet(), **{"keys": Keys.seeded(0), **options})


def moved(data: rt.Dataset | None = None, **options) -> np.ndarray:
    """The sum of clipped updates of one round, in float64."""
    return np.asarray(run(data, **options).params["w"], np.float64) * CLIENTS


def test_the_server_adds_the_mean_of_clipped_updates():
    # Every client goes towards (1, 1, 1, 1), further than the norm: each adds exactly the norm.
    np.testing.assert_allclose(moved(), CLIENTS * NORM / np.sqrt(WIDTH), rtol=1e-2)


@pytest.mark.parametrize("value", [1e30, -1e12, np.nan, np.inf])
def test_no_client_moves_the_sum_by_more_than_the_norm_whatever_it_holds(value: float):
    data = dataset()
    worst = data["x"].copy()
    worst[data.users == 4] = value
    without = data.take(np.flatnonzero(data.users != 4))
    distance = np.linalg.norm(moved(rt.Dataset({"x": worst}, users=data.users)) - moved(without))
    assert distance <= NORM
    if not np.isfinite(value):
        assert distance < 1e-5  # counts as zero, up to how the float is scaled back


def test_what_a_client_sends_instead_is_clipped_as_well():
    def boost(update, params, rows):
        is_bad = rows["bad"][0]
        return {"w": jnp.where(is_bad, -1e6 * jnp.ones(WIDTH), update["w"])}

    data = dataset()
    marked = rt.Dataset({"x": data["x"], "bad": np.asarray(data.users == 3)}, users=data.users)
    honest, attacked = moved(marked), moved(marked, tamper=boost)
    assert 1.5 * NORM < np.linalg.norm(attacked - honest) <= 2 * NORM


def test_the_divisor_is_the_declared_number_whoever_comes():
    few = dataset(CLIENTS // 2)
    np.testing.assert_allclose(moved(few), moved() / 2, rtol=1e-2)


def test_clients_that_are_not_in_the_data_have_no_rows_and_are_noticed_by_nobody():
    with pytest.raises(DataError, match="made for 20 users and the data have 41"):
        run(dataset(41), loud())
    done = run(dataset(CLIENTS - 3), loud())
    assert done.is_complete


def test_one_full_local_step_is_a_step_of_private_user_level_descent():
    single = LocalTraining(learning_rate=0.5)
    data = dataset(value=0.02)  # short enough to stay whole
    one = run(data, quiet(local=single, max_norm=10.0))
    plan = rt.Plan.without_privacy(
        examples=CLIENTS, steps=1, max_norm=10.0, sampling="full", unit="user", rows_per_user=ROWS
    )
    other = rt.train(loss, start(), data, plan, optimizer=optax.sgd(0.5), keys=Keys.seeded(0))
    np.testing.assert_allclose(one.params["w"], other.params["w"], rtol=1e-4)


def test_the_noise_has_the_size_that_the_plan_says():
    width, plan = 20_000, loud(rounds=1)
    nothing = {"x": np.zeros((CLIENTS, 1), np.float32)}
    done = train(
        lambda w, row: jnp.sum(w) * row["x"][0],
        jnp.zeros(width),
        rt.Dataset(nothing, users=np.arange(CLIENTS)),
        plan,
        keys=Keys.seeded(1),
    )
    found = np.std(np.asarray(done.params))
    # The deviation of 20,000 normals is within 3% of theirs, but for one run in a billion.
    assert found == pytest.approx(plan.server.noise_multiplier * NORM / 8, rel=0.03)


def test_the_guarantee_is_of_a_user_and_says_who_is_trusted():
    plan = loud(adaptive=AdaptiveNorm())
    done = run(plan=plan)
    assert done.guarantee.unit == "user"
    assert done.guarantee.epsilon <= 2.0
    assert TRUSTED_SERVER in done.guarantee.assumptions
    assert TRUSTED_SERVER in str(plan.guarantee())
    assert SECRET_COINS in done.guarantee.assumptions
    assert SECRET_COINS not in limited().assumptions
    assert plan.event == plan.server.event


class _Account:
    """A budget that keeps what it was charged, or refuses."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.charged: list[Any] = []
        self.refuses = refuses

    def charge(self, event, *, adjacency, purpose, unit) -> None:
        if self.refuses:
            raise BudgetExceeded("No budget is left.", remedy="None.")
        self.charged.append((event, adjacency, unit))


def test_the_whole_plan_is_paid_for_first_and_once_for_users(tmp_path):
    plan, account = loud(), _Account()
    run(plan=plan, budget=account, checkpoints=tmp_path / "state")
    assert account.charged == [(plan.event, plan.server.adjacency, "user")]
    with pytest.raises(BudgetExceeded):
        run(plan=plan, budget=_Account(refuses=True))


def test_a_run_that_stops_is_resumed_where_it_was_and_ends_with_the_same_model(tmp_path):
    plan = loud(rounds=4)

    def stop(moment):
        return rt.Stop("enough") if moment.step == 2 else None

    options = {"plan": plan, "progress_every": 1, "checkpoints": tmp_path / "state"}
    first = run(on_progress=stop, **options)
    assert int(first.state.step) == 2
    assert not first.is_complete
    second, whole = run(**options), run(plan=plan, progress_every=1)
    assert second.is_complete
    np.testing.assert_array_equal(second.params["w"], whole.params["w"])


def test_rows_without_clients_and_plans_of_another_kind_are_refused():
    data = dataset()
    with pytest.raises(DataError, match="user"):
        run(rt.Dataset({"x": data["x"]}))
    with pytest.raises(InvalidArgument, match="must be a FederatedPlan, got Plan"):
        train(loss, start(), data, quiet().server)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="protects users"):
        FederatedPlan(
            server=dataclasses.replace(quiet().server, unit="record", rows_per_user=None), local=LOCAL
        )


def test_the_server_follows_any_optimizer():
    fast = run(plan=quiet(rounds=6), optimizer=optax.sgd(1.0, momentum=0.9))
    plain = run(plan=quiet(rounds=6))
    assert float(fast.params["w"][0]) > 1.3 * float(plain.params["w"][0])


# Participation limits


def limited(**changes) -> FederatedPlan:
    noise = rt.noise.banded(bands=2)
    return loud(sampling="cyclic", clients_per_round=7, rounds=7, noise=noise, **changes)


def test_clients_come_as_seldom_as_the_event_of_correlated_noise_says():
    plan = limited()
    sampler = plan.server.sampler
    said = rt.data.participation_of(sampler, plan.rounds)
    drawn = sampler.draw(jax.random.key(0), jnp.arange(plan.rounds, dtype=jnp.int32), CLIENTS)
    rounds: dict[int, list[int]] = {}
    for number in range(plan.rounds):
        for client in np.asarray(drawn.indices[number])[np.asarray(drawn.is_real[number])].tolist():
            rounds.setdefault(client, []).append(number)
    assert len(rounds) == CLIENTS
    assert max(map(len, rounds.values())) == said.times == 3  # 20 clients, 7 a round: every third round
    assert min(min(np.diff(each)) for each in rounds.values()) == said.separation == 3
    always = loud(sampling="full", clients_per_round=None, rounds=7)
    assert plan.server.noise_multiplier < always.server.noise_multiplier


def test_a_run_with_correlated_noise_and_no_secret_coins_is_private_for_users():
    done = run(plan=limited())
    assert done.is_complete
    assert done.guarantee.epsilon <= 2.0
    assert done.guarantee.unit == "user"
    with pytest.raises(DataError, match="made for 20 users and the data have 19"):
        run(dataset(CLIENTS - 1), limited())
