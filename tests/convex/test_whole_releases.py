"""What leaves the data is whole numbers of a public step, and the noise hides what was really computed."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from densities import terms

from reticent.accounting.reserve import RESERVED
from reticent.convex import METHODS, exponential, losses, noise, objective, output, statistics
from reticent.convex.minimise import gradient_norm, minimise
from reticent.convex.problem import ConvexProblem, roundings, sum_over_rows
from reticent.convex.terms import NEARLY_EXACT, OFF, ConvexTerms
from reticent.core.errors import DataError
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.vectors import vector_grid
from reticent.mechanisms.whole import deviation_of, normal_grid

HALF_UNIT = Fraction(1, 2**53)
CASES = [
    ("output", None),
    ("output", 1e-5),
    ("objective", None),
    ("objective", 1e-5),
    ("input", None),
    ("input", 1e-5),
    ("local", 1e-5),
]
by_method = pytest.mark.parametrize(("method", "delta"), CASES)


def problem(method: str, x: np.ndarray | None = None, last: float = 1.0) -> ConvexProblem:
    """Forty rows; the last one is the given one, at the end of the declared range."""
    draw = np.random.default_rng(1)
    rows = draw.normal(size=(40, 3)) if x is None else x
    rows[-1] = last * np.array([2.0, 0.0, 0.0])
    if method in ("input", "local"):
        return ConvexProblem.of(losses.squared(1.0), rows, np.sign(rows[:, 0]), norm=2.0)
    return ConvexProblem.of(losses.logistic(), rows, np.ones(40), norm=2.0)


class Seen:
    """What a method hands to the noise at last, and what comes back."""

    values: np.ndarray
    hidden: np.ndarray
    given: dict[str, float]

    def __init__(self, method: str, given: ConvexProblem, asked: ConvexTerms) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("add_gaussian", "add_vector_laplace"):
                patch.setattr(noise, name, self._watched(getattr(noise, name)))
            self.released = METHODS[method](given, asked)

    def _watched(self, real: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def drawn(source: Any, values: np.ndarray, **given: float) -> np.ndarray:
            self.values, self.given = values, given
            self.hidden = real(source, values, **given)
            return self.hidden

        return drawn

    @property
    def step(self) -> float:
        """Of the grid, from public numbers alone."""
        size, most = self.values.size, self.given["max_norm"]
        if "epsilon" in self.given:
            return vector_grid(size, max_norm=most * noise.MARGIN, epsilon=self.given["epsilon"])
        return normal_grid(size, max_norm=most, deviation=self.given["deviation"] * noise.MARGIN)[1]


def asked(epsilon: float, delta: float | None, adjacency: Adjacency = Adjacency.REPLACE) -> ConvexTerms:
    return terms(epsilon, delta, adjacency, regularisation=0.05)


def is_on(values: np.ndarray, step: float) -> bool:
    """Whether values are floats next to whole numbers of steps, each of which has its own float."""
    places = np.rint(values / step)
    return bool(np.all(places * step == values)) and np.abs(places).max() > 100


@by_method
def test_what_is_released_lies_on_a_grid_that_no_record_decides(method: str, delta: float | None):
    seen = [Seen(method, problem(method, last=last), asked(1.0, delta)) for last in (1.0, -1e-310)]
    assert seen[0].step == seen[1].step
    assert all(is_on(one.hidden, one.step) for one in seen)
    if method != "objective":  # whose residual is so small that its grid holds every float
        assert not any(is_on(one.values, one.step) for one in seen)
    if method in ("output", "objective"):
        assert seen[0].released.weights is seen[0].hidden


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE, Adjacency.ZERO_OUT])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
@by_method
def test_noise_is_scaled_to_how_far_computed_values_are_apart(
    method: str, delta: float | None, epsilon: float, adjacency: Adjacency
):
    """The worst pair of neighbours, computed as the method does: within what is hidden, and near to it."""
    if method == "local" and adjacency is not Adjacency.REPLACE:
        pytest.skip("rows are replaced there")
    other = -1.0 if adjacency is Adjacency.REPLACE else 0.0
    seen = [
        Seen(method, problem(method, last=last), asked(epsilon, delta, adjacency)) for last in (1.0, other)
    ]
    if method == "objective":  # what is hidden at last is the residual; the tilt is in test_released_noise
        assert seen[0].given["epsilon"] == pytest.approx(1e-3 * epsilon)
        return
    moved = float(np.linalg.norm(seen[0].values - seen[1].values))
    assert 0.15 * seen[0].given["max_norm"] < moved <= seen[0].given["max_norm"]
    one_record = 1 / (0.05 * 40) if method == "output" else math.sqrt(2)  # as the theorems have it
    assert seen[0].given["max_norm"] >= adjacency.reach * one_record
    event: Any = seen[0].released.event
    if delta is None:
        assert seen[0].given["epsilon"] == event.epsilon == epsilon
    else:
        hidden = seen[0].given["deviation"] * adjacency.reach / seen[0].given["max_norm"]
        assert hidden >= event.noise_multiplier * (1 - 1e-12)


def test_a_minimiser_that_is_off_by_its_certificate_is_hidden_too():
    """Rows are many and regularisation is small: what the solver may leave undone is part of the noise."""
    loss, mu = losses.logistic(), 1e-6
    added = output.noise_for(loss, 10**9, 5, terms(1.0, None, Adjacency.REPLACE), mu)
    assert 2 * added.contribution >= 2 * loss.lipschitz / (mu * 10**9) + 2 * 1e-11 * loss.lipschitz / mu


def test_the_residual_of_a_tilt_covers_the_solver_and_the_way_to_a_real_tilt():
    for delta, draw in ((None, noise.vector_laplace_tilt), (1e-5, noise.gaussian_tilt)):
        tilt = objective.tilt_for(losses.logistic(), 40, 4, asked(1.0, delta))
        size = (3, 1) if delta is None else (1000, 1)
        step = (
            vector_grid(3, max_norm=tilt.scale * noise.MARGIN, epsilon=1.0)
            if delta is None
            else tilt.scale * noise.MARGIN / deviation_of(6)
        )
        drawn = draw(np.random.default_rng(0), size, tilt.scale)
        assert np.abs(drawn).max() < 100 * tilt.deviation
        assert 25 * step + 3 * 2.0**-53 * 100 * tilt.deviation <= noise.MOVED * tilt.deviation
        hidden = tilt.residual[0] * tilt.residual[1]
        left = 40 * 1e-11 * losses.logistic().lipschitz + noise.MOVED * tilt.deviation * 2
        assert hidden >= 2 * left / tilt.curvature * (1 - 1e-12)


def test_weights_of_a_chain_lie_on_a_grid():
    given = problem("output")
    weights = exponential.release(given, terms(1.0, None, Adjacency.REPLACE)).weights
    assert given.parameters > 3
    assert is_on(weights, 2.0 ** math.floor(math.log2(output.RADIUS * 2.0**-20)))


def test_a_chain_says_what_it_takes_on_trust_and_a_draw_from_a_grid_has_nothing_to_say():
    asked_for = terms(1.0, None, Adjacency.REPLACE)
    sentence = str(exponential.release(problem("output"), asked_for).guarantee)
    assert (
        "in real numbers, 2000 steps of the Langevin chain reach its limit (assumed, not proved)" in sentence
    )
    few = ConvexProblem.of(losses.logistic(), np.ones((40, 1)), np.ones(40), norm=2.0)
    assert "real numbers" not in str(exponential.release(few, terms(1.0, None, Adjacency.REPLACE)).guarantee)


@by_method
def test_how_far_samplers_are_from_their_laws_is_paid_for_or_said(method: str, delta: float | None):
    found = METHODS[method](problem(method), asked(1.0, delta)).guarantee
    assert (NEARLY_EXACT in str(found)) == (delta is None)
    if delta is None:
        return
    assert found.epsilon <= 1 + 1e-8
    assert asked(1.0, delta).delta_for(10) <= delta * (1 - RESERVED)
    assert asked(1.0, 1e-12).delta_for(10**5) <= 1e-12 - 10**5 * OFF
    if method == "objective":
        tilt = objective.tilt_for(losses.logistic(), 40, 4, asked(1.0, delta))
        left = 1.0 - tilt.determinant - tilt.residual[0]
        used = objective.tilt_delta(losses.logistic(), tilt.scale, left, Adjacency.REPLACE)
        assert used <= delta - 8 * OFF


# Rounding is bounded, and the bound is kept


def exact_gradient(given: ConvexProblem, weights: np.ndarray, mu: float, tilt: np.ndarray) -> float:
    """The length of the gradient for squared loss inside its range, in fractions."""
    found = [Fraction(mu) * Fraction(w) + Fraction(b) for w, b in zip(weights[:, 0], tilt[:, 0], strict=True)]
    for row, target in zip(given.rows.tolist(), given.labels.tolist(), strict=True):
        entries = [Fraction(entry) for entry in row]
        score = sum(x * Fraction(w) for x, w in zip(entries, weights[:, 0].tolist(), strict=True))
        slope = min(max(score, -1), 1) - Fraction(target)
        found = [g + x * slope / given.examples for g, x in zip(found, entries, strict=True)]
    return math.sqrt(sum(g * g for g in found))


@pytest.mark.parametrize("declared", [600, 450, 900])
@pytest.mark.parametrize("kind", [np.float64, np.longdouble])
def test_a_certificate_is_no_shorter_than_the_exact_gradient(kind: type, declared: int):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(600, 3)) * 10.0 ** draw.integers(-8, 3, size=(600, 1))
    given = ConvexProblem.of(losses.squared(1.0), x, np.sin(1e3 * x[:, 0]), norm=1.0, examples=declared)
    tilt = draw.normal(size=(4, 1)) * 1e-3
    found = minimise(given, regularisation=1e-3, gradient_bound=2e-11, tilt=tilt)
    for weights in (found.weights, found.weights + 1e-15 * draw.normal(size=(4, 1))):
        exact = exact_gradient(given, weights, 1e-3, tilt)
        bound = gradient_norm(given, weights, 1e-3, tilt, kind)
        assert exact <= bound <= exact + 1e-13 * max(1, 600 / declared)
    assert exact_gradient(given, found.weights, 1e-3, tilt) <= found.gradient_norm <= 2e-11


def test_sums_over_rows_round_no_more_than_they_say():
    draw = np.random.default_rng(0)
    values = draw.normal(size=5000) * 10.0 ** draw.integers(-12, 12, size=5000)
    values[1::2] = -values[::2] * (1 + 2.0**-50)  # nearly all of it cancels
    found = sum_over_rows(5000, lambda here: values[here].sum())
    exact = sum(map(Fraction, values.tolist()))
    sizes = sum(abs(Fraction(value)) for value in values.tolist())
    assert abs(Fraction(float(found)) - exact) <= roundings(5000) * HALF_UNIT * sizes
    assert roundings(10**9) < 300


def test_sums_of_squares_are_as_near_to_exact_as_is_charged(monkeypatch: pytest.MonkeyPatch):
    draw = np.random.default_rng(3)
    given = ConvexProblem.of(
        losses.squared(1.0), draw.normal(size=(700, 2)), np.ones(700), norm=1e-3
    )  # all at norm 1
    rows = [[Fraction(entry) for entry in row] for row in given.rows.tolist()]
    exact = [sum(row[i] for row in rows) for i in range(3)]
    off = [
        float(a - Fraction(b))
        for a, b in zip(exact, statistics.sums_of(given, 1.0)[:3].tolist(), strict=True)
    ]

    def charged(declared: int) -> float:
        return statistics.noise_for(terms(1.0, None, Adjacency.ZERO_OUT), declared)[1] - math.sqrt(2)

    assert charged(1) == charged(700) == charged(2**32) < 5e-4  # for as many rows as memory holds
    monkeypatch.setattr(statistics, "_MOST_ROWS", 700)
    assert 2 * np.linalg.norm(off) < charged(700) < 1e-10
    monkeypatch.setattr(statistics, "_MOST_ROWS", 5)
    few = ConvexProblem.of(losses.squared(1.0), np.ones((700, 1)), np.ones(700), norm=1.0, examples=699)
    with pytest.raises(DataError, match="cannot be added up"):
        statistics.sums_of(few, 1.0)
