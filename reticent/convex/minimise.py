"""A minimiser with a certificate: Newton's method in 64 bits, down to a promised gradient.

The objective is sum of losses / n + mu/2 |w|^2 + <tilt, w>, with n the declared number of records. It is
mu-strongly convex, so a point whose gradient is no longer than gamma lies within gamma / mu of the minimiser:
that is the certificate which the privacy proofs build on. Rounding in the gradient is bounded and part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

from reticent.convex.losses import Loss
from reticent.convex.problem import ConvexProblem, roundings, sum_over_rows
from reticent.core import checks
from reticent.core.errors import InvalidArgument, ReticentError

_MOST_STEPS = 200
_ROUNDING = 0.9  # of the promised gradient may be computed; the rest is for rounding in it
_SLOPE = 64  # units in the last place by which a computed slope may be off; a few are usual
_MOST_FACTORED = 1500  # weights, up to which a Hessian is formed
_MANY_ROWS = 20_000  # from which on a search starts on a part of them
_STRIDE = 16
_SLOW = 6  # turns of conjugate gradients


class Minimum(NamedTuple):
    """Weights (features, outputs), and a proved bound on the objective's gradient there: the certificate."""

    weights: np.ndarray
    gradient_norm: float
    steps: int


class _Point(NamedTuple):
    weights: np.ndarray  # (features, outputs)
    scores: np.ndarray  # (rows, outputs)
    value: float
    gradient: np.ndarray  # (features, outputs)


class _Direction(NamedTuple):
    weights: np.ndarray  # (features, outputs)
    scores: np.ndarray  # (rows, outputs)


def minimise(
    problem: ConvexProblem,
    *,
    regularisation: float,
    gradient_bound: float,
    tilt: np.ndarray | None = None,
    start: np.ndarray | None = None,
) -> Minimum:
    """The minimiser of the regularised, tilted loss, to within gradient_bound / regularisation.

    Guarantee:
        The gradient of the objective at the result is no longer than `gradient_bound`: the exact one, of the
        rows as they are stored (see `gradient_norm`).

    Raises:
        InvalidArgument: the objective is not strongly convex or not smooth.
        ReticentError: the bound was not reached, or rounding keeps it from being proved.
    """
    checks.positive(gradient_bound=gradient_bound)
    if not (regularisation > 0 and problem.loss.is_smooth):
        raise InvalidArgument(
            f"There is no certified minimiser of '{problem.loss.name}' with regularisation {regularisation}.",
            remedy="Pass a positive regularisation, and a loss without a corner.",
        )
    objective = _Objective(problem, regularisation, tilt)
    if start is None:
        start = _starting_weights(problem, regularisation, tilt, gradient_bound)
    point = objective.at(start)
    for step in range(_MOST_STEPS):
        length = float(np.linalg.norm(point.gradient))
        if length <= _ROUNDING * gradient_bound:
            certified = gradient_norm(problem, point.weights, regularisation, objective.tilt)
            if not certified <= gradient_bound:
                precise = gradient_norm(problem, point.weights, regularisation, objective.tilt, np.longdouble)
                certified = min(certified, precise)
            if certified <= gradient_bound:
                return Minimum(point.weights, certified, step)
            point = objective.at(point.weights)  # its scores were updated many times: here they are exact
        point = objective.lower(point, objective.newton(point, _ROUNDING * gradient_bound))
    raise ReticentError(
        f"After {_MOST_STEPS} Newton steps the gradient is still above the promised {gradient_bound:.2g}.",
        remedy="Pass a larger regularisation: with it the problem is better conditioned.",
    )


def gradient_norm(
    problem: ConvexProblem, weights: np.ndarray, mu: float, tilt: np.ndarray, kind: type = np.float64
) -> float:
    """An upper bound on the length of the exact gradient of the objective.

    Guarantee:
        Let u be half a unit in the last place of 1, d the entries of a row, k the outputs; rows are no longer
        than 1. The scores of a row are off by (d + 1) u |w|, so that its slopes are off by c times that, and
        by `_SLOPE` + 4k times u (L + c (1 + |w|)) for their own evaluation. The mean of rows times slopes is
        off by `roundings` times u L, the other two terms and the last sums by 4u of their sizes each. Rows
        that neighbours share may differ in a last bit where they stand elsewhere: 8u (L + c |w|). All that
        rows contribute counts once for each row and is divided by the declared number.
        Slopes are computed to 64u by all in `losses`, whose exponentials are `elementary`; of any other loss
        that is assumed.
    """
    loss, wide = problem.loss, weights.astype(kind)

    def of_block(here: slice) -> np.ndarray:
        rows = problem.rows[here].astype(kind)
        slopes = loss.gradient(np.asarray(rows @ wide), problem.labels[here].astype(kind))
        return np.asarray(rows.T @ slopes)

    mean = sum_over_rows(problem.row_count, of_block) / problem.examples
    found = mean + mu * wide + tilt
    half_unit = float(np.finfo(kind).eps) / 2
    size, tilted = float(np.linalg.norm(weights)), float(np.linalg.norm(tilt))
    entries = int(np.diff(problem.rows.indptr).max()) if sparse.issparse(problem.rows) else problem.features
    of_row = units_per_row(loss, size, entries=entries, roundings=roundings(problem.row_count) + 12)
    units = problem.row_count / problem.examples * of_row + 4 * (mu * size + tilted)
    length = float(np.sqrt((found**2).sum())) * (1 + found.size * 2.0**-50)
    return length + 1.01 * half_unit * units


def units_per_row(loss: Loss, size: float, *, entries: int, roundings: int) -> float:
    """How far a row's part of a computed sum of gradients may be off: see `gradient_norm`.

    In half units in the last place of 1, for rows no longer than 1 and weights of length `size`.

    Args:
        entries: of a row that are not zero, at most.
        roundings: of a product of a row and its slopes, on its way into the sum.
    """
    units = (entries + 10) * loss.smoothness * size
    units += (_SLOPE + 4 * loss.outputs) * (loss.lipschitz + loss.smoothness * (1 + size))
    return units + roundings * loss.lipschitz


def _starting_weights(
    problem: ConvexProblem, regularisation: float, tilt: np.ndarray | None, gradient_bound: float
) -> np.ndarray:
    """Zero; for many rows, the minimiser for a part of them, so that most steps are cheap."""
    if problem.row_count < _MANY_ROWS:
        return np.zeros((problem.features, problem.loss.outputs))
    near = max(gradient_bound, 1e-4 * problem.loss.lipschitz)
    part = problem.every(_STRIDE)
    return minimise(part, regularisation=regularisation, gradient_bound=near, tilt=tilt).weights


class _Objective:
    """Values, gradients and Newton directions; products with the rows are computed once and cached."""

    def __init__(self, problem: ConvexProblem, regularisation: float, tilt: np.ndarray | None) -> None:
        self.problem = problem
        self.mu = regularisation
        self.tilt = np.zeros((problem.features, problem.loss.outputs)) if tilt is None else tilt
        self.stride = 1 if problem.row_count < _MANY_ROWS else _STRIDE
        self.solve: Callable[[np.ndarray], np.ndarray] | None = None

    @cached_property
    def part(self) -> ConvexProblem:
        return self.problem if self.stride == 1 else self.problem.every(self.stride)

    def at(self, weights: np.ndarray) -> _Point:
        return self._point(weights, np.asarray(self.problem.rows @ weights))

    def _value(self, weights: np.ndarray, scores: np.ndarray) -> float:
        mean = float(self.problem.loss.value(scores, self.problem.labels).sum()) / self.problem.examples
        return mean + self.mu / 2 * float(np.vdot(weights, weights)) + float(np.vdot(self.tilt, weights))

    def _point(self, weights: np.ndarray, scores: np.ndarray) -> _Point:
        slopes = self.problem.loss.gradient(scores, self.problem.labels)
        gradient = self._pull_back(slopes) + self.mu * weights + self.tilt
        return _Point(weights, scores, self._value(weights, scores), gradient)

    def _pull_back(self, slopes: np.ndarray) -> np.ndarray:
        return np.asarray(self.problem.transposed @ slopes) / self.problem.examples

    def newton(self, point: _Point, target: float) -> _Direction:
        """Conjugate gradients on the Newton system, only as exact as this step can use.

        The system of a part of the rows goes before: with all rows in the part the first step is Newton's
        own, and with a sixteenth of many rows each step still gains about a digit.
        """
        length = float(np.linalg.norm(point.gradient))
        enough = max(min(0.1, length / self.problem.loss.lipschitz) * length, 0.3 * target)
        bent = self.problem.loss.hessian(point.scores, self.problem.labels)
        solve = self.solve = self.solve or self._build_preconditioner(point)
        found, found_scores = np.zeros_like(point.weights), np.zeros_like(point.scores)
        residual = -point.gradient
        towards = solve(residual)
        along, square = towards, float(np.vdot(residual, towards))
        for turn in range(2 * self.problem.parameters + 50):
            if turn == _SLOW:  # the preconditioner is out of date: build a new one for the next step
                self.solve = None
            scores = np.asarray(self.problem.rows @ along)
            product = self._pull_back(bent(scores)) + self.mu * along
            share = square / float(np.vdot(along, product))
            found += share * along
            found_scores += share * scores
            residual = residual - share * product
            if float(np.linalg.norm(residual)) <= enough:
                break
            towards = solve(residual)
            before, square = square, float(np.vdot(residual, towards))
            along = towards + (square / before) * along
        return _Direction(found, found_scores)

    def _build_preconditioner(self, point: _Point) -> Callable[[np.ndarray], np.ndarray]:
        """Solves the Newton system of a part of the rows, which is near the whole one."""
        if self.problem.parameters > _MOST_FACTORED:
            return lambda residual: residual
        rows, scores = self.part.rows, point.scores[:: self.stride]
        bent = self.problem.loss.hessian(scores, self.part.labels)
        features, outputs = point.weights.shape
        system = np.zeros((features, outputs, features, outputs))
        unit = np.eye(outputs)
        for column in range(outputs):
            bends = bent(np.broadcast_to(unit[column], scores.shape))
            for row in range(column, outputs):
                block = _weighted_squares(rows, bends[:, row])
                system[:, row, :, column] = system[:, column, :, row] = block
        matrix = system.reshape(features * outputs, -1) * (self.stride / self.problem.examples)
        matrix[np.diag_indices_from(matrix)] += self.mu
        factor = linalg.cho_factor(matrix, overwrite_a=True)
        return lambda residual: linalg.cho_solve(factor, residual.ravel()).reshape(residual.shape)

    def lower(self, point: _Point, direction: _Direction) -> _Point:
        """Halves the step until it lowers the value, or near the end the gradient."""
        slope = float(np.vdot(point.gradient, direction.weights))
        length = float(np.linalg.norm(point.gradient))
        share = 1.0
        for _ in range(60):
            weights, scores = self._move(point, direction, share)
            value = self._value(weights, scores)
            if value <= point.value + 1e-4 * share * slope:
                return self._point(weights, scores)
            if value <= point.value + 1e-12 * (1 + abs(point.value)):  # rounding hides the descent
                next_point = self._point(weights, scores)
                if float(np.linalg.norm(next_point.gradient)) < length:
                    return next_point
            share /= 2
        raise ReticentError(
            "The minimiser stopped before the promised gradient: no step lowers the objective.",
            remedy="Pass a larger regularisation: with it the problem is better conditioned.",
        )

    def _move(self, point: _Point, direction: _Direction, share: float) -> tuple[np.ndarray, np.ndarray]:
        return point.weights + share * direction.weights, point.scores + share * direction.scores


def _weighted_squares(rows: Any, weights: np.ndarray) -> np.ndarray:  # -> (features, features)
    """The sum of weight * row row' over the rows."""
    if sparse.issparse(rows):
        return (rows.T @ (sparse.diags_array(weights) @ rows)).toarray()
    return rows.T @ (rows * weights[:, None])
