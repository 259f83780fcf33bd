"""Canaries: gradients that are what they should be, coins that are fair, and rows that go away again."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent import models
from reticent.audit import canaries as canaries_module
from reticent.audit.canaries import Canaries, canaries_for, check_pull, draw_canaries, plan_with, require_room
from reticent.audit.canary_scores import log_likelihood_ratio, with_canary_scores
from reticent.audit.own_step import by_unit
from reticent.audit.placement import Among, Apart
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.dataset import Dataset
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import flat, lipschitz, per_layer
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.loop import train
from reticent.training.plan import Plan

WIDTH, ROWS = 8, 60
MODEL = models.linear(WIDTH, 3)
LOSS = models.classification_loss(MODEL)


def params():
    return MODEL.init(jax.random.key(0))


def data(rows: int = ROWS) -> Dataset:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, WIDTH)).astype(np.float32)
    return Dataset(arrays={"x": x, "y": rng.integers(0, 3, rows)})


def plan(**changes) -> Plan:
    values = {
        "sampler": Poisson(examples=ROWS, batch_size=20),
        "clipping": flat(0.5),
        "noise_multiplier": 1.0,
        "steps": 4,
        "delta": 1e-4,
        "adjacency": Adjacency.ADD_OR_REMOVE,
    }
    return Plan(**{**values, **changes})


def some(count: int = 12, recipe: Plan | None = None, **options) -> Canaries:
    return draw_canaries(params(), recipe or plan(), gradients=count, keys=Keys.seeded(3), **options)


def inputs(count: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {"x": rng.uniform(-1, 1, (count, WIDTH)).astype(np.float32), "y": rng.integers(0, 3, count)}


@pytest.mark.parametrize("among", [False, True])
@pytest.mark.parametrize("strategy", ["vmap", "auto"])
def test_the_clipped_gradient_of_a_canary_is_the_norm_in_one_entry(among: bool, strategy):
    drawn = some(among=among)
    rows = drawn.rows(data())
    alone = {key: jnp.asarray(array[ROWS:]) for key, array in rows.arrays.items()}
    total = clipped_gradient_sum(drawn.loss(LOSS), max_norm=0.5, strategy=strategy)
    wrapped = drawn.placement.wrap(params())
    summed, unreleased = total(wrapped, alone, jnp.ones(len(alone["x"]), bool))
    found = np.asarray(drawn.placement.entries(summed))
    assert np.allclose(found, np.where(drawn.included, 0.5, 0.0), atol=1e-5)
    everything = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(summed)])
    assert np.abs(everything).sum() == pytest.approx(found.sum(), rel=1e-4)  # and nothing elsewhere
    assert np.allclose(np.asarray(unreleased.norms), np.where(alone["reticent pull"] > 0, drawn.pull, 0))


@pytest.mark.parametrize("among", [False, True])
def test_ordinary_rows_have_their_own_gradient(among: bool):
    drawn = some(among=among, inputs=inputs())
    rows = drawn.rows(data())
    users = {key: jnp.asarray(array[:ROWS]) for key, array in rows.arrays.items()}
    plain = {key: jnp.asarray(array) for key, array in data().arrays.items()}
    real = jnp.ones(ROWS, bool)
    ours, _ = clipped_gradient_sum(drawn.loss(LOSS), max_norm=0.5)(
        drawn.placement.wrap(params()), users, real
    )
    wanted, _ = clipped_gradient_sum(LOSS, max_norm=0.5)(params(), plain, real)
    for found, want in zip(
        jax.tree.leaves(drawn.placement.model(ours)), jax.tree.leaves(wanted), strict=True
    ):
        assert np.allclose(found, want, atol=1e-5)


def test_a_canary_of_a_plan_for_users_is_a_user_with_as_many_rows_as_one_may_have():
    recipe = plan(sampler=Poisson(examples=ROWS // 2, batch_size=9), unit="user", rows_per_user=3)
    drawn = some(recipe=recipe, inputs=inputs())
    named = Dataset(data().arrays, users=np.array([f"P-{row // 2:02d}" for row in range(ROWS)]))
    rows = drawn.rows(named)
    assert drawn.absence == "blank"
    assert len(rows) == ROWS + 3 * drawn.count
    assert rows.users is not None
    assert np.array_equal(rows.users[:ROWS], np.arange(ROWS) // 2)
    assert np.array_equal(rows.users[ROWS:], ROWS // 2 + np.arange(3 * drawn.count) // 3)
    assert drawn.record()["rows_each"] == 3
    named = replace(named, users=np.where(np.arange(ROWS) == 4, np.nan, 1.0))
    with pytest.raises(DataError, match="Row 4 belongs to no user"):
        drawn.rows(named)


def test_a_step_by_unit_takes_all_rows_of_a_user_as_one_record():
    users = np.array([5, 5, 7, 5, 7, 9])
    recipe = plan(sampler=FullBatch(examples=3), unit="user", rows_per_user=2)
    given = {key: np.asarray(array[:6]) for key, array in data().arrays.items()}
    loss, records, by_record = by_unit(LOSS, given, users, recipe)
    assert (by_record.unit, by_record.event) == ("record", recipe.event)
    of_rows = jax.vmap(jax.grad(LOSS), in_axes=(None, 0))(params(), given)
    found = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params(), records)
    for own, each in zip(jax.tree.leaves(found), jax.tree.leaves(of_rows), strict=True):
        wanted = [np.mean(np.asarray(each)[rows], axis=0) for rows in ([0, 1], [2, 4], [5])]
        assert np.allclose(own, wanted, atol=1e-5)


def test_canaries_leave_the_rows_of_the_user_as_they_are():
    for recipe in (plan(), plan(sampler=FullBatch(examples=ROWS))):
        drawn = some(recipe=recipe, inputs=inputs())
        rows = drawn.rows(data())
        assert len(rows) > ROWS
        assert all(np.array_equal(rows[key][:ROWS], data()[key]) for key in data())


@pytest.mark.parametrize(
    ("sampler", "adjacency", "count", "absence"),
    [
        (Poisson(examples=5000, batch_size=50), Adjacency.ADD_OR_REMOVE, 400, "removed"),
        (Poisson(examples=60, batch_size=20), Adjacency.ADD_OR_REMOVE, 12, "blank"),
        (FullBatch(examples=60), Adjacency.ADD_OR_REMOVE, 12, "blank"),
        (Shuffled(examples=60, batch_size=20), Adjacency.ZERO_OUT, 12, "blank"),
        (FixedSize(examples=60, batch_size=20), Adjacency.REPLACE, 12, "opposite"),
    ],
)
def test_the_game_is_the_one_that_the_claim_is_about(sampler, adjacency, count: int, absence: str):
    recipe = plan(sampler=sampler, adjacency=adjacency)
    drawn = some(count, recipe)
    assert drawn.absence == absence
    rows = drawn.rows(data(sampler.examples))
    more = int(drawn.included.sum()) if absence == "removed" else count
    assert len(rows) == sampler.examples + more
    audited = plan_with(recipe, drawn)
    assert type(audited.sampler) is type(sampler)
    assert audited.guarantee().epsilon == pytest.approx(recipe.guarantee().epsilon, rel=0.1)


def test_a_blank_row_is_worth_no_row():
    """What `blank` rests on: `train` releases the same with such a row and without it."""
    recipe = plan(sampler=FullBatch(examples=ROWS), steps=2)
    drawn = some(1, recipe)
    drawn = canaries_module.replace(drawn, included=np.array([False]))
    rows = drawn.rows(data(ROWS))
    found = [
        train(
            drawn.loss(LOSS),
            drawn.placement.wrap(params()),
            given,
            recipe,
            optimizer=optax.sgd(1.0),
            keys=Keys.seeded(1),
        ).params
        for given in (rows, rows.take(slice(0, ROWS)))
    ]
    for one, other in zip(*map(jax.tree.leaves, found), strict=True):
        assert np.allclose(one, other, atol=1e-6)


def test_coins_are_fair_and_come_from_the_keys():
    many = draw_canaries(params(), plan(), gradients=20_000, keys=Keys.seeded(0))
    assert abs(many.included.mean() - 0.5) < 0.02  # 5.6 deviations
    again = draw_canaries(params(), plan(), gradients=20_000, keys=Keys.seeded(0))
    assert np.array_equal(many.included, again.included)
    first, second = (draw_canaries(params(), plan(), gradients=64).included for _ in range(2))
    assert not np.array_equal(first, second)


def test_the_record_promises_the_coins_and_gives_no_seed_away():
    drawn = some(inputs=inputs())
    record = json.loads(json.dumps(drawn.record()))
    assert record["gradient_canaries"] == 12
    assert record["input_canaries"] == 6
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(record["coins"]), np.uint8))[:18].astype(bool)
    assert np.array_equal(bits, np.concatenate([drawn.included, drawn.inputs_included]))
    flipped = canaries_module.replace(drawn, included=~drawn.included)
    assert flipped.record()["digest"] != record["digest"]
    assert "seed" not in json.dumps(record)
    assert "included" not in repr(drawn)


def test_canaries_among_parameters_are_spread_over_leaves_and_never_meet():
    placed = some(20, among=True).placement
    assert isinstance(placed, Among)
    assert len(set(zip(placed.leaves, placed.places, strict=True))) == 20
    assert len(set(placed.leaves)) == 2
    with pytest.raises(InvalidArgument, match="do not fit among"):
        some(10_000, among=True)


def test_layers_with_bounds_of_their_own_get_canaries_among_them():
    assert isinstance(some(recipe=plan(clipping=per_layer(0.5))).placement, Among)
    assert isinstance(some().placement, Apart)


def test_a_canary_of_a_loss_that_is_not_cut_keeps_the_promise():
    assert some(recipe=plan(clipping=lipschitz(0.5))).pull == 0.5
    assert some().pull > 0.5


def test_the_number_of_canaries_follows_from_the_plan():
    small, large = (
        Plan.for_budget(epsilon=e, delta=1e-5, examples=60_000, batch_size=600, epochs=2, max_norm=1.0)
        for e in (1, 5)
    )
    assert 1000 < canaries_for(small) < canaries_for(large) <= 50_000
    few = Plan.for_budget(epsilon=5, delta=1e-5, examples=300, batch_size=30, epochs=2, max_norm=1.0)
    assert canaries_for(few) == 150


def test_canaries_that_do_not_fit_are_refused_and_half_the_examples_never_are(monkeypatch):
    each = 2 * (4 * WIDTH + 8) + 128
    monkeypatch.setattr(canaries_module, "_ROOM", 100 * each)
    require_room(100, plan(), data())
    with pytest.raises(InvalidArgument, match="at most 100; more than 5,000, half of 1 / delta"):
        require_room(101, plan(), data())
    monkeypatch.setattr(canaries_module, "_ROOM", each)
    require_room(ROWS // 2, plan(), data())


def test_a_loss_that_cannot_be_computed_of_zeros_is_refused_before_the_run():
    def unit(params, example):
        return jnp.sum(params["w"] * example["x"] / jnp.linalg.norm(example["x"]))

    weights = {"w": jnp.ones(WIDTH)}
    drawn = draw_canaries(weights, plan(), gradients=4)
    with pytest.raises(DataError, match="Pass inputs"):
        check_pull(drawn, unit, weights, data())
    helped = draw_canaries(weights, plan(), gradients=4, inputs=inputs())
    check_pull(helped, unit, weights, data())


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InvalidArgument, match="There are no canaries"):
        some(0)
    drawn = some()
    with pytest.raises(DataError, match="already has canaries"):
        drawn.rows(drawn.rows(data()))


def test_the_optimizer_of_the_model_never_sees_the_canaries():
    drawn = some()
    seen = []

    def update(updates, state, params=None):
        seen.append(jax.tree.structure(updates))
        return updates, state

    watcher = with_canary_scores(optax.GradientTransformation(optax.sgd(1.0).init, update), drawn, plan())
    wrapped = drawn.placement.wrap(params())
    moves, state = cast(Any, watcher.update(wrapped, watcher.init(wrapped), wrapped))
    assert seen == [jax.tree.structure(params())]
    assert not np.asarray(moves.canaries).any()
    assert state.scores.shape == (12,)


def test_the_score_is_the_logarithm_of_a_likelihood_ratio():
    noisy, noise, rate = np.linspace(-2, 3, 11), 0.8, 0.3
    density = lambda x: np.exp(-(x**2) / (2 * noise**2))  # noqa: E731
    wanted = np.log((1 - rate) + rate * density(noisy - 1) / density(noisy))
    found = log_likelihood_ratio(noisy, rate=rate, noise_multiplier=noise, absence="removed")
    assert np.allclose(found, wanted, atol=1e-5)
    both = log_likelihood_ratio(noisy, rate=1.0, noise_multiplier=noise, absence="opposite")
    assert np.allclose(both, np.log(density(noisy - 1) / density(noisy + 1)), atol=1e-4)
