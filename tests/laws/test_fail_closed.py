"""NaN never becomes a guarantee: wherever one turns up, the cost is infinite or refused.

A NaN is planted in every number that a bound is computed from. What comes out is at least what the same event
costs without it (another accountant may do without that number), and itself never NaN.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

from reticent.accounting import calibrate
from reticent.accounting.accountants import ACCOUNTANTS
from reticent.accounting.filters import RenyiFilter
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution import convolution, dominating, pairs, window
from reticent.accounting.loss_distribution import distribution as loss_distribution
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.setting import Setting
from reticent.accounting.theorems import (
    composition,
    gaussian_dp,
    group,
    moments,
    renyi,
    sampled_renyi,
    tuning,
    zcdp,
)
from reticent.accounting.tight_epsilon import tight, upper_bound
from reticent.core.errors import BudgetExceeded, CannotMeet, InvalidArgument, Unproven
from reticent.mechanisms import events
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
    Repeated,
    TruncatedPoissonSampled,
)
from reticent.synthetic.images import embedding

tightest: Any = importlib.import_module(
    "reticent.accounting.tight_epsilon"
)  # its package has a function of that name

_ALONE = Neighbours(Adjacency.ADD_OR_REMOVE)
_DELTA = 1e-5
_NOISY = Gaussian(noise_multiplier=1.0)
_EVENTS: dict[str, Event] = {
    "gaussian": Repeated(event=_NOISY, times=3),
    "laplace": Repeated(event=Laplace(noise_multiplier=5.0), times=20),
    "sampled": Repeated(event=PoissonSampled(rate=0.01, event=_NOISY), times=100),
    "truncated": Repeated(
        event=TruncatedPoissonSampled(rate=0.01, capacity=200, examples=10_000, event=_NOISY), times=100
    ),
    "claims": Composed(events=(PureDp(epsilon=0.3), ApproximateDp(epsilon=0.5, delta=1e-7))),
    "claim at its own delta": ApproximateDp(epsilon=4.0, delta=_DELTA),
    "sampled claim": Repeated(
        event=PoissonSampled(rate=0.1, event=ApproximateDp(epsilon=1.0, delta=1e-8)), times=9
    ),
    "tuned": events.BestOfTrials(shape=1.0, gamma=0.2, event=Repeated(event=_NOISY, times=2)),
}

Cost = Callable[[Event], float]
_COSTS: dict[str, Cost] = {
    **{name: lambda event, row=row: row(event, _DELTA, _ALONE) for name, row in ACCOUNTANTS.items()},
    "tight": lambda event: tight(event, _DELTA).upper,
    "upper bound": lambda event: upper_bound(event, _DELTA, _ALONE),
}


def _refused_or(cost: Cost, event: Event) -> float:
    """The cost, or infinity where there is an error instead."""
    try:
        with np.errstate(all="ignore"):
            return cost(event)
    except (Unproven, ValueError, ArithmeticError):
        return math.inf


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """A price from before would hide a planted NaN, and one from after would outlive it."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    tightest.bracket_event.cache_clear()
    tightest._upper_bound.cache_clear()


@pytest.fixture(scope="module")
def honest() -> dict[tuple[str, str], float]:
    """What each accountant says of each event, less the width of a bracket."""
    return {
        (name, row): min(_refused_or(cost, event) * (1 - 2e-3), 1e300)
        for name, event in _EVENTS.items()
        for row, cost in _COSTS.items()
    }


# --- NaN on the way

Spoil = Callable[[Any], Any]


def _all(array: Any) -> Any:
    return np.full(np.shape(array), math.nan) if np.ndim(array) else math.nan


def _at(share: float) -> Spoil:
    """One entry of an array: the first (0), the last (1), or between them."""

    def spoil(array: np.ndarray) -> np.ndarray:
        array = np.array(array, dtype=np.float64)
        array[round(share * (len(array) - 1))] = math.nan
        return array

    return spoil


def _field(name: str, spoil: Spoil = _all) -> Spoil:
    return lambda whole: whole._replace(**{name: spoil(getattr(whole, name))})


def _item(index: int, spoil: Spoil = _all) -> Spoil:
    return lambda whole: tuple(spoil(item) if at == index else item for at, item in enumerate(whole))


class _Plant(NamedTuple):
    """Spoils whatever a function returns. `decides`: no loss distribution can do without it."""

    owner: Any
    function: str
    spoil: Spoil = _all
    decides: bool = False


_PLANTS: dict[str, _Plant] = {
    "gaussian delta": _Plant(gaussian_dp, "delta"),
    "gaussian tail": _Plant(gaussian_dp, "erfcx"),
    "group claim": _Plant(group, "approximate", _item(0)),
    "group delta": _Plant(group, "approximate", _item(1)),
    "claimed sum": _Plant(tightest, "sum_of_claims"),
    "lower epsilon": _Plant(tightest, "lower_epsilon"),
    "gaussian curve": _Plant(renyi, "gaussian"),
    "pure curve": _Plant(renyi, "pure"),
    "point of a sampled curve": _Plant(renyi, "poisson_gaussian", _at(0.5)),
    "binomial sum": _Plant(sampled_renyi, "binomial_sum"),
    "quadrature": _Plant(sampled_renyi, "_power_less_line"),
    "moment": _Plant(moments, "log_moment"),
    "rho": _Plant(zcdp, "_rho"),
    "basic composition": _Plant(composition, "basic", _item(0)),
    "advanced composition": _Plant(composition, "advanced_heterogeneous", _item(0)),
    "tuning slope": _Plant(tuning.NegativeBinomialTrials, "log_slope"),
    "part of a tuning slope": _Plant(tuning.NegativeBinomialTrials, "log_slope", _at(0.5)),
    "overfull batch": _Plant(dominating, "overfull", decides=True),
    "slack": _Plant(tightest, "_slack", decides=True),
    "upper epsilon": _Plant(tightest, "upper_epsilon", decides=True),
    "normal distribution": _Plant(pairs, "ndtr", decides=True),
    "log moment": _Plant(window, "_lattice_moments", decides=True),
    "modulus": _Plant(convolution, "_log_modulus", decides=True),
    "transform": _Plant(convolution, "_convolve", _item(0), decides=True),
    "mass of the transform": _Plant(convolution, "_convolve", _item(0, _at(1)), decides=True),
    "error of the transform": _Plant(convolution, "_convolve", _item(1), decides=True),
    "infinite loss": _Plant(loss_distribution, "round_up", _field("infinite"), decides=True),
    **{
        f"lattice at {share}": _Plant(
            loss_distribution, "round_up", _field("masses", _at(share)), decides=True
        )
        for share in (0.0, 0.4, 1.0)
    },
    **{
        f"{name} of the composition": _Plant(loss_distribution, "compose", _field(name), decides=True)
        for name in ("error", "log_scale", "beyond", "infinite", "relative")
    },
    **{
        f"{name} of the lattice": _Plant(loss_distribution, "_choose", _field(name), decides=True)
        for name in ("tilt", "estimate", "deviation", "spacing", "tolerated")
    },
    **{
        f"{name} mass of {pair.__name__} at {share}": _Plant(pair, "masses", _field(name, _at(share)))
        for pair in (pairs.GaussianPair, pairs.LaplacePair, pairs.AtomPair, pairs.SampledPair)
        for name, share in (("p", 1.0), ("q", 0.5), ("p_error", 0.3))
    },
}


@pytest.mark.parametrize("name", _PLANTS)
def test_what_is_not_a_number_never_makes_a_release_cheaper(
    name: str, honest: dict[tuple[str, str], float], monkeypatch: pytest.MonkeyPatch
):
    plant, reached = _PLANTS[name], []
    real = getattr(plant.owner, plant.function)

    def spoilt(*args: Any, **options: Any) -> Any:
        reached.append(True)
        return plant.spoil(real(*args, **options))

    monkeypatch.setattr(plant.owner, plant.function, spoilt)
    was_reached = False
    for (event, row), least in honest.items():
        reached.clear()
        found = _refused_or(_COSTS[row], _EVENTS[event])
        must_refuse = plant.decides and row == "pld" and reached
        assert found == math.inf if must_refuse else found >= least, (event, row, found, least)
        was_reached |= bool(reached)
    assert was_reached


@pytest.mark.parametrize("field", ["spent", "limit", "spent_delta", "reserve"])
def test_a_filter_that_lost_count_lets_nothing_through(field: str):
    event = _EVENTS["sampled"]
    guard = RenyiFilter(epsilon=100.0, delta=1e-5)
    assert guard.fits(event)
    setattr(guard, field, math.nan)
    assert not guard.fits(event)
    with pytest.raises(BudgetExceeded):
        guard.spend(event)


def test_a_filter_charges_no_cost_that_is_not_a_number(monkeypatch: pytest.MonkeyPatch):
    guard = RenyiFilter(epsilon=100.0, delta=1e-5)
    monkeypatch.setattr(renyi, "poisson_gaussian", lambda rate, noise, orders: orders * math.nan)
    assert not guard.fits(_EVENTS["sampled"])
    with pytest.raises(BudgetExceeded):
        guard.spend(_EVENTS["sampled"])
    assert (guard.spent, guard.spent_delta) == (0.0, 0.0)


@pytest.mark.parametrize("find", ["noise_multiplier", "delta", "steps", "batch_size"])
def test_nothing_is_calibrated_to_a_cost_that_is_not_a_number(find: str, monkeypatch: pytest.MonkeyPatch):
    setting = Setting(examples=10_000, batch_size=100, steps=10, noise_multiplier=1.0)
    targets: dict[str, Any] = {"epsilon": 1.0} if find == "delta" else {"epsilon": 1.0, "delta": 1e-5}
    if find == "batch_size":
        targets["epochs"] = 1.0
    for module in (calibrate, tightest):
        monkeypatch.setattr(module, "upper_bound", lambda *_: math.nan)
    with pytest.raises(CannotMeet):
        getattr(calibrate, find)(setting, **targets)


def test_no_noise_is_found_for_a_delta_that_is_not_a_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(gaussian_dp, "ndtr", lambda _: math.nan)
    monkeypatch.setattr(gaussian_dp, "erfcx", lambda _: math.nan)
    with pytest.raises((InvalidArgument, ArithmeticError)):
        gaussian_dp.noise_multiplier(1.0, 1e-5)
    assert gaussian_dp.epsilon(1.0, 1e-5) >= 4.377


# --- parameters

_BAD = [math.nan, math.inf, -math.inf]


@pytest.mark.parametrize("value", _BAD)
def test_no_event_is_made_of_what_is_not_a_number(value: Any):
    makers: list[Callable[[], Any]] = [
        lambda: Gaussian(noise_multiplier=value),
        lambda: Laplace(noise_multiplier=value),
        lambda: events.RandomizedResponse(truth=value),
        lambda: events.RandomizedResponse(truth=0.6, choices=value),
        lambda: events.ExponentialMechanism(epsilon=value),
        lambda: PureDp(epsilon=value),
        lambda: ApproximateDp(epsilon=value, delta=0.0),
        lambda: ApproximateDp(epsilon=1.0, delta=value),
        lambda: PoissonSampled(rate=value, event=_NOISY),
        lambda: TruncatedPoissonSampled(rate=value, capacity=1, examples=2, event=_NOISY),
        lambda: TruncatedPoissonSampled(rate=0.1, capacity=value, examples=2, event=_NOISY),
        lambda: TruncatedPoissonSampled(rate=0.1, capacity=1, examples=value, event=_NOISY),
        lambda: events.FixedSizeSampled(batch_size=value, examples=2, event=_NOISY),
        lambda: events.FixedSizeSampled(batch_size=1, examples=value, event=_NOISY),
        lambda: Repeated(event=_NOISY, times=value),
        lambda: events.BestOfTrials(shape=value, gamma=0.5, event=_NOISY),
        lambda: events.BestOfTrials(shape=1.0, gamma=value, event=_NOISY),
        lambda: RenyiFilter(epsilon=value, delta=1e-5),
        lambda: RenyiFilter(epsilon=1.0, delta=value),
        lambda: RenyiFilter(epsilon=1.0, delta=1e-5, order=value),
        lambda: RenyiFilter(epsilon=1.0, delta=1e-5, reserve=value),
        lambda: tight(_NOISY, value),
        lambda: tight(_NOISY, 1e-5, group=value),
        lambda: upper_bound(_EVENTS["sampled"], value, _ALONE),
        lambda: upper_bound(_EVENTS["sampled"], 1e-5, Neighbours(Adjacency.ADD_OR_REMOVE, value)),
    ]
    for number, make in enumerate(makers):
        with pytest.raises(InvalidArgument):
            pytest.fail(f"maker {number} gave {make()}")


@pytest.mark.parametrize("field", ["epsilon", "epsilon_lower", "delta"])
def test_no_guarantee_is_made_of_what_is_not_a_number(field: str):
    fields: dict[str, Any] = {"epsilon": 1.0, "epsilon_lower": 0.5, "delta": 1e-5, field: math.nan}
    with pytest.raises((AssertionError, InvalidArgument)):
        Guarantee(adjacency=Adjacency.REPLACE, accountant="test", **fields)


_EXTREME = [5e-324, 1e-160, 1e-100, 1e160, 1.7e308]
_MAKERS: dict[str, Callable[[float], Event]] = {
    "gaussian": lambda noise: Gaussian(noise_multiplier=noise),
    "laplace": lambda noise: Laplace(noise_multiplier=noise),
    "pure": lambda noise: PureDp(epsilon=1 / noise),
    "approximate": lambda noise: ApproximateDp(epsilon=1 / noise, delta=1e-9),
    "exponential": lambda noise: events.ExponentialMechanism(epsilon=1 / noise),
    "sampled gaussian": lambda noise: PoissonSampled(rate=0.5, event=Gaussian(noise_multiplier=noise)),
    "sampled laplace": lambda noise: PoissonSampled(rate=0.5, event=Laplace(noise_multiplier=noise)),
    "sampled claim": lambda noise: PoissonSampled(
        rate=0.5, event=ApproximateDp(epsilon=1 / noise, delta=1e-9)
    ),
}


@pytest.mark.parametrize("kind", _MAKERS)
def test_noise_at_the_ends_of_the_range_is_costed_or_refused(kind: str):
    for noise in _EXTREME:
        try:
            event = _MAKERS[kind](noise)
        except InvalidArgument:
            continue
        for row, cost in _COSTS.items():
            found = _refused_or(cost, Repeated(event=event, times=3))
            assert found >= (1000 if noise < 1 else 0), (noise, row, found)


@pytest.mark.parametrize("noise", [1e150, 1e200, 1e300])
@pytest.mark.parametrize("adjacency", [Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE])
def test_noise_whose_square_is_no_float_costs_next_to_nothing(noise: float, adjacency: Adjacency):
    release: Event = Gaussian(noise_multiplier=noise)
    sampled: Event = PoissonSampled(rate=0.01, event=release)
    if adjacency is Adjacency.REPLACE:
        sampled = FixedSizeSampled(batch_size=10, examples=1000, event=release)
    assert 0 <= tight(Repeated(event=sampled, times=1000), 1e-5, adjacency).upper < 1e-2


def test_what_is_beside_an_embedding_and_costs_no_number_leaves_no_budget(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(embedding, "upper_bound", lambda *terms: math.nan)
    with pytest.raises(CannotMeet, match="by itself"):
        embedding.plan(epsilon=1.0, delta=1e-5, examples=1000, beside=Gaussian(noise_multiplier=10.0))


@pytest.mark.parametrize("noise_multiplier", [1e-320, 1e-160])
def test_noise_that_floats_hardly_hold_has_no_bound_and_no_warning(noise_multiplier: float) -> None:
    """As a stranger's folder may claim it; warnings are errors here."""
    gaussian = Gaussian(noise_multiplier=noise_multiplier)
    event = events.TruncatedPoissonSampled(rate=0.2, capacity=196, examples=481, event=gaussian)
    assert tight(events.Repeated(event=event, times=9), 1e-5).upper == math.inf
    assert sampled_renyi.binomial_sum(0.2, noise_multiplier, 5) == math.inf
