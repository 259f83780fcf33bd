"""The best of several runs: the bound against every outcome of tiny mechanisms, and the laws it obeys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.accountants import account
from reticent.accounting.filters import RenyiFilter
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.theorems import renyi, tuning
from reticent.accounting.theorems.tuning import NegativeBinomialTrials, PoissonTrials, Trials
from reticent.accounting.tight_epsilon import tight, upper_bound
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import (
    ApproximateDp,
    BestOfTrials,
    Composed,
    Event,
    Gaussian,
    Laplace,
    NonPrivate,
    PoissonSampled,
    PureDp,
    Repeated,
    TruncatedPoissonSampled,
)

_ORDERS = np.array([1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0, 33.0, 129.0])
_ALONE = Neighbours(Adjacency.ADD_OR_REMOVE)
_DELTA = 1e-6
_MOST = 4000  # runs that are gone through; more have no probability to speak of


# Every outcome


def probabilities(trials: Trials) -> np.ndarray:
    """P(K = 0), P(K = 1), ... until hardly anything is left."""
    if isinstance(trials, PoissonTrials):
        found = [math.exp(-trials.mean)]
        while sum(found) < 1 - 1e-15 and len(found) < 10_000:
            found.append(found[-1] * trials.mean / len(found))
        return np.array(found)
    assert isinstance(trials, NegativeBinomialTrials)
    # Straight from the definition, without the generating function.
    weights, weight = [0.0], 1.0
    for k in range(1, _MOST):
        weight *= (1 - trials.gamma) * ((k - 1 + trials.shape) / k if k > 1 else 1.0)
        weights.append(weight)
    return np.array(weights) / sum(weights)


def best_of_runs(run: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """The distribution of the largest outcome of K runs; the last entry is that there was no run."""
    below = np.concatenate([[0.0], np.cumsum(run)])
    below[-1] = 1.0
    counts = np.arange(len(chances))
    at_most = (chances[None, 1:] * below[:, None] ** counts[None, 1:]).sum(axis=1)
    return np.append(np.diff(at_most), chances[0])


def divergence(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    seen = (p > 0) & (q > 0)
    logs = orders[:, None] * np.log(p[seen]) + (1 - orders[:, None]) * np.log(q[seen])
    return np.logaddexp.reduce(logs, axis=1) / (orders - 1)


def both_ways(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    return np.maximum(divergence(p, q, orders), divergence(q, p, orders))


_TRIALS: list[Trials] = [
    NegativeBinomialTrials(shape=shape, gamma=gamma)
    for shape in (-0.5, 0.0, 0.5, 1.0, 3.0)
    for gamma in (0.02, 0.3, 0.9)
]
_TRIALS += [PoissonTrials(mean=mean) for mean in (0.01, 0.7, 3.0, 20.0)]


def mechanisms() -> list[tuple[np.ndarray, np.ndarray]]:
    """Two-point mechanisms, among them rare best outcomes, and random ones with four outcomes."""
    pairs = [
        (np.array([1 - high, high]), np.array([1 - low, low]))
        for high, low in ((0.6, 0.4), (0.9, 0.1), (0.02, 0.01), (1e-3, 1e-5), (0.999, 0.9), (0.5, 0.5))
    ]
    rng = np.random.default_rng(7)
    pairs += [(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))) for _ in range(6)]
    return pairs + [(q, p) for p, q in pairs]


def violations(bound) -> int:
    """How many settings there are in which the best of some runs costs more than `bound` says."""
    found = 0
    for trials in _TRIALS:
        chances = probabilities(trials)
        for p, q in mechanisms():
            curve = both_ways(p, q, _ORDERS)
            exact = divergence(best_of_runs(p, chances), best_of_runs(q, chances), _ORDERS)
            found += bool((exact > bound(curve, trials, _ORDERS) + 1e-9).any())
    return found


def test_no_tiny_mechanism_costs_more_than_the_bound():
    assert violations(tuning.best_of) == 0


def test_nor_where_the_pure_epsilon_of_a_run_is_known():
    for trials in _TRIALS:
        chances = probabilities(trials)
        for p, q in mechanisms():
            pure = float(np.abs(np.log(p / q)).max())
            bound = tuning.best_of(both_ways(p, q, _ORDERS), trials, _ORDERS, pure=pure)
            exact = divergence(best_of_runs(p, chances), best_of_runs(q, chances), _ORDERS)
            assert (exact <= bound + 1e-9).all()
            assert (bound <= max(trials.pure(pure), pure) + 1e-9).all()


def without_the_mean(curve: np.ndarray, trials: Trials, orders: np.ndarray) -> np.ndarray:
    return tuning.best_of(curve, trials, orders) - max(math.log(trials.mean), 0.0) / (orders - 1)


def one_run_alone(curve: np.ndarray, trials: Trials, orders: np.ndarray) -> np.ndarray:
    return curve


def with_the_shape_left_out(curve: np.ndarray, trials: Trials, orders: np.ndarray) -> np.ndarray:
    if isinstance(trials, PoissonTrials):
        return np.full(orders.shape, math.inf)
    assert isinstance(trials, NegativeBinomialTrials)
    return tuning.closed_form(
        curve, orders, shape=-1.0, log_inverse=-math.log(trials.gamma), log_mean=math.log(trials.mean)
    )


@pytest.mark.parametrize("wrong", [without_the_mean, one_run_alone, with_the_shape_left_out])
def test_a_bound_that_leaves_something_out_is_noticed(wrong):
    assert violations(wrong) > 0


@pytest.mark.parametrize("shape", [0.0, 1.0])
def test_some_mechanism_nearly_costs_as_much_as_the_bound(shape: float):
    """A middling outcome twice as likely, and the better one half as likely, on one neighbour."""
    trials = NegativeBinomialTrials(shape=shape, gamma=0.003)
    p, q = np.array([1 - 1.02e-1, 2e-3, 1e-1]), np.array([1 - 2.01e-1, 1e-3, 2e-1])
    chances = probabilities(trials)
    exact = divergence(best_of_runs(p, chances), best_of_runs(q, chances), _ORDERS)
    bound = tuning.best_of(both_ways(p, q, _ORDERS), trials, _ORDERS, pure=math.log(2))
    assert exact[-1] > 0.9 * bound[-1]


# Laws


@settings(max_examples=25)
@given(
    rho=st.floats(1e-6, 5),
    shape=st.floats(-0.9, 5),
    gamma=st.floats(1e-8, 0.999),
    mean=st.floats(1e-6, 1e3),
)
def test_never_negative_never_below_one_run_never_falling(
    rho: float, shape: float, gamma: float, mean: float
):
    run = renyi.ORDERS * rho
    for trials in (NegativeBinomialTrials(shape=shape, gamma=gamma), PoissonTrials(mean=mean)):
        curve = tuning.best_of(run, trials, renyi.ORDERS)
        assert (curve >= run).all()
        assert (np.diff(curve) >= 0).all()


def test_where_nothing_is_known_of_a_run_nothing_is_claimed():
    nothing = np.full(_ORDERS.shape, math.inf)
    assert np.isinf(tuning.best_of(nothing, NegativeBinomialTrials(shape=0.0, gamma=0.1), _ORDERS)).all()
    some = np.where(_ORDERS < 4, _ORDERS, math.inf)
    found = tuning.best_of(some, NegativeBinomialTrials(shape=0.0, gamma=0.1), _ORDERS)
    assert (np.isfinite(found) == np.isfinite(some)).all()


@pytest.mark.parametrize("shape", [-0.5, 0.0, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("mean", [1.001, 3.0, 12.0])
def test_gamma_and_the_mean_belong_together(shape: float, mean: float):
    gamma = tuning.gamma_for(mean, shape)
    trials = NegativeBinomialTrials(shape=shape, gamma=gamma)
    assert trials.mean == pytest.approx(mean, rel=1e-9)
    chances = probabilities(trials)
    assert chances @ np.arange(len(chances)) == pytest.approx(mean, rel=1e-3)


def test_the_logarithmic_shape_is_the_limit_of_small_ones():
    near, at = (BestOfTrials.mean_of(shape, 0.01) for shape in (1e-9, 0.0))
    assert near == pytest.approx(at, rel=1e-6)


@pytest.mark.parametrize(
    "given", [{"shape": -1.0, "gamma": 0.1}, {"shape": 0.0, "gamma": 0.0}, {"shape": 0.0, "gamma": 1.0}]
)
def test_a_distribution_that_is_none_is_refused(given: dict[str, float]):
    with pytest.raises(InvalidArgument):
        NegativeBinomialTrials(**given)
    with pytest.raises(InvalidArgument):
        BestOfTrials(event=Gaussian(noise_multiplier=1.0), **given)


# The event


def tuned(event: Event, *, shape: float = 0.0, gamma: float = 0.1) -> BestOfTrials:
    return BestOfTrials(event=event, shape=shape, gamma=gamma)


@pytest.mark.parametrize("shape", [-0.5, 0.0, 0.5, 1.0])
def test_a_pure_run_costs_two_and_the_shape_times_as_much(shape: float):
    event = tuned(PureDp(epsilon=0.3), shape=shape, gamma=1e-6)
    assert (renyi.compose_curves(event, _ALONE)[0] <= (2 + shape) * 0.3 + 1e-12).all()
    assert renyi.compose_curves(event, _ALONE)[0][-1] == pytest.approx((2 + shape) * 0.3, rel=5e-3)
    assert tight(event, 1e-12).upper <= (2 + shape) * 0.3 + 0.005


@pytest.mark.parametrize(
    "run",
    [
        Gaussian(noise_multiplier=5.0),
        Laplace(noise_multiplier=4.0),
        PureDp(epsilon=0.2),
        ApproximateDp(epsilon=0.2, delta=1e-9),
        Repeated(event=PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=2.0)), times=100),
        Composed(events=(Gaussian(noise_multiplier=5.0), Laplace(noise_multiplier=9.0))),
        Repeated(
            event=TruncatedPoissonSampled(
                rate=0.01, capacity=400, examples=10_000, event=Gaussian(noise_multiplier=2.0)
            ),
            times=100,
        ),
    ],
)
def test_it_costs_more_than_one_run_and_more_with_more_runs(run: Event):
    one = tight(run, _DELTA).upper
    few, many = (tight(tuned(run, gamma=gamma), _DELTA) for gamma in (0.5, 0.001))
    assert one < few.upper < many.upper < math.inf
    assert few.lower == 0
    assert few.accountant == "renyi"
    assert upper_bound(tuned(run, gamma=0.5), _DELTA, _ALONE) == few.upper
    both = Composed(events=(tuned(run, gamma=0.5), Gaussian(noise_multiplier=3.0)))
    assert tight(both, _DELTA).upper > few.upper


def test_only_the_accountant_that_has_a_theorem_gives_a_row():
    rows = account(tuned(Gaussian(noise_multiplier=5.0)), _DELTA, _ALONE)
    assert {name for name, value in rows.items() if value is not None and math.isfinite(value)} == {"rdp"}


def test_an_unprotected_run_costs_infinity():
    assert math.isinf(tight(tuned(NonPrivate()), _DELTA).upper)


def test_accidents_are_counted_for_every_run():
    event = tuned(ApproximateDp(epsilon=0.2, delta=1e-8), gamma=0.01)
    assert renyi.compose_curves(event, _ALONE)[1] == pytest.approx(event.mean * 1e-8)
    assert math.isinf(tight(event, event.mean * 1e-8).upper)


def test_a_filter_sees_the_same_cost_at_its_own_order():
    event = tuned(Gaussian(noise_multiplier=8.0))
    watch = RenyiFilter(epsilon=3.0, delta=_DELTA, order=7.3)
    assert watch.cost(event) == pytest.approx(
        np.interp(7.3, renyi.ORDERS, renyi.compose_curves(event, _ALONE)[0]), rel=1e-2
    )
