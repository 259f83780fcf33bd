"""One contribution a unit: users with many rows, views of a record, and how they are cut into blocks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.data import augmentation
from reticent.data.dataset import Dataset
from reticent.data.sampling import FullBatch, Poisson
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import flat
from reticent.training.contributions import Contribution, user_table
from reticent.training.execution import Execution
from reticent.training.loop import Run, train
from reticent.training.plan import Plan

USERS, WIDTH = 20, 3
SGD = optax.sgd(1.0)


def loss(params, example):
    return 0.5 * jnp.sum((params["w"] - example["x"]) ** 2)


def plan(users: int = USERS, **changes) -> Plan:
    values = {
        "sampler": FullBatch(examples=users),
        "clipping": flat(1.0),
        "noise_multiplier": 1e-6,
        "steps": 1,
        "delta": 1e-3,
        "adjacency": Adjacency.ADD_OR_REMOVE,
        "unit": "user",
        "rows_per_user": 4,
    }
    return Plan(**{**values, **changes})


def table(seed: int = 0) -> Dataset:
    """Users with one to seven rows each, in no order."""
    rng = np.random.default_rng(seed)
    users = rng.permutation(np.concatenate([np.full(1 + number % 7, number) for number in range(USERS)]))
    return Dataset(arrays={"x": rng.normal(0, 1, (len(users), WIDTH)).astype(np.float32)}, users=users)


def step_of(data: Any, recipe: Plan | None = None, **options) -> Run:
    """One step from zero of size 1: minus the mean contribution."""
    options = {"optimizer": SGD, "keys": Keys.seeded(0), **options}
    return train(loss, {"w": jnp.zeros(WIDTH)}, data, recipe or plan(), **options)


def contributions(data: Dataset, most: int, max_norm: float) -> np.ndarray:
    """By hand: each user's mean gradient over their first rows, clipped as a whole."""
    found, users = [], np.asarray(data.users)
    for user in np.unique(users):
        gradient = -data["x"][users == user][:most].astype(np.float64).mean(axis=0)
        found.append(gradient * min(1.0, max_norm / np.linalg.norm(gradient)))
    return np.array(found)


@pytest.mark.parametrize("strategy", ["vmap", "book-keeping"])
@pytest.mark.parametrize("most", [1, 9])
def test_a_user_makes_one_clipped_contribution(strategy: Any, most: int) -> None:
    data = table()
    moved = step_of(data, plan(rows_per_user=most), execution=Execution(strategy=strategy)).params["w"]
    wanted = -contributions(data, most, 1.0).sum(axis=0) / USERS
    assert np.allclose(moved, wanted, atol=1e-5)


def test_a_user_with_all_rows_moves_a_step_by_at_most_the_norm() -> None:
    data = table()
    keep = np.asarray(data.users) != 6  # the one with seven rows
    data["x"][~keep] = 1e3
    moved = np.asarray(step_of(data).params["w"]) - np.asarray(step_of(data.take(keep)).params["w"])
    assert 0.9 / USERS < np.linalg.norm(moved) <= (1 + 1e-5) / USERS


def test_rows_that_only_fill_up_never_come_from_another_user() -> None:
    """A poisoned user counts for nothing; the others are as before."""
    data = table()
    users = np.asarray(data.users)
    first = users == users[0]
    data["x"][first] = np.nan
    moved = step_of(data).params["w"]
    wanted = -contributions(data.take(~first), 4, 1.0).sum(axis=0) / USERS
    assert np.allclose(moved, wanted, atol=1e-5)


def test_the_guarantee_is_for_a_user_and_counts_users() -> None:
    recipe = plan(sampler=Poisson(examples=USERS, batch_size=5), noise_multiplier=2.0, steps=3)
    done = step_of(table(), recipe)
    assert done.guarantee.unit == "user"
    assert "the number of users, 20" in str(done.guarantee)
    with pytest.raises(DataError, match="made for 9 users and the data have 20"):
        step_of(table(), plan(users=9))


def test_units_of_plan_and_data_must_agree() -> None:
    data = table()
    with pytest.raises(DataError, match="protects a record, and dataset 'data' names the user of each row"):
        step_of(data, plan(users=len(data), unit="record", rows_per_user=None))
    with pytest.raises(DataError, match="protects a user"):
        step_of(Dataset(arrays=data.arrays))
    with pytest.raises(InvalidArgument, match="rows_per_user=None"):
        plan(rows_per_user=None)
    with pytest.raises(InvalidArgument, match="rows_per_user"):
        plan(unit="record")


@pytest.mark.parametrize("users", [np.array([1.0, np.nan]), np.array(["a", None], object)])
def test_a_row_without_a_user_is_named(users: np.ndarray) -> None:
    with pytest.raises(DataError, match="Row 1 belongs to no user"):
        user_table(users, 2)


@pytest.mark.parametrize(
    ("users", "said"),
    [
        (np.array([1, "1", 2], object), "named in several ways"),
        (np.array([1, 1.0, 2], object), "named in several ways"),
        (np.array([], int), "no row"),
    ],
)
def test_users_that_cannot_be_told_apart_are_refused(users: np.ndarray, said: str) -> None:
    with pytest.raises(DataError, match=said):
        user_table(users, 2)


def test_views_are_averaged_before_clipping() -> None:
    """With views that double or negate, the mean view decides, and the bound holds for it alone."""
    data = {"x": np.full((8, WIDTH), 0.2, np.float32)}

    def stretched(key, example):
        return {"x": example["x"] * jax.random.normal(key, (1,))}

    seen = []
    for views in (1, 64):
        recipe = plan(8, unit="record", rows_per_user=None)
        seen.append(np.linalg.norm(step_of(data, recipe, augment=stretched, views=views).params["w"]))
    assert seen[0] <= 1
    assert seen[1] < 0.2 * WIDTH**0.5 * 4 / np.sqrt(64 * 8)  # four deviations of a mean of 512 normals


def test_every_row_view_and_step_gets_its_own_randomness() -> None:
    shape = Contribution(rows=2, augment=lambda key, example: example, views=3)
    seeds = shape.seeds(jax.random.key(0, impl="rbg"), 5).views
    assert seeds.shape == (5, 6, 2)
    assert len(np.unique(np.asarray(seeds).reshape(-1, 2), axis=0)) == 30
    bits = []

    def spy(key, example):
        jax.debug.callback(lambda word: bits.append(int(word)), jax.random.bits(key))
        return example

    recipe = plan(4, unit="record", rows_per_user=None, steps=3)
    step_of({"x": np.ones((4, WIDTH), np.float32)}, recipe, augment=spy, views=5)
    jax.effects_barrier()
    assert len(set(bits)) >= 3 * 4 * 5


def test_views_without_a_change_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="4 views"):
        step_of({"x": np.ones((4, WIDTH), np.float32)}, plan(4, unit="record", rows_per_user=None), views=4)


def test_ready_made_changes_keep_shape_and_mass() -> None:
    image = {"x": np.arange(24, dtype=np.float32).reshape(4, 3, 2), "y": 1}
    change = augmentation.chain(augmentation.random_flip, augmentation.random_shift(1))
    found = [change(jax.random.key(seed), image)["x"] for seed in range(40)]
    assert {leaf.shape for leaf in found} == {(4, 3, 2)}
    assert len({np.asarray(leaf).tobytes() for leaf in found}) > 10  # of 18
    flips = {np.asarray(augmentation.random_flip(jax.random.key(s), image)["x"]).tobytes() for s in range(40)}
    assert flips == {image["x"].tobytes(), np.ascontiguousarray(image["x"][:, ::-1]).tobytes()}
