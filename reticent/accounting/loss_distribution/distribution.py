"""The exact epsilon of a composition, between a certified lower and a certified upper bound.

    sketch -> tilt, spacing, cut-offs -> round up / round down -> compose -> read off epsilon

The first arrow only chooses parameters: any choice gives valid bounds, a good one gives tight ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from reticent.accounting.loss_distribution.convolution import compose
from reticent.accounting.loss_distribution.lattice import (
    RepeatedLattice,
    Sketch,
    cut_offs,
    lattice_ends,
    log_moments,
    round_down,
    round_up,
    sketch,
)
from reticent.accounting.loss_distribution.one_release import lower_of_one, upper_of_one
from reticent.accounting.loss_distribution.pairs import UNIT, Pair
from reticent.accounting.refusal import or_infinite

_REFINEMENTS = 4
_LARGE = 1000.0  # an epsilon that protects nobody
_LARGEST_LOSS = 1e8  # beyond it no lattice is fine enough, and adding up numbers is as good
_MOST_POINTS = 2**20  # of a window
_FEW_POINTS = 2**12  # of a lattice
_FIRST_TILTS = np.geomspace(1e-3, 1e6, 73)
_PARTS = np.linspace(0, 1, 17)
RELATIVE_WIDTH = 8e-4  # of a bracket, relative to epsilon


class RepeatedPair(NamedTuple):
    """A dominating pair, and how often the release is made."""

    pair: Pair
    times: int


class Bracket(NamedTuple):
    """A number that lies between two proved bounds."""

    lower: float
    upper: float


class Discretisation(NamedTuple):
    """A spacing, and of each release the offset, the first and the last point of its lattice."""

    spacing: float
    cells: tuple[tuple[float, int, int], ...]


class _Setting(NamedTuple):
    tilt: float
    estimate: float
    deviation: float
    spacing: float
    tolerated: float


def upper_epsilon(
    releases: Sequence[RepeatedPair],
    delta: float,
    *,
    relative_width: float = RELATIVE_WIDTH,
    like: Sequence[RepeatedPair] | None = None,
) -> float:
    """The smallest certified epsilon at `delta`; infinity when there is none.

    Args:
        like: similar releases, whose lattice will do: nothing has to be chosen anew.
    """
    near = None
    upper = math.inf
    for _ in range(_REFINEMENTS):
        found, expected = _solve(releases, delta, relative_width, near, like, is_upper=True)
        upper = min(upper, or_infinite(found))
        # Where a single rare jump decides, Chernoff's estimate is far off: start again from what was found.
        if not upper < 0.7 * expected:
            break
        near = upper
    return upper


def lower_epsilon(
    releases: Sequence[RepeatedPair],
    delta: float,
    *,
    near: float | None = None,
    relative_width: float = RELATIVE_WIDTH,
) -> float:
    """An epsilon that the composition certainly exceeds or equals at `delta`.

    `near`, an epsilon known to be close, helps to choose the lattice.
    """
    return _solve(releases, delta, relative_width, near, None, is_upper=False)[0]


def discretise(
    releases: Sequence[RepeatedPair], delta: float, *, near: float | None = None, relative_width: float
) -> Discretisation | None:
    """The lattice on which `upper_epsilon` would round these releases up; None where there is none."""
    if not all(abs(end) <= _LARGEST_LOSS for release in releases for end in release.pair.span()):
        return None
    sketches = [sketch(release.pair) for release in releases]
    if not all(len(copy.losses) for copy in sketches):
        return None
    setting = _choose(releases, delta, relative_width, near)
    if not np.isfinite(setting).all():
        return None
    cells = []
    for release, copy in zip(releases, sketches, strict=True):
        low, high = _span(release, copy, delta / _total(releases))
        offset = _offset(release, setting.spacing)
        first, last = lattice_ends(setting.spacing, offset, low, high)
        cells.append((offset, first, last))
    return Discretisation(setting.spacing, tuple(cells))


def _solve(
    releases: Sequence[RepeatedPair],
    delta: float,
    relative_width: float,
    near: float | None,
    like: Sequence[RepeatedPair] | None,
    *,
    is_upper: bool,
) -> tuple[float, float]:
    """The bound, and the epsilon that the lattice was made for."""
    releases = [release for release in releases if release.times > 0]
    if not releases:
        return 0.0, 0.0
    unknown = math.inf if is_upper else 0.0
    if not all(abs(end) <= _LARGEST_LOSS for release in releases for end in release.pair.span()):
        return unknown, 0.0
    if _total(releases) == 1:
        pair = releases[0].pair
        return (upper_of_one(pair, delta) if is_upper else lower_of_one(pair, delta)), 0.0
    sketches = [sketch(release.pair) for release in releases]
    if not all(len(copy.losses) for copy in sketches):  # losses beyond the range of float64
        return unknown, 0.0
    chosen_for = like if like is not None and near is None else releases
    setting = _choose(chosen_for, delta, relative_width, near)
    if not np.isfinite(setting).all():
        return unknown, 0.0
    parts = [
        _round(release, copy, setting, delta / _total(releases), is_upper=is_upper)
        for release, copy in zip(releases, sketches, strict=True)
    ]
    if not all(_has_mass(part) for part in parts):
        return unknown, setting.estimate
    # Rounding of the edges themselves: every loss may be off by this much (section 3.5).
    drift = sum(part.times * 16 * UNIT * (1 + max(map(abs, _ends(part)))) for part in parts)
    width = 4 * setting.deviation + min(4 / setting.tilt, 4 * setting.estimate + 1)
    width = min(width, _MOST_POINTS * setting.spacing)
    for _ in range(6):
        composed = compose(parts, sketches, setting.tilt, width, setting.tolerated, setting.estimate)
        found = composed.epsilon_above(delta) if is_upper else composed.epsilon_below(delta)
        if found is not None:
            return (found + drift if is_upper else max(0.0, found - drift)), setting.estimate
        if len(composed.losses) > 4 * _MOST_POINTS:
            break
        width = 2.5 * (composed.losses[-1] - composed.losses[0])
    return unknown, setting.estimate


class _Saddle(NamedTuple):
    tilt: float
    estimate: float
    deviation: float
    tolerated: float


@lru_cache(maxsize=16)  # for every width alike
def _saddle_point(releases: tuple[RepeatedPair, ...], delta: float, near: float | None) -> _Saddle:
    """Where Chernoff's bound on delta is smallest, and the losses there."""
    sketches = [sketch(release.pair) for release in releases]
    tilts = _FIRST_TILTS
    tilt = estimate = 1.0
    for is_first in (True, False):
        moments = np.zeros(len(tilts))
        for release, copy in zip(releases, sketches, strict=True):
            found = _first_moments(release.pair) if is_first else log_moments(copy, tilts)
            moments += release.times * found
        if near is None:
            # Renyi divergence at order 1 + tilt, converted to epsilon (Canonne, Kamath and Steinke 2020).
            scores = (moments - np.log(delta * (1 + tilts))) / tilts + np.log(tilts / (1 + tilts))
            estimate = max(float(scores.min()), 0.0)
            enough = scores.min() + 1e-3 * abs(scores.min())
        else:
            scores, estimate = moments - tilts * near, near
            enough = max(scores.min() + 0.1, math.log(delta) + 1)
        # The smallest tilt that is as good as the best: bounded losses would drive it to infinity.
        best = int(np.argmax(scores <= enough))
        tilt = float(tilts[best])
        low, high = float(tilts[max(best - 1, 0)]), float(tilts[min(best + 1, len(tilts) - 1)])
        tilts = low * (high / low) ** _PARTS
    variance = sum(
        release.times * _variance(copy, tilt) for release, copy in zip(releases, sketches, strict=True)
    )
    # Near epsilon a tilted mass m is worth m e^{log moment - tilt epsilon} of delta.
    log_worth = float(_log_moment_at(releases, sketches, tilt)) - tilt * estimate
    tolerated = 1e-4 * math.exp(min(max(math.log(delta) - log_worth, -300.0), 0.0))
    return _Saddle(tilt, estimate, math.sqrt(variance), tolerated)


def _choose(
    releases: Sequence[RepeatedPair], delta: float, relative_width: float, near: float | None
) -> _Setting:
    """The saddle point of Chernoff's bound on delta, and the spacing that meets the wanted width."""
    sketches = [sketch(release.pair) for release in releases]
    tilt, estimate, deviation, tolerated = _saddle_point(tuple(releases), delta, near)
    # A cell of width h spreads a release's loss by at most h^2 / 4: epsilon moves by T h^2 (1 + tilt) / 8.
    wanted = relative_width * max(estimate, 1e-2) * (1 if estimate < _LARGE else 10)
    spacing = math.sqrt(6 * wanted / (_total(releases) * (1 + tilt)))
    # No finer than the largest window or lattice allows; nor does an epsilon of no use need a fourth digit.
    share = delta / _total(releases)
    spans = [_span(release, copy, share) for release, copy in zip(releases, sketches, strict=True)]
    longest = max(high - low for low, high in spans)
    finest = max(10.6 * deviation, longest) / _MOST_POINTS
    spacing = max(spacing, finest)
    on_atoms = _hit_atoms(releases, spacing)
    if on_atoms < spacing / 8 and longest > _FEW_POINTS * on_atoms:
        # Tiny atoms beside a wide release ask for hundreds of times the points that the width needs.
        spacing = max(spacing / 8, finest)
    elif on_atoms >= finest:
        spacing = on_atoms
    return _Setting(tilt, estimate, deviation, spacing, tolerated)


def _log_moment_at(releases: Sequence[RepeatedPair], sketches: Sequence[Sketch], tilt: float) -> float:
    at = np.array([tilt])
    return sum(
        release.times * float(log_moments(copy, at)[0])
        for release, copy in zip(releases, sketches, strict=True)
    )


def _hit_atoms(releases: Sequence[RepeatedPair], spacing: float) -> float:
    """The next smaller spacing at which the first two atoms of a discrete part lie on the lattice."""
    for release in releases:
        atoms = release.pair.atoms()[:2]
        gap = max(atoms, default=0.0) - min(atoms, default=0.0)
        if gap > 0:
            return gap / math.ceil(gap / spacing)
    return spacing


@lru_cache(maxsize=64)
def _first_moments(pair: Pair) -> np.ndarray:
    """The log moments at the tilts that are looked at first, for every delta and width alike."""
    return log_moments(sketch(pair), _FIRST_TILTS)


def _variance(copy: Sketch, tilt: float) -> float:
    exponents = tilt * copy.losses + np.log(copy.masses)
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    centre = np.sum(weights * copy.losses)
    return float(np.sum(weights * np.square(copy.losses - centre)))


def _span(release: RepeatedPair, copy: Sketch, delta: float) -> tuple[float, float]:
    """The losses that a lattice holds; a hundred-thousandth of the delta may hide in an infinite one."""
    return cut_offs(copy, left=1e-6 / release.times, right=1e-5 * delta)


def _round(
    release: RepeatedPair, copy: Sketch, setting: _Setting, delta: float, *, is_upper: bool
) -> RepeatedLattice:
    """One release on the lattice."""
    low, high = _span(release, copy, delta)
    spacing = setting.spacing
    offset = _offset(release, spacing)
    if is_upper:
        return RepeatedLattice(round_up(release.pair, spacing, offset, low, high), release.times)
    return RepeatedLattice(round_down(release.pair, spacing, offset, low, high, setting.tilt), release.times)


def _offset(release: RepeatedPair, spacing: float) -> float:
    """Where the lattice of a release lies: on its first atom."""
    atoms = release.pair.atoms()
    return math.fmod(atoms[0], spacing) if atoms else 0.0


def _total(releases: Sequence[RepeatedPair]) -> int:
    return sum(release.times for release in releases)


def _has_mass(part: RepeatedLattice) -> bool:
    masses, infinite = part.lattice.masses, part.lattice.infinite
    return bool(masses.any() and np.isfinite(masses).all() and math.isfinite(infinite))


def _ends(part: RepeatedLattice) -> tuple[float, float]:
    lattice = part.lattice
    last = lattice.first + len(lattice.masses) - 1
    return lattice.offset + lattice.spacing * lattice.first, lattice.offset + lattice.spacing * last
