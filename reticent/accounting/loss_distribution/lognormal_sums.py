"""Laws of sums of independent lognormal numbers, rounded to a larger or to a smaller one in the convex order.

    X_1 + ... + X_t,    X_i = exp(mu z_i - mu^2 / 2),    z_i standard normal

A law is larger in the convex order if it gives every convex function a mean that is at least as large. The
order survives sums and products of independent positive numbers, so it is enough to keep it in each addition:

    spread    every number between two points of a geometric grid goes to both, its mean kept: larger
    merge     numbers that fall near one another become one, their mean: smaller

Sums are built by doubling. All terms are positive, so that tails keep their digits. Section 2.7 of
docs/accounting.md has the proofs.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from reticent.accounting.loss_distribution.pairs import UNIT, GaussianPair

_TAIL = 12.7  # standard deviations; beyond it a normal tail is below 1e-36
_NOTHING = 1e-31  # mass, or part of the mean, that is cut off each end of a law at every addition
_CELLS = 48.0  # of a grid, in a standard deviation of the sum
_USUAL = 20_000  # steps up to which so many cells take a second or so
_WIDEST = 1 / 32  # the largest step of a grid, in the logarithm
_FINEST = 2.0**-21  # the smallest: an addition moves numbers by up to ln 2, and all of that is kept


class Law(NamedTuple):
    """Chances of numbers on the grid e^((first + i) spacing), under the law without the record.

    means: chance times number of each entry, for a merged law, whose numbers lie anywhere near their points.
    zero: the chance of the number 0.
    infinite: what an infinite number of no chance adds to the mean.
    mass_error, mean_error: relative bounds on the rounding of chances and of numbers.
    """

    spacing: float
    first: int
    masses: np.ndarray
    means: np.ndarray | None
    zero: float
    infinite: float
    mass_error: float
    mean_error: float


@lru_cache(maxsize=16)
def law_of_sum(mu: float, steps: int, *, is_upper: bool) -> Law:
    """The law of X_1 + ... + X_t, spread or merged, along the binary digits of t.

    The sums of m and of m + 1 numbers give those of 2 m, 2 m + 1 and 2 m + 2.
    """
    small = _law_of_one(mu, _spacing(mu, 1, steps), is_upper=is_upper)
    large, count = small, 1  # `large` is the sum of one more, from the first step on
    digits = f"{steps:b}"[1:]
    last = digits.rfind("1")  # from here on doubling is enough
    for place, digit in enumerate(digits):
        pairs = ((small, small), (small, large)) if digit == "0" else ((small, large), (large, large))
        if count == 1:
            large = trim(_add(small, small), 2)
            pairs = ((small, small), (small, large)) if digit == "0" else ((small, large), (large, large))
        count = 2 * count + int(digit)
        spacing = _spacing(mu, count, steps)
        found = [
            _refine(trim(_add(*pair), count + more), spacing)
            for more, pair in enumerate(pairs if place < last else pairs[:1])
        ]
        small, large = found[0], found[-1]
    return small


def scaled(law: Law, divisor: int) -> tuple[Law, float]:
    """A spread law of numbers over `divisor`, but for a rest: the logarithm of a factor that is missing."""
    steps = round(math.log(divisor) / law.spacing)
    moved = law._replace(
        first=law.first - steps, infinite=law.infinite * math.exp(-steps * law.spacing) * (1 + 1e-9)
    )
    return moved, steps * law.spacing - math.log(divisor)


def power_of(law: Law, times: int) -> Law:
    """The spread law of a product of so many independent numbers, each of mean near 1 and of this law.

    Products of two points of the grid lie on the grid: nothing is rounded but the ends.
    """
    found = law
    for digit in f"{times:b}"[1:]:
        found = product(found, found)
        if digit == "1":
            found = product(found, law)
    return found


def product(a: Law, b: Law) -> Law:
    """The spread law of a product of two independent numbers, each of mean near 1."""
    finest = min(a.spacing, b.spacing)  # a power of two, and all points of the other are on it
    a, b = _refine(a, finest), _refine(b, finest)
    rounding = UNIT * (2 * min(len(a.masses), len(b.masses)) + 64)
    mean = [float(_relative_means(law, 1).sum()) + law.infinite for law in (a, b)]
    whole = Law(
        spacing=a.spacing,
        first=a.first + b.first,
        masses=np.convolve(a.masses, b.masses),
        means=None,
        zero=a.zero + b.zero,
        infinite=a.infinite * mean[1] + b.infinite * mean[0],
        mass_error=a.mass_error + b.mass_error + rounding,
        mean_error=a.mean_error + b.mean_error,
    )
    return trim(whole, 1)


def _spacing(mu: float, count: int, steps: int) -> float:
    """A power of two, so that points are exact; rounding of a sum of few counts less in the end."""
    deviation = math.sqrt(math.expm1(mu * mu) / count)
    cells = max(_CELLS * min(math.sqrt(_USUAL / steps), 1.0), 12.0)
    wanted = min(deviation / cells, _WIDEST * math.sqrt(min(steps / count, 4.0)))
    return max(2.0 ** math.floor(math.log2(wanted)), _FINEST)


def _law_of_one(mu: float, spacing: float, *, is_upper: bool) -> Law:
    reach = _TAIL * mu + mu * mu / 2
    first, last = math.floor(-reach / spacing), math.ceil(reach / spacing)
    edges = spacing * np.arange(first, last + 1)
    p, q, p_error, q_error = GaussianPair(mu).masses(edges)
    wrong = max(_worst(p_error, p), _worst(q_error, q))
    if not is_upper:
        q_inner, p_inner = q[1:-1].copy(), p[1:-1].copy()
        for part, whole in ((q_inner, q), (p_inner, p)):
            part[0] += whole[0]
            part[-1] += whole[-1]
        return Law(spacing, first, q_inner, p_inner, 0.0, 0.0, wrong, wrong)
    low = np.exp(edges)
    upper = np.clip((p[1:-1] / low[:-1] - q[1:-1]) / math.expm1(spacing), 0.0, q[1:-1])
    masses = np.zeros(len(edges))
    masses[:-1] += q[1:-1] - upper
    masses[1:] += upper
    masses[0] += p[0] / low[0]
    masses[-1] += q[-1]
    zero = max(float(q[0] - p[0] / low[0]), 0.0)
    mean_error = 2 * wrong + 16 * UNIT * (1 + reach)
    return Law(spacing, first, masses, None, zero, float(p[-1]), 2 * wrong + 8 * UNIT, mean_error)


def _worst(error: np.ndarray, mass: np.ndarray) -> float:
    return float(np.max(error[mass > 0] / mass[mass > 0]))


def _add(a: Law, b: Law) -> Law:
    """The sum of two independent numbers; the same law twice is worked off once."""
    is_upper = a.means is None
    first = min(a.first, b.first) if is_upper else max(a.first, b.first)
    last = max(a.first + len(a.masses), b.first + len(b.masses))
    size = last - first + math.ceil(math.log(2) / a.spacing) + 2
    out = Law(a.spacing, first, np.zeros(size), None if is_upper else np.zeros(size), 0.0, 0.0, 0.0, 0.0)
    if a is b:
        _add_ordered(out, a, a, ties=0.5, times=2.0)
    else:
        _add_ordered(out, a, b, ties=1.0, times=1.0)
        _add_ordered(out, b, a, ties=0.0, times=1.0)
    if is_upper:
        for part, zero in ((a, b.zero), (b, a.zero)):
            out.masses[part.first - first :][: len(part.masses)] += zero * part.masses
    rounding = UNIT * (2 * (len(a.masses) + len(b.masses)) + 64)  # each sum has fewer terms, all positive
    return out._replace(
        zero=a.zero * b.zero,
        infinite=a.infinite + b.infinite,
        mass_error=a.mass_error + b.mass_error + rounding,
        # Of a spread law, a factor on the numbers; of a merged one, the relative error of the means.
        mean_error=max(a.mean_error, b.mean_error) + 16 * UNIT
        if is_upper
        else max(a.mass_error + b.mean_error, a.mean_error + b.mass_error) + rounding,
    )


def _add_ordered(out: Law, larger: Law, smaller: Law, *, ties: float, times: float) -> None:
    """Adds the sums of a number of `larger` and one of `smaller` that is at most as far up the grid.

    e^(i h) + e^((i - d) h) = e^(i h + ln(1 + e^(-d h))): the larger one moves up by a step count that the
    distance d alone decides, and distances with the same count are worked off together.
    """
    h, is_upper = out.spacing, out.means is None
    start = max(larger.first, smaller.first)  # the first place that may be the larger one
    tops = [part[start - larger.first :] for part in _parts(larger)]
    count = len(tops[0])
    if not count:
        return
    # Distances that occur, as far as they move the larger number by a whole step or so.
    near = min(start + count - smaller.first, math.ceil(-math.log(math.expm1(h)) / h) + 2)
    grown = np.log1p(np.exp(-h * np.arange(near)))
    shift = np.floor(grown / h + (0.0 if is_upper else 0.5)).astype(int)
    weight = np.full(near, times)
    weight[0] *= ties
    upper = weight * np.clip(np.expm1(grown - h * shift) / math.expm1(h), 0.0, 1.0)  # the upper end's share
    below = [_between(part, smaller.first, start - near + 1, start + count) for part in _parts(smaller)]
    begin = max(start - (smaller.first + len(smaller.masses) - 1), 0)  # no two numbers are nearer
    ends = np.append(np.flatnonzero(np.diff(shift)) + 1, near)
    for end in ends[ends > begin].tolist():
        # Distances begin..end-1: a sum over places that lie side by side.
        window, some = slice(near - end, near - begin - 1 + count), slice(begin, end)
        at = start + int(shift[begin]) - out.first
        if is_upper:
            stay = np.convolve(below[0][window], weight[some] - upper[some], "valid")
            out.masses[at : at + count] += stay * tops[0]
            out.masses[at + 1 : at + 1 + count] += (
                np.convolve(below[0][window], upper[some], "valid") * tops[0]
            )
        else:
            _add_merged(out, at, tops, [np.convolve(part[window], weight[some], "valid") for part in below])
        begin = end
    _add_far(out, tops, smaller, start, near, times)


def _add_merged(out: Law, at: int, tops: list[np.ndarray], sums: list[np.ndarray]) -> None:
    mass, mean = sums
    masses, means = _parts(out)
    rows = slice(at, at + len(mass))
    masses[rows] += mass * tops[0]
    means[rows] += mass * tops[1] + mean * tops[0]


def _add_far(out: Law, tops: list[np.ndarray], smaller: Law, start: int, near: int, times: float) -> None:
    """Adds the sums with numbers so much smaller that they move the larger one by less than a step."""
    h, count = out.spacing, len(tops[0])
    # How many numbers are so far below each place.
    far = np.clip(start + np.arange(count) - near - smaller.first + 1, 0, len(smaller.masses))
    if not far[-1]:
        return
    if not math.exp(-h * near) <= math.expm1(h):
        raise ArithmeticError("a far number would move the larger one by a whole step")
    sums = [times * np.append(0.0, np.cumsum(part))[far] for part in _parts(smaller)]
    at = start - out.first
    if out.means is not None:
        _add_merged(out, at, tops, sums)
        return
    places = np.arange(len(smaller.masses)) - len(smaller.masses)  # from the end, so that nothing overflows
    worth = times * np.append(0.0, np.cumsum(smaller.masses * np.exp(h * places)))[far]
    scale = np.exp(h * (smaller.first + len(smaller.masses) - start - np.arange(count)))
    up = np.minimum(worth * scale / math.expm1(h), sums[0])
    out.masses[at : at + count] += (sums[0] - up) * tops[0]
    out.masses[at + 1 : at + 1 + count] += up * tops[0]


def _between(part: np.ndarray, first: int, low: int, high: int) -> np.ndarray:
    """Entries low..high-1 of an array that begins at `first`; zeros where it has none."""
    found = np.zeros(high - low)
    begin, end = max(low, first), min(high, first + len(part))
    if end > begin:
        found[begin - low : end - low] = part[begin - first : end - first]
    return found


def _parts(law: Law) -> list[np.ndarray]:
    return [law.masses] if law.means is None else [law.masses, law.means]


def trim(law: Law, count: int) -> Law:
    """Cuts off both ends of a law of a sum of `count` numbers, where next to nothing lies."""
    numbers = _relative_means(law, count)
    right = np.cumsum(numbers[::-1])[::-1]  # the part of the mean from each place on
    left = np.cumsum(law.masses)
    begin = int(np.searchsorted(left, _NOTHING))
    end = max(len(right) - int(np.searchsorted(right[::-1], _NOTHING)), begin + 1)
    first = law.first + begin
    kept = law.masses[begin:end].copy()
    below, above = law.masses[:begin], law.masses[end:]
    if law.means is not None:
        means = law.means[begin:end].copy()
        for part, whole in ((kept, law.masses), (means, law.means)):
            part[0] += whole[:begin].sum()
            part[-1] += whole[end:].sum()
        return law._replace(first=first, masses=kept, means=means)
    # Left: to 0 and the first place kept. Right: to the last one, and the rest of the mean to infinity.
    share = float(np.sum(below * np.exp(law.spacing * (np.arange(begin) - begin))))
    kept[0] += share
    kept[-1] += above.sum()
    return law._replace(
        first=first,
        masses=kept,
        zero=law.zero + max(float(below.sum()) - share, 0.0),
        infinite=law.infinite + count * float(numbers[end:].sum()),
    )


def _relative_means(law: Law, count: int) -> np.ndarray:
    """What each entry adds to the mean of the sum, over the number of terms: the P mass of the entry."""
    if law.means is not None:
        return law.means / count
    places = law.first + np.arange(len(law.masses))
    return law.masses * np.exp(law.spacing * places - math.log(count))


def _refine(law: Law, spacing: float) -> Law:
    """The same law on a grid that has all points of its own, or with finer cells."""
    factor = round(law.spacing / spacing)
    if factor <= 1:
        return law
    if law.means is None:
        masses = np.zeros((len(law.masses) - 1) * factor + 1)
        masses[::factor] = law.masses
        return law._replace(spacing=spacing, first=law.first * factor, masses=masses)
    keep = law.masses > 0
    masses, means = law.masses[keep], law.means[keep]
    cells = np.floor(np.log(means / masses) / spacing).astype(int)
    first = int(cells.min())
    return law._replace(
        spacing=spacing,
        first=first,
        masses=np.bincount(cells - first, weights=masses),
        means=np.bincount(cells - first, weights=means),
    )
