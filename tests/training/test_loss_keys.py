"""A loss that draws at random gets a key per example and step, and mixes nothing between examples."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.keys import Keys, Stream, step_key
from reticent.training.gradients.choices import explain
from reticent.training.gradients.inputs import InvalidArgument
from reticent.training.loss_keys import key_use

ROWS = 12
STRATEGIES = ("vmap", "book-keeping")


def loss(params: Any, example: Any, key: jax.Array) -> jax.Array:
    """Its gradient has what was drawn for row i at place i, and zeros elsewhere."""
    drawn = jax.random.uniform(key)
    return jnp.sum(params["w"] * jax.nn.one_hot(example["i"], ROWS) * (drawn + 0.0 * example["x"]))


def rows(x: float = 0.0) -> dict[str, np.ndarray]:
    found = np.zeros(ROWS, np.float32)
    found[3] = x
    return {"i": np.arange(ROWS, dtype=np.int32), "x": found}


def plan(**changes: Any) -> rt.Plan:
    """Everybody in every step, and no noise: what was drawn can be read off the parameters."""
    given = {"examples": ROWS, "sampling": "full", "steps": 1, "max_norm": 1.0}
    return rt.Plan.without_privacy(**{**given, **changes})


def draws(
    data: Any = None, recipe: rt.Plan | None = None, seed: int = 0, strategy: Any = "auto", **more: Any
) -> np.ndarray:
    given = {"optimizer": optax.sgd(float(ROWS)), "execution": rt.Execution(strategy=strategy), **more}
    start = {"w": jnp.zeros(ROWS)}
    done = rt.train(loss, start, data or rows(), recipe or plan(), keys=Keys.seeded(seed), **given)
    return -np.asarray(done.params["w"])


@pytest.fixture(scope="module")
def usual() -> np.ndarray:
    return draws()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_example_has_a_key_of_its_own_from_the_stream_of_losses(
    strategy: str, usual: np.ndarray
) -> None:
    found = draws(strategy=strategy)
    assert np.allclose(found, usual, atol=1e-5)
    assert len(np.unique(found.round(4))) == ROWS
    places = np.asarray(rt.training.places_for(plan(), ROWS, Keys.seeded(0).place_key()).of_units)
    root = Keys.seeded(0).take(Stream.LOSS)
    seeds = jax.random.bits(step_key(root, 0), (plan().sampler.capacity, 1, 2), jnp.uint32)[:, 0]
    expected = [
        jax.random.uniform(jax.random.wrap_key_data(seeds[place], impl="threefry2x32")) for place in places
    ]
    assert np.allclose(found, np.array(expected), atol=1e-5)


def test_what_is_drawn_does_not_depend_on_any_record_and_changes_with_the_step_and_the_seed(
    usual: np.ndarray,
) -> None:
    assert np.allclose(draws(rows(x=5.0)), usual, atol=1e-5)
    fewer = draws({key: column[:-1] for key, column in rows().items()})
    assert np.allclose(fewer[:-1], usual[:-1], atol=1e-5)
    assert fewer[-1] == 0
    second = draws(recipe=plan(steps=2)) - usual
    assert np.abs(second - usual).min() > 1e-4
    assert np.abs(draws(seed=1) - usual).min() > 1e-4


def test_every_row_of_a_user_and_every_view_has_a_key() -> None:
    """Each user has two rows of one number, so a user's gradient is the mean of two draws."""
    users = rt.Dataset(
        {key: np.repeat(column, 2) for key, column in rows().items()}, users=np.arange(24) // 2
    )
    by_user = draws(users, plan(unit="user", rows_per_user=2))
    viewed = draws(augment=lambda key, example: example, views=2)
    for found in (by_user, viewed):
        assert len(np.unique(found.round(4))) == ROWS
        assert not np.allclose(found, draws(), atol=1e-3)


def test_a_resumed_run_draws_what_an_uninterrupted_one_does(tmp_path: Any) -> None:
    longer = plan(steps=4)
    whole = draws(recipe=longer, progress_every=2)
    stop = {"on_progress": lambda moment: rt.Stop, "progress_every": 2}
    half = draws(recipe=longer, checkpoints=tmp_path / "state", **stop)
    again = draws(recipe=longer, checkpoints=str(tmp_path / "state"), progress_every=2)
    assert np.array_equal(again, whole)
    assert not np.allclose(half, whole)


def test_dropout_in_a_loop_inside_a_model_is_kept_apart_by_book_keeping() -> None:
    """Where parameters and keys meet in one equation, as in a scan."""

    def recurrent(params: Any, example: Any, *, key: jax.Array) -> jax.Array:
        def cell(carry: jax.Array, key: jax.Array) -> tuple[jax.Array, None]:
            kept = jax.random.bernoulli(key, 0.5, carry.shape)
            return jnp.tanh(params["w"] @ jnp.where(kept, carry, 0)), None

        last, _ = jax.lax.scan(cell, example["x"], jax.random.split(key, 3))
        return jnp.sum(last**2)

    data = {"x": np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)}
    found = [
        rt.train(
            recurrent,
            {"w": jnp.eye(4) * 0.9},
            data,
            plan(),
            optimizer=optax.sgd(1.0),
            keys=Keys.seeded(0),
            execution=rt.Execution(strategy=strategy),
        ).params["w"]
        for strategy in STRATEGIES
    ]
    assert np.allclose(*found, atol=1e-5)
    assert not np.allclose(found[0], np.eye(4) * 0.9)
    assert "w" in explain(recurrent, {"w": jnp.eye(4)}, {"x": jnp.ones(4)})


def test_held_out_rows_are_evaluated_without_a_key_where_it_may_be_left_out() -> None:
    def optional(params: Any, example: Any, key: jax.Array | None = None) -> jax.Array:
        return jnp.sum(params["w"]) * 0 + (5.0 if key is None else jax.random.uniform(key))

    def needed(params: Any, example: Any, key: jax.Array) -> jax.Array:
        return optional(params, example, key)

    held = {"i": np.arange(3, dtype=np.int32), "x": np.ones(3, np.float32)}
    given = {"optimizer": optax.sgd(0.1), "evaluate": held}
    with pytest.warns(UserWarning, match="no gradient"):
        found = [
            rt.train(each, {"w": jnp.zeros(2)}, rows(), plan(), **given).history[-1].held_out["loss"]
            for each in (optional, needed, needed)
        ]
    assert found[0] == 5.0
    assert 0 < found[1] == found[2] < 1


def test_the_third_argument_is_a_key_and_more_are_refused() -> None:
    assert key_use(jax.jit(loss)) == "always"
    with pytest.raises(InvalidArgument, match="needs 4 arguments"):
        key_use(lambda params, example, key, more: 0.0)
