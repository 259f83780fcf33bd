"""The noise that the code draws has the density that the proofs are about, the intercept included.

From released weights the tilt is computed back, on the true data: it has to be distributed as claimed.
Seeds are fixed; a threshold of 1e-4 on each p-value is passed by right code with all but that probability.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from reticent.convex import exponential, losses, noise, objective, output
from reticent.convex.minimise import Minimum, minimise
from reticent.convex.problem import ConvexProblem
from reticent.convex.terms import ConvexTerms
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency

DRAWS = 200
PLANTED_DRAWS = 60  # a bug is seen in these already
CHANCE = 1e-4


def problem() -> ConvexProblem:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(40, 3))
    return ConvexProblem.of(losses.logistic(), x, (x[:, 0] > 0).astype(float), norm=2.0)


def asked(seed: int, delta: float | None) -> ConvexTerms:
    return ConvexTerms(
        epsilon=1.0, delta=delta, adjacency=Adjacency.REPLACE, keys=Keys.seeded(seed), pay=lambda event: None
    )


def tilts(delta: float | None, draws: int = DRAWS) -> np.ndarray:
    """(draws, weights): the tilt behind each release, in units of its claimed scale."""
    given = problem()
    tilt = objective.tilt_for(given.loss, given.examples, given.parameters, asked(0, delta))
    found = []
    for seed in range(draws):
        weights = objective.release(given, asked(seed, delta)).weights
        slopes = given.rows.T @ given.loss.gradient(given.rows @ weights, given.labels)
        found.append(-(slopes + tilt.curvature * weights)[:, 0] / tilt.scale)
    return np.array(found)


def shifts(delta: float | None, draws: int = DRAWS) -> np.ndarray:
    """(draws, weights): what output perturbation added, in units of its claimed scale."""
    given = problem()
    mu = output.regularisation_for(given, asked(0, delta))
    scale = output.noise_for(given.loss, given.examples, given.parameters, asked(0, delta), mu).scale
    best = minimise(given, regularisation=mu, gradient_bound=1e-12).weights
    return np.array(
        [(output.release(given, asked(seed, delta)).weights - best)[:, 0] / scale for seed in range(draws)]
    )


def is_vector_laplace(noise_: np.ndarray) -> bool:
    """Lengths are Gamma-distributed, and every coordinate of the direction is as on a sphere."""
    lengths = np.linalg.norm(noise_, axis=1)
    size = noise_.shape[1]
    chances = [stats.kstest(lengths, stats.gamma(size).cdf).pvalue]
    on_sphere = stats.beta((size - 1) / 2, (size - 1) / 2)
    chances += [stats.kstest((column / lengths + 1) / 2, on_sphere.cdf).pvalue for column in noise_.T]
    return min(chances) > CHANCE


def is_standard_normal(noise_: np.ndarray) -> bool:
    chances = [stats.kstest(column, "norm").pvalue for column in noise_.T]
    squares = stats.chi2(len(noise_)).cdf(np.square(noise_).sum(axis=0))
    return min(*chances, *squares, *(1 - squares)) > CHANCE


CASES = [(tilts, None, is_vector_laplace), (tilts, 1e-5, is_standard_normal)]
CASES += [(shifts, None, is_vector_laplace), (shifts, 1e-5, is_standard_normal)]


@pytest.mark.parametrize(("draw", "delta", "is_right"), CASES)
def test_what_was_drawn_is_what_was_claimed(
    draw: Callable[[float | None], np.ndarray], delta: float | None, is_right: Callable[[np.ndarray], bool]
):
    assert is_right(draw(delta))


@pytest.mark.parametrize(("draw", "delta", "is_right"), CASES)
def test_half_the_noise_would_be_seen(draw, delta, is_right, monkeypatch: pytest.MonkeyPatch):
    planted(monkeypatch, lambda drawn: drawn / 2)
    assert not is_right(draw(delta, PLANTED_DRAWS))


def planted(monkeypatch: pytest.MonkeyPatch, bug: Callable[[np.ndarray], np.ndarray]) -> None:
    """What is drawn anywhere goes through a bug before it is used."""

    def tilting(real: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        return lambda *given: bug(real(*given))

    def adding(real: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        return lambda source, values, **given: values + bug(real(source, values, **given) - values)

    for name in ("gaussian_tilt", "vector_laplace_tilt"):
        monkeypatch.setattr(noise, name, tilting(getattr(noise, name)))
    for name in ("add_gaussian", "add_vector_laplace"):
        monkeypatch.setattr(noise, name, adding(getattr(noise, name)))


@pytest.mark.parametrize(("draw", "delta", "is_right"), CASES)
def test_an_intercept_without_noise_would_be_seen(draw, delta, is_right, monkeypatch: pytest.MonkeyPatch):
    planted(monkeypatch, lambda drawn: np.concatenate([drawn[:-1], np.zeros_like(drawn[-1:])]))
    assert not is_right(draw(delta, PLANTED_DRAWS))


def test_an_intercept_that_is_not_regularised_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    def loose(
        given: ConvexProblem, *, regularisation: float, gradient_bound: float, tilt: np.ndarray
    ) -> Minimum:
        """Undoes the regulariser of the last weight, by a tilt that it would exert at the solution."""
        change = tilt.copy()
        for _ in range(3):
            found = minimise(given, regularisation=regularisation, gradient_bound=1e-8, tilt=change)
            change[-1] = tilt[-1] - 0.5 * regularisation * found.weights[-1]
        return minimise(given, regularisation=regularisation, gradient_bound=1e-8, tilt=change)

    monkeypatch.setattr(objective, "minimise", loose)
    assert not is_vector_laplace(tilts(None, 2 * PLANTED_DRAWS))


def test_a_minimiser_that_stops_early_would_be_seen(monkeypatch: pytest.MonkeyPatch):
    def hasty(
        given: ConvexProblem, *, regularisation: float, gradient_bound: float, tilt: np.ndarray
    ) -> Minimum:
        found = minimise(given, regularisation=regularisation, gradient_bound=gradient_bound, tilt=tilt)
        return found._replace(weights=0.7 * found.weights)

    monkeypatch.setattr(objective, "minimise", hasty)
    assert not is_vector_laplace(tilts(None))


def test_points_of_a_grid_are_drawn_with_the_odds_of_their_epsilon(monkeypatch: pytest.MonkeyPatch):
    """Drawn at epsilon 2, and neither at half of it nor at twice as much."""
    monkeypatch.setattr(exponential, "_POINTS", {1: 5})
    y = np.array([1.0, 1, 1, 0, 1, 0])
    given = ConvexProblem.of(losses.logistic(), np.ones((6, 1)), y, norm=1.0, intercept=False)
    points, cell = exponential.grid(1, 6.0)
    requests = [dataclasses.replace(asked(seed, None), epsilon=2.0) for seed in range(400)]
    drawn = np.array([exponential.release(given, request).weights[0, 0] for request in requests])
    found = np.bincount(np.rint((drawn + 6.0) / cell).astype(int), minlength=5)

    def have_the_odds_of(epsilon: float) -> bool:
        rate = epsilon / (2 * exponential.oscillation(given.loss, 6.0))
        likely = np.exp(-rate * np.array([given.examples * given.risk(point[:, None]) for point in points]))
        return bool(stats.chisquare(found, len(drawn) * likely / likely.sum()).pvalue > CHANCE)

    assert [have_the_odds_of(epsilon) for epsilon in (1.0, 2.0, 4.0)] == [False, True, False]
