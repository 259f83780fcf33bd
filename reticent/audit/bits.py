"""Tells from its bits alone which of two neighbours a release came from.

The auditor knows both sums, as an attacker may, and looks at the last bits of a release: not at how large it
is, but at whether it *could* have come from one sum or the other. The test is chosen on half of the releases,
and applied to the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from reticent.audit.bounds import rate_bounds
from reticent.audit.finding import Claim, Finding
from reticent.audit.suspects import Suspect, suspects, trailing_zeros
from reticent.audit.verdict import Outcome

CHECK = "bits of a release"

_SEEDS = 16  # that the sums are found with
_FEWEST, _MOST = 24, 160  # releases of each neighbour that a way of looking is tested on
_NUMBERS = 1 << 17  # of a release that are looked at

SeededRelease = Callable[[int], np.ndarray]  # of a seed: all numbers of a release
ReleaseScore = Callable[[np.ndarray], float]  # of a release: higher says "the record is in"


class NeighbourReleases(NamedTuple):
    """A step on nobody, on a batch without the record, and on the same batch with it."""

    nobody: SeededRelease
    without: SeededRelease
    inside: SeededRelease


class _Look(NamedTuple):
    """A way of looking, and from which score on it says that the record is in."""

    name: str
    score: ReleaseScore
    threshold: float = math.inf


def look_at_bits(
    step: NeighbourReleases, claim: Claim, *, confidence: float, seeds: int | None = None
) -> Finding:
    """Plays the game: releases of both neighbours, and a guess at each.

    Args:
        seeds: how many releases of each neighbour are guessed at; as many as the claim needs unless given.

    Guarantee:
        If the release is post-processing of a sum with Gaussian noise, both as claimed, it is contradicted
        with probability at most 1 - confidence.
    """
    error = 1 - confidence
    count = seeds or _enough_guesses(claim.mu, error)
    ways = _list_looks(step, claim)
    releases = [[_take_some(side(1000 + 2 * at + which)) for at in range(2 * count)]
                for which, side in enumerate((step.without, step.inside))]  # fmt: skip
    scores = [np.array([[way.score(each) for each in side] for side in releases]) for way in ways]
    chosen = max(
        (_with_threshold(way, *found[:, ::2]) for way, found in zip(ways, scores, strict=True)),
        key=lambda pair: pair[1],
    )[0]
    tested = scores[[way.name for way in ways].index(chosen.name)][:, 1::2]
    alarms, hits = (int((side >= chosen.threshold).sum()) for side in tested)
    return _finding(chosen.name, claim, hits, alarms, count, confidence)


def _finding(name: str, claim: Claim, hits: int, alarms: int, count: int, confidence: float) -> Finding:
    error = 1 - confidence
    seen, most = _distance(hits, alarms, count, error), _distance(count, 0, count, error)
    right, allowed = hits + count - alarms, float(ndtr(claim.mu / 2))
    named = f"{right} of {2 * count} guesses between two neighbours were right ({name})"
    claimed = f"a noise multiplier of {claim.noise_multiplier:.4g} allows {allowed:.0%}"
    if not seen <= claim.mu:
        outcome, what = Outcome.CONTRADICTED, f"from bits alone {named}; {claimed}"
    elif most <= claim.mu:
        outcome, what = (
            Outcome.UNINFORMATIVE,
            f"{claimed} of right guesses, and {2 * count} guesses cannot show more",
        )
    else:
        outcome, what = Outcome.CONSISTENT, f"{named}; {claimed}"
    numbers = {
        "look": name,
        "right": right,
        "guesses": 2 * count,
        "allowed_share": allowed,
        "deviations_apart": seen,
        "most_that_could_be_seen": most,
        "claimed": claim.mu,
        "confidence": confidence,
    }
    return Finding(check=CHECK, outcome=outcome, what=what, numbers=numbers)


def _enough_guesses(mu: float, error: float) -> int:
    """Chooses a number of guesses that refutes the claim if nearly all are right."""
    share = float(ndtr(mu / 2))
    needed = math.log(error / 2) / math.log(share) if share < 1 else math.inf
    return int(min(max(1.3 * needed + 8, _FEWEST), _MOST))


def _distance(hits: int, alarms: int, count: int, error: float) -> float:
    """A lower bound on the distance of neighbours in deviations, for Gaussian noise."""
    least, most = rate_bounds(hits, count, alarms, count, error)
    return max(float(ndtri(least) - ndtri(most)), 0.0) if least > 0 and most < 1 else 0.0


def _with_threshold(way: _Look, without: np.ndarray, inside: np.ndarray) -> tuple[_Look, float]:
    """The threshold that parts these scores best, and how well."""

    def apart(point: float) -> float:
        return _distance(int((inside >= point).sum()), int((without >= point).sum()), len(inside), 0.5)

    scores = np.unique([*without, *inside])
    points = [float(scores[0]), *((scores[1:] + scores[:-1]) / 2)]
    found = np.array([apart(point) for point in points])
    best = np.flatnonzero(found == found.max())
    return way._replace(threshold=points[best[len(best) // 2]]), float(found.max())


def _list_looks(step: NeighbourReleases, claim: Claim) -> Sequence[_Look]:
    sums, noise, dtype = _clean_sums(step, claim)

    def impossible(suspect: Suspect) -> ReleaseScore:
        def score(released: np.ndarray) -> float:
            without, inside = (int((~suspect.could(total, released)).sum()) for total in sums)
            return float(without - inside)

        return score

    found = suspects(dtype, claim.deviation, claim.divisor, noise)
    return [
        *(_Look(suspect.name, impossible(suspect)) for suspect in found),
        _Look("more trailing zeros", trailing_zeros),
        _Look("fewer trailing zeros", lambda released: -trailing_zeros(released)),
    ]


def _clean_sums(step: NeighbourReleases, claim: Claim) -> tuple[list[np.ndarray], np.ndarray, np.dtype]:
    """The sums without noise, some of the noise without a sum, and their float type.

    Under one seed, nobody's release is the noise, and a release of somebody lies within a rounding of sum and
    noise. Where it is near 0 its rounding is small: over a few seeds hardly more than one float is left.
    """
    alone = [_take_some(step.nobody(seed)) for seed in range(_SEEDS)]
    dtype = alone[0].dtype
    sums = []
    for side in (step.without, step.inside):
        releases = [_take_some(side(seed)) for seed in range(_SEEDS)]
        strict = _sum_interval(releases, alone, claim.divisor, is_noise_rounded=False)
        loose = _sum_interval(releases, alone, claim.divisor, is_noise_rounded=True)
        low, high = strict if np.mean(strict[0] > strict[1]) < 0.01 else loose
        sums.append(((low + high) / 2).astype(dtype))
    return sums, np.stack(alone).astype(np.float64) * claim.divisor, dtype


def _sum_interval(
    releases: Sequence[np.ndarray], alone: Sequence[np.ndarray], divisor: float, *, is_noise_rounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """An interval in which the sum lies."""
    halves = 0.5 if divisor == 1 else 1.5
    low, high = (np.full(alone[0].shape, side, np.longdouble) for side in (-np.inf, np.inf))
    for released, noise in zip(releases, alone, strict=True):
        room = halves * np.spacing(np.abs(released)).astype(np.longdouble)
        if is_noise_rounded:
            room = room + halves * np.spacing(np.abs(noise))
        middle = released.astype(np.longdouble) - noise
        low, high = np.maximum(low, (middle - room) * divisor), np.minimum(high, (middle + room) * divisor)
    return low, high


def _take_some(numbers: np.ndarray) -> np.ndarray:
    """All numbers, or so many that lie evenly among them."""
    return numbers[:: max(-(-len(numbers) // _NUMBERS), 1)]
