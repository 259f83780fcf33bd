"""The models that a run can train, and how the rows of a dataset become their inputs.

Each is a function of what is public about the problem. Inputs of a row depend on that row alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

import jax
import jax.numpy as jnp
import numpy as np

from reticent import models
from reticent.additive.columns import NUMBER, Columns
from reticent.additive.lookup import lookup
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.models import Model
from reticent.runs.image_learners import as_they_are, image_learner, one_product, silently
from reticent.runs.problem import Problem
from reticent.runs.public_start import FEATURES, NETWORK, PartOfNetwork, PublicStart, whole_network
from reticent.training.gradients import LossFunction

ModelName = Literal[
    "auto",
    "linear",
    "fourier",
    "additive",
    "mlp",
    "cnn",
    "scattering",
    "patches",
    "wide_resnet",
    "language",
    "public-features",
    "public-network",
]

_HIDDEN = 64  # of the perceptron


class InputTransform(Protocol):
    """From the `x` of a dataset to what a model is given, row by row."""

    def __call__(self, x: np.ndarray, on_progress: Callable[[float], None] = ..., /) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True)
class Learner:
    """A model, the loss it is trained with, and the inputs it takes.

    Args:
        inputs: from the `x` of a dataset to what the model is given, row by row.
        scores: from parameters and one input to logits, or to a prediction in units of the target.
        rounds_by_place: the last bits of a row's inputs depend on its place among the rows.
        start: the digest of the public weights that are a part of it, and what learns of them.
    """

    name: str
    model: Model
    loss: LossFunction
    inputs: InputTransform
    scores: Callable[[Any, jax.Array], jax.Array]
    rounds_by_place: bool = False
    start: tuple[str, ...] = ()

    @property
    def program(self) -> tuple[str, ...]:
        """A name for what the loss is compiled from: constants in it tell apart what one name would not."""
        return (self.name, *self.start)


def learner(name: ModelName, problem: Problem, start: PublicStart | None = None) -> Learner:
    """The learner of this name for a problem; `auto` is linear for tables, and features for small images.

    Args:
        start: the public weights that it starts from, if it does.
    """
    if start is not None:
        return _start(start, problem)
    if name == "auto":
        name = auto_for_images(problem.shape) if problem.is_image else "linear"
    match name:
        case "linear":
            return _on_rows(models.linear(int(np.prod(problem.shape)), problem.outputs), problem)
        case "fourier":
            inputs = _Waves(problem)
            made = _make("fourier", one_product(inputs.count, problem.outputs), problem, inputs)
            return replace(made, rounds_by_place=True)
        case "additive":
            _require_table(problem)
            columns = Columns(problem.columns or (NUMBER,) * problem.shape[0])
            return _on_rows(lookup(columns, problem.outputs, problem.scale), problem)
        case "mlp":
            sizes = (int(np.prod(problem.shape)), _HIDDEN, problem.outputs)
            return _on_rows(models.mlp(sizes, jnp.tanh), problem)
        case "cnn" | "wide_resnet" | "scattering" | "patches":
            found = image_learner(name, problem)
            if isinstance(found, str):
                raise _not_for(name, found, problem)
            made = _make(name, found.model, problem, found.inputs)
            return replace(made, rounds_by_place=found.rounds_by_place)
        case "language":
            size = {"length": problem.shape[0], "width": 64, "layers": 1, "heads": 4}
            return _make(name, models.language_model(problem.outputs, **size), problem, as_they_are)
        case _:
            raise InvalidArgument(
                f"There is no model {name!r}.", remedy=f"Known: {', '.join(get_args(ModelName)[:-2])}."
            )


def _start(start: PublicStart, problem: Problem) -> Learner:
    start.require_images(problem)
    name: tuple[str, ...] = (start.weights.digest, start.learn)
    if start.learn == "dense":
        head = one_product(start.weights.width, problem.outputs)
        made = _make(FEATURES, head, problem, start.weights.features)
        return replace(made, rounds_by_place=True, start=name)
    model = whole_network(start, problem.outputs)
    whole = replace(_make(NETWORK, model, problem, as_they_are), start=name)
    if start.learn == "all":
        return whole
    part = PartOfNetwork(start, problem, model, whole.loss)
    return replace(whole, model=part.model, loss=part.loss, scores=part.model.apply)


def auto_for_images(shape: tuple[int, ...]) -> ModelName:
    """Whitened features of small images, with which private training is most accurate for its cost."""
    if all(side % 4 == 0 and 16 <= side <= 64 for side in shape[:2]):
        return "patches" if len(shape) == 3 and shape[2] == 3 else "scattering"
    return "cnn"


def _on_rows(model: Model, problem: Problem) -> Learner:
    def inputs(x: np.ndarray, on_progress: Callable[[float], None] = silently, /) -> np.ndarray:
        rows = np.asarray(x).reshape(len(x), math.prod(x.shape[1:]))
        return (rows / 255 if rows.dtype == np.uint8 else rows).astype(np.float32) * np.float32(problem.scale)

    return _make(model.name, model, problem, inputs)


def _make(name: str, model: Model, problem: Problem, inputs: InputTransform) -> Learner:
    if problem.is_classification:
        return Learner(
            name=name,
            model=model,
            loss=_weight_loss(models.classification_loss(model), problem.class_weights),
            inputs=inputs,
            scores=model.apply,
        )
    low, high = problem.bounds or (0.0, 1.0)
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0

    def loss(params: ArrayTree, example: ArrayTree) -> jax.Array:
        """Half the squared error, in units of half the range; nothing for a row without a target."""
        is_there = ~jnp.isnan(example["y"])
        wanted = (jnp.where(is_there, example["y"], middle) - middle) / half
        return is_there * 0.5 * jnp.square(model.apply(params, example["x"])[0] - wanted)

    def scores(params: ArrayTree, x: jax.Array) -> jax.Array:
        return jnp.clip(model.apply(params, x) * half + middle, low, high)

    return Learner(name=name, model=model, loss=loss, inputs=inputs, scores=scores)


def _weight_loss(loss: LossFunction, weights: tuple[float, ...]) -> LossFunction:
    """The loss times the weight of the row's class. It is clipped afterwards, so what a row can do is not."""
    if not weights:
        return loss
    by_class = np.asarray(weights, np.float32)

    def weighted(params: ArrayTree, example: ArrayTree) -> jax.Array:
        return loss(params, example) * jnp.asarray(by_class)[example["y"]]

    return weighted


class _Waves:
    """Random Fourier features of tables, whose numbers lie within [-1, 1], and of the bytes of images."""

    def __init__(self, problem: Problem) -> None:
        self._waves = models.FourierFeatures(math.prod(problem.shape))
        self.count = self._waves.count

    def __call__(self, x: np.ndarray, on_progress: Callable[[float], None] = silently, /) -> np.ndarray:
        rows = np.asarray(x).reshape(len(x), math.prod(x.shape[1:]))
        return self._waves(rows / 127.5 - 1 if rows.dtype == np.uint8 else rows)


def _require_table(problem: Problem) -> None:
    if problem.is_image:
        raise InvalidArgument(
            f"The model 'additive' is for tables, and a row here has shape {problem.shape}.",
            remedy="Choose --model scattering, cnn or linear.",
        )


def _not_for(name: str, what: str, problem: Problem) -> InvalidArgument:
    return InvalidArgument(
        f"The model '{name}' is for {what}, and a row here has shape {problem.shape} "
        f"with {problem.outputs} outputs.",
        remedy="Choose --model linear or mlp.",
    )
