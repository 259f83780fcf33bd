"""Input perturbation for squared loss: noise on what the fit needs to know, once, and no iteration after it.

    release         noise on the sums of x x' and x y, held by somebody who is trusted
    release_local   noise on every row before anybody sees it; the sums are corrected for it afterwards

Either way the rest is post-processing: the noisy system is made positive definite and solved.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import linalg, sparse

from reticent.accounting import gaussian_dp
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight import guarantee
from reticent.convex import noise
from reticent.convex.problem import Problem
from reticent.convex.terms import Release, Terms
from reticent.core.errors import InvalidArgument
from reticent.core.generators import generator
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian, PureDp

# A row of norm 1 and its target over the bound: |x x'|^2 + |x y|^2 <= 2, and |x|^2 + y^2 <= 2.
_CONTRIBUTION = math.sqrt(2.0)


def release(problem: Problem, terms: Terms) -> Release:
    """Least squares from one noisy release of (X'X, X'y).

    Guarantee:
        Costs the event it returns. One record adds (x x', x y / bound), whose joint length is at most
        sqrt 2; off-diagonal entries count twice in it, and get noise accordingly.

    Reference:
        Dwork, Talwar, Thakurta and Zhang (2014), Algorithm 1, for x x'; Wang (2018), Section 3, for the pair.
    """
    bound = _bound(problem)
    event, scale = noise_for(terms)
    terms.pay(event)
    size = problem.features
    source = generator(terms.keys)
    draw = noise.vector_laplace if terms.delta is None else noise.gaussian
    drawn = draw(source, (size * (size + 1) // 2 + size,), scale)
    squares = _dense(problem.transposed @ problem.rows) + _symmetric(drawn[size:], size)
    products = np.asarray(problem.transposed @ (problem.labels / bound)) + drawn[:size]
    ridge = _ridge(problem, terms, noise_share(problem, terms) * problem.examples)
    weights = solve(noise.on_grid(squares, scale), noise.on_grid(products, scale), ridge)
    return _released(weights * bound, event, problem, terms, f"a ridge of {ridge / problem.examples:.3g}")


def noise_share(problem: Problem, terms: Terms) -> float:
    """About the largest eigenvalue of the noise on X'X, over the number of records: public."""
    _, scale = noise_for(terms)
    size = problem.features
    entries = size * (size + 1) // 2 + size
    deviation = scale * (1.0 if terms.delta is not None else math.sqrt(entries + 1))
    return deviation * math.sqrt(size) / problem.examples


def release_local(problem: Problem, terms: Terms) -> Release:
    """Least squares from rows that each got noise of their own: nobody has to be trusted.

    The noise adds its variance to the diagonal of X'X, which is taken off again.

    Guarantee:
        Each noisy row costs its owner the event it returns, when the row is replaced by any other.
    """
    bound = _bound(problem)
    if terms.delta is None or terms.adjacency is not Adjacency.REPLACE:
        raise InvalidArgument(
            "In the local model a row is hidden among all rows, by Gaussian noise.",
            remedy="Pass a delta, and adjacency 'replace'.",
        )
    event, deviation = noise_for(terms)
    terms.pay(event)
    source = generator(terms.keys)
    drawn = noise.gaussian(source, (problem.examples, problem.features + 1), deviation)
    seen = noise.on_grid(_dense(problem.rows) + drawn[:, :-1], deviation)
    answers = noise.on_grid(problem.labels / bound + drawn[:, -1], deviation)
    variance = (deviation * noise.MARGIN) ** 2
    squares = seen.T @ seen - problem.examples * variance * np.eye(problem.features)
    spread = variance * math.sqrt(problem.examples) + deviation * math.sqrt(problem.examples)
    ridge = _ridge(problem, terms, spread * math.sqrt(problem.features))
    weights = solve(squares, seen.T @ answers, ridge)
    return _released(weights * bound, event, problem, terms, f"a ridge of {ridge / problem.examples:.3g}")


def solve(squares: np.ndarray, products: np.ndarray, ridge: float) -> np.ndarray:
    """The solution of (squares + ridge) w = products, with negative eigenvalues put to zero."""
    values, vectors = linalg.eigh((squares + squares.T) / 2)
    return vectors @ ((vectors.T @ products) / (np.maximum(values, 0.0) + ridge))


def _ridge(problem: Problem, terms: Terms, noise_size: float) -> float:
    """The caller's, or about the largest eigenvalue of the noise: what is smaller tells nothing."""
    return noise_size if terms.regularisation is None else terms.regularisation * problem.examples + 1e-9


def noise_for(terms: Terms) -> tuple[Event, float]:
    if terms.delta is None:
        event = PureDp(epsilon=terms.epsilon, adjacency=terms.adjacency)
        return event, terms.adjacency.reach * _CONTRIBUTION / terms.epsilon
    multiplier = terms.adjacency.reach * gaussian_dp.noise_multiplier(terms.epsilon, terms.delta) * (1 + 1e-9)
    return Gaussian(noise_multiplier=multiplier), multiplier * _CONTRIBUTION


def _bound(problem: Problem) -> float:
    if problem.loss.name != "squared":
        raise InvalidArgument(
            f"Input perturbation is for squared loss, and this is '{problem.loss.name}'.",
            remedy="Pass losses.squared(bound), or choose another method.",
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


def _released(weights: np.ndarray, event: Event, problem: Problem, terms: Terms, said: str) -> Release:
    assumptions = (f"the number of records, {problem.examples}, is public", *terms.keys.assumptions)
    if terms.delta is not None:
        promise = guarantee(event, terms.delta, terms.adjacency, assumptions=assumptions)
    else:
        promise = Guarantee(
            epsilon=terms.epsilon,
            delta=0.0,
            adjacency=terms.adjacency,
            accountant="vector Laplace noise on the sums",
            assumptions=assumptions,
        )
    return Release(
        weights=weights[:, None], event=event, guarantee=promise, excess_risk_bound=None, notes=(said,)
    )
