"""Property inference: told apart where there is something to tell, luck where there is nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.attacks.inference import property as property_module
from reticent.attacks.inference.property import infer_property, invariants
from reticent.core.errors import DataError, InvalidArgument
from reticent.models import mlp

MODEL = mlp((4, 8, 2))
OPTIMIZER = optax.adam(0.05)


def recipe(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
    """Forty steps on the whole training set."""

    def loss(params: Any) -> jax.Array:
        logits = jax.vmap(lambda record: MODEL.apply(params, record))(x)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return jnp.sum(each * mask) / jnp.sum(mask)

    def step(state: Any, _: None) -> tuple[Any, None]:
        params, moments = state
        updates, moments = OPTIMIZER.update(jax.grad(loss)(params), moments)
        return (optax.apply_updates(params, updates), moments), None

    params = MODEL.init(key)
    return jax.lax.scan(step, (params, OPTIMIZER.init(params)), None, length=40)[0][0]


def pool(*, seed: int, tilt: float) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A group whose label depends on another column than everybody else's, as far as it is tilted."""
    random = np.random.default_rng(seed)
    x = random.normal(0, 1, (1200, 4)).astype(np.float32)
    in_group = random.random(1200) < 0.5
    y = (x[:, 0] + tilt * in_group * x[:, 1] > 0).astype(np.int32)
    return {"x": x, "y": y}, in_group


def test_a_planted_property_is_found_in_models_that_were_never_seen():
    data, in_group = pool(seed=0, tilt=2.0)
    report = infer_property(recipe, data, in_group, set_size=128, shares=(0.1, 0.9), models=48, held_out=32)
    assert report.accuracy.low > 0.7
    assert report.auc.low > 0.8
    assert report.to_json()["held_out"] == 32
    guesses = []
    for share in (False, True):
        mask = np.zeros(1200, bool)
        mask[np.flatnonzero(in_group == share)[:128]] = True
        params = jax.jit(recipe)(jax.random.key(9), data["x"], data["y"], jnp.asarray(mask))
        guesses.append(report.guess(params))
    assert guesses[0] < 0.5 < guesses[1]


def test_equal_shares_are_told_apart_by_luck_only():
    data, in_group = pool(seed=1, tilt=2.0)
    report = infer_property(recipe, data, in_group, set_size=128, shares=(0.5, 0.5), models=48, held_out=32)
    assert report.accuracy.low < 0.5 < report.accuracy.high


def test_permuted_neurons_change_nothing():
    params = mlp((5, 7, 6, 3)).init(jax.random.key(0))
    order = jax.random.permutation(jax.random.key(1), 7)
    permuted = {
        "dense1": {"w": params["dense1"]["w"][:, order], "b": params["dense1"]["b"][order]},
        "dense2": {"w": params["dense2"]["w"][order], "b": params["dense2"]["b"]},
        "dense3": params["dense3"],
    }
    np.testing.assert_allclose(invariants(params), invariants(permuted), atol=1e-6)
    shuffled_inputs = {**params, "dense1": {**params["dense1"], "w": params["dense1"]["w"][::-1]}}
    assert np.abs(invariants(params) - invariants(shuffled_inputs)).max() > 0.1


def test_parameters_that_are_no_dense_layers_are_summarised_as_well():
    assert invariants({"conv": {"w": np.ones((3, 3, 1, 4)), "b": np.zeros(4)}}).shape == (10,)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"set_size": 1000}, DataError, "needs 700 records outside the group, and a half"),
        ({"shares": (0.7, 0.3)}, InvalidArgument, "The low share 0.7 is above"),
        ({"models": 4}, InvalidArgument, "models must be a whole number of at least 20"),
        ({"in_group": np.ones(3, bool)}, DataError, "The group has shape"),
    ],
)
def test_bad_input_is_refused(change: dict, error: type[Exception], message: str):
    data, in_group = pool(seed=0, tilt=1.0)
    arguments = {"in_group": in_group, "set_size": 128} | change
    with pytest.raises(error, match=message):
        infer_property(recipe, data, **arguments)


def test_models_that_diverged_are_named():
    data, in_group = pool(seed=0, tilt=1.0)

    def diverging(key, x, y, mask):
        return {"w": jnp.full((4, 2), jnp.nan) + 0 * jnp.sum(mask)}

    with pytest.raises(DataError, match="40 of 40 shadow models have parameters that are not finite"):
        infer_property(diverging, data, in_group, set_size=100, models=20, held_out=20)


def test_a_recipe_that_is_called_for_one_model_after_another_finds_the_same():
    """Class means with a little noise: nothing that rounding could drive apart."""

    def means(key, x, y, mask):
        chosen = (mask * y)[:, None]
        noise = 0.05 * jax.random.normal(key, (4, 1))
        return {"w": (chosen * x).sum(axis=0)[:, None] / chosen.sum() + noise, "b": jnp.zeros(1)}

    data, in_group = pool(seed=2, tilt=2.0)
    asked = {"set_size": 64, "shares": (0.1, 0.9), "models": 20, "held_out": 20}
    together = infer_property(means, data, in_group, **asked)
    apart = infer_property(means, data, in_group, is_traceable=False, **asked)
    np.testing.assert_array_equal(together.is_high, apart.is_high)
    np.testing.assert_allclose(together.probability, apart.probability, atol=1e-3)
    assert np.ptp(apart.probability) > 0.1


def test_time_that_is_up_leaves_models_of_both_kinds_or_says_so(monkeypatch):
    data, in_group = pool(seed=3, tilt=2.0)
    asked = {"set_size": 64, "shares": (0.1, 0.9), "models": 400, "held_out": 200, "is_traceable": False}
    clock = [0.0]
    monkeypatch.setattr(property_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    def slow(key, x, y, mask):
        clock[0] += 1.0
        return {"w": np.full((4, 2), mask[in_group].sum() / 64.0), "b": np.zeros(2)}

    with pytest.raises(InvalidArgument, match="at least 20 of each are needed"):
        infer_property(slow, data, in_group, minutes=0.5, **asked)
    report = infer_property(slow, data, in_group, minutes=2, **asked)
    assert (report.taught_on, report.held_out) == (80, 40)
    assert report.accuracy.low > 0.8
