"""Solves for one of epsilon, delta, noise, steps and batch size, given the others.

Always on the safe side: the epsilon delivered is at most the one asked for, and within a
thousandth of it where the free quantity is continuous.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from reticent.accounting.accountants import Accountant
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import delta_left_for, is_paid, noise_too_small
from reticent.accounting.search import smallest_count
from reticent.accounting.setting import Sampling, Setting, steps_for
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import cost_within, has_visible_ends, upper_bound
from reticent.core import checks
from reticent.core.errors import CannotMeet
from reticent.mechanisms.events import Event

_CLOSE = 5e-4  # relative: how near to the target the search stops
_LARGEST_NOISE = 1e7
_MOST_STEPS = 10**9


def epsilon_of(setting: Setting, delta: float) -> float:
    """What a setting costs by its laws; what is printed sets a little of delta aside for samplers.

    Example:
        >>> from reticent.mechanisms.sampling_events import Sampling
        >>> run = Setting(
        ...     examples=1000, batch_size=1000, steps=100, noise_multiplier=40.0, sampling=Sampling.FULL
        ... )
        >>> round(epsilon_of(run, delta=1e-5), 3)
        0.926
    """
    return upper_bound(setting.event, delta, Neighbours(setting.adjacency, setting.group))


def _is_within(setting: Setting, epsilon: float, delta: float) -> bool:
    return cost_within(setting.event, epsilon, delta, Neighbours(setting.adjacency, setting.group)) <= epsilon


def noise_multiplier(setting: Setting, *, epsilon: float, delta: float) -> float:
    """The least noise with which the setting stays within (epsilon, delta).

    Guarantee:
        The setting with the returned noise costs at most `epsilon`, samplers included.

    Example:
        >>> from reticent.mechanisms.sampling_events import Sampling
        >>> run = Setting(
        ...     examples=1000, batch_size=1000, steps=100, noise_multiplier=40.0, sampling=Sampling.FULL
        ... )
        >>> round(noise_multiplier(run, epsilon=1.0, delta=1e-5), 1)
        37.3
    """
    _check_target(epsilon, delta)
    if setting.steps == 0:
        raise CannotMeet("A run of no steps needs no noise.", remedy="Ask for at least one step.")

    return noise_for(
        lambda noise: replace(setting, noise_multiplier=noise).event,
        Neighbours(setting.adjacency, setting.group),
        epsilon=epsilon,
        delta=delta,
        guess=_first_guess(setting, epsilon, delta),
    )


def noise_for(
    event_of: Callable[[float], Event],
    neighbours: Neighbours,
    *,
    epsilon: float,
    delta: float,
    guess: float = 1.0,
    accountant: Accountant | None = None,
) -> float:
    """The least noise multiplier whose event stays within (epsilon, delta), for any event of one.

    By the tightest bound there is, or by another accountant, for comparison.

    Raises:
        CannotMeet: there is none, or it is so little that the ends of its sampler show.

    Example:
        >>> from reticent.mechanisms.adjacency import Adjacency
        >>> from reticent.mechanisms.events import Gaussian
        >>> one = Neighbours(Adjacency.ADD_OR_REMOVE)
        >>> round(
        ...     noise_for(lambda noise: Gaussian(noise_multiplier=noise), one, epsilon=1.0, delta=1e-5),
        ...     2,
        ... )
        3.73
    """
    _check_target(epsilon, delta)
    left = delta_left_for(epsilon, delta)

    def cost(noise: float) -> float:
        return (accountant or upper_bound)(event_of(noise), left, neighbours)

    found = _cross(cost, epsilon, guess, "noise_multiplier", _LARGEST_NOISE)
    if not is_paid(epsilon, delta) and has_visible_ends(event_of(found), delta, neighbours):
        raise noise_too_small(epsilon, delta)
    return found


def first_analysis(*, steps: int, epsilon: float, delta: float) -> float:
    """The noise multiplier of the lecture's first analysis of gradient descent, for comparison.

    Every step made (epsilon/T, delta/T)-DP by the classical formula, then basic composition, one record
    replaced: noise 4 T C sqrt(ln(2T/delta)) / (epsilon n) on the mean, which is the multiplier
    4 T sqrt(ln(2T/delta)) / epsilon of C on the sum.

    Example:
        >>> round(first_analysis(steps=100, epsilon=0.5, delta=1e-5))
        3280
    """
    checks.count(steps=steps)
    checks.inside_unit(epsilon=epsilon, delta=delta)
    return 4 * steps * math.sqrt(math.log(2 * steps / delta)) / epsilon


def delta(setting: Setting, *, epsilon: float) -> float:
    """The smallest delta at which the setting costs at most `epsilon`.

    Example:
        >>> from reticent.mechanisms.sampling_events import Sampling
        >>> run = Setting(
        ...     examples=1000, batch_size=1000, steps=100, noise_multiplier=40.0, sampling=Sampling.FULL
        ... )
        >>> f"{delta(run, epsilon=1.0):.1e}"
        '2.9e-06'
    """
    checks.positive(epsilon=epsilon)
    smallest = 1e-30
    if not _is_within(setting, epsilon, 0.9):
        raise CannotMeet(
            f"This setting costs more than epsilon {epsilon:g} at every delta below 0.9.",
            remedy="Add noise or take fewer steps.",
        )
    low, high = math.log(smallest), math.log(0.9)
    if _is_within(setting, epsilon, smallest):
        return smallest
    while high - low > 1e-4 * abs(high) + 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if _is_within(setting, epsilon, math.exp(middle)) else (middle, high)
    return math.exp(high)


def steps(setting: Setting, *, epsilon: float, delta: float) -> int:
    """The most steps that fit within (epsilon, delta).

    Example:
        >>> from reticent.mechanisms.sampling_events import Sampling
        >>> run = Setting(
        ...     examples=1000, batch_size=1000, steps=100, noise_multiplier=40.0, sampling=Sampling.FULL
        ... )
        >>> steps(run, epsilon=1.0, delta=1e-5)
        114
    """
    _check_target(epsilon, delta)

    def is_too_much(count: int) -> bool:
        return not _is_within(replace(setting, steps=count), epsilon, delta)

    if is_too_much(1):
        needed = noise_multiplier(replace(setting, steps=1), epsilon=epsilon, delta=delta)
        raise CannotMeet(
            f"One step with noise multiplier {setting.noise_multiplier:g} already costs more than "
            f"epsilon {epsilon:g}.",
            remedy=f"Use a noise multiplier of at least {needed:.4g}.",
        )
    return _first_too_much(is_too_much, "steps") - 1


def batch_size(setting: Setting, *, epochs: float, epsilon: float, delta: float) -> int:
    """The largest batch with which `epochs` passes over the data stay within (epsilon, delta).

    Example:
        >>> from reticent.mechanisms.sampling_events import Sampling
        >>> run = Setting(
        ...     examples=1000, batch_size=10, steps=100, noise_multiplier=2.0, sampling=Sampling.POISSON
        ... )
        >>> batch_size(run, epochs=1, epsilon=1.0, delta=1e-5)
        136
    """
    _check_target(epsilon, delta)

    def is_too_much(size: int) -> bool:
        if size > setting.examples:
            return True
        count = steps_for(epochs, setting.examples, size)
        return not _is_within(replace(setting, batch_size=size, steps=count), epsilon, delta)

    if is_too_much(1):
        raise CannotMeet(
            f"Even batches of one example cost more than epsilon {epsilon:g} over {epochs:g} epochs.",
            remedy="Add noise, or train for fewer epochs.",
        )
    return smallest_count(is_too_much, 1, setting.examples + 1) - 1


def _first_too_much(is_too_much: Callable[[int], bool], name: str) -> int:
    high = 2
    while not is_too_much(high):
        high *= 2
        if high > _MOST_STEPS:
            raise CannotMeet(
                f"Even {high // 2} {name} stay below the target.", remedy=f"Choose the {name} yourself."
            )
    return smallest_count(is_too_much, high // 2, high)


def _cross(cost: Callable[[float], float], target: float, guess: float, name: str, largest: float) -> float:
    """A value whose cost is just below `target`, for a cost that falls as the value grows.

    A bracket is kept around the crossing; inside it the next value comes from a straight line through
    the logarithms, which the cost nearly is.
    """
    safe, unsafe = _bracket(cost, target, guess, name, largest)
    for _ in range(60):
        if safe[1] >= target * (1 - _CLOSE) or safe[0] / unsafe[0] - 1 < 1e-12:
            break
        value = _between(safe, unsafe, target * (1 - _CLOSE / 2))
        found = cost(value)
        if found <= target:
            safe = (value, found)
        else:
            unsafe = (value, found)
    return safe[0]


def _bracket(
    cost: Callable[[float], float], target: float, guess: float, name: str, largest: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    value, found = guess, cost(guess)
    factor = 1.02
    safe = unsafe = None
    while safe is None or unsafe is None:
        if found <= target:
            safe = (value, found)
            value = value / factor
        else:
            unsafe = (value, found)
            value = value * factor
        if safe is not None and unsafe is not None:
            break
        if not largest**-1 < value < largest:
            raise CannotMeet(
                f"No {name} between {1 / largest:g} and {largest:g} gives epsilon {target:g}.",
                remedy="Ask for a more usual epsilon and delta.",
            )
        found = cost(value)
        factor = factor**2
    return safe, unsafe


def _between(safe: tuple[float, float], unsafe: tuple[float, float], target: float) -> float:
    """Where a line through the logarithms meets the target, kept off the ends of the bracket."""
    low, high = math.log(unsafe[0]), math.log(safe[0])
    if not math.isfinite(unsafe[1]) or safe[1] <= 0:
        return math.exp((low + high) / 2)
    share = (math.log(unsafe[1]) - math.log(target)) / (math.log(unsafe[1]) - math.log(safe[1]))
    return math.exp(low + min(max(share, 0.02), 0.98) * (high - low))


def _first_guess(setting: Setting, epsilon: float, delta: float) -> float:
    """From the central limit of the composition: an estimate, good enough to start from."""
    reach = setting.adjacency.reach * setting.group
    mu = 1 / gaussian_dp.noise_multiplier(epsilon, delta)
    if setting.sampling in (Sampling.FULL, Sampling.SHUFFLED, Sampling.CYCLIC) or setting.rate == 1:
        count = setting.steps if setting.sampling is Sampling.FULL else setting.epochs_begun
        return reach * math.sqrt(count) / mu
    scaled = mu * mu / (setting.rate**2 * setting.steps)
    return min(max(reach / math.sqrt(math.log1p(scaled)), 0.05), 1e6)


def _check_target(epsilon: float, delta: float) -> None:
    checks.positive(epsilon=epsilon)
    checks.inside_unit(delta=delta)
