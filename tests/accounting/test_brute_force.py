"""Tiny mechanisms by going through every outcome, or by direct integration: nothing of the machinery."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.special import ndtr

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.search import bisect
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import bracket_event, tight
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ApproximateDp,
    Composed,
    Event,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDp,
    RandomizedResponse,
    Repeated,
)

_DELTAS = [0.2, 0.05, 1e-3, 1e-6]


def _epsilon(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    """The smallest epsilon >= 0 at which sum (P - e^epsilon Q)+ is at most delta, or infinity."""
    if p[q == 0].sum() > delta:
        return math.inf
    return bisect(
        lambda value: float(np.maximum(p - math.exp(value) * q, 0).sum()) <= delta, 0.0, 60.0, relative=1e-13
    )


def _product(p: list[float], q: list[float], times: int) -> tuple[np.ndarray, np.ndarray]:
    """Every outcome of `times` independent releases."""
    joint_p, joint_q = np.ones(1), np.ones(1)
    for _ in range(times):
        joint_p, joint_q = np.multiply.outer(joint_p, p).ravel(), np.multiply.outer(joint_q, q).ravel()
    return joint_p, joint_q


def _holds(event: Event, exact: float, delta: float, adjacency: Adjacency) -> None:
    bracket = bracket_event(event, delta, Neighbours(adjacency))
    if math.isinf(exact):
        assert math.isinf(bracket.upper)
        return
    assert bracket.lower <= exact * (1 + 1e-9) + 1e-12, (bracket, exact)
    assert exact <= bracket.upper * (1 + 1e-9) + 1e-12, (bracket, exact)
    # Where few losses decide, the lower lattice can miss one of them by up to a step.
    assert bracket.upper - bracket.lower <= max(1e-3, 6e-3 * exact), (bracket, exact)


@pytest.mark.parametrize(
    ("truth", "choices", "times"), [(0.75, 2, 12), (0.9, 2, 5), (0.5, 3, 8), (0.6, 5, 5)]
)
@pytest.mark.parametrize("delta", _DELTAS)
def test_randomised_response_by_enumeration(truth: float, choices: int, times: int, delta: float):
    lie = (1 - truth) / (choices - 1)
    p = [truth] + [lie] * (choices - 1)
    q = [lie, truth] + [lie] * (choices - 2)
    exact = _epsilon(*_product(p, q, times), delta)
    event = Repeated(event=RandomizedResponse(truth=truth, choices=choices), times=times)
    _holds(event, exact, delta, Adjacency.REPLACE)


@pytest.mark.parametrize(
    ("epsilon", "own", "times"), [(0.1, 0.0, 12), (1.0, 0.0, 6), (0.5, 1e-4, 8), (3.0, 1e-8, 2)]
)
@pytest.mark.parametrize("delta", _DELTAS)
def test_claims_by_enumeration(epsilon: float, own: float, times: int, delta: float):
    high = (1 - own) / (1 + math.exp(-epsilon))
    p, q = [high, 1 - own - high], [1 - own - high, high]
    if own > 0:
        p, q = [own, *p, 0.0], [0.0, *q, own]
    exact = _epsilon(*_product(p, q, times), delta)
    _holds(
        Repeated(event=ApproximateDp(epsilon=epsilon, delta=own), times=times),
        exact,
        delta,
        Adjacency.ADD_OR_REMOVE,
    )


@pytest.mark.parametrize("delta", _DELTAS)
def test_different_claims_together_by_enumeration(delta: float):
    joint_p, joint_q = np.ones(1), np.ones(1)
    epsilons = [0.1, 0.1, 0.37, 1.0, 0.25]
    for epsilon in epsilons:
        high = 1 / (1 + math.exp(-epsilon))
        joint_p = np.multiply.outer(joint_p, [high, 1 - high]).ravel()
        joint_q = np.multiply.outer(joint_q, [1 - high, high]).ravel()
    event = Composed(events=tuple(PureDp(epsilon=epsilon) for epsilon in epsilons))
    exact = _epsilon(joint_p, joint_q, delta)
    bracket = bracket_event(event, delta, Neighbours(Adjacency.ADD_OR_REMOVE))
    # Atoms of different sizes do not all fit one lattice: wider, and still a bracket.
    assert bracket.lower <= exact * (1 + 1e-9) + 1e-12
    assert exact <= bracket.upper * (1 + 1e-9) + 1e-12


@pytest.mark.parametrize(("epsilon", "rate", "times"), [(1.0, 0.1, 8), (2.0, 0.5, 6)])
@pytest.mark.parametrize("delta", _DELTAS)
def test_sampled_claims_by_enumeration_in_both_directions(
    epsilon: float, rate: float, times: int, delta: float
):
    high = 1 / (1 + math.exp(-epsilon))
    p, q = np.array([high, 1 - high]), np.array([1 - high, high])
    mixed = (1 - rate) * q + rate * p
    joint = _product(mixed.tolist(), q.tolist(), times)
    exact = max(_epsilon(joint[0], joint[1], delta), _epsilon(joint[1], joint[0], delta))
    event = Repeated(event=PoissonSampled(rate=rate, event=PureDp(epsilon=epsilon)), times=times)
    _holds(event, exact, delta, Adjacency.ADD_OR_REMOVE)


# --- by integration: one and two releases on a grid of outcomes


def _grid_masses(kind: str, shift: float, points: np.ndarray) -> np.ndarray:
    """Probability of the cells between points, for noise centred at `shift`."""
    if kind == "gaussian":
        cdf = ndtr(points - shift)
    else:
        x = points - shift
        cdf = np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


@pytest.mark.parametrize(
    ("kind", "shift", "rate"),
    [("gaussian", 1.0, 1.0), ("gaussian", 0.5, 0.2), ("laplace", 0.8, 1.0), ("laplace", 0.5, 0.3)],
)
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-5])
def test_one_release_by_integration(kind: str, shift: float, rate: float, delta: float):
    points = np.linspace(-14, 16, 300_001)
    p, q = _grid_masses(kind, shift, points), _grid_masses(kind, 0.0, points)
    mixed = (1 - rate) * q + rate * p
    # Cells merge outcomes, which can only lower it: a lower bound that is good to 1e-6 or so.
    exact = max(_epsilon(mixed, q, delta), _epsilon(q, mixed, delta))
    make = Gaussian if kind == "gaussian" else Laplace
    event = PoissonSampled(rate=rate, event=make(noise_multiplier=1 / shift))
    cost = bracket_event(event, delta, Neighbours(Adjacency.ADD_OR_REMOVE))
    assert cost.lower <= exact + 1e-5
    assert exact <= cost.upper * (1 + 1e-8) + 1e-12  # masses of the grid are rounded


@pytest.mark.parametrize(("shift", "rate"), [(1.0, 0.3), (2.0, 0.05)])
@pytest.mark.parametrize("delta", [0.05, 1e-3, 1e-5])
def test_two_sampled_gaussians_by_integration_in_the_plane(shift: float, rate: float, delta: float):
    points = np.linspace(-8, 8 + shift, 2401)
    p, q = _grid_masses("gaussian", shift, points), _grid_masses("gaussian", 0.0, points)
    mixed = (1 - rate) * q + rate * p
    joint_p, joint_q = np.multiply.outer(mixed, mixed).ravel(), np.multiply.outer(q, q).ravel()
    event = Repeated(event=PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=1 / shift)), times=2)
    cost = tight(event, delta)

    def deltas(epsilon: float) -> float:
        ratio = math.exp(epsilon)
        return max(
            float(np.maximum(joint_p - ratio * joint_q, 0).sum()),
            float(np.maximum(joint_q - ratio * joint_p, 0).sum()),
        )

    # Merged cells lose at most a thousandth here; the ends of the bracket must be on their sides.
    assert deltas(cost.upper) <= delta
    assert deltas(cost.lower) >= delta * (1 - 2e-3)


def test_a_batch_of_fixed_size_by_going_through_every_batch():
    """Three records, batches of two, one replaced: worst over values at the corners and in between."""
    noise, delta = 1.0, 1e-3
    event = FixedSizeSampled(batch_size=2, examples=3, event=Gaussian(noise_multiplier=noise))
    cost = tight(event, delta, Adjacency.REPLACE)
    x = np.linspace(-10, 10, 20_001)

    def law(values: tuple[float, ...]) -> np.ndarray:
        sums = [a + b for a, b in itertools.combinations(values, 2)]
        return np.mean([_grid_masses("gaussian", total, x) for total in sums], axis=0)

    worst = 0.0
    for others in itertools.product((-1.0, 0.0, 1.0), repeat=2):
        for old, new in itertools.permutations((-1.0, 0.5, 1.0), 2):
            worst = max(worst, _epsilon(law((*others, old)), law((*others, new)), delta))
    assert cost.lower - 1e-4 <= worst <= cost.upper
    assert worst > gaussian_dp.epsilon(1 / noise, delta)


def test_replaced_under_poisson_by_going_through_every_batch():
    """Two records, each in the batch by its own coin; one replaced."""
    rate, noise, delta = 0.4, 1.0, 1e-3
    event = PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))
    cost = tight(event, delta, Adjacency.REPLACE)
    x = np.linspace(-10, 10, 20_001)

    def law(a: float, b: float) -> np.ndarray:
        total = np.zeros(len(x) + 1)
        for coins in itertools.product((0, 1), repeat=2):
            weight = math.prod(rate if coin else 1 - rate for coin in coins)
            total += weight * _grid_masses("gaussian", coins[0] * a + coins[1] * b, x)
        return total

    worst = 0.0
    for other, old, new in itertools.product((-1.0, 0.0, 1.0), (-1.0, 0.0, 0.5, 1.0), (-1.0, 0.0, 0.5, 1.0)):
        worst = max(worst, _epsilon(law(other, old), law(other, new), delta))
    assert cost.lower - 1e-4 <= worst <= cost.upper
