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
from reticent.models import Model
from reticent.runs.problem import Problem
from reticent.training.gradients import LossFunction

ModelName = Literal["auto", "linear", "fourier", "additive", "mlp", "cnn", "scattering"]

_HIDDEN = 64  # of the perceptron
_PRIOR_IMAGES = 8000
_KEPT = 1500  # directions of the whitened features
_PIECE = 2000  # images at a time


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
    """

    name: str
    model: Model
    loss: LossFunction
    inputs: InputTransform
    scores: Callable[[Any, jax.Array], jax.Array]
    rounds_by_place: bool = False


def learner(name: ModelName, problem: Problem) -> Learner:
    """The learner of this name for a problem; `auto` is linear for tables and scattering for small images."""
    if name == "auto":
        name = "scattering" if _fits_scattering(problem) else "cnn" if problem.is_image else "linear"
    match name:
        case "linear":
            return _on_rows(models.linear(int(np.prod(problem.shape)), problem.outputs), problem)
        case "fourier":
            inputs = _Waves(problem)
            made = _make("fourier", _bare(inputs.count, problem.outputs), problem, inputs)
            return replace(made, rounds_by_place=True)
        case "additive":
            _require_table(problem)
            columns = Columns(problem.columns or (NUMBER,) * problem.shape[0])
            return _on_rows(lookup(columns, problem.outputs, problem.scale), problem)
        case "mlp":
            sizes = (int(np.prod(problem.shape)), _HIDDEN, problem.outputs)
            return _on_rows(models.mlp(sizes, jnp.tanh), problem)
        case "cnn":
            _require_images(name, problem, _fits_network(problem), "28 x 28 grey images with 10 classes")
            return _make("cnn", models.tanh_cnn(), problem, _as_they_are)
        case "scattering":
            _require_images(
                name, problem, _fits_scattering(problem), "grey images whose sides are multiples of 4"
            )
            made = _make("scattering", _bare(_KEPT, problem.outputs), problem, _Whitened(problem.shape[0]))
            return replace(made, rounds_by_place=True)
        case _:
            raise InvalidArgument(
                f"There is no model {name!r}.", remedy=f"Known: {', '.join(get_args(ModelName))}."
            )


def _silently(done: float) -> None:
    pass


def _as_they_are(x: np.ndarray, on_progress: Callable[[float], None] = _silently, /) -> np.ndarray:
    return x


def _on_rows(model: Model, problem: Problem) -> Learner:
    def inputs(x: np.ndarray, on_progress: Callable[[float], None] = _silently, /) -> np.ndarray:
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

    def loss(params: Any, example: Any) -> jax.Array:
        """Half the squared error, in units of half the range; nothing for a row without a target."""
        is_there = ~jnp.isnan(example["y"])
        wanted = (jnp.where(is_there, example["y"], middle) - middle) / half
        return is_there * 0.5 * jnp.square(model.apply(params, example["x"])[0] - wanted)

    def scores(params: Any, x: jax.Array) -> jax.Array:
        return jnp.clip(model.apply(params, x) * half + middle, low, high)

    return Learner(name=name, model=model, loss=loss, inputs=inputs, scores=scores)


def _weight_loss(loss: LossFunction, weights: tuple[float, ...]) -> LossFunction:
    """The loss times the weight of the row's class. It is clipped afterwards, so what a row can do is not."""
    if not weights:
        return loss
    by_class = np.asarray(weights, np.float32)

    def weighted(params: Any, example: Any) -> jax.Array:
        return loss(params, example) * jnp.asarray(by_class)[example["y"]]

    return weighted


def _bare(inputs: int, outputs: int) -> Model:
    """One product, without a bias."""
    from reticent.models.initialisers import zeros

    return Model(
        name="product",
        description=f"one product {inputs}-{outputs}",
        starts={"w": zeros(inputs, outputs)},
        apply=lambda params, x: x @ params["w"],
    )


class _Waves:
    """Random Fourier features of tables, whose numbers lie within [-1, 1], and of the bytes of images."""

    def __init__(self, problem: Problem) -> None:
        self._waves = models.FourierFeatures(math.prod(problem.shape))
        self.count = self._waves.count

    def __call__(self, x: np.ndarray, on_progress: Callable[[float], None] = _silently, /) -> np.ndarray:
        rows = np.asarray(x).reshape(len(x), math.prod(x.shape[1:]))
        return self._waves(rows / 127.5 - 1 if rows.dtype == np.uint8 else rows)


class _Whitened:
    """Scattering features, whitened by drawings that nobody made."""

    def __init__(self, side: int) -> None:
        self._side = side
        self._whiten: models.Whitening | None = None

    def __call__(self, images: np.ndarray, on_progress: Callable[[float], None] = _silently, /) -> np.ndarray:
        if self._whiten is None:
            drawings = np.concatenate(
                [
                    draw(_PRIOR_IMAGES // 2, side=self._side)
                    for draw in (models.random_strokes, models.random_shapes)
                ]
            )
            self._whiten = models.whitening(_unit_scattering(drawings), kept=_KEPT)
        found = np.empty((len(images), _KEPT), np.float32)
        for start in range(0, len(images), _PIECE):
            piece = slice(start, start + _PIECE)
            found[piece] = self._whiten(_unit_scattering(images[piece]))
            on_progress(min(start + _PIECE, len(images)) / len(images))
        return found


def _unit_scattering(images: np.ndarray) -> np.ndarray:
    found = models.scattering_features(images, groups=27)
    found[..., 17:] *= 0.7  # what two wavelets find is noisier than what one finds
    rows = found.reshape(len(found), -1)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)


def _fits_scattering(problem: Problem) -> bool:
    grey = len(problem.shape) == 2
    return (
        grey
        and all(side % 4 == 0 and 16 <= side <= 64 for side in problem.shape)
        and problem.is_classification
    )


def _fits_network(problem: Problem) -> bool:
    return problem.shape in ((28, 28), (28, 28, 1)) and problem.outputs == 10


def _require_table(problem: Problem) -> None:
    if problem.is_image:
        raise InvalidArgument(
            f"The model 'additive' is for tables, and a row here has shape {problem.shape}.",
            remedy="Choose --model scattering, cnn or linear.",
        )


def _require_images(name: str, problem: Problem, holds: bool, what: str) -> None:
    if not holds:
        raise InvalidArgument(
            f"The model '{name}' is for {what}, and a row here has shape {problem.shape} "
            f"with {problem.outputs} outputs.",
            remedy="Choose --model linear or mlp.",
        )
