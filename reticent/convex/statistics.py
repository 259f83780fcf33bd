"""Input perturbation for squared loss: noise on sufficient statistics, once, and then a direct solution.

    release         noise on the sums of x x' and x y, computed by a trusted party
    release_local   noise on every row before anybody sees it; the sums are corrected for it afterwards

Either way the rest is post-processing: the noisy system is made positive definite and solved. Sums and rows
are moved to a grid, and noise is whole numbers of its steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import linalg, sparse

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import USUAL
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import guarantee
from reticent.convex import noise
from reticent.convex.problem import ConvexProblem, roundings, sum_over_rows
from reticent.convex.terms import OFF, ConvexTerms, ReleasedWeights
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.generators import generator
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian, PureDp

# A row of norm 1 and its target over the bound: |x x'|^2 + |x y|^2 <= 2, and |x|^2 + y^2 <= 2.
_CONTRIBUTION = math.sqrt(2.0)
_MOST_ROWS = 2**32  # whose rounding is charged for, however few are declared: 0.03% of the noise


def release(problem: ConvexProblem, terms: ConvexTerms) -> ReleasedWeights:
    """Least squares from one noisy release of (X'X, X'y).

    Guarantee:
        Costs the event it returns, up to 2^-60 per entry. One record adds (x x', x y / bound), whose joint
        length is at most sqrt 2; off-diagonal entries count twice in it, and get noise accordingly. What
        rounding moves the sums by is part of the distance that noise hides (see `_rounding`).

    Reference:
        Dwork, Talwar, Thakurta and Zhang (2014), Algorithm 1, for x x'; Wang (2018), Section 3, for the pair.
    """
    bound = _bound(problem)
    size = problem.features
    event, contribution, scale = noise_for(terms, problem.examples, _entries(size))
    terms.pay(event)
    source, apart = generator(terms.keys), terms.adjacency.reach * contribution
    exact = sums_of(problem, bound)
    if terms.delta is None:
        hidden = noise.add_vector_laplace(source, exact, max_norm=apart, epsilon=terms.epsilon)
    else:
        hidden = noise.add_gaussian(source, exact, max_norm=apart, deviation=scale)
    ridge = _ridge(problem, terms, noise_share(problem, terms) * problem.examples)
    weights = solve(_symmetric(hidden[size:], size), hidden[:size], ridge)
    return _as_release(weights * bound, event, problem, terms, f"a ridge of {ridge / problem.examples:.3g}")


def sums_of(problem: ConvexProblem, bound: float) -> np.ndarray:
    """X'y / bound and then the upper half of X'X, in which what is off the diagonal has the factor sqrt 2.

    So the distance of two such vectors is that of the pairs (X'X, X'y / bound). Private.

    Raises:
        DataError: there are so many rows that more is rounded away than was charged for.
    """
    if problem.row_count > _rows_charged_for(problem.examples):
        raise DataError(
            f"More than {_rows_charged_for(problem.examples):,} rows cannot be added up.",
            remedy="Pass their number as examples.",
        )
    targets = problem.labels / bound

    def products(here: slice) -> Any:  # (features,)
        return problem.rows[here].T @ targets[here]

    def squares(here: slice) -> Any:  # (features, features)
        return problem.rows[here].T @ problem.rows[here]

    rows, columns = np.triu_indices(problem.features)
    upper = _dense(sum_over_rows(problem.row_count, squares))[rows, columns]
    weighted = upper * np.where(rows == columns, 1.0, math.sqrt(2.0))
    return np.concatenate([np.asarray(sum_over_rows(problem.row_count, products)), weighted])


def noise_share(problem: ConvexProblem, terms: ConvexTerms) -> float:
    """The approximate largest eigenvalue of the noise on X'X, over the number of records: public."""
    size = problem.features
    scale = noise_for(terms, problem.examples, _entries(size))[2]
    deviation = scale * (1.0 if terms.delta is not None else math.sqrt(_entries(size) + 1))
    return deviation * math.sqrt(size) / problem.examples


def release_local(problem: ConvexProblem, terms: ConvexTerms) -> ReleasedWeights:
    """Least squares from rows that each got noise of their own: nobody has to be trusted.

    The noise adds its variance to the diagonal of X'X, which is taken off again.

    Guarantee:
        Each noisy row costs its owner the event it returns, when the row is replaced by any other; up to
        2^-60 a number.
    """
    bound = _bound(problem)
    if terms.delta is None or terms.adjacency is not Adjacency.REPLACE:
        raise InvalidArgument(
            "In the local model every row is released with Gaussian noise, so its presence is not hidden.",
            remedy="Pass a delta, and adjacency='replace'.",
        )
    event, contribution, deviation = noise_for(terms, numbers=problem.features + 1)
    terms.pay(event)
    rows = np.column_stack([_dense(problem.rows), problem.labels / bound])
    apart = terms.adjacency.reach * contribution
    hidden = noise.add_gaussian(generator(terms.keys), rows, max_norm=apart, deviation=deviation)
    seen, answers = hidden[:, :-1], hidden[:, -1]
    variance = noise.deviation_on_grid(rows.size, max_norm=apart, deviation=deviation) ** 2
    # Noisy rows can be counted, and a neighbour has as many.
    squares = seen.T @ seen - problem.row_count * variance * np.eye(problem.features)
    spread = variance * math.sqrt(problem.examples) + deviation * math.sqrt(problem.examples)
    ridge = _ridge(problem, terms, spread * math.sqrt(problem.features))
    weights = solve(squares, seen.T @ answers, ridge)
    return _as_release(weights * bound, event, problem, terms, f"a ridge of {ridge / problem.examples:.3g}")


def solve(squares: np.ndarray, products: np.ndarray, ridge: float) -> np.ndarray:
    """The solution of (squares + ridge) w = products, with negative eigenvalues put to zero."""
    values, vectors = linalg.eigh((squares + squares.T) / 2)
    return vectors @ ((vectors.T @ products) / (np.maximum(values, 0.0) + ridge))


def _ridge(problem: ConvexProblem, terms: ConvexTerms, noise_size: float) -> float:
    """The caller's, or about the largest eigenvalue of the noise: what is smaller tells nothing."""
    return noise_size if terms.regularisation is None else terms.regularisation * problem.examples + 1e-9


def noise_for(terms: ConvexTerms, examples: int = 0, numbers: int = 1) -> tuple[Event, float, float]:
    """The event, how far a record moves what is computed, and the noise's scale or deviation.

    Args:
        examples: the declared number of rows that are added up; 0 where each row is released by itself.
        numbers: how many get noise.
    """
    contribution = _CONTRIBUTION + _rounding(examples)
    if terms.delta is None:
        event = PureDp(epsilon=terms.epsilon, adjacency=terms.adjacency)
        return event, contribution, terms.adjacency.reach * contribution / terms.epsilon
    delta = terms.delta_for(numbers)
    multiplier = terms.adjacency.reach * gaussian_dp.noise_multiplier(terms.epsilon, delta) * (1 + 1e-8)
    return Gaussian(noise_multiplier=multiplier), contribution, multiplier * contribution


def _rounding(examples: int) -> float:
    """How far apart rounding moves the sums of neighbours.

    Rows and targets are at most 1, so the products of all rows have sizes of at most n in the Frobenius norm,
    for X'X and for X'y, and sqrt 2 n together. Either sum is off by `roundings` + 2 times 2^-53 of that, and
    by 16 times for rows that differ in a last bit where they stand elsewhere. How many rows there really are
    is private, so n is the most there can be: 4e-4 for 2^32.
    """
    if not examples:
        return 0.0
    most = _rows_charged_for(examples)
    return 2 * _CONTRIBUTION * most * (roundings(most) + 18) * 2.0**-53


def _rows_charged_for(examples: int) -> int:
    return max(_MOST_ROWS, examples)


def _entries(size: int) -> int:
    """How many numbers X'y and half of X'X are."""
    return size * (size + 1) // 2 + size


def _bound(problem: ConvexProblem) -> float:
    if problem.loss.name != "squared":
        raise InvalidArgument(
            f"Input perturbation is for squared loss, and this is '{problem.loss.name}'.",
            remedy="Pass losses.squared(bound), or choose another method.",
        )
    if not math.isfinite(problem.loss.bound):
        raise InvalidArgument(
            "Input perturbation adds noise in proportion to the largest target, and this loss declares none.",
            remedy="Pass losses.squared(bound), with the largest possible target.",
        )
    return problem.loss.bound


def _symmetric(entries: np.ndarray, size: int) -> np.ndarray:
    """A symmetric matrix whose Frobenius norm is the length of the entries."""
    matrix = np.zeros((size, size))
    rows, columns = np.triu_indices(size)
    matrix[rows, columns] = entries / np.where(rows == columns, 1.0, math.sqrt(2.0))
    return matrix + np.triu(matrix, 1).T


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def _as_release(
    weights: np.ndarray, event: Event, problem: ConvexProblem, terms: ConvexTerms, note: str
) -> ReleasedWeights:
    assumptions = terms.assumptions(problem.examples, is_pure=terms.delta is None)
    if terms.delta is not None:
        off = _entries(problem.features) * OFF
        promise = guarantee(
            event, terms.delta, terms.adjacency, assumptions=assumptions, distance=max(off, USUAL)
        )
    else:
        promise = Guarantee(
            epsilon=terms.epsilon,
            delta=0.0,
            adjacency=terms.adjacency,
            accountant="vector Laplace noise on the sums",
            assumptions=assumptions,
        )
    return ReleasedWeights(
        weights=weights[:, None], event=event, guarantee=promise, excess_risk_bound=None, notes=(note,)
    )
