"""What updates tell, on updates whose rows are known."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import reticent as rt
from reticent.attacks.inference.client_updates import (
    SeenUpdate,
    cosines,
    membership_from_updates,
    property_from_updates,
)
from reticent.attacks.metrics import auc
from reticent.attacks.scores import Scores
from reticent.core.errors import DataError, InvalidArgument
from reticent.training.watched_rounds import watch_rounds

CLIENTS, ROWS, WIDTH, WATCHED = 30, 4, 60, 5
LOCAL = rt.federated.LocalTraining(learning_rate=0.5, epochs=2, batch_size=2)


def loss(params, row):
    return jnp.logaddexp(0, -(2 * row["y"] - 1) * (row["x"] @ params))


def rows_of(count: int, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "x": draw.normal(size=(count, WIDTH)).astype(np.float32),
        "y": draw.integers(2, size=count).astype(np.float32),
    }


def watched(noise: float):
    plan = rt.federated.FederatedPlan.for_budget(
        epsilon=noise,
        delta=1e-4,
        clients=CLIENTS,
        clients_per_round=10,
        rounds=4,
        max_norm=0.5,
        rows_per_client=ROWS,
        local=LOCAL,
    )
    users = np.repeat(np.arange(CLIENTS), ROWS)
    rows = rows_of(len(users), 0)
    given = {"watched": WATCHED, "rounds": 4, "seed": 0}
    return rows, plan, watch_rounds(loss, jnp.zeros(WIDTH), rows, users, plan.server, LOCAL, **given)


def test_one_client_s_updates_tell_which_rows_it_has_and_sums_with_noise_do_not():
    rows, plan, seen = watched(2.0)
    outside, found = rows_of(WATCHED * ROWS, 1), {}
    for view in seen[0].views:
        scores = [
            membership_from_updates(
                loss,
                [SeenUpdate(each.params, each.views[view][client]) for each in seen],
                {
                    name: np.concatenate([rows[name][at], outside[name][at]])
                    for name in rows
                    for at in [slice(client * ROWS, (client + 1) * ROWS)]
                },
            )
            for client in range(WATCHED)
        ]
        both = np.array(scores).reshape(WATCHED, 2, ROWS)
        found[view] = auc(Scores(members=both[:, 0].ravel(), outsiders=both[:, 1].ravel())).value
    assert found["one client"] > 0.95
    assert found["one client"] > found["a sum"]
    # Twenty rows on either side without signal are above 0.8 once in two thousand tries.
    assert max(found["a sum with noise"], found["one client with noise"]) < 0.8
    norm = plan.server.clipping.sensitivity
    assert all(np.linalg.norm(each.alone, axis=1).max() <= norm * (1 + 1e-9) for each in seen)
    noise = np.concatenate([each.noised_mean - each.mean for each in seen])
    assert np.std(noise) == pytest.approx(plan.server.noise_multiplier * norm / 10, rel=0.15)


def test_a_property_is_read_from_updates_that_have_it():
    draw, way = np.random.default_rng(0), np.zeros(500)
    way[:20] = 1.0
    made = [draw.normal(size=(30, 500)) + sign * way for sign in (1, -1)]
    seen = np.concatenate([draw.normal(size=(20, 500)) + sign * way for sign in (1, -1)])
    scores = property_from_updates(made[0], made[1], seen)
    assert auc(Scores(members=scores[:20], outsiders=scores[20:])).value > 0.95
    nothing = property_from_updates(made[0], made[1], draw.normal(size=(40, 500)))
    assert auc(Scores(members=nothing[:20], outsiders=nothing[20:])).value < 0.8


def test_updates_that_say_nothing_score_nothing():
    assert not cosines(np.eye(3), np.zeros(3)).any()
    assert not cosines(np.eye(3), np.array([np.nan, 0, 0])).any()
    with pytest.raises(DataError, match="no update to look at"):
        membership_from_updates(loss, [], rows_of(2, 0))
    users = np.arange(4)
    plan = rt.Plan.without_privacy(
        examples=4, steps=1, max_norm=1.0, sampling="full", unit="user", rows_per_user=1
    )
    with pytest.raises(InvalidArgument, match="Of 4 clients, 9 cannot be watched"):
        watch_rounds(loss, jnp.zeros(WIDTH), rows_of(4, 0), users, plan, LOCAL, watched=9, rounds=1, seed=0)
