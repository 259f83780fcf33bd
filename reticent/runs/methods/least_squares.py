"""Least squares as a method of a run: the sums of squares and products in one noisy release, then solved.

A row x, at most 1 long, becomes z = (sqrt(1 - c^2) x, c), at most 1 long as well. It adds z z' to one sum
and z t' to another, where t marks its class, or is its target in units of half the range. As a Frobenius
norm, z z' is |z|^2 <= 1 long, and z t' at most |z| |t| <= 1. With a factor a on the first and sqrt(1 - a^2)
on the second, what a row adds is at most 1 long. So both come from a single step of `rt.train` on everybody,
of a loss that is linear in the sums and has that gradient: clipped, added up without rounding, with noise in
whole numbers.

The rest is post-processing. The noisy squares are made symmetric, and a ridge about as large as the noise's
largest eigenvalue is added. So with much noise the weights are those of class means, and with little those of
least squares.

Reference:
    Dwork, Talwar, Thakurta and Zhang (2014), Algorithm 1, for the noisy squares; Wang (2018),
    arXiv:1803.02596, Section 3, for the pair; Mehta et al. (2023), TMLR, for features of public models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import linalg

from reticent.accounting.reserve import TRAINING
from reticent.mechanisms.events import Event
from reticent.models import Model
from reticent.models.initialisers import zeros
from reticent.runs.method import Inputs, Method, Terms, Trained
from reticent.runs.methods.descent import follow_plan, what_loss_depends_on
from reticent.runs.methods.one_release import plan_one_release
from reticent.runs.problem import Problem
from reticent.training.execution import Execution
from reticent.training.plan import Plan
from reticent.training.plan_json import from_json, to_json

_CONSTANT = 0.25  # the last entry of z, for the intercept
_ROW = math.sqrt(1 - _CONSTANT**2)
_SQUARES = 0.8  # of the length of what a row adds, how much are the squares
_PRODUCTS = math.sqrt(1 - _SQUARES**2)
_RIDGE = 0.7  # in largest eigenvalues of the noise
_MOST = 4096  # features
_LEAST_LEFT = 0.02  # a class is not taken for told apart better than this variance


class LeastSquares(NamedTuple):
    """Two sums over everybody, in one release."""

    plan: Plan

    @property
    def event(self) -> Event:
        return self.plan.event

    @property
    def in_words(self) -> str:
        return f"sums of squares and products, noise multiplier {self.plan.noise_multiplier:.3g}"

    def to_json(self) -> dict[str, Any]:
        return {"plan": to_json(self.plan)}

    def follow(self, inputs: Inputs) -> Trained:
        # The sums start at zero: after one step of rate 1 they hold what rows add.
        problem, size = inputs.problem, inputs.train_on["x"].shape[1] + 1
        starts = {"squares": zeros(size, size), "products": zeros(size, problem.outputs)}
        sums = Model(name="sums", description="two sums", starts=starts, apply=_no_scores)
        given = inputs._replace(held_out=None, learner=replace(inputs.learner, model=sums))
        execution = Execution(program=("least_squares", *what_loss_depends_on(inputs)))
        found = follow_plan(self.plan, minus_what_a_row_adds(problem), optax.sgd(1.0), given, execution)
        squares, products = (np.asarray(found.params[key], np.float64) for key in starts)
        params = self.weights(squares, products, problem)
        return found._replace(params={key: np.asarray(each, np.float32) for key, each in params.items()})

    def weights(self, squares: np.ndarray, products: np.ndarray, problem: Problem) -> dict[str, np.ndarray]:
        """From what was released, means over the batch size, to the scores of a linear model."""
        back = self.plan.sampler.batch_size
        size = len(squares)
        squares, products = (squares + squares.T) * back / (2 * _SQUARES), products * back / _PRODUCTS
        deviation = self.plan.noise_multiplier * self.plan.clipping.sensitivity / _SQUARES
        # Beside the diagonal, symmetric noise has half the variance: its eigenvalues end at sqrt(2 size).
        ridge = _RIDGE * deviation * math.sqrt(2 * size)
        values, vectors = linalg.eigh(squares)
        found = vectors @ ((vectors.T @ products) / (np.maximum(values, 0.0) + ridge)[:, None])
        found = found * _sharpness(found, products) if problem.is_classification else found
        return {"w": found[:-1] * _ROW, "b": found[-1] * _CONSTANT}


def minus_what_a_row_adds(problem: Problem) -> Any:
    """A loss whose gradient is minus what a row adds to the sums; nothing for one without a target."""
    low, high = problem.bounds or (0.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0

    def mark(params: Any, z: jax.Array, y: jax.Array) -> jax.Array:
        if problem.is_classification:
            return jnp.dot(z, params["products"])[jnp.maximum(y, 0)]
        return jnp.dot(z, params["products"])[0] * jnp.clip((y - middle) / half, -1.0, 1.0)

    def loss(params: Any, example: Any) -> jax.Array:
        y = example["y"]
        has_target = y >= 0 if problem.is_classification else ~jnp.isnan(y)
        y = jnp.where(has_target, y, 0)
        length = jnp.sqrt(jnp.sum(jnp.square(example["x"])))
        row = _ROW * example["x"] / jnp.maximum(length, 1.0)
        z = jnp.append(row, jnp.float32(_CONSTANT))
        squares = jnp.dot(jnp.dot(z, params["squares"]), z)
        return -jnp.where(has_target, 1.0, 0.0) * (_SQUARES * squares + _PRODUCTS * mark(params, z, y))

    return loss


def _sharpness(weights: np.ndarray, products: np.ndarray) -> float:
    """What makes scores for the marks of classes the logits of Gaussians with one covariance, nearly.

    With two classes it is one over twice the variance that the fit leaves of a mark; with many, once.
    """
    counts = np.maximum(products[-1] / _CONSTANT, 1.0)
    shares = counts / counts.sum()
    told = np.einsum("dc,dc->c", weights, products) / counts.sum()
    left = np.clip(shares - told, _LEAST_LEFT, np.maximum(shares * (1 - shares), _LEAST_LEFT))
    classes = len(shares)
    return (classes - 1) / classes / float(np.mean(left))


def _no_scores(params: Any, x: jax.Array) -> jax.Array:
    raise NotImplementedError("sums have no scores")


def method() -> Method:
    """The row of this method."""
    return Method(
        description="least squares: noisy sums of squares and products, in one release",
        price=_price,
        read=_read,
        is_for_users=True,
        sampler_share=TRAINING,
        most_features=_MOST,
    )


def _price(terms: Terms) -> LeastSquares:
    return LeastSquares(plan_one_release("least_squares", terms))


def _read(value: Mapping[str, Any]) -> LeastSquares:
    return LeastSquares(from_json(value["plan"]))
