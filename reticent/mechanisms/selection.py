"""Choosing one of several: the exponential mechanism and noisy maxima.

`max_change` is how much one record can add to or take from any score. Neighbours under replacement
move it twice as far, and the mechanisms account for that themselves.

Scores are moved to whole multiples of a public step first, the same for all rows. Each moves by at most half
a step, so a record can change one by a step more than before, which is accounted for as well. Of equal ones
the first is taken: that is public too.
"""

from __future__ import annotations

from fractions import Fraction

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, Num
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.choosing import choose_whole
from reticent.mechanisms.events import ExponentialMechanism, Gaussian, PureDp
from reticent.mechanisms.host import source_of
from reticent.mechanisms.whole import add_whole_normals, power_of_two, to_grid, whole_laplace

_FINE = 2**24  # steps of a score that one record can change it by


def exponential_mechanism(
    key: Key[Array, ""],
    scores: ArrayLike,
    event: ExponentialMechanism,
    *,
    max_change: float,
    is_monotone: bool = False,
) -> Int[Array, "*rows"]:
    """The index of a score, with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    Args:
        scores: in rows: the last axis is chosen from.
        is_monotone: a record more never lowers a score (counts, for example). Then the factor 2 is not
            needed, under add-or-remove only.

    Guarantee:
        Costs `event`, up to 2^-90: see `choose`. Rounding keeps scores in their order, so monotone ones stay
        monotone.

    Raises:
        InvalidArgument: a score is not finite, or JAX is compiling this.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)  # Keys.from_os() in a real run
        >>> event = ExponentialMechanism(epsilon=10.0)
        >>> int(exponential_mechanism(key, [0.0, 100.0, 0.0], event, max_change=1.0))
        1
    """
    source = source_of(key, scores)
    factor, reach = _factor(event.epsilon, event.adjacency, max_change, is_monotone=is_monotone)
    step = power_of_two(reach / _FINE)
    unit = Fraction(event.epsilon) / (factor * (Fraction(reach) / Fraction(step) + 1))
    return jnp.asarray(
        choose_whole(source, to_grid(np.asarray(scores, np.float64), step), unit).astype(np.int32)
    )


def noisy_max_laplace(
    key: Key[Array, ""],
    scores: ArrayLike,
    event: PureDp,
    *,
    max_change: float,
    is_monotone: bool = False,
) -> Int[Array, "*rows"]:
    """The index of the largest score after Laplace noise of scale 2 sensitivity / epsilon on each.

    Guarantee:
        `event.epsilon`-DP, for the index alone (Dwork and Roth 2014, Claim 3.9, with the factor 2 for
        scores that may move both ways), up to 2^-70 per score. The claim fixes the noise of all other scores
        and compares two thresholds for the noise of one; here they are whole, and so is what moves them.

    Raises:
        InvalidArgument: a score is not finite, or JAX is compiling this.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)
        >>> int(noisy_max_laplace(key, [0.0, 1000.0, 5.0], PureDp(epsilon=1.0), max_change=1.0))
        1
    """
    source = source_of(key, scores)
    factor, reach = _factor(event.epsilon, event.adjacency, max_change, is_monotone=is_monotone)
    step = power_of_two(max(reach / _FINE, factor * reach / event.epsilon / 2**48))
    steps = to_grid(np.asarray(scores, np.float64), step)
    scale = factor * (reach / step + 1) / event.epsilon * (1 + 2.0**-50)
    return _largest(steps + whole_laplace(source, steps.shape, scale))


def noisy_max_gaussian(
    key: Key[Array, ""], scores: ArrayLike, event: Gaussian, *, max_norm: float
) -> Int[Array, "*rows"]:
    """The index of the largest score after Gaussian noise of `noise_multiplier * max_norm` on each.

    `max_norm` bounds one record's contribution to the whole vector of scores, in L2.

    Guarantee:
        Costs `event`, up to 2^-64 per score: choosing the index is post-processing of the noisy scores.

    Raises:
        InvalidArgument: a score is not finite, or JAX is compiling this.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)  # Keys.from_os() in a real run
        >>> int(noisy_max_gaussian(key, [0.0, 100.0, 0.0], Gaussian(noise_multiplier=1.0), max_norm=1.0))
        1
    """
    checks.positive(max_norm=max_norm)
    source = source_of(key, scores)
    deviation = event.noise_multiplier * max_norm
    numbers = np.asarray(scores, np.float64)
    return _largest(add_whole_normals(source, numbers, max_norm=max_norm, deviation=deviation))


def _largest(noisy: Num[np.ndarray, "*rows scores"]) -> Int[Array, "*rows"]:
    return jnp.asarray(noisy.argmax(axis=-1).astype(np.int32))


def _factor(
    epsilon: float, adjacency: Adjacency, max_change: float, *, is_monotone: bool
) -> tuple[int, float]:
    """How many times the sensitivity counts, and the sensitivity."""
    checks.positive(max_change=max_change, epsilon=epsilon)
    if is_monotone and adjacency is Adjacency.REPLACE:
        raise InvalidArgument(
            "Replacing a record can raise one score and lower another, so no score is monotone under it.",
            remedy="Leave out is_monotone, or use adjacency 'add-or-remove'.",
        )
    return (1 if is_monotone else 2), adjacency.reach * max_change
