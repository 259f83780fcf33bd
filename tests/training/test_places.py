"""Records lie in places: one more or less moves no other, however a compiler rounds the rows of a batch."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy.special import chdtrc

import reticent as rt
from reticent.core.keys import Keys
from reticent.data.sampling import Batch, FullBatch, Poisson
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import flat
from reticent.training.devices import feeding
from reticent.training.devices.mesh import own_part, without_empty
from reticent.training.places import Places, place_count, places_for
from reticent.training.plan import Plan

pytestmark = pytest.mark.usefixtures("compiled_as_shipped")

WIDTH, SGD = 64, optax.sgd(1.0)


def plan(sampler: Any, adjacency: Adjacency = Adjacency.ADD_OR_REMOVE) -> Plan:
    return Plan(
        sampler=sampler, clipping=flat(1.0), noise_multiplier=1.0, steps=1, adjacency=adjacency, delta=1e-5
    )


def key(seed: int = 0) -> jax.Array:
    return Keys.seeded(seed).place_key()


@pytest.mark.parametrize("sampler", [Poisson(examples=100, batch_size=10), FullBatch(examples=100)])
def test_the_number_of_places_is_public_and_holds_every_number_of_rows_that_is_allowed(sampler: Any):
    room = sampler.examples + sampler.allowed_difference
    assert {place_count(plan(sampler), units) for units in (1, 99, 100, room)} == {room}


def test_where_neighbours_have_as_many_rows_every_row_stays_where_it_is():
    for adjacency in (Adjacency.ZERO_OUT, Adjacency.REPLACE):
        places = places_for(plan(FullBatch(examples=9), adjacency), 9, key())
        assert places.total == 9
        assert places.of_units.tolist() == list(range(9))


def test_every_way_of_laying_two_records_into_places_is_as_likely_as_any_other():
    """False alarms: 1e-7. A shuffle that swaps each place with any place is noticed."""
    recipe, draws = plan(FullBatch(examples=3)), 4_000
    ways = [tuple(places_for(recipe, 2, key(seed)).of_units.tolist()) for seed in range(draws)]
    assert len(set(ways)) == 12
    assert _are_alike(np.array([ways.count(way) for way in set(ways)]))
    assert not _are_alike(_shuffled_badly(draws))


def _are_alike(counts: np.ndarray) -> bool:
    return chdtrc(len(counts) - 1, float(np.sum((counts - counts.mean()) ** 2) / counts.mean())) > 1e-7


def _shuffled_badly(draws: int) -> np.ndarray:
    """How often each way comes up when four places are each swapped with any of the four."""
    chance, found = np.random.default_rng(0), {}
    for _ in range(draws):
        order = [0, 1, 2, 3]
        for at, other in enumerate(chance.integers(0, 4, 4)):
            order[at], order[other] = order[other], order[at]
        found[tuple(order[:2])] = found.get(tuple(order[:2]), 0) + 1
    return np.array(list(found.values()))


def test_rows_are_laid_at_their_places_and_zeros_elsewhere():
    places = Places(5, np.array([3, 0], np.int32))
    assert places.lay(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [
        [3, 4],
        [0, 0],
        [0, 0],
        [1, 2],
        [0, 0],
    ]
    assert places.is_taken().tolist() == [True, False, False, True, False]
    assert places.unit_at().tolist() == [1, -1, -1, 0, -1]


def test_empty_places_keep_their_slots_on_every_device():
    batch = Batch(jnp.array([4, 1, 3, 0]), jnp.array([True, True, True, False]))
    is_taken = jnp.array([True, False, True, True, True])
    found = without_empty(batch, is_taken)
    assert found.is_real.tolist() == [True, False, True, False]
    assert int(found.drawn) == 3
    own = without_empty(own_part(batch, jnp.array([[0, 4]])), is_taken[:4])
    assert own.indices.tolist() == [1, 3, 0, 0]
    assert own.is_real.tolist() == [False, True, False, False]
    assert int(own.drawn) == 2


BLOCK, TURNING = 9, 20


@cache
def turning_rows() -> tuple[jax.Array, np.ndarray, np.ndarray]:
    """Weights, and rows whose residual changes its sign between the first and the last row of a block.

    One way for the last rows of blocks and the other way for first ones, so that all of them pull together if
    they move up by one. The other rows are zeros.
    """
    rng = np.random.default_rng(1)
    w = jnp.asarray(rng.normal(size=WIDTH), jnp.float32)
    rows = ((rng.normal(size=WIDTH) + 1e-3 * rng.normal(size=(3000, WIDTH))) * 1e6).astype(np.float32)
    products = jax.jit(lambda xs: jax.lax.map(jax.vmap(lambda x: x @ w), xs))
    found = np.asarray(products(jnp.asarray(np.repeat(rows[:, None], BLOCK, 1)))).astype(np.float64)
    falls = found[:, 0] - found[:, -1]
    down, up = np.argsort(-falls)[:TURNING], np.argsort(falls)[: TURNING - 1]
    targets = ((found[:, 0] + found[:, -1]) / 2).astype(np.float32)
    x, y = np.zeros((BLOCK * TURNING, WIDTH), np.float32), np.zeros(BLOCK * TURNING, np.float32)
    x[BLOCK - 1 :: BLOCK], y[BLOCK - 1 :: BLOCK] = rows[down], targets[down]
    x[BLOCK::BLOCK], y[BLOCK::BLOCK] = rows[up], targets[up]
    return w, x[:-1], y[:-1]  # with an empty place, so many blocks of that size


def loss(w: jax.Array, row: dict[str, jax.Array]) -> jax.Array:
    return 0.5 * (row["x"] @ w - row["y"]) ** 2


def moved(monkeypatch: pytest.MonkeyPatch, lay: Any) -> float:
    """How far the first of many records moves the released sum, with the same noise."""
    w, x, y = turning_rows()
    recipe = Plan.for_budget(epsilon=1, delta=1e-5, examples=len(x), sampling="full", steps=1, max_norm=1.0)
    monkeypatch.setattr(feeding, "places_for", lay)
    with_it, without = (
        rt.train(
            loss,
            w,
            {"x": x[start:], "y": y[start:]},
            recipe,
            optimizer=SGD,
            keys=Keys.seeded(1),
            execution=rt.Execution(microbatch=BLOCK),
        ).params
        for start in (0, 1)
    )
    return float(np.linalg.norm(np.asarray(with_it, np.float64) - np.asarray(without))) * len(x)


def test_a_record_moves_the_sum_by_its_own_share_whatever_becomes_of_rounding(
    monkeypatch: pytest.MonkeyPatch,
):
    def coupled(plan: Plan, units: int, key: jax.Array) -> Places:
        """The way that the proof couples: whoever is there lies where they lie without the first."""
        count = BLOCK * TURNING
        order = np.random.default_rng(5).permutation(count).astype(np.int32)
        return Places(count, order[count - 1 - units : -1])

    assert moved(monkeypatch, coupled) <= 1


def test_planted_rows_that_fill_up_are_rounded_anew(monkeypatch: pytest.MonkeyPatch):
    def one_after_the_other(plan: Plan, units: int, key: jax.Array) -> Places:
        return Places(BLOCK * TURNING, np.arange(units, dtype=np.int32))

    assert moved(monkeypatch, one_after_the_other) > 10


def test_draws_with_empty_places_train_on_everybody(monkeypatch: pytest.MonkeyPatch):
    """No record is lost behind an empty place at the end of a batch."""
    rows = np.eye(50, dtype=np.float32)
    recipe = plan(Poisson(examples=40, batch_size=40))
    recipe = Plan(
        sampler=recipe.sampler,
        clipping=flat(1.0),
        noise_multiplier=1e-5,
        steps=1,
        adjacency=Adjacency.ADD_OR_REMOVE,
        delta=1e-5,
    )
    for microbatch in (None, 7):
        found = rt.train(
            lambda w, row: -w @ row["x"],
            jnp.zeros(50),
            {"x": rows[:45]},
            recipe,
            optimizer=optax.sgd(1.0),
            keys=Keys.seeded(3),
            execution=rt.Execution(microbatch=microbatch),
        )
        expected = np.where(np.arange(50) < 45, 1 / 40, 0)
        assert np.allclose(found.params, expected, atol=1e-4)
