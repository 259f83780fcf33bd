"""The noise of training in small, its law multiplied out over every random word: the promise holds exactly.

The toy has words of 12 bits where the real one has 32, and 128 cells where it has 8192; all else is alike. A
number is STEP * X + Y, X and Y are looked up in one alias table, words that agree with a threshold leave it
to tie words that look-ups share, and those to one more word for all. With words so short ties are frequent:
whatever is wrong with them shows. That the real table, its look-ups and its tie words are what the toy takes
them for is tested in tests/core/test_whole_normals.py.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from mpmath import mp

from reticent.accounting.theorems import gaussian_dp
from reticent.core import alias, whole_normals

INDEX, FIRST, TIE, LAST = 7, 5, 2, 2  # bits: of a cell, and of the three parts of its threshold
CELLS, HALF, DEVIATION, STEP = 1 << INDEX, 1 << (INDEX - 1), 8, 5  # 8 / 5 is about 400 / 256
CELL = 1 << (FIRST + TIE + LAST)
SMOOTHING = whole_normals._SMOOTHING


class Table(NamedTuple):
    alias: np.ndarray
    threshold: np.ndarray


def toy_masses() -> list[int]:
    weights = [math.exp(-((cell - HALF) ** 2) / (2 * DEVIATION**2)) for cell in range(CELLS)]
    masses = [round(weight / sum(weights) * CELLS * CELL) for weight in weights]
    masses[HALF] += CELLS * CELL - sum(masses)
    return masses


def toy_table() -> Table:
    left, aliases, thresholds = toy_masses(), list(range(CELLS)), [CELL - 1] * CELLS
    small = [cell for cell, mass in enumerate(left) if mass < CELL]
    large = [cell for cell, mass in enumerate(left) if mass >= CELL]
    while small:
        poor, rich = small.pop(), large[-1]
        aliases[poor], thresholds[poor] = rich, left[poor]
        left[rich] -= CELL - left[poor]
        if left[rich] < CELL:
            small.append(large.pop())
    return Table(np.array(aliases), np.array(thresholds))


def look_up(table: Table, words: np.ndarray, tie: int, last: int) -> np.ndarray:
    """As `whole_normals._look_up` does it, in toy bits."""
    cell, bits = words >> FIRST, words & ((1 << FIRST) - 1)
    threshold = table.threshold[cell]
    first, second, third = threshold >> (TIE + LAST), (threshold >> LAST) & 3, threshold & 3
    is_below = (bits < first) | ((bits == first) & ((tie < second) | ((tie == second) & (last < third))))
    return np.where(is_below, cell, table.alias[cell]) - HALF


def counts_given(table: Table, tie: int, last: int) -> np.ndarray:
    """How many of all words give each value, from -HALF to HALF - 1, where the shared words are these."""
    found = look_up(table, np.arange(1 << (INDEX + FIRST)), tie, last)
    return np.bincount(found + HALF, minlength=CELLS)


def stepped(counts: np.ndarray) -> np.ndarray:
    spread = np.zeros((CELLS - 1) * STEP + 1, np.int64)
    spread[::STEP] = counts
    return spread


def joint_counts(*, one_word: bool = False) -> np.ndarray:
    """How many of all random words give each pair of two numbers that share their tie words.

    The four look-ups have the tie words e0, e0 + e1, e0 + e2 and e0 + e1 + e2, added without carry: any
    three are independent, and all four are not.

    Args:
        one_word: a planted bug: X and Y of a number are looked up by the same word.
    """
    table = toy_table()
    alone = [[counts_given(table, tie, last) for last in range(1 << LAST)] for tie in range(1 << TIE)]

    def number(tie_x: int, tie_y: int, last: int) -> np.ndarray:
        if one_word:
            return same_word(table, last)
        return np.convolve(stepped(alone[tie_x][last]), alone[tie_y][last])

    total = 0
    for last, *ties in itertools.product(range(1 << LAST), *[range(1 << TIE)] * 3):
        e0, e1, e2 = ties
        first, second = number(e0, e0 ^ e2, last), number(e0 ^ e1, e0 ^ e1 ^ e2, last)
        total = total + np.multiply.outer(first, second)
    return np.asarray(total)


def same_word(table: Table, last: int) -> np.ndarray:
    words = np.arange(1 << (INDEX + FIRST))
    found = look_up(table, words, 0, last)
    return np.bincount((STEP + 1) * (found + HALF), minlength=(CELLS - 1) * (STEP + 1) + 1)


def law(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum()


def ideal_law() -> np.ndarray:
    """The same number from exact discrete normal numbers X and Y, as far as the toy reaches."""
    weights = np.exp(-(np.arange(-HALF, HALF) ** 2) / (2 * DEVIATION**2))
    far = np.exp(-(np.arange(-40 * DEVIATION, 40 * DEVIATION + 1) ** 2) / (2 * DEVIATION**2))
    normal = weights / far.sum()
    spread = np.zeros((CELLS - 1) * STEP + 1)
    spread[::STEP] = normal
    return np.convolve(spread, normal)


def divergence(probabilities: np.ndarray, epsilon: float, moved: tuple[int, int]) -> float:
    """The hockey-stick divergence between a law and itself, moved: the exact delta at an epsilon."""
    width = max(moved)
    here = np.pad(probabilities, width)
    there = np.roll(here, moved, axis=(0, 1))
    return max(
        float(np.maximum(one - math.exp(epsilon) * other, 0).sum())
        for one, other in ((here, there), (there, here))
    )


def stated_distance() -> float:
    """How far the toy is from post-processing of real normal numbers, by the terms of docs/arithmetic.md.

    Rounded masses and cut tails; all four look-ups of a group in a tie; two of them in the last tie.
    """
    ideal = np.exp(-(np.arange(-40 * DEVIATION, 40 * DEVIATION + 1) ** 2) / (2 * DEVIATION**2))
    ideal = ideal / ideal.sum()
    inside = ideal[40 * DEVIATION - HALF : 40 * DEVIATION + HALF]
    table = np.abs(np.array(toy_masses()) / (CELLS * CELL) - inside).sum() / 2 + (1 - inside.sum()) / 2
    return 4 * table + 2.0 ** (-4 * FIRST) + 6 * 2.0 ** (-2 * (FIRST + TIE)) + 4 * 1e-18


def test_the_table_of_the_toy_is_its_law_exactly():
    table = toy_table()
    every = [counts_given(table, tie, last) for tie in range(1 << TIE) for last in range(1 << LAST)]
    assert np.sum(every, axis=0).tolist() == toy_masses()


def test_the_exact_law_is_as_near_to_the_ideal_one_as_is_stated():
    ideal = ideal_law()
    apart = np.abs(law(joint_counts()) - np.multiply.outer(ideal, ideal)).sum() / 2
    missing = (1 - ideal.sum() ** 2) / 2
    assert 1e-4 < apart + missing <= stated_distance() < 3e-2


DISTANCES = [(1, 0), (20, 0), (41, 0), (30, 40), (0, 82), (29, 29)]


def excess(counts: np.ndarray) -> float:
    """By how much the exact divergence exceeds what the accountant claims, at most."""
    probabilities, floor = law(counts), math.sqrt(DEVIATION**2 * (STEP**2 + 1) - SMOOTHING**2)
    distance = stated_distance()
    return max(
        divergence(probabilities, epsilon, moved)
        - gaussian_dp.delta(math.hypot(*moved) / floor, epsilon)
        - (1 + math.exp(epsilon)) * distance
        for moved in DISTANCES
        for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 3.0)
    )


def test_the_exact_divergence_is_at_or_below_what_the_accountant_claims():
    assert excess(joint_counts()) <= 0


def test_one_word_for_two_look_ups_would_break_it():
    assert excess(joint_counts(one_word=True)) > 0.1


# The real thing


def test_the_real_table_is_as_near_to_the_discrete_normal_law_as_is_stated():
    mp.dps = 60
    weights = [mp.exp(-mp.mpf(k * k) / (2 * alias.DEVIATION**2)) for k in range(8 * alias.HALF)]
    total = 2 * mp.fsum(weights[1:]) + weights[0]
    law = alias.normal_masses()
    apart = mp.fsum(
        abs(mp.mpf(mass) / 2**96 - weights[abs(cell - alias.HALF)] / total) for cell, mass in enumerate(law)
    )
    beyond = 1 - (2 * mp.fsum(weights[1 : alias.HALF]) + weights[0] + weights[alias.HALF]) / total
    assert (apart + beyond) / 2 < mp.mpf(2) ** -78


def e(deviation: float) -> Any:
    """How far the sum of a normal density over the whole numbers is from 1, wherever its centre is.

    By Poisson's formula it is 1 + 2 sum over n of exp(-2 pi^2 n^2 deviation^2) cos(2 pi n x).
    """
    return 2 * mp.fsum(mp.exp(-2 * mp.pi**2 * n**2 * mp.mpf(deviation) ** 2) for n in range(1, 9))


def test_no_normal_density_is_farther_from_1_than_the_constant_says():
    mp.dps = 40
    for deviation in (0.4, 0.7, SMOOTHING):
        for centre in (0, 0.25, 0.5):
            heights = [mp.exp(-(((k - mp.mpf(centre)) / deviation) ** 2) / 2) for k in range(-40, 41)]
            total = mp.fsum(heights) / (deviation * mp.sqrt(2 * mp.pi))
            assert abs(total - 1) <= e(deviation) * (1 + mp.mpf(2) ** -40)


@pytest.mark.parametrize("levels", [2, 3])
def test_all_that_is_not_exact_about_a_number_is_within_its_distance(levels: int):
    """Tables, what smooths one by the other and the sum, and ties that are not independent."""
    mp.dps = 40
    step, numbers, lanes = whole_normals._STEP, whole_normals._NUMBERS, whole_normals._LANES
    inner = alias.DEVIATION / math.hypot(
        1, step
    )  # of the finer number, given the sum, over the coarser's step
    assert e(inner) < mp.mpf(2) ** -68
    tie = mp.mpf(2) ** -alias.FIRST_BITS
    four = math.comb(2 * numbers, 4) * tie**4 / numbers * mp.mpf(levels) / 2
    last = math.comb(2 * numbers * lanes, 2) * (tie * mp.mpf(2) ** -32) ** 2 / (numbers * lanes) * levels
    total = levels * mp.mpf(2) ** -78 + (levels - 1) * e(inner) + e(SMOOTHING) + four + last
    assert mp.mpf(2) ** -68 < total < whole_normals.DISTANCE
    assert step**2 >= whole_normals.MOST_MULTIPLE  # so that the third number is smoothed as the second is


def test_toy_and_real_thing_differ_in_size_alone():
    ratio = alias.DEVIATION / whole_normals._STEP
    assert ratio == pytest.approx(DEVIATION / STEP, rel=0.03)
    real = math.sqrt(alias.DEVIATION**2 * (whole_normals._STEP**2 + 1) - SMOOTHING**2)
    assert whole_normals.floor_deviation() == pytest.approx(real, rel=1e-12)
