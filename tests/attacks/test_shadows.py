"""Shadow models: balanced, each with its own randomness, the same in any chunk, kept in a file."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.attacks import battery
from reticent.attacks.shadows.outputs import Shadows, balanced_halves
from reticent.attacks.shadows.pace import Sizes
from reticent.attacks.shadows.recipes import add_noise, flip_bits, plain_recipe, shuffled_members
from reticent.attacks.shadows.training import Progress, Queries, train_shadows
from reticent.core.errors import DataError, InvalidArgument
from reticent.models import classification_loss, linear
from reticent.training.plan import Plan
from reticent.training.vectorised import private_recipe

RECORDS = 60
MODEL = linear(8, 3)


@cache
def usual(shadows: int = 8) -> Shadows:
    """The models that most tests compare with, trained once."""
    return trained(shadows, chunk=shadows)


def data(records: int = RECORDS, seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "x": jnp.asarray(random.integers(0, 2, (records, 8)), jnp.float32),
        "y": jnp.asarray(random.integers(0, 3, records), jnp.int32),
    }


def recipe(epochs: int = 2, set_size: int = RECORDS // 2):
    return plain_recipe(MODEL, optax.sgd(0.5), epochs=epochs, batch_size=16, set_size=set_size)


def cheap(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
    """A model that compiles in no time: the mean record of each label, and a little noise."""
    weights = jax.nn.one_hot(y, 3) * mask[:, None]
    noise = 0.1 * jax.random.normal(key, (8, 3))
    return {"w": (x.T @ weights) / len(y) + noise, "b": jnp.zeros(3)}


def trained(shadows: int = 8, **changes: Any) -> Shadows:
    return train_shadows(
        **{"recipe": cheap, "predict": MODEL.apply, "data": data(), "shadows": shadows, **changes}
    )


def test_every_record_is_in_exactly_half():
    for records in (10, 11):
        matrix = balanced_halves(records, 8, seed=1)
        assert (matrix.sum(axis=0) == 4).all()
        assert set(matrix.sum(axis=1)) <= {records // 2, -(-records // 2)}


def test_a_longer_matrix_begins_with_the_shorter():
    assert (balanced_halves(20, 16, seed=3)[:6] == balanced_halves(20, 6, seed=3)).all()
    assert (balanced_halves(20, 6, seed=4) != balanced_halves(20, 6, seed=3)).any()


def test_an_odd_number_of_models_is_refused():
    with pytest.raises(InvalidArgument, match="With 7 shadow models, no record can be in exactly half"):
        trained(7)


def test_many_at_once_are_the_same_as_one_by_one():
    together, alone = (trained(recipe=recipe(), chunk=chunk) for chunk in (8, 1))
    assert np.allclose(together.logits, alone.logits, atol=1e-4)
    assert np.allclose(usual().logits, trained(chunk="auto").logits, atol=1e-4)
    assert (together.is_member == alone.is_member).all()


def test_a_model_is_what_its_recipe_makes_of_its_own_half():
    found = trained(recipe=recipe(), chunk=8)
    root, _ = jax.random.split(jax.random.key(0, impl="threefry2x32"))
    rows = data()
    params = recipe()(jax.random.fold_in(root, 5), rows["x"], rows["y"], jnp.asarray(found.is_member[5]))
    by_hand = jax.vmap(lambda record: MODEL.apply(params, record))(rows["x"])
    assert np.allclose(found.logits[5], by_hand, atol=1e-4)


def test_outsiders_do_not_reach_a_model():
    changed = data()
    first = balanced_halves(RECORDS, 8, seed=0)[0]
    changed["y"] = jnp.where(first, changed["y"], (changed["y"] + 1) % 3)
    before, after = (trained(recipe=recipe(), chunk=8, data=rows) for rows in (data(), changed))
    assert np.allclose(before.logits[0], after.logits[0], atol=1e-5)
    assert not np.allclose(before.logits[1], after.logits[1], atol=1e-2)


def test_every_member_is_trained_on_once_an_epoch():
    mask = jnp.asarray(balanced_halves(RECORDS, 2, seed=0)[0])
    rows = shuffled_members(jax.random.key(1), mask, RECORDS // 2)
    assert sorted(rows.tolist()) == np.flatnonzero(mask).tolist()


def test_no_two_models_share_their_randomness():
    def only_noise(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> jax.Array:
        return jax.random.normal(key, (3,))

    found = trained(12, recipe=only_noise, predict=lambda params, record: params, chunk=4)
    assert len(np.unique(found.logits[:, 0, 0])) == 12


def test_private_shadows_draw_noise_of_their_own():
    plan = Plan.for_budget(epsilon=1, delta=1e-3, examples=30, batch_size=10, steps=3, max_norm=1.0)
    private = private_recipe(classification_loss(MODEL), MODEL.init, plan, optimizer=optax.sgd(0.5))
    half = jnp.arange(RECORDS) % 2 == 0
    keys = jax.random.split(jax.random.key(0, impl="threefry2x32"), 2)
    rows = data()
    pair = jax.vmap(private, in_axes=(0, None, None, None))(keys, rows["x"], rows["y"], half)
    assert not np.allclose(pair["w"][0], pair["w"][1], atol=1e-3)


def test_keys_that_repeat_noise_under_vmap_are_refused():
    plan = Plan.for_budget(epsilon=1, delta=1e-3, examples=30, batch_size=10, steps=3, max_norm=1.0)
    private = private_recipe(classification_loss(MODEL), MODEL.init, plan, optimizer=optax.sgd(0.5))
    rows = data()
    with pytest.raises(InvalidArgument, match="the same noise"):
        private(jax.random.key(0, impl="rbg"), rows["x"], rows["y"], jnp.arange(RECORDS) < 30)


def test_the_noise_of_a_private_shadow_is_that_of_the_plan():
    """One step from zero on no gradient at all: what is left is the noise, over the batch size."""
    plan = Plan.for_budget(epsilon=1, delta=1e-3, examples=30, batch_size=10, steps=1, max_norm=1.0)
    flat = private_recipe(
        lambda params, example: 0.0 * jnp.sum(params["w"]),
        lambda key: {"w": jnp.zeros(2000)},
        plan,
        optimizer=optax.sgd(1.0),
    )
    rows = data()
    params = flat(jax.random.key(0, impl="threefry2x32"), rows["x"], rows["y"], jnp.arange(RECORDS) < 30)
    # The deviation of 2,000 draws is off by a tenth once in 1e9.
    assert np.std(params["w"]) == pytest.approx(plan.noise_multiplier / 10, rel=0.1)


def test_a_file_is_used_again_and_extended(tmp_path: Path):
    file, counted = tmp_path / "shadows.npz", []
    first = trained(4, cache=file, on_progress=lambda at: counted.append(at.done))
    again = trained(4, cache=file, on_progress=lambda at: counted.append(at.done))
    assert counted == [2, 4]
    assert (first.logits == again.logits).all()
    longer = trained(10, cache=file)
    assert (longer.logits[:4] == first.logits).all()
    assert np.allclose(longer.logits[:8], usual().logits, atol=1e-4)
    assert Shadows.load(file).models == 10
    assert trained(6, cache=file).models == 6


@pytest.mark.parametrize(
    "change",
    [{"seed": 1}, {"recipe": recipe()}, {"recipe": recipe(3)}, {"name": "b"}, {"data": data(seed=9)}],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, change: dict[str, Any]):
    trained(4, cache=tmp_path / "shadows.npz")
    with pytest.raises(DataError, match="another recipe, other data or another seed"):
        trained(4, cache=tmp_path / "shadows.npz", **change)


@pytest.mark.parametrize("body", [b"", b"PK\x03\x04 broken", b"words"])
def test_a_damaged_file_is_refused(tmp_path: Path, body: bytes):
    (tmp_path / "shadows.npz").write_bytes(body)
    with pytest.raises(DataError, match="is not a file of shadow outputs"):
        trained(4, cache=tmp_path / "shadows.npz")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="Cannot write"):
        trained(4, cache=tmp_path / "nowhere" / "shadows.npz")


def test_the_budget_of_minutes_is_kept(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]

    def tick() -> float:
        now[0] += 10.0
        return now[0]

    monkeypatch.setattr("reticent.attacks.shadows.pace.time.perf_counter", tick)
    found = trained(64, minutes=2)
    assert 2 <= found.models < 64
    assert found.models % 2 == 0


def test_progress_comes_first_after_a_pair_with_an_estimate():
    seen: list[Progress] = []
    trained(12, on_progress=seen.append)
    assert seen[0].done == 2
    assert seen[0].seconds_left > 0
    assert seen[-1].fraction == 1
    assert seen[-1].seconds_left == 0


def test_sizes_grow_while_they_pay():
    sizes = Sizes("auto")
    tried = []
    for seconds_each in (4.0, 3.0, 2.0, 2.5, 2.5):
        tried.append(sizes.next())
        sizes.note(tried[-1], seconds_each, compile_seconds=1.0, seconds_left=100.0)
    assert tried == [2, 8, 16, 32, 16]
    hurried = Sizes("auto")
    hurried.note(2, 4.0, 1.0, 100.0)
    hurried.note(8, 3.0, 1.0, 2.0)
    assert hurried.next() == 8  # too little is left to compile again


def test_a_recipe_that_cannot_be_vectorised_is_mapped():
    def stubborn(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
        return _only_alone(cheap(key, x, y, mask))

    found = trained(4, recipe=stubborn)
    assert np.allclose(found.logits, usual().logits[:4], atol=1e-4)


@jax.custom_batching.custom_vmap
def _only_alone(params: Any) -> Any:
    return params


@_only_alone.def_vmap
def _refuse(axis_size: int, in_batched: Any, params: Any) -> Any:
    raise NotImplementedError("no rule")


def test_records_that_are_always_in_are_trained_on():
    extra = data(40, seed=5)
    found = train_shadows(cheap, MODEL.apply, data(), shadows=4, always=extra)
    assert found.records == RECORDS
    assert not np.allclose(found.logits, usual().logits[:4], atol=1e-2)


def test_disturbed_copies_are_counted():
    found = trained(4, queries=Queries(disturb=flip_bits(1e-9), copies=4), chunk=4)
    assert found.robustness is not None
    assert (found.robustness == found.signals.is_right).all()
    shaken = trained(4, queries=Queries(disturb=flip_bits(0.5), copies=8), chunk=4).robustness
    assert shaken is not None
    assert 0 < shaken.mean() < 1


def test_noise_on_bytes_is_noise_on_numbers():
    found = add_noise(0.1)(jax.random.key(0), jnp.full(1000, 255, jnp.uint8))
    assert found.dtype == jnp.float32
    assert float(jnp.mean(found)) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": {"x": np.zeros((4, 8))}}, "need `x` and `y`"),
        ({"data": {"x": np.zeros((4, 8)), "y": np.zeros(3, np.int32)}}, "as many rows"),
    ],
)
def test_data_that_do_not_fit_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        trained(4, **changes)


@pytest.mark.parametrize("changes", [{"chunk": 0}, {"chunk": "many"}, {"minutes": 0.0}])
def test_settings_without_sense_are_refused(changes: dict[str, Any]):
    with pytest.raises(InvalidArgument):
        trained(4, **changes)


def test_models_that_blew_up_are_named():
    with pytest.raises(DataError, match="give outputs that are not finite"):
        trained(4, predict=lambda params, record: MODEL.apply(params, record) * jnp.nan)


def test_models_that_remember_are_found_out():
    random = np.random.default_rng(0)
    rows = {
        "x": random.normal(size=(120, 40)).astype(np.float32),
        "y": random.integers(0, 2, 120).astype(np.int32),
    }
    remembering = linear(40, 2)
    steps = plain_recipe(remembering, optax.adam(0.1), epochs=30, batch_size=60, set_size=60)
    found = battery.run(
        train_shadows(steps, remembering.apply, rows, shadows=8, chunk=8), attacks=["threshold"]
    )
    assert found.accuracies.gap > 0.2
    assert found["threshold"].measured.auc.low > 0.6
