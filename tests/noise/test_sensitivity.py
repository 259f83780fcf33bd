"""Every sensitivity against all the ways in which a record may take part, tried one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import InvalidArgument, Unproven
from reticent.noise import matrix_sensitivity, square_root, toeplitz_sensitivity
from reticent.noise.binary_tree import nodes_of_prefix, tree_matrix, tree_sensitivity
from reticent.noise.named import banded, blt, dense, independent, toeplitz, tree
from reticent.noise.participation import Participation

ONES = np.tril(np.ones((5, 5)))


def patterns(steps: int, part: Participation) -> Iterator[tuple[int, ...]]:
    """All sets of steps that a record may take part in."""
    if part.is_cyclic:
        for first in range(min(part.separation, steps)):
            turns = range(first, steps, part.separation)
            for count in range(1, min(part.times, len(turns)) + 1):
                yield from itertools.combinations(turns, count)
        return
    for count in range(1, part.times + 1):
        for chosen in itertools.combinations(range(steps), count):
            if all(b - a >= part.separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def brute_force(matrix: np.ndarray, part: Participation) -> float:
    """The farthest that contributions of length 1 move C X, over all patterns and signs."""
    farthest = 0.0
    for chosen in patterns(matrix.shape[1], part):
        columns = matrix[:, chosen]
        for signs in itertools.product((1.0, -1.0), repeat=len(chosen) - 1):
            farthest = max(farthest, float(np.linalg.norm(columns @ np.array([1.0, *signs]))))
    return farthest


def toeplitz_matrix(column: np.ndarray, steps: int) -> np.ndarray:
    padded = np.concatenate([column, np.zeros(steps)])[:steps]
    return np.array([[padded[i - j] if i >= j else 0.0 for j in range(steps)] for i in range(steps)])


parts = st.builds(
    Participation, times=st.integers(1, 4), separation=st.integers(1, 5), is_cyclic=st.booleans()
)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7), st.integers(1, 9), parts)
def test_toeplitz_matrices_that_do_not_grow_have_their_exact_sensitivity_or_little_more(
    rest: list[float], steps: int, part: Participation
) -> None:
    column = np.array([1.0, *sorted(rest, reverse=True)])[:steps]
    exact = brute_force(toeplitz_matrix(column, steps), part)
    found = toeplitz_sensitivity(column, steps, part)
    assert found >= exact * (1 - 1e-15)
    last = int(np.max(np.flatnonzero(column)))
    if not part.is_cyclic and part.times > 1 and last >= part.separation:
        assert found <= exact * (1 + 1e-12)  # the theorem says which pattern is the worst


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=7), st.integers(1, 8), parts)
def test_no_toeplitz_matrix_moves_farther_than_said(
    rest: list[float], steps: int, part: Participation
) -> None:
    column = np.array([1.0, *rest])[:steps]
    try:
        found = toeplitz_sensitivity(column, steps, part)
    except Unproven:
        assert np.any(column < 0)
        return
    assert found >= brute_force(toeplitz_matrix(column, steps), part) * (1 - 1e-14)


@given(st.integers(1, 7), st.integers(0, 10**6), parts, st.booleans())
def test_no_matrix_moves_farther_than_said(
    steps: int, seed: int, part: Participation, is_positive: bool
) -> None:
    matrix = np.random.default_rng(seed).normal(size=(steps, steps)) * (
        np.random.default_rng(seed + 1).random((steps, steps)) < 0.6
    )
    matrix = np.abs(matrix) if is_positive else matrix
    try:
        found = matrix_sensitivity(matrix, part)
    except Unproven:
        assert not is_positive
        assert part.times > 1
        return
    assert found >= brute_force(matrix, part) * (1 - 1e-12)


@pytest.mark.parametrize("steps", [1, 2, 5, 8, 11])
def test_trees_move_no_farther_than_said_wherever_they_begin(steps: int) -> None:
    """A run that is resumed at `cut` has a tree before and one after; with restarts there are more."""
    for part in (Participation(times=k, separation=b) for k in (1, 2, 3) for b in (1, 2, 4)):
        for size in {steps, max(steps // 2, 1)}:
            said = tree_sensitivity(size, steps, part)
            for cut in range(steps + 1):
                sizes = [*chunks(cut, size), *chunks(steps - cut, size)]
                rows, start = [], 0
                for each in sizes:
                    block = tree_matrix(each)
                    rows.append(np.pad(block, ((0, 0), (start, steps - start - each))))
                    start += each
                assert said >= brute_force(np.vstack(rows), part) * (1 - 1e-14)


def chunks(steps: int, size: int) -> list[int]:
    return [min(size, steps - start) for start in range(0, steps, size)]


@pytest.mark.parametrize(
    "noise",
    [
        *(independent(), banded(bands=1), banded(bands=3), toeplitz(bands=2), toeplitz()),
        *(blt(buffers=1), blt(buffers=2), tree(), tree(restart=3), dense(), dense(bands=2)),
    ],
)
@pytest.mark.parametrize(
    "part", [Participation(times=1), Participation.cyclic(8, 3), Participation(times=3, separation=2)]
)
def test_no_strategy_moves_farther_than_said(noise, part: Participation) -> None:
    steps = 8
    settled = noise.settle(steps, part)
    if hasattr(settled, "matrix"):
        matrix = settled.matrix(steps, part)
    elif hasattr(settled, "column"):
        matrix = toeplitz_matrix(settled.column(steps), steps)
    else:
        size = min(settled.restart or steps, steps)
        matrix = np.vstack(
            [
                np.pad(tree_matrix(each), ((0, 0), (start, steps - start - each)))
                for start, each in zip(range(0, steps, size), chunks(steps, size), strict=True)
            ]
        )
    exact = brute_force(matrix, part)
    assert exact * (1 - 1e-14) <= settled.sensitivity(steps, part)
    assert settled.sensitivity(steps, part) <= exact * 1.5


@given(st.lists(st.floats(0, 1), min_size=2, max_size=6), parts, st.integers(1, 7))
def test_noise_that_begins_anew_costs_no_more(rest: list[float], part: Participation, cut: int) -> None:
    """A resumed run has two blocks of C on its diagonal: no entry is larger, and so no sensitivity."""
    steps = 8
    column = np.array([1.0, *sorted(rest, reverse=True)])
    whole = toeplitz_matrix(column, steps)
    whole[cut:, :cut] = 0
    assert brute_force(whole, part) <= toeplitz_sensitivity(column, steps, part)


def test_bands_that_are_ignored_would_be_seen() -> None:
    """The planted bug: the sensitivity of one band, whatever the number of bands."""
    part = Participation.cyclic(16, 4)
    assert math.sqrt(part.times) < brute_force(toeplitz_matrix(square_root(4), 16), part)


def test_what_has_no_theorem_is_refused() -> None:
    with pytest.raises(Unproven, match="negative coefficients"):
        toeplitz_sensitivity(np.array([1.0, -0.5]), 4, Participation(times=2))
    with pytest.raises(Unproven, match="negative products"):
        matrix_sensitivity(np.array([[1.0, 0], [-1, 1]]), Participation(times=2))


def test_a_declared_participation_covers_what_is_drawn_or_is_refused() -> None:
    declared = Participation(times=3, separation=10)
    for fine in (Participation.cyclic(30, 10), Participation(times=1), Participation(times=2, separation=12)):
        declared.require_covers(fine)
    for broken in (
        Participation.cyclic(31, 10),
        Participation(times=3, separation=9),
        Participation(times=2),
    ):
        with pytest.raises(InvalidArgument, match="break the declared participation"):
            declared.require_covers(broken)
    with pytest.raises(InvalidArgument):
        Participation.cyclic(30, 10).require_covers(Participation(times=3, separation=10))


def test_nodes_of_prefixes_are_binary_digits() -> None:
    assert all(nodes_of_prefix(step) == bin(step).count("1") for step in range(1, 300))
