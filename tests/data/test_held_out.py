"""Each row is held out by a coin of its own: what becomes of it depends on nothing else."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from reticent.core.errors import InvalidArgument, KeyReuse
from reticent.core.keys import Keys, Stream
from reticent.data import held_out
from reticent.data.held_out import BLOCK, Split, expected_rows

FALSE_ALARM = 1e-4  # of each statistical test here, whose seeds are fixed

splits = st.builds(
    Split, share=st.floats(0, 1, exclude_max=True, allow_subnormal=False), seed=st.integers(0, 2**128 - 1)
)
rows = st.integers(0, 3 * BLOCK)


def sides(share: float, coins: np.ndarray) -> np.ndarray:
    """Which rows of a block are held out whose coins these are."""
    held_out._draw_block.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "_coins", lambda seed, block: coins)
        found = Split(share=share, seed=0).is_held_out(0, BLOCK)
    held_out._draw_block.cache_clear()
    return found


@given(share=st.floats(0, 1, exclude_max=True), seed=st.integers(0, 100), gone=st.integers(0, BLOCK - 1))
@example(share=0.2, seed=0, gone=0)
@settings(deadline=None)
def test_a_row_that_goes_leaves_every_other_row_on_its_side(share: float, seed: int, gone: int) -> None:
    """The step of the proof: with the same coin for each other row, nothing else moves."""
    coins = np.random.default_rng(seed).integers(0, 2**64, BLOCK + 1, np.uint64)
    coins[gone] = 0  # held out, if anybody is: were there to be exactly so many, another would take the place
    coins[BLOCK] = 2**64 - 1
    whole, rest = sides(share, coins[:BLOCK]), sides(share, np.delete(coins, gone))
    assert np.array_equal(np.delete(whole, gone), rest[:-1])


@given(splits, rows, st.data())
@settings(deadline=None)
def test_a_row_has_its_coin_however_many_rows_there_are_and_whoever_asks(
    split: Split, count: int, data: st.DataObject
) -> None:
    whole = split.is_held_out(0, 3 * BLOCK)[:count]
    assert np.array_equal(split.is_held_out(0, count), whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=6)))
    ranges = list(pairwise([0, *cuts, count]))
    parts = [split.is_held_out(first, end - first) for first, end in ranges]
    assert np.array_equal(np.concatenate(parts), whole)
    for first, end in ranges:
        assert split.count_trained_on(first, end - first) == np.count_nonzero(~whole[first:end])


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_as_many_rows_are_held_out_as_independent_coins_would(share: float) -> None:
    count, tables = 500, 1000
    found = np.array([Split(share=share, seed=seed).is_held_out(0, count).sum() for seed in range(tables)])
    law = stats.binom(count, share)
    assert abs(found.mean() - law.mean()) < stats.norm.isf(FALSE_ALARM / 2) * law.std() / np.sqrt(tables)
    # Exactly so many of each table, as it was before, would have variance 0.
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], tables - 1) / (tables - 1)
    assert low < found.var(ddof=1) / law.var() < high


def test_coins_are_alike_at_every_place_and_independent_of_their_neighbours() -> None:
    share, blocks = 0.1, 64
    mask = Split(share=share, seed=1).is_held_out(0, blocks * BLOCK).reshape(blocks, BLOCK)
    bins = mask.sum(0).reshape(64, -1).sum(1)  # where in their blocks the held-out rows lie
    assert stats.chisquare(bins).pvalue > FALSE_ALARM
    for one, other in ((mask[:-1], mask[1:]), (mask[:, :-1], mask[:, 1:])):  # of two blocks, and side by side
        both, pairs = int((one & other).sum()), one.size
        deviation = np.sqrt(pairs * share**2 * (1 - share**2)) * 1.3  # pairs overlap
        assert abs(both - pairs * share**2) < stats.norm.isf(FALSE_ALARM / 2) * deviation


def test_all_the_rows_of_a_user_are_on_one_side() -> None:
    chance = np.random.default_rng(0)
    users = chance.integers(0, 5000, 20_000) * 7
    split = Split(share=0.3, seed=4)
    mask = split.of_users(users)
    sides = {user: set(mask[users == user].tolist()) for user in np.unique(users)[:300]}
    assert all(len(side) == 1 for side in sides.values())
    share = np.mean([split.of_users(users)[users == user][0] for user in np.unique(users)[:1000]])
    assert abs(share - 0.3) < stats.norm.isf(FALSE_ALARM / 2) * np.sqrt(0.21 / 1000)


def test_nothing_is_held_out_of_a_share_of_nothing() -> None:
    assert not Split(share=0.0, seed=5).is_held_out(0, 10_000).any()
    assert Split(share=0.2, seed=5).is_held_out(0, 0).shape == (0,)


def test_a_split_comes_from_its_keys_once() -> None:
    keys = Keys.seeded(3)
    keys.take(Stream.PREPARATION, steps=range(64))  # what preparation takes
    split = Split.draw(0.2, keys)
    assert split == Split.draw(0.2, Keys.seeded(3))
    assert split != Split.draw(0.2, Keys.seeded(4))
    assert split.seed > 2**64  # all of 128 bits are used, but for one in 2^64
    with pytest.raises(KeyReuse):
        Split.draw(0.2, keys)


def test_a_seed_is_not_printed() -> None:
    split = Split.draw(0.2, Keys.seeded(0))
    assert str(split.seed) not in f"{split} {split!r}"


def test_the_split_of_a_seed_never_changes() -> None:
    mask = Split(share=0.0001, seed=7 << 100).is_held_out(BLOCK - 1000, 2 * BLOCK)
    assert np.flatnonzero(mask).tolist() == [
        544,
        5530,
        23177,
        27428,
        51855,
        58914,
        77152,
        86366,
        88776,
        89939,
        99022,
        105939,
        109157,
        120235,
        120833,
        127636,
    ]


def test_a_range_of_a_billion_rows_is_answered_at_once() -> None:
    split = Split(share=0.01, seed=3)
    began = time.perf_counter()
    mask = split.is_held_out(7 * 10**11 + 5, 1000)
    counted = split.count_trained_on(7 * 10**11 + 5, 1000)
    assert time.perf_counter() - began < 1
    assert counted == 1000 - np.count_nonzero(mask)


@pytest.mark.parametrize(
    ("share", "seed"), [(1.0, 0), (-0.1, 0), (float("nan"), 0), (0.2, -1), (0.2, 2**128), (0.2, 1.0)]
)
def test_a_split_that_cannot_be_is_refused(share: float, seed: int) -> None:
    with pytest.raises(InvalidArgument):
        Split(share=share, seed=seed)


def test_rows_before_the_first_are_refused() -> None:
    for first, count in ((-1, 3), (0, -1)):
        with pytest.raises(InvalidArgument):
            Split(share=0.2, seed=0).is_held_out(first, count)


def test_a_mask_belongs_to_whoever_asked() -> None:
    split = Split(share=0.5, seed=0)
    mask = split.is_held_out(0, 10)
    before = mask.copy()
    mask[:] = False
    assert np.array_equal(split.is_held_out(0, 10), before)


def test_what_is_expected_is_decided_by_public_numbers() -> None:
    assert [expected_rows(count, 0.2) for count in (0, 1, 4, 5, 1000)] == [0, 1, 3, 4, 800]
    with pytest.raises(InvalidArgument):
        expected_rows(10, float("nan"))
