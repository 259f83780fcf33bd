"""Clipping, from the smallest float32 to the largest."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.training.clipping import automatic, clip_to_norm, flat, per_layer

pytestmark = pytest.mark.usefixtures("compiled_as_shipped")

ROUNDING = 1e-6
compiled_clip = jax.jit(clip_to_norm)
compiled_automatic = jax.jit(automatic(2.0).clip)

magnitudes = st.floats(-38, 38.5).map(lambda exponent: float(np.float32(10**exponent)))
entries = st.lists(st.tuples(magnitudes, st.sampled_from([-1, 0, 1])), min_size=1, max_size=6)
PARAMS: dict[str, Any] = {
    "embed": {"table": jnp.full((3, 2), 2.0)},
    "head": {"kernel": jnp.full((2, 2), -1.0), "bias": jnp.full(2, 0.5)},
}


def exact_norm(tree: Any) -> float:
    return float(np.sqrt(sum(np.sum(np.asarray(leaf, np.float64) ** 2) for leaf in jax.tree.leaves(tree))))


def as_tree(values: list[tuple[float, int]]) -> dict[str, jax.Array]:
    leaf = np.zeros(6, np.float32)  # one shape, so that it compiles once
    leaf[: len(values)] = [sign * value for value, sign in values]
    return {"a": jnp.asarray(leaf[:2]), "b": jnp.asarray(leaf[2:])}


@given(values=entries, max_norm=st.floats(-10, 10).map(lambda exponent: 10**exponent))
def test_clip_bound_holds_for_every_float(values: list[tuple[float, int]], max_norm: float):
    clipped = compiled_clip(as_tree(values), jnp.float32(max_norm))
    assert exact_norm(clipped) <= max_norm * (1 + ROUNDING)


@given(values=entries, max_norm=st.floats(-10, 10).map(lambda exponent: 10**exponent))
def test_a_short_tree_is_left_bit_for_bit_and_a_long_one_keeps_its_direction(
    values: list[tuple[float, int]], max_norm: float
):
    tree = as_tree(values)
    clipped, norm = compiled_clip(tree, jnp.float32(max_norm)), exact_norm(tree)
    for before, after in zip(jax.tree.leaves(tree), jax.tree.leaves(clipped), strict=True):
        if norm < max_norm * (1 - ROUNDING):
            np.testing.assert_array_equal(after, np.where(np.abs(before) < 2.0**-126, after, before))
        elif norm > max_norm * (1 + ROUNDING):
            wanted = np.asarray(before, np.float64) * (max_norm / norm)
            np.testing.assert_allclose(after, wanted, rtol=1e-5, atol=max_norm * 1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("clip", [flat(1.0).clip, per_layer(1.0).clip, automatic(1.0).clip])
def test_a_tree_that_is_not_finite_becomes_zeros(bad: float, clip: Any):
    clipped = jax.jit(clip)({"a": jnp.array([1.0, bad]), "b": jnp.array(2.0)})
    assert exact_norm(clipped) == 0


def test_only_the_layer_that_is_not_finite_becomes_zeros():
    clipped = per_layer(1.0).clip({"x": {"a": jnp.array(np.nan)}, "y": {"a": jnp.array(0.1)}})
    assert (float(clipped["x"]["a"]), float(clipped["y"]["a"])) == (0.0, pytest.approx(0.1))


def test_zeros_and_nothing_stay_what_they_are():
    assert exact_norm(compiled_clip({"a": jnp.zeros(3)}, 1.0)) == 0
    assert clip_to_norm({}, 1.0) == {}
    assert clip_to_norm((jnp.zeros((0, 4)),), 1.0)[0].shape == (0, 4)


def test_clipping_a_batch_of_trees_is_clipping_each():
    rows = jnp.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0], [3e38, 3e38]], jnp.float32)
    found = jax.jit(jax.vmap(lambda row: clip_to_norm(row, 1.0)))(rows)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.3, 0.4], [0, 0], [half, half]], rtol=1e-6)


def test_narrow_leaves_come_back_wide_so_that_rounding_cannot_lengthen_them():
    tree = {"a": jnp.array([3.1, 4.3], jnp.bfloat16)}
    clipped = clip_to_norm(tree, 1.0)
    assert clipped["a"].dtype == jnp.float32
    assert exact_norm(clipped) <= 1 + ROUNDING


@pytest.mark.parametrize("max_norm", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("make", [flat, per_layer, automatic, lambda norm: clip_to_norm(jnp.ones(2), norm)])
def test_a_bound_that_is_not_positive_is_refused(make: Any, max_norm: float):
    with pytest.raises(InvalidArgument, match="max_norm must be a positive number"):
        make(max_norm)


def test_whole_numbers_are_refused():
    with pytest.raises(InvalidArgument, match="int32"):
        clip_to_norm({"count": jnp.arange(3)}, 1.0)


def test_layers_share_one_bound_equally():
    clipped = per_layer(1.0).clip(PARAMS)
    assert exact_norm(clipped["embed"]) == pytest.approx(np.sqrt(0.5))
    assert exact_norm(clipped["head"]) == pytest.approx(np.sqrt(0.5))
    assert exact_norm(clipped) == pytest.approx(per_layer(1.0).sensitivity)


def test_layers_with_bounds_of_their_own_add_up_in_the_sensitivity():
    clipping = per_layer({"embed": 0.3, "head": 0.4})
    clipped = clipping.clip(PARAMS)
    assert (exact_norm(clipped["embed"]), exact_norm(clipped["head"])) == pytest.approx((0.3, 0.4))
    assert clipping.sensitivity == pytest.approx(0.5)
    assert clipping.bounded_sum(clipped).sensitivity(Adjacency.ADD_OR_REMOVE) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"embed": 1.0}, "No layer holds parameter 'head/"),
        ({"": 1.0, "tail": 1.0}, "No parameter belongs to layer 'tail'"),
        ({}, "no layer at all"),
        ({"embed": 1.0, "head": 0.0}, "max_norm of 'head'"),
    ],
)
def test_layers_that_do_not_fit_the_parameters_are_refused(bounds: dict[str, float], message: str):
    with pytest.raises(InvalidArgument, match=message):
        per_layer(bounds).clip(PARAMS)


@given(values=entries)
def test_automatic_clipping_brings_gradients_to_just_below_the_bound(values: list[tuple[float, int]]):
    tree = as_tree(values)
    norm, clipped = exact_norm(tree), compiled_automatic(tree)
    assert exact_norm(clipped) <= 2.0 * (1 + ROUNDING)
    assert exact_norm(clipped) == pytest.approx(2.0 * norm / (norm + 0.01), rel=1e-5, abs=1e-30)


@pytest.mark.parametrize("clipping", [flat(0.7), automatic(0.7)])
@pytest.mark.parametrize("length", [0.0, 0.1, 0.7, 5.0, 1e10, np.nan, np.inf])
def test_the_factor_is_what_clipping_multiplies_by(clipping: Any, length: float):
    clipped = clipping.clip(jnp.array([length, 0.0], jnp.float32))
    factor = float(clipping.factor(jnp.float32(length), 0.7))
    assert float(clipped[0]) == pytest.approx(factor * length if np.isfinite(length) else 0, rel=1e-6)
