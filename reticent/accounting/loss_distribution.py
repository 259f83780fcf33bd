"""The exact epsilon of a composition, between a certified lower and a certified upper bound.

    sketch -> tilt, spacing, cut-offs -> round up / round down -> compose -> read off epsilon

The first arrow only chooses parameters: any choice gives valid bounds, a good one gives tight ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reticent.accounting.convolution import Part, compose
from reticent.accounting.lattice import Sketch, cut_offs, round_down, round_up, sketch
from reticent.accounting.pairs import UNIT, Pair

RELATIVE_WIDTH = 8e-4  # of a bracket, relative to epsilon


class Release(NamedTuple):
    """A dominating pair, and how often the release is made."""

    pair: Pair
    times: int


class Bracket(NamedTuple):
    """A number that lies between two proved bounds."""

    lower: float
    upper: float


class _Setting(NamedTuple):
    tilt: float
    estimate: float
    deviation: float
    spacing: float


def upper_epsilon(
    releases: Sequence[Release], delta: float, *, relative_width: float = RELATIVE_WIDTH
) -> float:
    """The smallest certified epsilon at `delta`; infinity when there is none."""
    return _solve(releases, delta, relative_width, is_upper=True)


def lower_epsilon(
    releases: Sequence[Release], delta: float, *, relative_width: float = RELATIVE_WIDTH
) -> float:
    """An epsilon that the composition certainly exceeds or equals at `delta`."""
    return _solve(releases, delta, relative_width, is_upper=False)


def _solve(releases: Sequence[Release], delta: float, relative_width: float, *, is_upper: bool) -> float:
    releases = [release for release in releases if release.times > 0]
    if not releases:
        return 0.0
    sketches = [sketch(release.pair) for release in releases]
    setting = _choose(releases, sketches, delta, relative_width)
    parts = [
        _rounded(release, copy, setting, delta / _total(releases), is_upper=is_upper)
        for release, copy in zip(releases, sketches, strict=True)
    ]
    if not all(part.lattice.masses.any() for part in parts):
        return 0.0 if not is_upper else math.inf
    # Rounding of the edges themselves: every loss may be off by this much (section 3.5).
    drift = sum(part.times * 8 * UNIT * (1 + max(map(abs, _ends(part)))) for part in parts)
    width = 10.6 * setting.deviation + min(4 / setting.tilt, 4 * setting.estimate + 1)
    for _ in range(6):
        composed = compose(parts, sketches, setting.tilt, width)
        found = composed.epsilon_above(delta) if is_upper else composed.epsilon_below(delta)
        if found is not None:
            return max(found + drift, 0.0) if is_upper else max(found - drift, 0.0)
        width = 2.5 * (composed.losses[-1] - composed.losses[0])
    return math.inf if is_upper else 0.0


def _choose(
    releases: Sequence[Release], sketches: Sequence[Sketch], delta: float, relative_width: float
) -> _Setting:
    """The saddle point of Chernoff's bound on delta, and the spacing that meets the wanted width."""
    tilts = np.geomspace(1e-3, 1e6, 73)
    tilt = estimate = 1.0
    for _ in range(2):
        moments = sum(
            release.times * _log_moments(copy, tilts)
            for release, copy in zip(releases, sketches, strict=True)
        )
        # Renyi divergence at order 1 + tilt, converted to epsilon (Canonne, Kamath and Steinke 2020).
        epsilons = (moments - np.log(delta * (1 + tilts))) / tilts + np.log(tilts / (1 + tilts))
        best = int(np.argmin(epsilons))
        estimate = max(float(epsilons[best]), 0.0)
        low, high = tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)]
        tilt = float(tilts[best])
        tilts = np.geomspace(low, high, 17)
    deviation = math.sqrt(
        sum(release.times * _variance(copy, tilt) for release, copy in zip(releases, sketches, strict=True))
    )
    # A cell of width h spreads a release's loss by at most h^2 / 4: epsilon moves by T h^2 (1 + tilt) / 8.
    wanted = relative_width * max(estimate, 1e-2)
    spacing = math.sqrt(6 * wanted / (_total(releases) * (1 + tilt)))
    return _Setting(tilt, estimate, deviation, _hit_atoms(releases, spacing))


def _hit_atoms(releases: Sequence[Release], spacing: float) -> float:
    """The next smaller spacing at which both ends of a discrete part lie on the lattice."""
    for release in releases:
        atoms = release.pair.atoms()
        gap = max(atoms, default=0.0) - min(atoms, default=0.0)
        if gap > 0:
            return gap / math.ceil(gap / spacing)
    return spacing


def _log_moments(copy: Sketch, tilts: np.ndarray) -> np.ndarray:
    exponents = np.multiply.outer(tilts, copy.losses) + np.log(copy.masses)
    top = exponents.max(axis=1)
    return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))


def _variance(copy: Sketch, tilt: float) -> float:
    exponents = tilt * copy.losses + np.log(copy.masses)
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    return float(weights @ np.square(copy.losses - weights @ copy.losses))


def _rounded(release: Release, copy: Sketch, setting: _Setting, delta: float, *, is_upper: bool) -> Part:
    """One release on the lattice. A hundred-thousandth of its delta may hide in an infinite loss."""
    low, high = cut_offs(copy, left=1e-6 / release.times, right=1e-5 * delta)
    spacing = setting.spacing
    atoms = release.pair.atoms()
    offset = math.fmod(atoms[0], spacing) if atoms else 0.0
    if is_upper:
        return Part(round_up(release.pair, spacing, offset, low, high), release.times)
    return Part(round_down(release.pair, spacing, offset, low, high, setting.tilt), release.times)


def _total(releases: Sequence[Release]) -> int:
    return sum(release.times for release in releases)


def _ends(part: Part) -> tuple[float, float]:
    losses = part.lattice.losses
    return float(losses[0]), float(losses[-1])
