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

from reticent.accounting.loss_distribution.lattice import Lattice, RepeatedLattice, Sketch
from reticent.accounting.loss_distribution.pairs import UNIT
from reticent.accounting.loss_distribution.window import CENTRAL, TiltedSum, choose_window

_PRECISIONS = ((np.float64, UNIT), (np.longdouble, float(np.finfo(np.longdouble).eps) / 2))
_DEEPEST = 600.0  # the exponent at which a tilted weight counts as zero
_LONGEST = 600.0  # between two losses: further away e^(origin - x) would overflow
_LITTLE = 1e-3  # of delta: more that wraps around is worth a wider window
_MOST_EXTENDED = 2**18  # points: extended precision is several times slower


class Composition(NamedTuple):
    """The composed losses x, with P(x) in [mass - error, mass + error] * exp(log_scale - tilt * x).

    mean: of the tilted masses, in the middle of the window.
    outside: tilted mass beyond the window, which wraps around into it.
    returning: the most that it counts for right of a loss e that `is_central`: e^{-tilt (x - e)} at x.
    beyond: P mass of finite losses right of the window.
    infinite: P mass of an infinite loss.
    relative: how wrong the whole may be by rounding of the weights and of sums.
    """

    losses: np.ndarray
    mass: np.ndarray
    error: float
    tilt: float
    log_scale: float
    mean: float
    outside: float
    returning: float
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
            most = self.returning if self.is_central(least) else self.outside
            wrapped = most * _exp(self.log_scale - self.tilt * least)
            if wrapped > _LITTLE * delta and not self.is_central(least):
                return None  # in a wider window it will be
            found = tails.crossing(delta - certain + wrapped)
            if found is not None and found >= least:
                return found
        return 0.0

    def is_central(self, loss: float) -> bool:
        """Whether a loss is near the middle of the window: what wraps around comes from far away (4.2)."""
        width = float(self.losses[1] - self.losses[0]) * len(self.losses)
        return abs(loss - self.mean) <= CENTRAL * width

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
        grown = _geometric(0.0, step, len(x)) if len(x) * step < _LONGEST else None
        scaled = None if grown is None else np.cumsum((weighted / grown)[::-1])[::-1] * leeway
        return _Tails(x, weighted, above, step, leeway, least == 0.0, grown, scaled)


class _Tails(NamedTuple):
    """Losses x, the mass of each, and running sums of the masses from each one on."""

    x: np.ndarray
    masses: np.ndarray
    above: np.ndarray
    step: float
    leeway: float  # what is subtracted counts with this factor, to stay on the safe side
    is_complete: bool  # nothing to the left was left out
    grown: np.ndarray | None  # e^(x - origin), where the origin is the first loss: None if that is too far
    scaled: np.ndarray | None

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
        if self.grown is not None and self.scaled is not None:
            first, origin = 0, float(self.x[0])
            grown, scaled = self.grown[: last + 2], self.scaled[: last + 2]
        else:
            first, origin = max(last - int(_LONGEST / self.step), 0), float(self.x[last])
            offsets = (first - last) * self.step
            shrunk = self.masses[first:] * _geometric(-offsets, -self.step, len(self.x) - first)
            scaled = np.cumsum(shrunk[::-1])[::-1][: last - first + 2] * self.leeway
            grown = _geometric(offsets, self.step, len(scaled))
        above = self.above[first : last + 2]
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
        return max(origin + log_ratio, least, 0.0)


def compose(
    parts: list[RepeatedLattice],
    copies: list[Sketch],
    tilt: float,
    width: float,
    tolerated: float,
    near: float | None = None,
) -> Composition:
    """The composition of all parts, on a window of at least `width` around the tilted mean.

    Args:
        copies: coarse copies of the parts, which help to choose the window.
        tolerated: the tilted mass that may fall outside the window, or that rounding may add up to
            before extended precision is worth its time.
        near: the epsilon that is sought, or so; the tilted mean, unless given.
    """
    total_times = sum(part.times for part in parts)
    tilted = [_tilt_weights(part.lattice, tilt) for part in parts]
    log_scale = sum(part.times * item.log_moment for part, item in zip(parts, tilted, strict=True))
    mean = sum(part.times * item.mean for part, item in zip(parts, tilted, strict=True))
    spacing = parts[0].lattice.spacing
    deviation = max(
        math.sqrt(sum(part.times * item.variance for part, item in zip(parts, tilted, strict=True))), spacing
    )
    whole = TiltedSum(parts, tilt, mean, log_scale, mean if near is None else near)
    window = choose_window(whole, copies, width, deviation, tolerated / 8)
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
        mean=mean,
        outside=window.outside,
        returning=window.returning,
        beyond=window.beyond,
        infinite=float(infinite),
        relative=relative,
    )


class _Tilted(NamedTuple):
    weights: np.ndarray  # sum to 1
    exponents: np.ndarray
    log_moment: float
    mean: float
    variance: float


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
    mean = float(np.sum(weights * losses))
    variance = float(np.sum(weights * np.square(losses - mean)))
    return _Tilted(weights, exponents, float(top + np.log(total)), mean, variance)


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
