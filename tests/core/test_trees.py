"""Tree arithmetic against float64 NumPy, from the smallest float32 to the largest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core import trees

SMALLEST = 2.0**-126  # of the normal float32; XLA takes what is below for zero
LARGEST = float(np.finfo(np.float32).max)
ROUNDING = 1e-6

both_ways = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])


def in_way(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    return jax.jit(function) if compiled else function


def exact_norm(*leaves: Any) -> float:
    return float(np.sqrt(sum(np.sum(np.asarray(leaf, np.float64) ** 2) for leaf in leaves)))


def assert_norm(found: jax.Array, exact: float, entries: int) -> None:
    if exact > LARGEST:
        assert np.isinf(found)
    else:
        # Where the exact norm rounds up to infinity, so may ours: never to something shorter.
        assert found == pytest.approx(exact, rel=ROUNDING, abs=2 * SMALLEST * entries) or (
            np.isinf(found) and exact > LARGEST * (1 - ROUNDING)
        )


magnitudes = st.floats(-38, 38).map(lambda exponent: float(np.float32(10**exponent)))
entries = st.lists(st.tuples(magnitudes, st.sampled_from([-1, 0, 1])), min_size=1, max_size=6)


@both_ways
@given(values=entries)
def test_the_norm_is_right_from_1e_38_to_1e38(compiled: bool, values: list[tuple[float, int]]):
    leaf = np.zeros(6, np.float32)  # one shape, so that it compiles once
    leaf[: len(values)] = [sign * value for value, sign in values]
    found = in_way(trees.norm, compiled)({"weights": jnp.asarray(leaf)})
    assert_norm(found, exact_norm(leaf), len(values))


@both_ways
@pytest.mark.parametrize("value", [1.2e-38, 1e-30, 1.0, 1e19, 8.5e37, 1e38, 1.9e38])
def test_the_norm_of_equal_entries(compiled: bool, value: float):
    leaf = jnp.full((3,), value, jnp.float32)
    exact = exact_norm(leaf)
    assert_norm(in_way(trees.norm, compiled)((leaf,)), exact, 3)


@both_ways
def test_the_norm_never_calls_the_longest_tree_short(compiled: bool):
    # The division by an entry this large once came out as a product with 1 / 3e38, which is flushed to 0.
    leaf = jnp.array([3e38, 3e38, 3e38], jnp.float32)
    assert in_way(trees.norm, compiled)(leaf) == jnp.inf
    assert in_way(jax.vmap(trees.norm), compiled)(leaf[:, None]) == pytest.approx([3e38] * 3, rel=ROUNDING)


@both_ways
def test_the_norm_goes_over_all_leaves_together(compiled: bool):
    tree = {"a": jnp.array([[3.0]]), "b": [jnp.array(4.0), jnp.zeros((0, 5))], "c": None}
    assert in_way(trees.norm, compiled)(tree) == pytest.approx(5.0)


def test_the_norm_of_ten_million_entries_loses_no_digit():
    leaf = np.random.default_rng(0).random(10_000_000, dtype=np.float32)
    assert float(trees.norm(jnp.asarray(leaf))) == pytest.approx(exact_norm(leaf), rel=ROUNDING)


@both_ways
def test_the_norm_of_bfloat16_is_computed_in_float32(compiled: bool):
    leaf = jnp.full((1000,), 0.1, jnp.bfloat16)
    found = in_way(trees.norm, compiled)(leaf)
    assert found.dtype == jnp.float32
    assert found == pytest.approx(exact_norm(leaf.astype(jnp.float32)), rel=ROUNDING)


@both_ways
@pytest.mark.parametrize(
    ("bad", "expected"),
    [([np.nan, 1], np.nan), ([np.inf, 1], np.inf), ([-np.inf, 3e38], np.inf), ([np.nan, np.inf], np.nan)],
)
def test_nan_and_infinity_show_in_the_norm(compiled: bool, bad: list[float], expected: float):
    found = in_way(trees.norm, compiled)({"a": jnp.ones(2), "b": jnp.array(bad, jnp.float32)})
    assert np.array_equal(found, expected, equal_nan=True)


@both_ways
@pytest.mark.parametrize("tree", [{}, (), None, {"a": jnp.zeros((0, 3))}], ids=str)
def test_an_empty_tree_has_norm_and_size_0(compiled: bool, tree: Any):
    assert in_way(trees.norm, compiled)(tree) == 0
    assert trees.size(tree) == 0
    assert in_way(trees.dot, compiled)(tree, tree) == 0


@both_ways
@given(values=st.lists(st.integers(-1000, 1000), min_size=6, max_size=6))
def test_sums_differences_and_products(compiled: bool, values: list[int]):
    left = {"a": jnp.array(values[:2], jnp.float32), "b": (jnp.array(values[2], jnp.float32),)}
    right = {"a": jnp.array(values[3:5], jnp.float32), "b": (jnp.array(values[5], jnp.float32),)}
    assert _flat(in_way(trees.add, compiled)(left, right)) == [
        a + b for a, b in zip(values[:3], values[3:], strict=True)
    ]
    assert _flat(in_way(trees.subtract, compiled)(left, right)) == [
        a - b for a, b in zip(values[:3], values[3:], strict=True)
    ]
    assert _flat(in_way(trees.scale, compiled)(left, 0.5)) == [a / 2 for a in values[:3]]
    assert _flat(in_way(trees.zeros_like, compiled)(left)) == [0, 0, 0]
    dot = sum(a * b for a, b in zip(values[:3], values[3:], strict=True))
    assert float(in_way(trees.dot, compiled)(left, right)) == dot


def _flat(tree: Any) -> list[float]:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).tolist()


def test_the_dot_of_bfloat16_is_accumulated_in_float32():
    ones = {"a": jnp.ones(1001, jnp.bfloat16)}  # bfloat16 cannot say 1001
    assert trees.dot(ones, ones).dtype == jnp.float32
    assert trees.dot(ones, ones) == 1001


@both_ways
def test_scaling_keeps_the_type_of_each_leaf(compiled: bool):
    tree = {"half": jnp.ones(2, jnp.bfloat16), "single": jnp.ones(2), "whole": jnp.array([1, 3])}
    scaled = in_way(trees.scale, compiled)(tree, jnp.float32(0.5))
    assert {key: leaf.dtype for key, leaf in scaled.items()} == {
        "half": jnp.bfloat16,
        "single": jnp.float32,
        "whole": jnp.float32,
    }
    assert scaled["whole"].tolist() == [0.5, 1.5]


@both_ways
def test_a_factor_is_not_rounded_before_it_is_used(compiled: bool):
    # 0.3 is 0.30078 in bfloat16: clipping by it would leave the leaf one step of bfloat16 too long.
    leaf = jnp.array([1.0234375], jnp.bfloat16)
    found = in_way(trees.scale, compiled)(leaf, 0.3)
    assert found == (jnp.float32(1.0234375) * jnp.float32(0.3)).astype(jnp.bfloat16)
    assert found < leaf * jnp.bfloat16(0.3)


def test_size_counts_the_numbers():
    assert trees.size({"a": jnp.zeros((3, 4)), "b": [jnp.array(1.0), np.zeros(5)]}) == 18


@pytest.mark.parametrize("function", [trees.add, trees.subtract, trees.dot])
def test_trees_of_another_shape_do_not_mix(function: Callable[..., Any]):
    with pytest.raises(ValueError, match=r"structure|mismatch|keys"):
        function({"a": jnp.ones(2)}, {"b": jnp.ones(2)})
