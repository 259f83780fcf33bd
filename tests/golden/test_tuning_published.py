"""What is printed about private tuning, and where ours lies beside it.

The base curve is that of figure 7 of Papernot and Steinke (2022), as its authors published it: a training
run on MNIST. The script that draws the figure has three forms of one formula: 1/gamma - 1 where the theorem
has 1/gamma, and a mean that is too large by 1/(1 - gamma). Each is given here what it was given there.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import RdpAccountant

from reticent.accounting.theorems import renyi, tuning
from reticent.accounting.theorems.tuning import NegativeBinomialTrials, PoissonTrials

_ORDERS = np.array([1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512], float)
_SMALL = [
    *(0.204459751, 0.245818210, 0.287335988, 0.329014798, 0.370856385, 0.412862542, 0.497375951, 0.582570265),
    *(0.668461534, 0.755066706, 0.842403732, 1.01935100, 1.19947313, 1.38297035, 1.57009549, 1.76124790),
    *(1.95794503, 2.19017390, 4.48407479, 308.305394, 4986.10133),
]
# From order 16 on the curve explodes; no minimum is ever found there.
_CURVE = np.array(_SMALL + [1e5] * (len(_ORDERS) - len(_SMALL)))

_LOGARITHMIC = [(0.1, 2.166759), (0.0015, 3.878002), (1e-4, 4.708327)]
_GEOMETRIC = [(0.1, 3.560954), (0.0015, 6.149537), (1e-4, 7.386499)]
_HALF = [(0.1, 2.889365), (0.0015, 5.073633), (1e-4, 6.116951)]


def _printed(shape: float, gamma: float, log_inverse: float, log_mean: float) -> float:
    return tuning.closed_form(_CURVE, _ORDERS, shape=shape, log_inverse=log_inverse, log_mean=log_mean).min()


def _log_mean(shape: float, gamma: float) -> float:
    return math.log(NegativeBinomialTrials(shape=shape, gamma=gamma).mean)


@pytest.mark.parametrize(("gamma", "printed"), _LOGARITHMIC)
def test_figure_7_logarithmic(gamma: float, printed: float):
    found = _printed(0.0, gamma, math.log(1 / gamma - 1), _log_mean(0.0, gamma))
    assert found == pytest.approx(printed, abs=1e-6)


@pytest.mark.parametrize(("gamma", "printed"), _GEOMETRIC)
def test_figure_7_geometric(gamma: float, printed: float):
    found = _printed(1.0, gamma, math.log(1 / gamma), _log_mean(1.0, gamma))
    assert found == pytest.approx(printed, abs=1e-6)


@pytest.mark.parametrize(("gamma", "printed"), _HALF)
def test_figure_7_negative_binomial_of_shape_one_half(gamma: float, printed: float):
    found = _printed(0.5, gamma, math.log(1 / gamma - 1), _log_mean(0.5, gamma) - math.log1p(-gamma))
    assert found == pytest.approx(printed, abs=1e-6)


@pytest.mark.parametrize(
    ("shape", "gamma", "printed"),
    [(shape, *row) for shape, rows in ((0.0, _LOGARITHMIC), (1.0, _GEOMETRIC), (0.5, _HALF)) for row in rows],
)
def test_ours_is_below_what_is_printed(shape: float, gamma: float, printed: float):
    found = tuning.best_of(_CURVE, NegativeBinomialTrials(shape=shape, gamma=gamma), _ORDERS).min()
    assert 0.6 * printed < found < 0.9 * printed


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("mean", [3.0, 30.0])
def test_the_theorem_as_dp_accounting_has_it(shape: float, mean: float):
    orders = list(renyi.ORDERS)
    peer = RdpAccountant(orders)
    peer.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(5.0), mean, shape))
    gamma = tuning.gamma_for(mean, shape)
    run = renyi.gaussian(1 / 5.0, renyi.ORDERS)
    theorem = tuning.closed_form(
        run, renyi.ORDERS, shape=shape, log_inverse=-math.log(gamma), log_mean=math.log(mean)
    )
    rising = np.minimum.accumulate(theorem[::-1])[::-1]
    assert rising == pytest.approx(np.asarray(peer.rdp), rel=1e-7)
    assert (
        tuning.best_of(run, NegativeBinomialTrials(shape=shape, gamma=gamma), renyi.ORDERS) <= rising + 1e-12
    ).all()


@pytest.mark.parametrize("mean", [2.0, 10.0, 100.0])
def test_poisson_is_below_dp_accounting(mean: float):
    peer = RdpAccountant(list(renyi.ORDERS))
    peer.compose(dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(5.0), mean, math.inf))
    ours = tuning.best_of(renyi.gaussian(1 / 5.0, renyi.ORDERS), PoissonTrials(mean=mean), renyi.ORDERS)
    assert renyi.to_epsilon(ours, 1e-6) < renyi.to_epsilon(np.asarray(peer.rdp), 1e-6) * (1 + 5e-3)


def test_a_hundredth_of_a_run_on_average_is_not_negative_where_the_printed_formula_is():
    printed = _CURVE[0] + math.log(0.01) / (_ORDERS[0] - 1)
    assert printed == pytest.approx(-18.2, abs=0.1)
    assert (tuning.best_of(_CURVE, PoissonTrials(mean=0.01), _ORDERS) >= _CURVE).all()


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0])
def test_pure_epsilon_becomes_two_and_the_shape_times_it(shape: float):
    assert NegativeBinomialTrials(shape=shape, gamma=0.01).pure(0.4) == pytest.approx((2 + shape) * 0.4)
