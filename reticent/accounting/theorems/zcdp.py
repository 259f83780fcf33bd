"""Zero-concentrated differential privacy: one number, rho, that adds up."""

from __future__ import annotations

import math

from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.core import checks
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event


def gaussian(mu: float) -> float:
    """mu^2 / 2 (Bun and Steinke 2016, Proposition 1.6).

    Example:
        >>> gaussian(1.0)
        0.5
    """
    checks.positive(mu=mu)
    return mu * mu / 2


def pure(epsilon: float) -> float:
    """epsilon^2 / 2 (Bun and Steinke 2016, Proposition 1.4).

    Example:
        >>> pure(0.5)
        0.125
    """
    checks.not_negative(epsilon=epsilon)
    return epsilon * epsilon / 2


def exponential(epsilon: float) -> float:
    """epsilon^2 / 8, for the exponential mechanism (Cesar and Rogers 2021, Lemma 3.2).

    Example:
        >>> exponential(0.5)
        0.03125
    """
    checks.not_negative(epsilon=epsilon)
    return epsilon * epsilon / 8


def to_epsilon_classical(rho: float, delta: float) -> float:
    """rho + 2 sqrt(rho ln(1/delta)) (Bun and Steinke 2016, Proposition 1.3).

    Example:
        >>> round(to_epsilon_classical(0.5, delta=1e-5), 3)
        5.299
    """
    checks.not_negative(rho=rho)
    checks.inside_unit(delta=delta)
    return rho + 2 * math.sqrt(-rho * math.log(delta))


def to_epsilon(rho: float, delta: float) -> float:
    """The improved conversion, minimised over all orders above 1.

    Example:
        >>> round(to_epsilon(0.5, delta=1e-5), 3), to_epsilon(0.0, delta=1e-5)
        (4.728, 0.0)

    Reference:
        Canonne, Kamath and Steinke (2020), Corollary 13.
    """
    checks.not_negative(rho=rho)
    checks.inside_unit(delta=delta)
    if rho == 0:
        return 0.0

    def at(order: float) -> float:
        return order * rho + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)

    # Golden section on ln(order - 1): any order gives a valid epsilon, the best one the smallest.
    low, high = math.log(1e-6), math.log(1e9)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(200):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if at(1 + math.exp(left)) < at(1 + math.exp(right)):
            high = right
        else:
            low = left
    found = at(1 + math.exp((low + high) / 2))
    return math.inf if math.isnan(found) else max(found, 0.0)


def rho(event: Event, neighbours: Neighbours) -> float:
    """The rho of a composition. Sampling is ignored: concentrated DP is not amplified by it.

    A batch is part of the data, so what is released on it costs at most what it costs on all of them.

    Example:
        >>> from reticent.mechanisms.adjacency import Adjacency
        >>> steps = events.Repeated(event=events.Gaussian(noise_multiplier=10.0), times=100)
        >>> round(rho(steps, Neighbours(Adjacency.ADD_OR_REMOVE)), 6)
        0.5
    """
    total = 0.0
    for item, times in dominating.flatten(event).items():
        total += times * _rho(item, neighbours)
    return total


def epsilon(event: Event, delta: float, neighbours: Neighbours) -> float:
    """The epsilon of a composition at this delta, by its rho.

    Example:
        >>> from reticent.mechanisms.adjacency import Adjacency
        >>> steps = events.Repeated(event=events.Gaussian(noise_multiplier=10.0), times=100)
        >>> round(epsilon(steps, 1e-5, Neighbours(Adjacency.ADD_OR_REMOVE)), 2)
        4.73
    """
    checks.inside_unit(delta=delta)
    total = rho(event, neighbours)
    return to_epsilon(total, delta) if math.isfinite(total) else math.inf


def _rho(event: Event, neighbours: Neighbours) -> float:
    reach = neighbours.adjacency.reach * neighbours.group
    match event:
        case events.Gaussian(noise_multiplier=noise):
            return gaussian(reach / noise)
        case events.Laplace(noise_multiplier=noise):
            return pure(reach / noise)
        case events.PureDp(epsilon=cost, adjacency=adjacency):
            return pure(dominating.claim(event, cost, 0.0, adjacency, neighbours)[0])
        case events.ExponentialMechanism(epsilon=cost, adjacency=adjacency):
            return exponential(dominating.claim(event, cost, 0.0, adjacency, neighbours)[0])
        case events.PoissonSampled(event=inner):
            return rho(inner, neighbours)
        case events.Allocated(event=inner, times=times, capacity=capacity):
            # Renyi divergences of a mixture from one law are at most the largest of its parts.
            is_same_size = capacity is None or neighbours.adjacency is Adjacency.ZERO_OUT
            is_mixture = neighbours.adjacency is not Adjacency.REPLACE and neighbours.group == 1
            return times * rho(inner, neighbours) if is_same_size and is_mixture else math.inf
        case events.TruncatedPoissonSampled(event=inner) | events.FixedSizeSampled(event=inner):
            # A record more may push another one out of the batch, which moves a sum twice as far.
            is_same_size = neighbours.adjacency is not Adjacency.ADD_OR_REMOVE
            return rho(inner, neighbours) if is_same_size else math.inf
        case _:
            return math.inf
