"""The Toeplitz and the buffered strategies of least error, found by descent with exact gradients.

Both minimise the squared sensitivity times the squared error. For a first column c, with g the first column
of A C^-1, weights p of the squares of g, and q = C^-T (p g), the error changes with c_i by -2 sum_m q_m
g_(m-i).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit, logit

from reticent.core import checks
from reticent.noise.filters import lfilter
from reticent.noise.participation import Participation
from reticent.noise.series import correlate, noise_of_sums, shifted_sum, square_root

Aim = Literal["rmse", "largest"]


class _Value(NamedTuple):
    value: float
    gradient: np.ndarray


def optimal_toeplitz(bands: int, steps: int, participation: Participation, aim: Aim = "rmse") -> np.ndarray:
    """The coefficients of least error, the first of them 1.

    Args:
        aim: the error to minimise, over all steps or in the worst.

    Example:
        >>> optimal_toeplitz(2, 4, Participation(times=1)).round(3).tolist()
        [1.0, 0.431]
    """
    checks.count(bands=bands, steps=steps)
    start = square_root(min(bands, steps))
    if len(start) == 1:
        return start

    def objective(rest: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore"):  # far from the best, noise grows from step to step
            found = _loss(np.concatenate([[1.0], rest]), steps, participation, aim)
        if not np.isfinite(found.value + np.sum(found.gradient)):
            return np.inf, np.zeros_like(rest)
        return found.value, found.gradient[1:]

    from scipy.optimize import minimize  # half a second, for whoever asks for it

    found = minimize(
        objective,
        start[1:],
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * (len(start) - 1),  # what is negative may have no theorem
        options={"maxiter": 500, "ftol": 1e-13, "gtol": 1e-9},
    )
    column = np.concatenate([[1.0], found.x])
    # What grows has a theorem only as something larger. Where that is much larger, plain noise is better.
    best = np.maximum.accumulate(column[::-1])[::-1]
    plain = np.eye(1, len(best))[0]
    return min((best, plain), key=lambda each: _loss(each, steps, participation, aim).value)


def _loss(column: np.ndarray, steps: int, participation: Participation, aim: Aim) -> _Value:
    """The logarithm of squared sensitivity times squared error, and its gradient."""
    error, reach = _error_of(column, steps, aim), _reach_of(column, steps, participation)
    return _Value(
        float(np.log(error.value) + np.log(reach.value)),
        error.gradient / error.value + reach.gradient / reach.value,
    )


def _error_of(column: np.ndarray, steps: int, aim: Aim) -> _Value:
    sums = noise_of_sums(column, steps)
    weights = np.arange(steps, 0, -1) / steps if aim == "rmse" else np.ones(steps)
    weighted = weights * sums
    pulled = np.asarray(lfilter([1.0], column, weighted[::-1]))[::-1]
    return _Value(float(weighted @ sums), -2 * correlate(pulled, sums, len(column)))


def _reach_of(column: np.ndarray, steps: int, participation: Participation) -> _Value:
    part = participation.within(steps)
    if len(column) <= part.separation or part.times == 1:
        return _Value(part.times * float(column @ column), 2 * part.times * column)
    total = shifted_sum(column, steps, part.separation, part.times)
    gradient = np.zeros(len(column))
    for start in range(0, min(part.times * part.separation, steps), part.separation):
        reach = min(len(column), steps - start)
        gradient[:reach] += 2 * total[start : start + reach]
    return _Value(float(total @ total), gradient)


class Buffers(NamedTuple):
    """Coefficients 1, then the sum of `scales` times powers of `decays`: C needs a buffer for each, and no
    more.

    Reference:
        McMahan, Xu and Zhang (2024), A hassle-free algorithm for strong differential privacy in federated
        learning systems, arXiv:2408.08868v2; Dvijotham et al. (2024), arXiv:2404.16706v2.
    """

    scales: np.ndarray
    decays: np.ndarray

    def column(self, steps: int) -> np.ndarray:
        """
        Example:
            >>> Buffers(np.array([0.5]), np.array([0.5])).column(4).tolist()
            [1.0, 0.5, 0.25, 0.125]
        """
        powers = self.decays[None, :] ** np.arange(max(steps - 1, 0))[:, None]
        return np.concatenate([[1.0], powers @ self.scales])


def optimal_buffers(buffers: int, steps: int, participation: Participation, aim: Aim = "largest") -> Buffers:
    """The buffered strategy of least error.

    Example:
        >>> found = optimal_buffers(1, 100, Participation(times=1))
        >>> bool(0 < found.scales[0] < found.decays[0] < 1)
        True
    """
    checks.count(buffers=buffers, steps=steps)
    if steps == 1:
        return Buffers(np.zeros(buffers), np.full(buffers, 0.5))
    # From the square root: its coefficients are a mixture of powers of decays between 0 and 1.
    rates = np.geomspace(1 / steps, 0.6, buffers + 1) if buffers > 1 else np.array([1 / steps, 1.0])
    decays = 1 - np.sqrt(rates[:-1] * rates[1:])
    scales = np.sqrt((1 - decays) / np.pi) / np.arange(1, buffers + 1)[::-1]
    start = np.concatenate([np.log(scales), logit(decays)])
    from scipy.optimize import minimize

    found = minimize(
        _of_buffers(buffers, steps, participation, aim),
        start,
        jac=True,
        method="BFGS",
        options={"maxiter": 400, "gtol": 1e-8},
    )
    order = np.argsort(-expit(found.x[buffers:]))
    return Buffers(np.exp(found.x[:buffers])[order], expit(found.x[buffers:])[order])


def _of_buffers(
    buffers: int, steps: int, participation: Participation, aim: Aim
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """The loss of logarithms of scales and logits of decays."""
    lags = np.arange(steps - 1)

    def objective(given: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far from the best
            value, gradient = at(given)
        if not np.isfinite(value + np.sum(gradient)):
            return np.inf, np.zeros_like(given)
        return value, gradient

    def at(given: np.ndarray) -> tuple[float, np.ndarray]:
        scales, decays = np.exp(given[:buffers]), expit(given[buffers:])
        powers = decays[:, None] ** lags  # (buffers, steps - 1)
        column = np.concatenate([[1.0], scales @ powers])
        error = _rational_error(scales, decays, column, steps, aim)
        reach = _reach_of(column, steps, participation)
        by_lag = (error.gradient / error.value + reach.gradient / reach.value)[1:]
        by_scale = powers @ by_lag
        by_decay = scales * ((powers[:, :-1] * lags[1:]) @ by_lag[1:])
        gradient = np.concatenate([by_scale * scales, by_decay * decays * (1 - decays)])
        return float(np.log(error.value) + np.log(reach.value)), gradient

    return objective


def _rational_error(
    scales: np.ndarray, decays: np.ndarray, column: np.ndarray, steps: int, aim: Aim
) -> _Value:
    """As `_error_of`, in time that grows with steps times buffers: C is a quotient of polynomials."""
    below, above = quotient(scales, decays)
    sums = np.asarray(lfilter(below, above, np.ones(steps)))
    weights = np.arange(steps, 0, -1) / steps if aim == "rmse" else np.ones(steps)
    weighted = weights * sums
    pulled = np.asarray(lfilter(below, above, weighted[::-1]))[::-1]
    return _Value(float(weighted @ sums), -2 * correlate(pulled, sums, steps))


def quotient(scales: np.ndarray, decays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The polynomials whose quotient, above over below, has the coefficients of C.

    Example:
        >>> below, above = quotient(np.array([0.5]), np.array([0.5]))
        >>> lfilter(above, below, [1.0, 0, 0, 0]).tolist()
        [1.0, 0.5, 0.25, 0.125]
    """
    below = np.atleast_1d(np.poly(decays))
    above = below.copy()
    for at, scale in enumerate(scales):
        others = np.poly(np.delete(decays, at)) if len(decays) > 1 else np.ones(1)
        above[1 : 1 + len(others)] += scale * others
    return below, above
