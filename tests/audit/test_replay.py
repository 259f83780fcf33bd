"""Replays of steps, of samplers, of whole runs and of `train` itself."""

from __future__ import annotations

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent import audit, models
from reticent.audit import own_step
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms import gaussian
from reticent.training import loop

MODEL = models.linear(6, 12)
LOSS = models.classification_loss(MODEL)


def rows(count: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(count, 6)).astype(np.float32), "y": rng.integers(0, 12, count)}


def strange() -> dict[str, np.ndarray]:
    return {"x": np.array([[1e4] * 6, [-50.0] * 6], np.float32), "y": np.array([1, 2])}


def plan(**changes) -> rt.Plan:
    values = {"delta": 1e-5, "examples": 200, "batch_size": 20, "steps": 50, "max_norm": 0.1}
    return rt.Plan.for_budget(epsilon=4, **{**values, **changes})


def replayed(recipe: rt.Plan | None = None, loss=LOSS) -> audit.Replay:
    return audit.replay_plan(loss, MODEL.init(jax.random.key(0)), rows(), strange(), recipe or plan())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sampling": "full", "batch_size": None},
        {"sampling": "fixed"},
        {"sampling": "shuffled"},
        {"adjacency": rt.Adjacency.REPLACE},
    ],
    ids=["poisson", "full", "fixed", "shuffled", "replace"],
)
@pytest.mark.thorough
def test_train_itself_is_clean(changes: dict):
    found = replayed(plan(**changes))
    assert found.is_clean, found
    assert 0.5 < found.moved <= 1.001
    assert "No problem found" in str(found)


def test_what_is_audited_is_compiled_with_the_options_of_a_run(monkeypatch: pytest.MonkeyPatch):
    asked: dict[str, float] = {}
    for where in (own_step, loop):
        monkeypatch.setattr(where, "quick_options", partial(asked.__setitem__, where.__name__))
    start, recipe = {"w": jnp.zeros(3)}, plan(examples=12, batch_size=4, steps=2, delta=1e-3)
    loss = lambda params, example: jnp.sum(params["w"] * example["x"][:3])  # noqa: E731
    rt.train(loss, start, rows(), recipe, optimizer=optax.sgd(0.1), keys=Keys.seeded(0))
    own_step.own_step(loss, start, recipe)(rows(), 0, 0)
    assert asked[own_step.__name__] == asked[loop.__name__] == 3 * 4 * 2


def test_noise_that_is_missing_from_train_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gaussian, "whole_normals", lambda key, count, **options: jnp.zeros(count, jnp.int32))
    assert "size of the noise" in {each.check for each in replayed().problems}


def test_one_key_for_two_leaves_of_train_is_found(monkeypatch: pytest.MonkeyPatch):
    right = gaussian._noise_like

    def leaf_by_leaf(key, tree, multiple, parts):
        return jax.tree.map(lambda leaf: right(key, leaf, multiple, None), tree)

    monkeypatch.setattr(gaussian, "_noise_like", leaf_by_leaf)
    assert {each.check for each in replayed().problems} == {"noise of other parameters"}


def noisy_mean(batch, seed: int, step: int) -> dict[str, np.ndarray]:
    clipped = np.clip(batch["x"], -1, 1)
    noise = np.random.default_rng([seed, step]).normal(size=50) * 2.0
    return {"mean": (clipped.sum() + noise) / 10}


def test_a_step_written_by_hand_passes_and_says_how_far_a_record_moved_it():
    data, record = {"x": np.linspace(-1, 1, 20)}, {"x": np.array([1e9])}
    found = audit.replay(
        noisy_mean, data, record, max_norm=np.sqrt(50.0), noise_multiplier=2 / np.sqrt(50), divisor=10
    )
    assert found.is_clean, found
    assert found.moved == pytest.approx(1.0)
    assert json.loads(json.dumps(found.to_json()))["problems"] == []


def findings(step, **options) -> set[str]:
    data, record = {"x": np.linspace(-1, 1, 20)}, {"x": np.array([1e9])}
    claim = {"max_norm": np.sqrt(50.0), "noise_multiplier": 2 / np.sqrt(50), "divisor": 10, **options}
    return {each.check for each in audit.replay(step, data, record, **claim).problems}


def test_what_a_step_can_do_wrong_is_named():
    assert findings(lambda b, s, t: None if len(b["x"]) == 0 else noisy_mean(b, s, t)) == {"control flow"}
    assert findings(lambda b, s, t: {"mean": np.resize(noisy_mean(b, s, t)["mean"], len(b["x"]) + 1)}) >= {
        "shapes"
    }
    assert "control flow" in findings(lambda b, s, t: 1 / len(b["x"]))
    assert "control flow" in findings(lambda b, s, t: {"mean": np.full(50, np.nan)})
    assert "sensitivity" in findings(noisy_mean, divisor=20, noise_multiplier=4 / np.sqrt(50))
    unseeded = np.random.default_rng(0)
    assert "randomness" in findings(lambda b, s, t: {"mean": 0.2 * unseeded.normal(size=50)})


def test_entries_without_noise_are_found_among_others():
    def step(batch, seed, at):
        found = noisy_mean(batch, seed, at)["mean"].copy()
        found[7] = np.clip(batch["x"], -1, 1).sum() / 10
        return {"mean": found}

    assert findings(step) == {"size of the noise"}


def test_more_noise_than_claimed_is_no_problem():
    assert findings(lambda b, s, t: {"mean": noisy_mean(b, s, t)["mean"]}, noise_multiplier=0.1) == set()


def test_a_loss_that_mixes_nothing_passes_whatever_the_record_holds():
    record = {"x": np.array([[np.nan] * 6, [np.inf] * 6, [3e38] * 6], np.float32), "y": np.array([0, 1, 2])}
    found = audit.replay_plan(LOSS, MODEL.init(jax.random.key(0)), rows(), record, plan())
    assert found.is_clean, found


# Sampling


def coins(examples: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random((60, examples)) < 0.1


def fixed(examples: int, seed: int) -> np.ndarray:
    order = np.argsort(np.random.default_rng(seed).random((60, examples)), axis=1)
    return order < examples // 10


def test_coins_pass_and_fixed_batches_do_not():
    assert audit.replay_sampling(coins, examples=300, rate=0.1).is_clean
    assert "variance" in str(audit.replay_sampling(fixed, examples=300, rate=0.1))
    assert "probability" in str(audit.replay_sampling(coins, examples=300, rate=0.08))
    assert "two seeds" in str(audit.replay_sampling(lambda n, s: coins(n, 0), examples=300, rate=0.1))
    with pytest.raises(InvalidArgument, match="one boolean per record"):
        audit.replay_sampling(lambda n, s: np.zeros(n), examples=10, rate=0.1)


def test_coins_of_any_rate_pass():
    """100 samplers at a false-alarm probability of a few in a million each."""
    for number, rate in enumerate(np.geomspace(1e-3, 0.9, 100)):

        def draw(n, s, rate=rate, number=number):
            return np.random.default_rng([s, number]).random((50, n)) < rate

        assert audit.replay_sampling(draw, examples=200, rate=float(rate)).is_clean


def test_a_run_that_releases_another_number_of_times_is_found():
    def epochs(data, seed):
        return [{"w": np.zeros(3)}] * (len(data["x"]) // 4)

    data, record = {"x": np.zeros(11)}, {"x": np.ones(1)}
    assert "3 releases with one record more" in str(audit.replay_run(epochs, data, record, steps=2))
    assert audit.replay_run(lambda d, s: [{"w": jnp.zeros(3)}] * 2, data, record, steps=2).is_clean
    assert "fails" in str(audit.replay_run(lambda d, s: [1 / 0], data, record, steps=2))


def test_what_cannot_be_replayed_is_refused():
    with pytest.raises(DataError, match="the arrays of the data"):
        audit.replay(noisy_mean, {"x": np.ones(3)}, {"y": np.ones(1)}, max_norm=1.0, noise_multiplier=1.0)
    with pytest.raises(DataError, match="one row per record"):
        audit.replay(noisy_mean, {"x": np.ones(3)}, {"x": np.float64(1)}, max_norm=1.0, noise_multiplier=1.0)
    with pytest.raises(InvalidArgument, match="max_norm"):
        audit.replay(noisy_mean, {"x": np.ones(3)}, {"x": np.ones(1)}, max_norm=0.0, noise_multiplier=1.0)
    with pytest.raises(InvalidArgument, match="Replay fewer rows"):
        audit.replay_plan(
            LOSS, MODEL.init(jax.random.key(0)), rows(500), strange(), plan(examples=40, batch_size=2)
        )
