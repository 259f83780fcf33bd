"""Objective perturbation with several weights: exact log ratios of densities at many places."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from densities import terms

from reticent.convex import losses, objective
from reticent.convex.losses import Loss
from reticent.convex.problem import ConvexProblem
from reticent.mechanisms.adjacency import Adjacency

LOSSES = (losses.logistic(), losses.huber_hinge(), losses.softmax(3), losses.squared(1.0))


def tilt_and_bend(problem: ConvexProblem, curvature: float, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """The tilt whose minimiser is at `weights`, and the log determinant of the Jacobian there."""
    rows, labels, loss = problem.rows, problem.labels, problem.loss
    scores = rows @ weights
    tilt = -(rows.T @ loss.gradient(scores, labels) + curvature * weights)
    hessian = np.zeros((weights.size, weights.size))
    for number in range(weights.size):
        direction = np.zeros(weights.size)
        direction[number] = 1
        bent = loss.hessian(scores, labels)(rows @ direction.reshape(weights.shape))
        hessian[:, number] = (rows.T @ bent).ravel()
    return tilt, float(np.linalg.slogdet(hessian + curvature * np.eye(weights.size))[1])


def worst_ratio(loss: Loss, epsilon: float, adjacency: Adjacency, mu: float, *, trials: int = 150) -> float:
    """The largest log ratio found, with rows that nearly oppose each other and weights of all sizes."""
    draw, worst = np.random.default_rng(7), 0.0
    for _ in range(trials):
        x, y = draw.normal(size=(3, 2)), draw.integers(0, 2, 3).astype(float)
        angle = draw.uniform(0, 2 * math.pi) if draw.random() < 0.5 else math.pi - draw.exponential(0.1)
        x[0] = 7.0 * x[0] / np.linalg.norm(x[0])
        turned = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        other_x, other_y = x.copy(), y.copy()
        other_x[0], other_y[0] = turned @ x[0], draw.integers(0, 2)
        if adjacency is not Adjacency.REPLACE:
            other_x, other_y = x[1:], y[1:]
        has_intercept = bool(draw.random() < 0.5)
        left, right = (
            ConvexProblem.of(loss, a, b, norm=7.0, intercept=has_intercept)
            for a, b in ((x, y), (other_x, other_y))
        )
        tilt = objective.tilt_for(
            loss, 3, left.parameters, terms(epsilon, None, adjacency, regularisation=mu)
        )
        towards = -(x[0] + other_x[0]) if draw.random() < 0.5 else draw.normal(size=2)
        weights = draw.normal(size=(left.features, loss.outputs)) * 0.1
        weights[:2] += (towards / np.linalg.norm(towards))[:, None] * draw.choice([-1, 1], loss.outputs)
        if loss.targets == "classes" and draw.random() < 0.5:  # as wrong about the record as can be
            wrong = np.eye(loss.outputs)[2] - np.eye(loss.outputs)[int(y[0])]
            weights[:2] = np.outer(x[0] / 7.0, wrong)
        weights *= draw.choice([0.1, 1, 10, 100])
        here, there = (tilt_and_bend(problem, tilt.curvature, weights) for problem in (left, right))
        lengths = (np.linalg.norm(there[0]) - np.linalg.norm(here[0])) / tilt.scale
        worst = max(worst, abs(float(lengths) + here[1] - there[1]))
    return worst


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE, Adjacency.ADD_OR_REMOVE])
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_no_place_has_a_larger_ratio_than_claimed(loss: Loss, adjacency: Adjacency, epsilon: float):
    assert 0.3 * epsilon < worst_ratio(loss, epsilon, adjacency, 1e-6) <= epsilon


def test_a_softmax_with_a_smaller_constant_is_caught():
    """The gradient p - e_y is up to sqrt 2 long; counted as 1, the tilt is too small."""
    wrong = dataclasses.replace(losses.softmax(3), lipschitz=1.0)
    assert worst_ratio(wrong, 3.0, Adjacency.ADD_OR_REMOVE, 10.0) > 3.0


def test_a_rank_of_one_for_softmax_is_caught():
    wrong = dataclasses.replace(losses.softmax(3), rank=1, trace=0.1, smoothness=0.1)
    assert worst_ratio(wrong, 0.1, Adjacency.ADD_OR_REMOVE, 1e-6) > 0.1
