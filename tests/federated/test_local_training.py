"""What a client does in a round, beside the same steps written out in NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.training.local_training import LocalTraining, as_unit_loss, client_update

WIDTH = 3
SEED = jnp.array([7, 9], jnp.uint32)


def loss(params, row):
    return 0.5 * (jnp.dot(params["w"], row["x"]) + params["b"] - row["y"]) ** 2


def start():
    return {"w": jnp.array([0.3, -0.2, 0.1]), "b": jnp.float32(0.5)}


def rows_of(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "x": draw.normal(size=(count, WIDTH)).astype(np.float32),
        "y": draw.normal(size=count).astype(np.float32),
    }


def gradient(w: np.ndarray, b: float, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    error = x @ w + b - y
    return error @ x / len(y), float(error.mean())


def descended(rows, steps: int, rate: float, pull: float = 0.0) -> tuple[np.ndarray, float]:
    """Full steps on all rows, in float64: how far the parameters move."""
    params = start()
    first_w, first_b = np.asarray(params["w"], np.float64), float(params["b"])
    w, b = first_w.copy(), first_b
    for _ in range(steps):
        slope_w, slope_b = gradient(w, b, rows["x"].astype(np.float64), rows["y"].astype(np.float64))
        w, b = w - rate * (slope_w + pull * (w - first_w)), b - rate * (slope_b + pull * (b - first_b))
    return w - first_w, b - first_b


def updated(local: LocalTraining, rows, is_real=None, seed=SEED):
    is_real = np.ones(len(rows["y"]), bool) if is_real is None else is_real
    return jax.jit(lambda rows, is_real: client_update(loss, local, start(), rows, is_real, seed))(
        rows, is_real
    )


@pytest.mark.parametrize(("epochs", "pull"), [(1, 0.0), (4, 0.0), (4, 0.5)])
def test_full_local_steps_are_those_of_gradient_descent(epochs: int, pull: float):
    rows = rows_of(6)
    delta, _ = updated(LocalTraining(learning_rate=0.2, epochs=epochs, proximal=pull), rows)
    w, b = descended(rows, epochs, 0.2, pull)
    np.testing.assert_allclose(delta["w"], w, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(delta["b"], b, rtol=2e-5, atol=1e-6)


def test_rows_that_fill_up_change_nothing_and_a_client_without_rows_stands_still():
    rows, most = rows_of(4), 9
    local = LocalTraining(learning_rate=0.2, epochs=3)
    padded = {name: np.concatenate([column, column[[0] * 5]]) for name, column in rows.items()}
    is_real = np.arange(most) < 4
    alone, padded_delta = updated(local, rows)[0], updated(local, padded, is_real)[0]
    for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(padded_delta), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    for size in (None, 2):
        still = LocalTraining(learning_rate=0.2, epochs=3, batch_size=size)
        delta, seen = updated(still, padded, np.zeros(most, bool))
        assert all(not np.any(leaf) for leaf in jax.tree.leaves(delta))
        assert float(seen.rows) == 0


def linear(params, row):
    """Its gradient is the row itself, wherever the parameters are: an update says which rows made it."""
    return jnp.dot(params, row)


def test_every_epoch_takes_every_row_that_counts_once_in_batches_of_the_size_asked_for():
    # Steps with a mean over 2 rows, over 2 rows, and over 1: row k is worth 1/2 or 1.
    rows, is_real = np.eye(7, dtype=np.float32), np.array([1, 0, 1, 1, 0, 1, 1], bool)
    local = LocalTraining(learning_rate=1.0, epochs=1, batch_size=2)
    found = set()
    for word in range(12):
        seed = jnp.array([word, 1], jnp.uint32)
        delta, seen = jax.jit(
            lambda seed: client_update(linear, local, jnp.zeros(7), rows, jnp.asarray(is_real), seed)
        )(seed)
        shares = -np.asarray(delta)
        assert sorted(shares[is_real].tolist()) == [0.5, 0.5, 0.5, 0.5, 1.0]
        assert not shares[~is_real].any()
        assert float(seen.rows) == 5
        found.add(int(np.argmax(shares)))
    assert len(found) > 1, "which row is left for the last step is drawn anew"


def test_the_gradient_of_a_unit_loss_is_minus_the_update_to_the_last_bit():
    rows, is_real = rows_of(8), jnp.ones(8, bool)
    local = LocalTraining(learning_rate=0.3, epochs=2, batch_size=3)
    delta, seen = jax.jit(lambda params: client_update(loss, local, params, rows, is_real, SEED))(start())
    of_unit = as_unit_loss(loss, local).of_unit
    value, slope = jax.jit(jax.value_and_grad(of_unit))(start(), rows, is_real, SEED)
    for one, other in zip(jax.tree.leaves(slope), jax.tree.leaves(delta), strict=True):
        np.testing.assert_allclose(one, -other, rtol=1e-6)
    assert float(value) == pytest.approx(float(seen.loss))


def test_a_loss_that_draws_gets_another_key_for_every_row_and_step():
    def drawing(params, row, key):
        return params[row["place"]] * jax.random.uniform(key)

    rows = {"place": np.arange(4)}
    local = LocalTraining(learning_rate=1.0, epochs=1, batch_size=2)
    delta, _ = client_update(drawing, local, jnp.zeros(4), rows, jnp.ones(4, bool), SEED)
    assert len(set(np.asarray(delta).tolist())) == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"epochs": 0},
        {"batch_size": 0},
        {"proximal": -1.0},
        {"proximal": float("nan")},
    ],
)
def test_local_training_that_cannot_be_is_refused(wrong: dict):
    with pytest.raises(InvalidArgument):
        LocalTraining(**{"learning_rate": 0.1, **wrong})
