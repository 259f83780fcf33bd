"""The mean of each class as a method of a run: one noisy sum, and nothing is trained.

Rows are at most 1 long. One row adds itself to the sum of its class, and a mark to the count of its class:
together a vector that is at most 1 long, so that one release with Gaussian noise has both. It is taken as a
single step of `rt.train` on everybody, of a loss that is linear in the weights and has that gradient.

A row is then told by the nearest mean, less what noise alone adds to the length of a mean, and by how
frequent each class is. Where rows were whitened by public records, that is linear discriminant analysis
with the covariance of public records, or least squares with it.

Reference:
    Mehta et al. (2023), "Towards Large Scale Transfer Learning for Differentially Private Image
    Classification", TMLR: of linear methods on features, those of one release do best at small epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.accounting.reserve import TRAINING
from reticent.core.trees import ArrayTree
from reticent.mechanisms.events import Event
from reticent.runs.method import Inputs, Method, Terms, Trained
from reticent.runs.methods.descent import follow_plan, what_loss_depends_on
from reticent.runs.methods.one_release import plan_one_release
from reticent.training.execution import Execution
from reticent.training.plan import Plan
from reticent.training.plan_json import from_json, to_json

_COUNT = 0.25  # of the length of what a row adds, how much is its mark
_ROW = math.sqrt(1 - _COUNT**2)
_FEWEST = 3.0  # a count is not below so many deviations of its noise


class Prototypes(NamedTuple):
    """One sum over everybody."""

    plan: Plan

    @property
    def event(self) -> Event:
        return self.plan.event

    @property
    def in_words(self) -> str:
        return f"the mean of each class, noise multiplier {self.plan.noise_multiplier:.3g}"

    def to_json(self) -> dict[str, Any]:
        return {"plan": to_json(self.plan)}

    def follow(self, inputs: Inputs) -> Trained:
        # A linear model starts at zero: after one step of rate 1 it holds the mean of what rows add.
        given = inputs._replace(held_out=None)  # there is nothing to look at on the way
        execution = Execution(program=("prototype", *what_loss_depends_on(inputs)))
        found = follow_plan(self.plan, _minus_what_a_row_adds, optax.sgd(1.0), given, execution)
        total, count = (np.asarray(found.params[key], np.float64) for key in ("w", "b"))
        params = self._weights(total, count)
        return found._replace(params={key: np.asarray(each, np.float32) for key, each in params.items()})

    def _weights(self, total: np.ndarray, count: np.ndarray) -> dict[str, np.ndarray]:
        """From what was released to the scores of a linear model."""
        back = self.plan.sampler.batch_size
        deviation = self.plan.noise_multiplier * self.plan.clipping.sensitivity
        counts = np.maximum(count * back / _COUNT, _FEWEST * deviation / _COUNT)
        means = total * back / _ROW / counts  # (features, classes)
        noise = len(total) * (deviation / _ROW / counts) ** 2
        lengths = np.maximum((means**2).sum(axis=0) - noise, 0.0)
        sharpness = len(total)  # rows of length 1 that vary alike in all directions: 1 / features in each
        shares = np.log(counts / counts.sum())
        return {"w": sharpness * means, "b": shares - sharpness * lengths / 2}


def _minus_what_a_row_adds(params: ArrayTree, example: ArrayTree) -> jax.Array:
    """Its gradient is minus the row and its mark, in the place of its class; nothing for one without."""
    is_class = jnp.where(example["y"] >= 0, 1.0, 0.0)
    at = jnp.maximum(example["y"], 0)
    length = jnp.sqrt(jnp.sum(jnp.square(example["x"])))
    row = example["x"] / jnp.maximum(length, 1.0)
    return -is_class * (_ROW * jnp.dot(row, params["w"])[at] + _COUNT * params["b"][at])


def method() -> Method:
    """The row of this method."""
    return Method(
        description="prototypes: the noisy mean of each class, in one release",
        price=_price,
        read=_read,
        needs_classes=True,
        is_for_users=True,
        sampler_share=TRAINING,
    )


def _price(terms: Terms) -> Prototypes:
    return Prototypes(plan_one_release("prototype", terms))


def _read(value: Mapping[str, Any]) -> Prototypes:
    return Prototypes(from_json(value["plan"]))
