"""Whole-number noise: its exact law where it can be multiplied out, and what lands on the grid.

Statistical tests have fixed seeds; each states how often it would fail on correct code with a new one.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammainc, ndtr

from reticent.core.alias import CELLS, DEVIATION, HALF, normal_masses, normal_table
from reticent.core.errors import InvalidArgument
from reticent.mechanisms import choosing, vectors, whole
from reticent.mechanisms.whole import (
    add_whole_laplace,
    add_whole_normals,
    choose,
    deviation_of,
    flip,
    whole_laplace,
    whole_normals,
)

RARE = 1e-6  # a false alarm of each statistical test


def source(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=seed))


class Scripted:
    """A generator that gives the words it was told to, in that order."""

    def __init__(self, *words: Any) -> None:
        self._words = list(words)

    def integers(self, low: int, high: int, size: Any = None, dtype: Any = np.uint64) -> np.ndarray:
        word = np.asarray(self._words.pop(0), dtype)
        assert low == 0
        assert np.all(word <= high - 1)
        return np.broadcast_to(word, np.zeros(size).shape).copy()


def chance_of(drawn: np.ndarray, masses: dict[int, float]) -> float:
    """The p-value of a chi-square test against these probabilities; the rest is one more cell."""
    expected = np.array([*masses.values(), 1 - sum(masses.values())]) * drawn.size
    seen = np.array([np.sum(drawn == value) for value in masses])
    seen = np.append(seen, drawn.size - seen.sum())
    assert expected.min() > 5
    return float(stats.chi2.sf(np.sum((seen - expected) ** 2 / expected), len(expected) - 1))


def laplace_masses(scale: float, reach: int) -> dict[int, float]:
    q = math.exp(-1 / scale)
    return {k: (1 - q) / (1 + q) * q ** abs(k) for k in range(-reach, reach + 1)}


# Normals


def thresholds() -> list[int]:
    table = normal_table()
    first = table.first & np.uint32((1 << 19) - 1)
    return [
        (int(a) << 64) | (int(b) << 32) | int(c)
        for a, b, c in zip(first, table.second, table.third, strict=True)
    ]


def from_coins(coins: list[int]) -> np.ndarray:
    """What the sampler makes of each cell with 83 bits of coin."""
    words = [(cell << 51) | (coin >> 32) for cell, coin in enumerate(coins)]
    last = [(coin & 0xFFFFFFFF) << 32 for coin in coins]
    return whole.draw_from_table(Scripted(words, last), CELLS)  # type: ignore[arg-type]


def test_the_sampler_has_the_masses_of_the_table_to_the_last_bit() -> None:
    """Every cell with the coins next to its threshold, on both sides: no other coin decides differently."""
    limits = thresholds()
    own = from_coins([max(limit - 1, 0) for limit in limits])
    other = from_coins(limits)
    masses = [0] * CELLS
    for cell, limit in enumerate(limits):
        if limit:
            assert own[cell] == cell - HALF
        masses[cell] += limit
        masses[other[cell] + HALF] += (1 << 83) - limit
    assert masses == list(normal_masses())


def test_every_coin_is_on_the_side_of_its_nearest() -> None:
    limits = thresholds()
    chance = source(1)
    for _ in range(20):
        high = chance.integers(0, 1 << 19, CELLS).tolist()
        coins = [a << 64 | b for a, b in zip(high, words(chance), strict=True)]
        drawn, aliases = from_coins(coins), from_coins(limits)
        wanted = [
            cell - HALF if coin < limit else aliases[cell]
            for cell, (coin, limit) in enumerate(zip(coins, limits, strict=True))
        ]
        assert drawn.tolist() == wanted


def words(chance: np.random.Generator) -> list[int]:
    return chance.integers(0, 1 << 64, CELLS, dtype=np.uint64).tolist()


def off_the_normal_law(place: int, factor: int) -> Decimal:
    """P(factor X1 + X0 = place), multiplied out in whole numbers, against the discrete normal law."""
    masses = normal_masses()
    found = sum(
        masses[z + HALF] * masses[place - factor * z + HALF]
        for z in range(-HALF, HALF)
        if -HALF <= place - factor * z < HALF
    )
    with localcontext() as context:
        context.prec = 60
        variance = Decimal(DEVIATION**2 * (factor**2 + 1))
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582")
        exact = (-(Decimal(place) ** 2) / (2 * variance)).exp() / (2 * pi * variance).sqrt()
        return abs(Decimal(found) / Decimal(1 << 192) / exact - 1)


@pytest.mark.parametrize("place", [0, 1, 128, 40_000, 102_400, 204_801, 307_000])
def test_two_levels_add_up_to_the_discrete_normal_law(place: int) -> None:
    assert off_the_normal_law(place, 256) < Decimal(2) ** -66
    assert off_the_normal_law(4 * place, 1024) > Decimal(2) ** -20  # planted: levels that are too far apart


def test_levels_are_added_with_their_weights() -> None:
    cells = [100, 4000, 5000]
    scripted = [word for cell in cells for word in (cell << 51, 0)]  # a coin of zero: the cell's own value
    drawn = whole_normals(Scripted(*scripted), 1, levels=3)  # type: ignore[arg-type]
    assert drawn[0] == sum((cell - HALF) * 256**level for level, cell in enumerate(cells))
    assert deviation_of(3) == pytest.approx(400 * math.sqrt(1 + 2**16 + 2**32))


def test_no_whole_number_is_out_of_reach_and_tails_go_on() -> None:
    reached = np.union1d(from_coins([0] * CELLS), from_coins([(1 << 83) - 1] * CELLS))
    assert np.array_equal(reached, np.arange(-HALF, HALF))
    # Neighbouring multiples of 256 are reached by X1, and X0 covers far more than what is between them.
    assert HALF >= 256
    farthest = whole_normals(Scripted(*[0, 0] * 3), 1, levels=3)[0]  # type: ignore[arg-type]
    assert abs(farthest) > 10.2 * deviation_of(3)
    masses = np.array(normal_masses(), dtype=object)
    beyond = float(Fraction(int(masses[np.abs(np.arange(CELLS) - HALF) > 6.4 * DEVIATION].sum()), 1 << 96))
    assert beyond == pytest.approx(2 * ndtr(-6.4), rel=0.02)


@pytest.mark.parametrize("levels", [1, 2, 3, 6])
def test_normals_have_their_deviation(levels: int) -> None:
    drawn = whole_normals(source(levels), 100_000, levels=levels)
    assert drawn.dtype == np.int64

    def chance(deviation: float) -> float:
        places = np.floor(drawn / (deviation / 4)).astype(int)
        return chance_of(places, {k: float(ndtr((k + 1) / 4) - ndtr(k / 4)) for k in range(-12, 12)})

    if levels > 1:  # cells of 100 whole numbers are not quarters of a deviation
        assert chance(deviation_of(levels)) > RARE
    assert chance(deviation_of(levels) / 2) < RARE  # planted: a deviation that is wrong by a factor 2
    assert chance(deviation_of(levels) * 1.03) < RARE
    assert drawn.std() == pytest.approx(deviation_of(levels), rel=5 / math.sqrt(2 * 100_000))


@given(st.integers(1, 10**7), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_noise_covers_what_rounding_adds(size: int, max_norm: float, multiplier: float) -> None:
    deviation = multiplier * max_norm
    levels, step = whole.normal_grid(size, max_norm=max_norm, deviation=deviation)
    apart = Fraction(max_norm) + Fraction(3, 2) * Fraction(math.sqrt(size)) * Fraction(step)
    variance = DEVIATION**2 * sum(65536**level for level in range(levels)) - Fraction(25, 16) ** 2
    assert variance * Fraction(step) ** 2 * Fraction(max_norm) ** 2 >= (apart * Fraction(deviation)) ** 2
    assert deviation_of(levels) * step < deviation * 1.002  # and not by much more
    levels, step = whole.normal_grid(size, max_norm=max_norm, deviation=deviation, are_whole=True)
    parts = round(1 / step)
    assert 1 / parts == step
    variance = DEVIATION**2 * sum(65536**level for level in range(levels)) - Fraction(25, 16) ** 2
    assert variance >= (Fraction(deviation) * parts) ** 2
    assert deviation_of(levels) / parts < deviation * 1.001 or deviation > 1e9


def test_values_move_by_less_than_a_step_up_to_the_farthest() -> None:
    _, step = whole.normal_grid(4, max_norm=1.0, deviation=3.0)
    values = np.array([0.0, 1e-300, 0.1 + 0.2, 1e9])
    zero = Scripted(*[HALF << 51, 0] * 4)  # noise of zero
    released = add_whole_normals(zero, values, max_norm=1.0, deviation=3.0)  # type: ignore[arg-type]
    assert np.all(np.abs(released - values) <= 0.75 * step)
    zero = Scripted(*[HALF << 51, 0] * 4)
    beyond = add_whole_normals(zero, np.full(4, 1e300), max_norm=1.0, deviation=3.0)  # type: ignore[arg-type]
    assert np.all(beyond == 2.0**51 * step)


@pytest.mark.parametrize("are_whole", [False, True])
def test_normal_noise_lies_on_the_grid_and_has_its_deviation(are_whole: bool) -> None:
    values = np.full((100, 1000), 7.0)
    noisy = add_whole_normals(source(2), values, max_norm=0.5, deviation=3.0, are_whole=are_whole)
    _, step = whole.normal_grid(values.size, max_norm=0.5, deviation=3.0, are_whole=are_whole)
    assert np.array_equal(np.rint(noisy / step) * step, noisy) or are_whole
    assert not are_whole or np.array_equal(np.rint(noisy * round(1 / step)) / round(1 / step), noisy)
    assert stats.kstest((noisy - values).ravel() / 3.0, "norm").pvalue > RARE
    assert stats.kstest((noisy - values).ravel() / 1.5, "norm").pvalue < RARE  # planted: halved


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("are_whole", [False, True])
def test_what_is_not_finite_is_refused(bad: float, are_whole: bool) -> None:
    with pytest.raises(InvalidArgument, match="not a number"):
        add_whole_normals(source(), [1.0, bad], max_norm=1.0, deviation=1.0, are_whole=are_whole)
    with pytest.raises(InvalidArgument, match="not a number"):
        add_whole_laplace(source(), [1.0, bad], max_norm=1.0, scale=1.0, are_whole=are_whole)


def test_what_is_said_to_be_whole_has_to_be() -> None:
    with pytest.raises(InvalidArgument, match="whole"):
        add_whole_normals(source(), [0.5], max_norm=1.0, deviation=1.0, are_whole=True)
    with pytest.raises(InvalidArgument, match="whole"):
        add_whole_laplace(source(), [0.5], max_norm=1.0, scale=1.0, are_whole=True)
    with pytest.raises(InvalidArgument, match="64 bits"):
        add_whole_normals(source(), [1], max_norm=1.0, deviation=1e17, are_whole=True)
    with pytest.raises(InvalidArgument, match="64 bits"):
        whole_laplace(source(), 1, 1e17)


# Laplace


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.7])
def test_digits_multiply_out_to_the_geometric_law(scale: float) -> None:
    digits = whole.digits_of(scale)
    one = [Fraction(digit, 1 << 80) for digit in digits]
    with localcontext() as context:
        context.prec = 60
        q = (-1 / Decimal(scale)).exp()
        off = Decimal(0)
        for number in range(1 << len(digits)):
            found = math.prod(p if number >> i & 1 else 1 - p for i, p in enumerate(one))
            off += abs(Decimal(found.numerator) / Decimal(found.denominator) - (1 - q) * q**number)
        off += q ** (1 << len(digits))  # what lies beyond
        assert off / 2 < Decimal(2) ** -72


@pytest.mark.parametrize("scale", [0.4, 1.0, 8.0])
def test_laplace_noise_has_its_law(scale: float) -> None:
    drawn = whole_laplace(source(3), (50, 2000), scale)
    reach = max(int(4 * scale), 1)
    assert chance_of(drawn.ravel(), laplace_masses(scale, reach)) > RARE
    assert chance_of(drawn.ravel(), laplace_masses(2 * scale, reach)) < RARE  # planted: halved
    assert chance_of(np.abs(drawn.ravel()), laplace_masses(scale, reach)) < RARE  # planted: no sign


def test_a_digit_is_one_below_its_threshold_and_not_at_it() -> None:
    threshold = whole.digits_of(1.0)[0]
    for coin, is_one in [(threshold - 1, True), (threshold, False), (0, True), ((1 << 80) - 1, False)]:
        scripted = Scripted(coin >> 16, coin & 0xFFFF)
        assert whole.is_below(scripted, threshold, 1)[0] == is_one  # type: ignore[arg-type]


@given(st.integers(1, 10**7), st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_the_scale_covers_what_rounding_adds(size: int, max_norm: float, multiplier: float) -> None:
    scale = multiplier * max_norm
    step, steps = whole.laplace_grid(size, max_norm=max_norm, scale=scale)
    assert math.frexp(step)[0] == 0.5
    apart = Fraction(max_norm) / Fraction(step) + size
    assert apart / Fraction(steps) <= Fraction(max_norm) / Fraction(scale)
    step, steps = whole.laplace_grid(size, max_norm=max_norm, scale=scale, are_whole=True)
    assert (1 / step).is_integer()
    assert Fraction(steps) * Fraction(step) >= Fraction(scale)


@pytest.mark.parametrize("are_whole", [False, True])
def test_laplace_noise_lies_on_the_grid_and_has_its_scale(are_whole: bool) -> None:
    values = np.full(50_000, 7.0)
    noisy = add_whole_laplace(source(4), values, max_norm=0.5, scale=3.0, are_whole=are_whole)
    step, _ = whole.laplace_grid(values.size, max_norm=0.5, scale=3.0, are_whole=are_whole)
    assert np.array_equal(np.rint(noisy / step), noisy / step)
    assert stats.kstest((noisy - values) / 3.0, "laplace").pvalue > RARE
    assert stats.kstest((noisy - values) / 1.5, "laplace").pvalue < RARE  # planted: halved


# Choices and coins


@pytest.mark.parametrize("amount", [0, 1, 255, 1 << 50, 1 << 96, (3 << 96) + 12345, 100 << 96, 300 << 96])
def test_weights_are_exponentials_to_155_bits(amount: int) -> None:
    with localcontext() as context:
        context.prec = 80
        exact = (-Decimal(amount) / (1 << 96)).exp() * (1 << 160)
        assert abs(Decimal(choosing._weight(amount)) - exact) < 32


def test_a_choice_changes_exactly_at_the_partial_sums() -> None:
    exponents = [0.0, 1.0, -math.inf, 3.0, 2.0]
    cut = [choosing._cut(max(x, -1e200)) for x in exponents]
    weights = [choosing._weight(max(cut) - one) for one in cut]
    assert weights[2] == 0
    ends = np.cumsum(np.array(weights, dtype=object)).tolist()

    def chosen(place: int) -> int:
        scripted = Scripted([place >> 64 * i & 0xFFFFFFFFFFFFFFFF for i in range(4)])
        return choose(scripted, exponents)  # type: ignore[arg-type]

    assert chosen(0) == 0
    assert chosen((1 << 256) - 1) == 4
    for before, after, end in [(0, 1, ends[0]), (1, 3, ends[1]), (3, 4, ends[3])]:
        first = -(-(end << 256) // ends[-1])  # the least place that is at the end or beyond
        assert (chosen(first - 1), chosen(first)) == (before, after)


def test_choices_have_the_probabilities_of_their_exponents() -> None:
    exponents = np.array([0.0, 1.0, 3.0, 2.0]) + 1e6
    weights = np.exp(exponents - exponents.max())
    masses = dict(enumerate((weights / weights.sum()).tolist()[:3]))
    chance = source(5)
    drawn = np.array([choose(chance, exponents) for _ in range(5_000)])
    assert chance_of(drawn, masses) > RARE
    unit = Fraction(1, 3)
    rows = np.tile([0, 3, 9, 6], (5_000, 1))
    assert chance_of(choosing.choose_whole(chance, rows, unit), masses) > RARE
    assert chance_of(choosing.choose_whole(chance, rows, unit / 2), masses) < RARE  # planted: halved


@pytest.mark.parametrize("exponents", [[], [math.nan], [math.inf, 0.0], [-math.inf], [[0.0]]])
def test_no_choice_is_made_among_nothing(exponents: list) -> None:
    with pytest.raises(InvalidArgument):
        choose(source(), exponents)


@pytest.mark.parametrize("probability", [0.0, 0.1, 0.5, 1 - 2.0**-53, 1.0])
def test_a_coin_is_true_below_its_probability(probability: float) -> None:
    place = int(Fraction(probability) * (1 << 80))
    for coin in (place - 1, place, 0, (1 << 80) - 1):
        if 0 <= coin < 1 << 80:
            told = flip(Scripted(coin >> 16, coin & 0xFFFF), probability, 1)  # type: ignore[arg-type]
            assert told[0] == (coin < place)


@pytest.mark.parametrize("most", [1, 2, 3, 10, 2**31 - 1])
def test_whole_numbers_below_a_bound_are_all_alike(most: int) -> None:
    """The least 96 bits that give each number are where they should be."""
    for number in {0, 1, most // 2, most - 1}:
        first = -(-(number << 96) // most)
        for place in (first, first - 1):
            if 0 <= place < 1 << 96:
                scripted = Scripted(place >> 32, (place & 0xFFFFFFFF) << 32)
                assert whole.draw_below(scripted, most, 1)[0] == place * most >> 96  # type: ignore[arg-type]


# Vectors


@given(st.integers(1, 2**78))
def test_squares_add_up_smoothly(total: int) -> None:
    found = vectors.squares(total)
    assert len(found) == 11
    assert total - 8 <= sum(number * number for number in found) <= total
    before = 0
    for number in found:
        assert number * number <= 65536 * before or number == 1 == found[0]
        before += number * number


@pytest.mark.parametrize("size", [1, 3])
def test_vector_noise_has_a_gamma_length_and_no_direction(size: int) -> None:
    chance, values = source(size), np.full(size, 7.25)
    noise = -values + [
        vectors.add_whole_vector_laplace(chance, values, max_norm=0.5, epsilon=0.25) for _ in range(300)
    ]
    lengths = np.linalg.norm(noise, axis=1) / 2
    assert stats.kstest(lengths, lambda r: gammainc(size, r)).pvalue > RARE
    assert stats.kstest(2 * lengths, lambda r: gammainc(size, r)).pvalue < RARE  # planted: halved
    assert stats.kstest(lengths, lambda r: gammainc(size + 1, r)).pvalue < RARE  # planted: one dimension off
    directions = noise / np.linalg.norm(noise, axis=1, keepdims=True)
    # Each mean coordinate is beyond 6 standard errors with probability 2e-9.
    assert np.abs(directions.mean(axis=0)).max() < 6 / math.sqrt(size * 300)
    step = vectors.vector_grid(size, max_norm=0.5, epsilon=0.25)
    assert np.array_equal(np.rint((noise + values) / step), (noise + values) / step)


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20),
    st.floats(0, 1),
    st.floats(1e-3, 1e3),
    st.floats(1e-4, 1e2),
    st.sampled_from([1.0, 2.0**30, 2.0**40]),
)
def test_neighbours_on_the_grid_of_vectors_cost_epsilon_at_most(
    start: list[float], share: float, max_norm: float, epsilon: float, coarser: float
) -> None:
    """On the grid itself, and on coarser ones, where rounding counts: not a single step is forgotten."""
    size = len(start)
    step = coarser * vectors.vector_grid(size, max_norm=max_norm, epsilon=epsilon)
    each = share * max_norm / math.sqrt(size)
    there = [value + each for value in start]
    apart = sum((Fraction(b) - Fraction(a)) ** 2 for a, b in zip(start, there, strict=True))
    if apart > Fraction(max_norm) ** 2:  # float addition went too far
        return
    moved = sum(
        (round(Fraction(b) / Fraction(step)) - round(Fraction(a) / Fraction(step))) ** 2
        for a, b in zip(start, there, strict=True)
    )
    rate = vectors.rate_in_steps(size, step, max_norm=max_norm, epsilon=epsilon)
    assert moved * rate * rate <= Fraction(epsilon) ** 2
    # Rounding can add a whole step in every coordinate, which few examples do.
    added = Fraction(epsilon) / rate - Fraction(max_norm) / Fraction(step)
    assert added > 0
    assert added**2 >= size


def test_vectors_far_away_stay_where_they_are() -> None:
    noisy = vectors.add_whole_vector_laplace(source(), [1e12, -1e12], max_norm=1e-9, epsilon=10.0)
    assert noisy == pytest.approx([1e12, -1e12], rel=1e-12)
    with pytest.raises(InvalidArgument, match="not a number"):
        vectors.add_whole_vector_laplace(source(), [math.nan], max_norm=1.0, epsilon=1.0)
