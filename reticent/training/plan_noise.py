"""Which noise a plan has: what it refuses, the batches that go with it, and the choice of `auto`."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from reticent.accounting.theorems import gaussian_dp
from reticent.core.errors import InvalidArgument, Unproven
from reticent.data.cyclic import CyclicPoisson, participation_of
from reticent.data.sampling import Poisson, Sampler
from reticent.mechanisms.adjacency import Adjacency
from reticent.noise.named import banded, blt, independent, toeplitz, tree
from reticent.noise.participation import Participation
from reticent.noise.released import has_disjoint_turns
from reticent.noise.strategies import (
    Banded,
    Buffered,
    Dense,
    Independent,
    NoiseStrategy,
    Toeplitz,
    Tree,
)

NoiseChoice = NoiseStrategy | Literal["auto"]

_KINDS = (Independent, Banded, Toeplitz, Buffered, Tree, Dense)
_MOST_BANDS = 64  # that `auto` tries: a run keeps one vector less, each as long as the parameters


def is_correlated(noise: NoiseStrategy, steps: int) -> bool:
    return noise.bands(max(steps, 1)) > 1


def bands_of(noise: NoiseChoice) -> int:
    """The number of bands that was asked for; 1 if there are none, or all."""
    return noise.width or 1 if isinstance(noise, Banded | Toeplitz) else 1


def settled_noise(noise: Any, sampler: Sampler, steps: int, *, is_adaptive: bool) -> NoiseStrategy:
    """The noise of a run, with every number found that depends on its length and its batches.

    Raises:
        InvalidArgument: the batches break the participation that was declared, or it is not noise for this
        run. Unproven: there is no theorem for it on these batches.
    """
    if type(noise) not in _KINDS:  # each with a theorem; a class of somebody else's could claim anything
        raise InvalidArgument(
            f"noise={noise!r} is not a strategy of rt.noise.",
            remedy="Pass one, such as rt.noise.banded(bands=8).",
        )
    if noise.participation is not None:
        noise.participation.require_covers(participation_of(sampler, steps))
    if isinstance(noise, Independent) or steps == 0:
        return noise
    if isinstance(noise, Dense):
        raise InvalidArgument(
            "Runs are not trained with dense noise: it is what other strategies are measured against.",
            remedy="Use rt.noise.toeplitz or rt.noise.banded.",
        )
    if is_adaptive:
        raise InvalidArgument(
            "Correlated noise goes with a fixed clipping norm: what is taken back was drawn for another.",
            remedy="Leave out adaptive, or pass noise=rt.noise.independent().",
        )
    found = noise.settle(steps, _participation(noise, sampler, steps))
    if isinstance(sampler, CyclicPoisson) and not has_disjoint_turns(found, steps, sampler.parts):
        raise Unproven(
            f"There is no theorem for {noise.in_words} on random batches from {sampler.parts} parts: what a "
            "record contributes overlaps.",
            remedy=f"Use at most {sampler.parts} bands, or sampling='cyclic'.",
        )
    return found


def _participation(noise: NoiseStrategy, sampler: Sampler, steps: int) -> Participation:
    if isinstance(sampler, Poisson) and noise.bands(steps) == 1:
        return Participation.cyclic(steps, 1)
    return participation_of(sampler, steps)


def require_length(noise: NoiseChoice, noise_multiplier: float | None) -> None:
    """
    Raises:
        InvalidArgument: the run goes on until its budget is spent, and its noise depends on its length.
    """
    if noise_multiplier is not None and not isinstance(noise, Independent):
        raise InvalidArgument(
            "Correlated noise is made for a run of a fixed length.",
            remedy="Pass epochs or steps instead of noise_multiplier.",
        )


def error_of(noise: NoiseStrategy, noise_multiplier: float, sampler: Sampler, steps: int) -> float:
    """The expected error of prefix sums of gradients, in clipping norms: root mean square."""
    participation = Participation(times=1)  # the ratio does not depend on it
    if not isinstance(noise, Independent):
        participation = _participation(noise, sampler, steps)
    found = noise.error(steps, participation).rmse
    return noise_multiplier * found / noise.sensitivity(steps, participation)


class Candidate(NamedTuple):
    """Noise, and the batches that go with it."""

    noise: NoiseStrategy
    sampler: Sampler


def choose(sampler: Sampler, steps: int, epsilon: float, delta: float, adjacency: Adjacency) -> Candidate:
    """What `auto` chooses: the noise whose error is estimated to be least at this privacy.

    Estimates are exact for batches without coins. For random ones they follow from the central limit
    theorem; they decide what is chosen, never what is claimed.
    """
    mu = 1 / (adjacency.reach * gaussian_dp.noise_multiplier(epsilon, delta))
    estimate = functools.partial(_estimate, steps=steps, mu=mu)
    plain = Candidate(independent(), sampler)
    tried = [each for each in _banded(sampler, steps) if adjacency in each.sampler.adjacencies]
    if not tried:
        return plain
    best = min(tried, key=estimate)
    drawn = participation_of(best.sampler, steps)
    tuned = toeplitz(bands=bands_of(best.noise)).settle(steps, drawn)
    found = [plain, best, Candidate(tuned, best.sampler)]
    if not isinstance(sampler, Poisson | CyclicPoisson):
        found += [Candidate(tree(), sampler), Candidate(blt().settle(steps, drawn), sampler)]
    return min(found, key=estimate)


def _banded(sampler: Sampler, steps: int) -> Iterator[Candidate]:
    most = min(steps, _MOST_BANDS)
    counts = {2**power for power in range(1, _MOST_BANDS.bit_length())}
    if isinstance(sampler, Poisson):
        parts = sampler.examples // sampler.batch_size if sampler.largest is None else 1
        for count in sorted({*counts, parts}):
            if 1 < count <= min(parts, most):
                among = CyclicPoisson(examples=sampler.examples, batch_size=sampler.batch_size, parts=count)
                yield Candidate(banded(bands=count), among)
        return
    try:
        drawn = participation_of(sampler, steps)
    except Unproven:
        return
    if isinstance(sampler, CyclicPoisson):
        most = min(most, sampler.parts)
    for count in sorted({*counts, drawn.separation}):
        if 1 < count <= most:
            yield Candidate(banded(bands=count), sampler)


def _estimate(candidate: Candidate, steps: int, mu: float) -> float:
    """The error at about the privacy of a Gaussian release of this mu."""
    noise, sampler = candidate
    rate = getattr(sampler, "rate", None)
    if rate is None:
        try:
            reach = noise.sensitivity(steps, participation_of(sampler, steps))
        except Unproven:
            return 0.0 if isinstance(noise, Independent) else math.inf  # it is all there is
        return error_of(noise, reach / mu, sampler, steps)
    turns = -(-steps // getattr(sampler, "parts", 1))
    sampled = 1 / math.sqrt(math.log1p((mu / rate) ** 2 / turns))
    one_turn = noise.sensitivity(steps, Participation(times=1))
    return error_of(noise, one_turn * min(sampled, math.sqrt(turns) / mu), sampler, steps)
