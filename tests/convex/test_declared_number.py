"""The number of records is a declared one: neighbours with more and fewer rows differ by one record's term.

Each claim is compared with a second derivation, from the definition of the mechanism: minimisers by bisection
of a derivative that is written out here, and log odds by enumerating all points of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from densities import terms
from scipy import optimize, stats

from reticent.convex import METHODS, Fit, descent, exponential, fit, losses, minimise, noise, objective
from reticent.convex.fit import choose_method
from reticent.convex.losses import Loss
from reticent.convex.problem import ConvexProblem
from reticent.core.errors import DataError
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency

DECLARED = 40
ADDED = Adjacency.ADD_OR_REMOVE
CASES = [
    ("output", None),
    ("output", 1e-5),
    ("objective", None),
    ("objective", 1e-5),
    ("exponential", None),
    ("input", None),
    ("input", 1e-5),
    ("descent", 1e-5),
    ("auto", None),
]


def fitted(method: str, x: Any, y: Any, *, loss: Loss | None = None, **given: Any) -> Fit:
    loss = loss or (losses.squared(1.0) if method == "input" else losses.logistic())
    given = {"epsilon": 1.0, "norm": 1.0, "adjacency": ADDED, "keys": Keys.seeded(0), **given}
    return fit(loss, x, y, method=method, **given)


# What is said


@pytest.mark.parametrize(("method", "delta"), CASES)
def test_nothing_that_is_said_depends_on_how_many_rows_there_are(method: str, delta: float | None):
    draw, said = np.random.default_rng(0), set()
    for rows in (0, DECLARED + 50):
        x = draw.normal(size=(rows, 3))
        found = fitted(method, x, (x[:, 0] > 0) * 1.0, delta=delta, examples=DECLARED, regularisation=0.3)
        assert np.isfinite(found.coefficients).all()
        said.add((found.event, found.guarantee, found.excess_risk_bound, found.method, found.notes))
    assert len(said) == 1
    assert f"the number of records, {DECLARED}, is public" in str(found.guarantee)


def test_auto_goes_by_the_declared_number():
    """Examples times epsilon, over the root of four weights, is 2,050: with two rows less, below 2,000."""
    for rows in (0, 39, 60):
        given = ConvexProblem.of(losses.logistic(), np.ones((rows, 3)), np.ones(rows), norm=1.0, examples=41)
        assert choose_method(given.loss, given, terms(100.0, 1e-5, ADDED)) == "objective"


def test_unless_declared_it_is_the_number_of_rows():
    x = np.ones((7, 1))
    assert fitted("output", x, np.ones(7)).event == fitted("output", x, np.ones(7), examples=7).event
    assert "the number of records, 7, is public" in str(fitted("output", x, np.ones(7)).guarantee)
    with pytest.raises(DataError, match="at least one row"):
        fitted("output", x[:0], [])


# Output perturbation


class Hidden(NamedTuple):
    """What was handed to the noise, and how far neighbours' values are hidden."""

    values: np.ndarray
    max_norm: float


@pytest.fixture
def hidden(monkeypatch: pytest.MonkeyPatch) -> list[Hidden]:
    """All that gets noise at last, in the order in which it did."""
    found: list[Hidden] = []

    def watched(real: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def drawn(source: Any, values: np.ndarray, *, max_norm: float, **given: float) -> np.ndarray:
            found.append(Hidden(values, max_norm))
            return real(source, values, max_norm=max_norm, **given)

        return drawn

    for name in ("add_gaussian", "add_vector_laplace"):
        monkeypatch.setattr(noise, name, watched(getattr(noise, name)))
    return found


def least(loss: Loss, x: np.ndarray, y: np.ndarray, *, mu: float, declared: int) -> float:
    """Where (1/n) sum of losses + mu/2 w^2 is least, by the sign of its derivative: one weight."""

    def slope(w: float) -> float:
        return float((x * loss.gradient((x * w)[:, None], y)[:, 0]).sum()) / declared + mu * w

    return optimize.root_scalar(slope, bracket=(-1e4, 1e4), xtol=1e-13).root


LOSSES = (losses.huber_hinge(0.5), losses.logistic(), losses.squared(1.0), losses.huber(0.5, bound=10.0))
by_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)


@by_loss
@pytest.mark.parametrize(("mu", "present"), [(0.05, 5), (2.5, DECLARED), (0.05, DECLARED + 20)])
@pytest.mark.parametrize("adjacency", [ADDED, Adjacency.REPLACE])
def test_minimisers_of_neighbours_are_no_further_apart_than_charged(
    loss: Loss, mu: float, adjacency: Adjacency, present: int, hidden: list[Hidden]
):
    """One record of each kind against one that is gone, or against its opposite, among `present` rows."""
    ends = (0.0, 1.0) if loss.is_classifier else (-1.0, 1.0)
    bound = adjacency.reach * loss.lipschitz / (mu * DECLARED)
    worst = 0.0
    for row in (1.0, 0.3, -1.0):
        x, y = np.ones(present), np.full(present, ends[1])
        x[0], y[0] = row, ends[0]
        other = (
            (x[1:], y[1:]) if adjacency is ADDED else (np.where(np.arange(present), x, 1.0), y * 0 + ends[1])
        )
        minima = []
        for rows, labels in ((x, y), other):
            given = {"loss": loss, "adjacency": adjacency, "intercept": False, "regularisation": mu}
            fitted("output", rows[:, None], labels, examples=DECLARED, **given)
            seen = hidden.pop()
            minima.append(least(loss, rows, labels, mu=mu, declared=DECLARED))
            assert seen.values[0, 0] == pytest.approx(minima[-1], abs=1e-8 / mu)
            assert seen.max_norm == pytest.approx(bound, rel=1e-6)
            assert seen.max_norm >= bound
        worst = max(worst, abs(minima[0] - minima[1]))
    assert worst <= bound * (1 + 1e-12)
    if (loss.name, mu) == ("huber_hinge", 2.5) and present <= DECLARED:
        assert worst > 0.9 * bound, "the pair is not bad enough: a noise for less would not be seen"


def test_a_divisor_that_follows_the_rows_is_seen():
    """As it was: each neighbour with a divisor of its own. The distance is twice what is charged."""
    x, y = np.ones(100), np.ones(100)
    y[0] = 0
    loss, mu = losses.huber_hinge(0.5), 2.5
    apart = abs(least(loss, x, y, mu=mu, declared=100) - least(loss, x[1:], y[1:], mu=mu, declared=99))
    assert apart > 1.9 * loss.lipschitz / (mu * 100)
    same = abs(least(loss, x, y, mu=mu, declared=100) - least(loss, x[1:], y[1:], mu=mu, declared=100))
    assert same <= loss.lipschitz / (mu * 100)


# Objective perturbation


@pytest.mark.parametrize("delta", [None, 1e-5])
@pytest.mark.parametrize("present", [3, DECLARED - 1, DECLARED, DECLARED + 20])
def test_a_tilted_minimum_solves_the_equation_of_the_proof(
    present: int, delta: float | None, monkeypatch: pytest.MonkeyPatch
):
    """Sum of gradients + mu n w + b = 0, with the declared n and a tilt b of the declared scale."""
    draw, mu, tilts = np.random.default_rng(1), 0.8, []

    def watched(problem: ConvexProblem, *, tilt: np.ndarray, **given: Any) -> minimise.Minimum:
        found = minimise.minimise(problem, tilt=tilt, **given)
        tilts.append((tilt * DECLARED, problem, found.weights))
        return found

    monkeypatch.setattr(objective, "minimise", watched)
    x = draw.normal(size=(present, 2))
    fitted("objective", x, (x[:, 0] > 0) * 1.0, delta=delta, examples=DECLARED, regularisation=mu)
    ((tilt, problem, weights),) = tilts
    slopes = problem.rows.T @ problem.loss.gradient(problem.rows @ weights, problem.labels)
    np.testing.assert_allclose(slopes + mu * DECLARED * weights + tilt, 0, atol=1e-9)
    drawn = fitted("objective", x[:1], [0.0], delta=delta, examples=DECLARED, regularisation=mu)
    assert drawn.event is not None
    np.testing.assert_array_equal(tilts[1][0], tilt)  # the same keys: the same tilt, whoever is there


# The exponential mechanism


def log_odds(monkeypatch: pytest.MonkeyPatch, x: np.ndarray, y: np.ndarray, **given: Any) -> np.ndarray:
    """The log probability of each point of the grid, as `fit` draws from it."""
    seen: list[np.ndarray] = []

    def watched(source: Any, scores: np.ndarray, unit: Any) -> int:
        seen.append(scores.astype(np.float64) * float(unit))
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(exponential, "choose_whole", watched)
        patch.setattr(exponential, "_POINTS", {1: 401, 2: 31, 3: 11})
        fitted("exponential", x, y, intercept=False, radius=6.0, **given)
    (logs,) = seen
    return logs - np.logaddexp.reduce(logs)


@pytest.mark.parametrize(("mu", "present"), [(0.0, 1), (0.01, 20), (1.0, 60), (10.0, 2)])
@pytest.mark.parametrize("weights", [1, 2, 3])
def test_no_log_odds_of_the_exponential_mechanism_move_by_more_than_epsilon(
    mu: float, present: int, weights: int, monkeypatch: pytest.MonkeyPatch
):
    """All points of the grid, for a record that is gone, is empty, or is as loud as can be."""
    draw, worst = np.random.default_rng(2), 0.0
    others = draw.normal(size=(present - 1, weights))
    for record in (np.zeros(weights), np.eye(weights)[0]):
        x, y = np.vstack([record, others]), np.zeros(present)
        given = {"examples": 20, "regularisation": mu}
        here, there = (log_odds(monkeypatch, x[k:], y[k:], **given) for k in (0, 1))
        worst = max(worst, float(np.abs(here - there).max()))
    assert 0.3 < worst <= 1 + 1e-9


def test_log_odds_are_those_of_the_definition(monkeypatch: pytest.MonkeyPatch):
    """exp(-k (sum of losses + mu n/2 w^2)) with k = epsilon / osc, for any number of rows."""
    draw, mu, declared = np.random.default_rng(3), 0.7, 15
    for present in (0, 4, 15, 30):
        x = draw.uniform(-1, 1, size=present)
        y = draw.integers(0, 2, present).astype(float)
        found = log_odds(monkeypatch, x[:, None], y, examples=declared, regularisation=mu)
        w = np.linspace(-6, 6, 401)
        margins = (2 * y - 1)[:, None] * x[:, None] * w
        total = np.log1p(np.exp(-margins)).sum(axis=0) + mu * declared / 2 * w**2
        osc = math.log1p(math.exp(6)) - math.log1p(math.exp(-6))
        logs = -total / osc
        np.testing.assert_allclose(found, logs - np.logaddexp.reduce(logs), atol=1e-4)


def test_a_chain_has_a_prior_that_no_record_decides(monkeypatch: pytest.MonkeyPatch):
    seen = []

    def watched(source: Any, problem: ConvexProblem, *public: float) -> np.ndarray:
        seen.append((problem.examples, *public))
        return np.zeros((problem.features, 1))

    monkeypatch.setattr(exponential, "_from_chain", watched)
    for present in (19, 20, 21):
        fitted("exponential", np.ones((present, 5)), np.ones(present), examples=20, regularisation=0.5)
    assert seen[0] == seen[1] == seen[2]
    assert 0.5 * 20 in seen[0]


# Gradient descent


def test_descent_divides_by_the_declared_number(monkeypatch: pytest.MonkeyPatch):
    """The first step from zero, with little noise: the sum of gradients over n, times the rate."""
    plans = []
    real = descent.recipe_by_rule

    def one_step(problem: ConvexProblem, asked: Any) -> descent.DescentRecipe:
        recipe = real(problem, asked)
        plans.append(recipe.plan)
        plan = descent._plan(problem, asked, 1, 1.0)
        return recipe._replace(plan=plan, rate=1.0, momentum=0.0)

    monkeypatch.setattr(descent, "recipe_by_rule", one_step)
    for present in (0, 10, DECLARED + 30):
        x, y = np.ones((present, 1)), np.ones(present)
        given = {"examples": DECLARED, "delta": 0.02, "epsilon": 30.0, "intercept": False}
        found = fitted("descent", x, y, **given)
        assert found.coefficients[0, 0] == pytest.approx(0.5 * present / DECLARED, abs=0.03)
    assert len(set(map(repr, plans))) == 1


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
@pytest.mark.parametrize("rows", [20, 320, 48_000, 10**7])
def test_descent_has_room_for_every_draw_of_the_coins(rows: int, share: float):
    table = round(rows / (1 - share))
    most = descent.FullBatchWithRoom(examples=rows).most
    assert most >= table or stats.binom.sf(most, table, (rows + 0.5) / table) <= 1e-25
    assert most <= rows + 20 * math.sqrt(rows) + 40


def test_far_more_rows_than_declared_are_refused_by_descent_alone():
    x, y = np.ones((500, 1)), np.ones(500)
    with pytest.raises(DataError, match="made for 20 examples"):
        fitted("descent", x, y, examples=20, delta=1e-5)
    for method in set(METHODS) - {"descent", "local"}:
        assert np.isfinite(fitted(method, x, y, examples=20, delta=1e-5).coefficients).all()


# Input perturbation


def test_the_local_model_takes_off_the_noise_of_the_rows_that_there_are():
    draw = np.random.default_rng(4)
    x = draw.uniform(-1, 1, size=(20_000, 1))
    given = {"delta": 1e-5, "epsilon": 20.0, "adjacency": Adjacency.REPLACE, "intercept": False}
    for declared in (10_000, 20_000):
        found = fitted("local", x, 0.8 * x[:, 0], loss=losses.squared(1.0), examples=declared, **given)
        assert found.coefficients[0, 0] == pytest.approx(0.8, abs=0.15)
