"""How many points of a circle hold the composed losses, and what wraps around or lies beyond.

Every number that enters a bound comes from Chernoff's inequality on the lattice itself: the mass beyond x
is at most E[e^{s (loss - x)}] for every s > 0. Coarse copies and normal laws only propose s. Section 4.2 of
docs/accounting.md.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from reticent.accounting.loss_distribution.lattice import Lattice, RepeatedLattice, Sketch, log_moments

CENTRAL = 0.12  # of a window, on each side of its middle
_APART = 0.875  # of a window: less than from there to where what wraps around comes from
_LARGEST_WINDOW = 2**22  # points: 32 MB a copy
_SMOOTH = (2**k * 3**i * 5**j for k in range(36) for i in range(22) for j in range(15))
_HANDY = np.array(sorted(size for size in _SMOOTH if size < 2**35))
_STEPS = np.geomspace(0.02, 50, 24)  # of a tilt, in units of its own
_SKEW = 1.08  # by how much wider than a normal one the tail of a nearly normal sum is


class Circle(NamedTuple):
    """The number of points of a window, whose ends meet; the rest as in `Composition`."""

    size: int
    outside: float
    returning: float
    beyond: float


class TiltedSum(NamedTuple):
    """The composed losses under a tilt.

    Example:
        >>> lattice = Lattice(spacing=1.0, offset=0.0, first=0, masses=np.array([0.5, 0.5]), infinite=0.0)
        >>> whole = TiltedSum([RepeatedLattice(lattice, 4)], tilt=0.0, mean=2.0, log_scale=0.0, near=2.0)
        >>> whole.log_moments(np.array([0.0]))
        array([0.])
    """

    parts: list[RepeatedLattice]
    tilt: float
    mean: float
    log_scale: float
    near: float  # the epsilon that is sought, or so

    @property
    def spacing(self) -> float:
        return self.parts[0].lattice.spacing

    def log_moments(self, shifts: np.ndarray) -> np.ndarray:
        """ln E[e^{shift (loss - mean)}] of the tilted losses, for each shift."""
        found = np.zeros(len(shifts))
        for part in self.parts:
            found += part.times * _lattice_moments(part.lattice, self.tilt + shifts)
        return found - self.log_scale - shifts * self.mean


class _Slopes(NamedTuple):
    """The s of Chernoff's bound on both sides, for half a window and for nearly a whole one."""

    right: float
    left: float
    far_right: float
    far_left: float


def choose_window(
    whole: TiltedSum, copies: list[Sketch], width: float, deviation: float, tolerated: float
) -> Circle:
    """A handy size that holds `width`, so large that next to nothing comes round.

    Args:
        copies: coarse copies of the parts.
        deviation: of the tilted losses.
        tolerated: the tilted mass that may come round, or that may lie beyond and weigh as much.
    """
    room = math.log(2 / tolerated)
    at_hand = max(16, int(width / whole.spacing))
    variance, steepness = deviation * deviation, whole.tilt * deviation
    # Where the sum is nearly normal, a normal one says how large; that is mostly so, and takes no time.
    weight = room + whole.tilt * (whole.near - whole.mean)  # of what lies beyond
    half = math.sqrt(steepness**2 + 2 * max(weight, 0.0)) - steepness
    normal = max(math.sqrt(2 * room) / _APART, 2 * half)
    size = handy(max(at_hand, int(min(_SKEW * normal * deviation / whole.spacing, _LARGEST_WINDOW))))
    half, apart = _distances(whole, size)
    slopes = _Slopes(*(d / variance for d in (half, half, apart, min(apart, whole.tilt * variance))))
    found, is_enough = _bound(whole, size, slopes, tolerated)
    if is_enough:
        return found
    wider = at_hand + int(4 * deviation / whole.spacing)  # for losses far from where a normal one would be
    at_hand = max(at_hand, min(wider, _LARGEST_WINDOW))
    return _choose_by_copies(whole, copies, at_hand, tolerated)


def _choose_by_copies(whole: TiltedSum, copies: list[Sketch], at_hand: int, tolerated: float) -> Circle:
    """The smallest handy size of at least `at_hand` points for which a copy proposes s that prove enough."""
    # Copies hold rare jumps that the lattice counts as infinite, and are wider then: small s may be needed.
    steps = _STEPS / max(_deviation(whole, copies), whole.spacing)
    slow = np.minimum(steps, whole.tilt)  # no faster than weights fall off
    shifts = np.concatenate([steps, -steps, -slow])
    moments = -whole.log_scale - shifts * whole.mean
    for part, copy in zip(whole.parts, copies, strict=True):
        moments += part.times * log_moments(copy, whole.tilt + shifts)
    right, left, back = moments.reshape(3, -1)
    room = math.log(2 / tolerated)
    from_left = min(((back + room) / slow).min() / _APART, 2 * ((left + room) / steps).min())
    from_right = ((right + room) / steps).min() / _APART
    weight = room + whole.tilt * (whole.near - whole.mean)
    enough = max(from_left, from_right, 2 * ((right + weight) / (steps + whole.tilt)).min())
    size = max(at_hand, int(min(enough / whole.spacing, _LARGEST_WINDOW)))
    while True:
        size = handy(size)
        half, apart = _distances(whole, size)
        asked = ((steps, right, half), (steps, left, half), (steps, right, apart), (slow, back, apart))
        slopes = _Slopes(*(float(some[np.argmin(log - some * d)]) for some, log, d in asked))
        found, is_enough = _bound(whole, size, slopes, tolerated)
        if is_enough or size >= _LARGEST_WINDOW:
            return found
        size += size // 8


def _deviation(whole: TiltedSum, copies: list[Sketch]) -> float:
    """That of the composed copies, under the tilt."""
    variance = 0.0
    for part, copy in zip(whole.parts, copies, strict=True):
        exponents = whole.tilt * copy.losses + np.log(copy.masses)
        weights = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        centre = np.sum(weights * copy.losses)
        variance += part.times * float(np.sum(weights * np.square(copy.losses - centre)))
    return math.sqrt(variance)


def _distances(whole: TiltedSum, size: int) -> tuple[float, float]:
    """From the mean to either end of the window, and from its centre to where what comes round is from."""
    return (size // 2 - 1) * whole.spacing, _APART * size * whole.spacing


def _bound(whole: TiltedSum, size: int, slopes: _Slopes, tolerated: float) -> tuple[Circle, bool]:
    """What is proved about a window, and whether it is little enough."""
    half, apart = _distances(whole, size)
    slope = np.array(slopes)
    logs = whole.log_moments(slope * (1, -1, 1, -1)) - slope * (half, half, apart, apart)
    right, left, far_right, far_left = logs.tolist()
    beyond = right + whole.log_scale - whole.tilt * (whole.mean + half)  # without the tilt
    returning = _exp(far_right) + _exp(min(left, far_left))
    found = (min(value, 1.0) * (1 + 1e-9) for value in (_exp(right) + _exp(left), returning, _exp(beyond)))
    weight = right - whole.tilt * (whole.mean + half - whole.near)
    is_too_much = returning > tolerated or weight > math.log(tolerated)
    return Circle(size, *found), not is_too_much


def _lattice_moments(lattice: Lattice, tilts: np.ndarray) -> np.ndarray:
    """ln E[e^{tilt * loss}] over the finite losses, in P, for each tilt."""
    masses, losses = lattice.masses, lattice.losses
    some = masses > 0
    if not some.all():
        masses, losses = masses[some], losses[some]
    exponents = np.multiply.outer(tilts, losses)
    top = exponents.max(axis=1, keepdims=True)
    exponents -= top
    return top[:, 0] + np.log((masses * np.exp(exponents)).sum(axis=1))


def handy(size: int) -> int:
    """The next size with no prime factor above 5, so that its transform is fast and accurate.

    Example:
        >>> handy(1001), handy(1025)
        (1024, 1080)
    """
    return int(_HANDY[np.searchsorted(_HANDY, size)])


def _exp(value: float) -> float:
    return float(np.exp(min(value, 700.0)))
