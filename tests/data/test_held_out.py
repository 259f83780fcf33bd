"""A split holds out exactly as many rows as it says, and the same ones whoever asks."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from reticent.core.errors import InvalidArgument
from reticent.data.held_out import BLOCK, Split

FALSE_ALARM = 1e-4  # of each statistical test here, whose seeds are fixed

splits = st.integers(0, 4 * BLOCK).flatmap(
    lambda rows: st.builds(
        Split, rows=st.just(rows), held_out=st.integers(0, rows), seed=st.integers(0, 2**64)
    )
)


@given(splits)
@example(Split(0, 0, 0))
@example(Split(1, 1, 0))
@example(Split(BLOCK, 1, 0))
@example(Split(BLOCK, BLOCK, 0))
@example(Split(BLOCK + 1, BLOCK, 0))
@settings(deadline=None)
def test_exactly_so_many_rows_are_held_out(split: Split) -> None:
    assert np.count_nonzero(split.is_held_out(0, split.rows)) == split.held_out
    assert split.before(0) == 0
    assert split.before(split.rows) == split.rows - split.held_out


@given(splits, st.data())
@settings(deadline=None)
def test_any_ranges_give_the_same_rows(split: Split, data: st.DataObject) -> None:
    whole = split.is_held_out(0, split.rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, split.rows), max_size=6)))
    ranges = list(pairwise([0, *cuts, split.rows]))
    parts = [split.is_held_out(first, end - first) for first, end in ranges]
    assert np.array_equal(np.concatenate(parts), whole)
    for cut in cuts:
        assert split.before(cut) == np.count_nonzero(~whole[:cut])


def test_a_block_holds_out_its_share() -> None:
    rows, held_out = 10 * BLOCK + 123, 100_003
    split = Split(rows, held_out, seed=5)
    for start in range(0, rows, BLOCK):
        end = min(rows, start + BLOCK)
        found = np.count_nonzero(split.is_held_out(start, end - start))
        assert found == end * held_out // rows - start * held_out // rows
        assert split.before(start) == start - start * held_out // rows


def test_each_row_of_a_block_is_equally_likely() -> None:
    seeds, rows, held_out = 4000, 300, 30
    times = np.sum([Split(rows, held_out, seed).is_held_out(0, rows) for seed in range(seeds)], axis=0)
    expected = seeds * held_out / rows
    # A set of fixed size makes rows repel each other a little: each has variance p(1 - p), and they sum to a
    # constant, which scales the statistic by (1 - p) rows / (rows - 1).
    statistic = ((times - expected) ** 2).sum() / expected
    scaled = statistic / (1 - held_out / rows) * (rows - 1) / rows
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], rows - 1)
    assert low < scaled < high


def test_positions_are_uniform_across_blocks_and_no_two_blocks_agree() -> None:
    split = Split(64 * BLOCK, 64 * 6000, seed=1)
    blocks = split.is_held_out(0, split.rows).reshape(64, BLOCK)
    bins = blocks.sum(0).reshape(64, -1).sum(1)  # where in their blocks the held-out rows lie
    assert stats.chisquare(bins).pvalue > FALSE_ALARM
    together = (blocks[:-1] & blocks[1:]).sum()  # hypergeometric: 6000 of 65536 drawn twice, 63 times
    law = stats.hypergeom(BLOCK, 6000, 6000)
    assert abs(together - 63 * law.mean()) < stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(63 * law.var())


def test_another_seed_is_another_split() -> None:
    masks = [Split(BLOCK, BLOCK // 2, seed).is_held_out(0, BLOCK) for seed in range(4)]
    assert all(not np.array_equal(masks[0], other) for other in masks[1:])


def test_the_split_of_a_seed_never_changes() -> None:
    mask = Split(2 * BLOCK, 20, seed=7).is_held_out(0, 2 * BLOCK)
    assert np.flatnonzero(mask).tolist() == [
        8255,
        8545,
        13903,
        27636,
        44396,
        44957,
        51247,
        51871,
        52154,
        59287,
        73727,
        74731,
        84290,
        91363,
        96645,
        97015,
        103505,
        105114,
        118563,
        123439,
    ]


def test_a_range_of_a_billion_rows_is_answered_at_once() -> None:
    split = Split(rows=10**12, held_out=10**10, seed=3)
    began = time.perf_counter()
    mask = split.is_held_out(7 * 10**11 + 5, 1000)
    counted = split.before(7 * 10**11 + 1005) - split.before(7 * 10**11 + 5)
    assert time.perf_counter() - began < 1
    assert counted == 1000 - np.count_nonzero(mask)


@pytest.mark.parametrize("split", [Split(5, 6, 0), Split(-1, 0, 0), Split(5, 1, -1), Split(5, 1.0, 0)])  # type: ignore[arg-type]
def test_a_split_that_cannot_be_is_refused(split: Split) -> None:
    with pytest.raises(InvalidArgument):
        split.is_held_out(0, 1)
    with pytest.raises(InvalidArgument):
        split.before(0)


@pytest.mark.parametrize(("first", "count"), [(0, 11), (10, 1), (-1, 3), (0, -1)])
def test_rows_outside_the_table_are_refused(first: int, count: int) -> None:
    with pytest.raises(InvalidArgument):
        Split(10, 2, 0).is_held_out(first, count)
    with pytest.raises(InvalidArgument):
        Split(10, 2, 0).before(11)


def test_a_mask_belongs_to_whoever_asked() -> None:
    split = Split(10, 5, 0)
    mask = split.is_held_out(0, 10)
    mask[:] = False
    assert np.count_nonzero(split.is_held_out(0, 10)) == 5
