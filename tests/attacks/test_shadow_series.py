"""Shadow models one by one: who is in each, what a recipe without JAX is given, and when it stops."""

from __future__ import annotations

import time

import numpy as np
import pytest

from reticent.attacks import battery
from reticent.attacks.shadows.one_by_one import train_one_by_one
from reticent.core.errors import DataError, InvalidArgument

RECORDS = {"x": np.arange(80.0)[:, None], "y": np.arange(80) % 2}
ALWAYS = {"x": 100 + np.arange(5.0)[:, None], "y": np.zeros(5, int)}


def by_heart(key, x, y, mask) -> set[float]:
    """A model that knows its members and nothing else."""
    return set(x[mask, 0].tolist())


def ask(params: set[float]) -> tuple[np.ndarray, None]:
    noise = np.random.default_rng(sum(map(int, params))).normal(0, 0.3, 80)
    sure = np.array([3.0 if value in params else 1.0 for value in RECORDS["x"][:, 0]]) + noise
    return sure[:, None] * np.eye(2)[RECORDS["y"]], None


def test_members_are_those_that_the_recipe_was_given():
    seen = []

    def recipe(key, x, y, mask):
        seen.append(by_heart(key, x, y, mask))
        return seen[-1]

    found = train_one_by_one(recipe, ask, RECORDS, always=ALWAYS, shadows=8)
    assert found.models == 8
    assert (2 * found.is_member.sum(axis=0) == 8).all()
    for params, inside in zip(seen, found.is_member, strict=True):
        assert params == {*RECORDS["x"][inside, 0].tolist(), *range(100, 105)}
    assert found.robustness is None
    assert battery.run(found, attacks=["likelihood"])["likelihood"].measured.auc.value > 0.95


def test_every_model_has_a_key_of_its_own_that_more_models_do_not_change():
    import jax

    def drawn(count: int) -> list[float]:
        keys = []

        def recipe(key, x, y, mask):
            keys.append(float(jax.random.normal(key)))
            return by_heart(key, x, y, mask)

        train_one_by_one(recipe, ask, RECORDS, shadows=count)
        return keys

    four, eight = drawn(4), drawn(8)
    assert eight[:4] == four
    assert len(set(eight)) == 8


def test_training_ends_in_time_with_whole_pairs():
    def slow(key, x, y, mask):
        time.sleep(0.05)
        return by_heart(key, x, y, mask)

    told = []
    found = train_one_by_one(slow, ask, RECORDS, shadows=64, minutes=0.3 / 60, on_progress=told.append)
    assert found.models % 2 == 0
    assert 2 <= found.models <= 6
    assert told[-1].done == found.models


def test_what_cannot_be_divided_is_refused():
    with pytest.raises(InvalidArgument, match="exactly half"):
        train_one_by_one(by_heart, ask, RECORDS, shadows=7)
    with pytest.raises(DataError, match="as many rows"):
        train_one_by_one(by_heart, ask, {"x": np.zeros((3, 1)), "y": np.zeros(2)}, shadows=8)
