"""Composes lattices by FFT, with every error term carried along.

The T-fold sum of losses is tilted (each mass times e^{tilt * loss}) so that the part that decides
epsilon sits in the middle of the window with probability of order one: float64 then resolves a delta
of 1e-20 as well as one of 1e-2. The choice of tilt and window affects how tight the result is, never
whether it holds. Section 4 of docs/accounting.md derives each term; comments name it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy import fft

from reticent.accounting.loss_distribution.lattice import Lattice, Sketch, log_moments
from reticent.accounting.loss_distribution.pairs import UNIT

_LARGEST_WINDOW = 2**22  # points: 32 MB a copy
_PRECISIONS = ((np.float64, UNIT), (np.longdouble, float(np.finfo(np.longdouble).eps) / 2))
_DEEPEST = 600.0  # the exponent at which a tilted weight counts as zero
_ODD = np.array([3**i * 5**j for i in range(16) for j in range(12) if 3**i * 5**j < 2**25])  # next to windows
_STEPS = np.geomspace(0.02, 50, 24)  # of a tilt, in units of its own
_MOST_EXTENDED = 2**18  # points: extended precision is several times slower


class RepeatedLattice(NamedTuple):
    """A release and how often it is made."""

    lattice: Lattice
    times: int


class Composition(NamedTuple):
    """The composed losses x, with P(x) in [mass - error, mass + error] * exp(log_scale - tilt * x).

    outside: tilted mass beyond the window, which wraps around into it.
    beyond: P mass of finite losses right of the window.
    infinite: P mass of an infinite loss.
    relative: how wrong the whole may be by rounding of the weights and of sums.
    """

    losses: np.ndarray
    mass: np.ndarray
    error: float
    tilt: float
    log_scale: float
    outside: float
    beyond: float
    infinite: float
    relative: float

    def epsilon_above(self, delta: float) -> float | None:
        """The smallest epsilon in the window whose delta is certainly at most `delta`.

        None when it lies left of the window, infinity when there is none.
        """
        lost = (self.beyond + self.infinite) * (1 + self.relative)
        tails = self._tails(sign=1)
        if not (lost < delta and tails.is_a_bound):
            return np.inf
        return tails.crossing(delta - lost)

    def epsilon_below(self, delta: float) -> float | None:
        """The largest epsilon in the window whose delta is certainly at least `delta`."""
        certain = self.infinite * (1 - self.relative)
        if certain > delta:
            return np.inf
        tails = self._tails(sign=-1)
        if not tails.is_a_bound:
            return 0.0
        rough = tails.crossing(delta - certain)
        if rough is None:
            return None
        for margin in np.array([0.001, 0.01, 0.1, 1.0, 10.0]) / self.tilt:
            # Right of `least`, what wrapped around weighs no more than it does there.
            least = max(rough - margin, 0.0)
            wrapped = self.outside * _exp(self.log_scale - self.tilt * least)
            found = tails.crossing(delta - certain + wrapped)
            if found is not None and found >= least:
                return found
        return 0.0

    def _tails(self, sign: int) -> _Tails:
        """Running sums with every error counted upwards (sign 1) or downwards (sign -1)."""
        # Losses left of this matter to no epsilon, or carry weights beyond the range of float64.
        least = max(0.0, float(self.losses[0]), (self.log_scale - 600.0) / self.tilt)
        start = int(np.searchsorted(self.losses, least, side="left"))
        x = self.losses[start:]
        step = float(self.losses[1] - self.losses[0])
        origin = float(x[0]) if len(x) else 0.0
        weights = _geometric(self.log_scale - self.tilt * origin, -self.tilt * step, len(x))
        mass = self.mass[start:]
        mass = np.maximum(mass, 0.0) + self.error if sign > 0 else np.maximum(mass - self.error, 0.0)
        weighted = np.minimum(mass * weights, 1.0)  # no bound on a probability need be larger
        above = np.cumsum(weighted[::-1])[::-1] * (1 + sign * self.relative)
        # Running sums of n terms, and the powers that scale them, are right to a few n u (section 4.6).
        leeway = max(1 - sign * (self.relative + UNIT * (4 * len(x) + 16 * 700)), 0.0)
        return _Tails(x, weighted, above, step, leeway, is_complete=least == 0.0)


class _Tails(NamedTuple):
    """Losses x, the mass of each, and running sums of the masses from each one on."""

    x: np.ndarray
    masses: np.ndarray
    above: np.ndarray
    step: float
    leeway: float  # what is subtracted counts with this factor, to stay on the safe side
    is_complete: bool  # nothing to the left was left out

    @property
    def is_a_bound(self) -> bool:
        """Whether all of it are numbers: one that is not, anywhere, is in the sum of all."""
        return math.isfinite(self.leeway) and bool(np.isfinite(self.above[:1]).all())

    def crossing(self, delta: float) -> float | None:
        """The epsilon at which delta falls to this; None when that is left of all losses.

        Between two losses, delta is above - e^(epsilon - origin) scaled, both taken at the right one,
        where `scaled` sums masses times e^(origin - x): the crossing is known exactly.
        """
        if not len(self.x):
            return None
        # delta at x is below the mass from x on, so the crossing is at or left of this loss.
        last = max(int(np.count_nonzero(self.above > delta)) - 1, 0)
        first = max(last - int(600 / self.step), 0)  # further left e^(origin - x) would overflow
        offsets = (first - last) * self.step
        shrunk = self.masses[first:] * _geometric(-offsets, -self.step, len(self.x) - first)
        scaled = np.cumsum(shrunk[::-1])[::-1][: last - first + 2] * self.leeway
        above = self.above[first : last + 2]
        grown = _geometric(offsets, self.step, len(above))
        # At x itself, x adds nothing. Right of `last` alone may `grown` be infinite, and 0 times it be NaN:
        # there `above` as a whole is at most delta, and no comparison with NaN holds, so that both say no.
        with np.errstate(over="ignore", invalid="ignore"):
            is_above = above - grown * scaled > delta
        if is_above[0]:
            index = int(np.flatnonzero(is_above)[-1]) + 1
        elif first == 0 and self.is_complete:
            index = 0
        else:
            return None
        if index == len(above) or above[index] <= delta:
            return max(float(self.x[first + index - 1]), 0.0) if index else 0.0
        with np.errstate(divide="ignore"):  # a leeway of 0 leaves nothing to subtract: infinite
            log_ratio = float(np.log(above[index] - delta) - np.log(scaled[index]))
        # At the loss before, delta is still above: where only the leeway makes it so, it drops right there.
        least = float(self.x[first + index - 1]) if index else 0.0
        return max(float(self.x[last]) + log_ratio, least, 0.0)


def log_moment(lattice: Lattice, tilt: float) -> float:
    """ln E[e^{tilt * loss}] over the finite losses, in P."""
    exponents = tilt * lattice.losses
    top = exponents[lattice.masses > 0].max()
    return float(top + np.log(np.sum(lattice.masses * np.exp(np.minimum(exponents - top, 0.0)))))


def compose(
    parts: list[RepeatedLattice], copies: list[Sketch], tilt: float, width: float, tolerated: float
) -> Composition:
    """The composition of all parts, on a window of at least `width` around the tilted mean.

    Args:
        copies: coarse copies of the parts, which help to choose the window.
        tolerated: the tilted mass that may fall outside the window, or that rounding may add up to
            before extended precision is worth its time.
    """
    total_times = sum(part.times for part in parts)
    tilted = [_tilt_weights(part.lattice, tilt) for part in parts]
    log_scale = sum(part.times * item.log_moment for part, item in zip(parts, tilted, strict=True))
    mean = sum(part.times * item.mean for part, item in zip(parts, tilted, strict=True))
    spacing = parts[0].lattice.spacing
    window = _choose_window(parts, copies, tilt, mean, width, log_scale, tolerated)
    shift = sum(part.times * part.lattice.offset for part in parts)
    origin = int(np.floor((mean - shift) / spacing)) - window.size // 2
    points = min(window.size, 1 / (tilt * spacing))  # that carry weight near epsilon
    mass, error = _convolve(parts, tilted, window.size, origin, tolerated / points)
    losses = shift + spacing * (origin + np.arange(window.size))
    infinite = -np.expm1(sum(part.times * np.log1p(-min(part.lattice.infinite, 1 - UNIT)) for part in parts))
    # Rounding of the tilted weights and of the log moments, once per release, and of running sums (4.5, 4.6).
    largest = max(float(np.abs(item.exponents).max()) for item in tilted)
    farthest = abs(log_scale) + tilt * max(abs(losses[0]), abs(losses[-1]))
    rounding = UNIT * (8 * total_times * (4 + largest) + 16 * (1 + farthest) + 4 * window.size)
    relative = float(np.expm1(rounding))
    return Composition(
        losses=losses,
        mass=mass,
        error=error,
        tilt=tilt,
        log_scale=log_scale,
        outside=window.outside,
        beyond=window.beyond,
        infinite=float(infinite),
        relative=relative,
    )


class _Tilted(NamedTuple):
    weights: np.ndarray  # sum to 1
    exponents: np.ndarray
    log_moment: float
    mean: float


class _Window(NamedTuple):
    size: int
    outside: float
    beyond: float


def _tilt_weights(lattice: Lattice, tilt: float) -> _Tilted:
    losses = lattice.losses
    exponents = tilt * losses
    top = exponents[lattice.masses > 0].max()
    exponents = np.clip(exponents - top, -_DEEPEST, 0.0)
    # Weights below e^-600 are nothing beside the rounding of the others, and slow as subnormal numbers.
    weights = np.where(exponents > -_DEEPEST, lattice.masses, 0.0) * np.exp(exponents)
    total = weights.sum()
    weights /= total
    # Not a BLAS product: its idle threads would burn a second core for long after.
    return _Tilted(weights, exponents, float(top + np.log(total)), float(np.sum(weights * losses)))


def _choose_window(
    parts: list[RepeatedLattice],
    copies: list[Sketch],
    tilt: float,
    mean: float,
    width: float,
    log_scale: float,
    tolerated: float,
) -> _Window:
    """The smallest handy size that holds `width`, widened until next to nothing is outside.

    Chernoff's bound on both sides: the mass beyond x is at most E[e^{s (loss - x)}] for every s > 0.
    A coarse copy finds a good s, the lattice itself says what it proves.
    """
    steps = _STEPS * _unit_tilt(parts, copies, tilt)
    rightward = _coarse_moments(parts, copies, tilt + steps) - log_scale - steps * mean
    leftward = _coarse_moments(parts, copies, tilt - steps) - log_scale + steps * mean
    spacing = parts[0].lattice.spacing
    size = max(16, int(width / spacing))
    while True:
        half = (size // 2 - 1) * spacing
        if size < _LARGEST_WINDOW and _exp((rightward - steps * half).min()) > tolerated / 2:
            size += size // 16 + 1
            continue
        size = _handy(size)
        half = (size // 2 - 1) * spacing
        right, left = mean + half, mean - half
        s = tilt + steps[np.argmin(rightward - steps * half)]
        beyond = _log_sum_moment(parts, s) - s * right
        outside = _exp(beyond + tilt * right - log_scale)
        s = tilt - steps[np.argmin(leftward - steps * half)]
        outside += _exp(_log_sum_moment(parts, s) - s * left + tilt * left - log_scale)
        if not (outside > tolerated and size < _LARGEST_WINDOW):
            return _Window(size, min(outside, 1.0) * (1 + 1e-9), min(_exp(beyond), 1.0) * (1 + 1e-9))
        size += size // 8


def _coarse_moments(parts: list[RepeatedLattice], copies: list[Sketch], tilts: np.ndarray) -> np.ndarray:
    total = np.zeros(len(tilts))
    for part, copy in zip(parts, copies, strict=True):
        total += part.times * log_moments(copy, tilts)
    return total


def _unit_tilt(parts: list[RepeatedLattice], copies: list[Sketch], tilt: float) -> float:
    """One over the composed standard deviation under this tilt: the natural size of a change of it."""
    variance = 0.0
    for part, copy in zip(parts, copies, strict=True):
        exponents = tilt * copy.losses + np.log(copy.masses)
        weights = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        centre = np.sum(weights * copy.losses)
        variance += part.times * float(np.sum(weights * np.square(copy.losses - centre)))
    return 1 / max(np.sqrt(variance), parts[0].lattice.spacing)


def _log_sum_moment(parts: list[RepeatedLattice], tilt: float) -> float:
    return sum(part.times * log_moment(part.lattice, tilt) for part in parts)


def _convolve(
    parts: list[RepeatedLattice], tilted: list[_Tilted], size: int, origin: int, tolerated: float
) -> tuple[np.ndarray, float]:
    """The tilted masses of the composed losses in the window, and a bound on the error of each.

    A transform of n values is wrong by at most 8 u log2(n) times their absolute sum in every entry
    (section 4.4). Where that is more than is tolerated, extended precision is tried.
    """
    mass, error = np.zeros(size), np.inf
    for kind, unit in _PRECISIONS:
        mass, error = _convolve_in(kind, unit, parts, tilted, size, origin)
        if error <= tolerated or size > _MOST_EXTENDED:
            break
    return mass, error


def _convolve_in(
    kind: type[np.floating],
    unit: float,
    parts: list[RepeatedLattice],
    tilted: list[_Tilted],
    size: int,
    origin: int,
) -> tuple[np.ndarray, float]:
    count = size // 2 + 1
    turn = 2 * np.arccos(kind(-1))  # pi to all digits of this kind
    keep, dropped = np.ones(count, dtype=bool), 0.0
    powers = []
    for part, item in zip(parts, tilted, strict=True):
        # The heaviest point is left out of the transform and put back exactly: F = total + (F' - rest).
        heaviest = int(np.argmax(item.weights))
        others = item.weights.astype(kind)
        others[heaviest] = 0.0
        rest = others.sum()
        total = rest + kind(item.weights[heaviest])  # 1 but for rounding
        noise = float(8 * unit * np.log2(size) * rest + 4 * unit)
        change = (np.asarray(fft.rfft(_wrap_around(others, size, heaviest))) - rest) / total
        real, imaginary = change.real, change.imag
        # Frequencies whose power is below e^-60 count as zero; each is wrong by its bound.
        least = np.exp(-60.0 / part.times)
        keep &= ~(np.square(1 + real) + np.square(imaginary) <= least * least)
        dropped = float(np.maximum(dropped, _exp(part.times * np.log(least + noise))))
        powers.append((part.times, part.lattice.first + heaviest, np.log(total), real, imaginary, noise))
    where = np.flatnonzero(keep)
    log_power, log_bound, phase = (np.zeros(len(where), kind) for _ in range(3))
    turns = 0
    for times, index, log_total, real, imaginary, noise in powers:
        log_size = _log_modulus(real[where], imaginary[where]) + log_total
        log_power += times * log_size
        log_bound += times * (log_size + np.log1p(noise * np.exp(-log_size)))
        phase += np.mod(times * np.arctan2(imaginary[where], 1 + real[where]), turn)
        turns += times * index
    # A shift of the window is a turn of every phase; whole turns are left out before they cost digits.
    phase -= np.mod(((turns - origin) % size) * where, size) * (turn / size)
    power = np.exp(log_power)
    powered = np.zeros(count, np.result_type(kind, np.complex64))
    powered[where] = power * (np.cos(phase) + 1j * np.sin(phase))
    mass = np.asarray(fft.irfft(powered, size), np.float64)
    total_times = sum(part.times for part in parts)
    power_error = 16 * unit * (total_times + 4) + 8 * unit * np.log2(size)
    errors = power * (np.expm1(log_bound - log_power) + power_error)
    total = float(errors.sum()) + dropped * (count - len(where))
    return mass, 2 * total / size + UNIT * float(np.abs(mass).max())


def _log_modulus(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """ln |1 + real + i imaginary|, with all its digits also where that is near 0."""
    excess = real * (2 + real) + imaginary * imaginary
    with np.errstate(divide="ignore"):
        far = 0.5 * np.log(np.square(1 + real) + np.square(imaginary))
    return np.where(np.abs(excess) < 0.5, 0.5 * np.log1p(np.maximum(excess, -0.5)), far)


def _handy(size: int) -> int:
    """The next size with no prime factor above 5, so that its transform is fast and accurate."""
    doublings = np.ceil(np.log2(np.maximum(size / _ODD, 1.0))).astype(int)
    sizes = _ODD << doublings
    return int(sizes[sizes >= size].min())


def _wrap_around(weights: np.ndarray, size: int, origin: int) -> np.ndarray:
    """The weights laid round a circle of `size` points, with the one at `origin` at position 0."""
    circle = np.zeros(size, weights.dtype)
    for start in range(-origin, len(weights) - origin, size):
        row = weights[start + origin : start + origin + size]
        at = start % size
        fits = min(len(row), size - at)
        circle[at : at + fits] += row[:fits]
        circle[: len(row) - fits] += row[fits:]
    return circle


def _geometric(first: float, step: float, count: int) -> np.ndarray:
    """e^(first + i step) for i below `count`: one product an entry instead of one exponential."""
    block = 256
    rows = -(-count // block)
    with np.errstate(over="ignore", under="ignore"):
        coarse = np.exp(first + step * block * np.arange(rows))
        fine = np.exp(step * np.arange(block))
        return np.multiply.outer(coarse, fine).ravel()[:count]


def _exp(value: float) -> float:
    return float(np.exp(min(value, 700.0)))
