"""Losses and metrics of one example: what `train` is given.

    loss = classification_loss(model)        # loss(params, {"x": ..., "y": ...}) -> scalar

An example is a dictionary with an input `x` and a label or target `y`, as the catalog's datasets have them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core.errors import InvalidArgument
from reticent.models.model import Model, Params

Example = Mapping[str, Any]
Measure = Callable[[Params, Example], jax.Array]


def classification_loss(model: Model) -> Measure:
    """Cross-entropy of the label under the softmax of the logits.

    With one label per place (a language model), the mean over places. A negative label means that
    there is none: the place counts for nothing. A label beyond the last class makes the loss NaN.

    Example:
        >>> import jax
        >>> from reticent.models import linear
        >>> model = linear(4, 3)
        >>> params = jax.tree.map(jax.numpy.zeros_like, model.init(jax.random.key(0)))
        >>> round(float(classification_loss(model)(params, {"x": jax.numpy.ones(4), "y": 2})), 3)  # ln 3
        1.099
    """

    def loss(params: Params, example: Example) -> jax.Array:
        logits, labels = _logits_and_labels(model, params, example)
        # A product with zeros and ones, where a look-up would be slow to differentiate on CPU.
        chosen = jnp.sum(logits * jax.nn.one_hot(labels, logits.shape[-1], dtype=logits.dtype), axis=-1)
        is_class = (
            labels < logits.shape[-1]
        )  # beyond the last one, no loss is right: the example adds nothing
        values = (jax.nn.logsumexp(logits, axis=-1) - chosen) * jnp.where(is_class, 1.0, jnp.nan)
        return _mean_over_labels(values, labels)

    return loss


def accuracy(model: Model) -> Measure:
    """1 where the largest logit is the label's, else 0; the mean over labelled places.

    Example:
        >>> import jax
        >>> from reticent.models import linear
        >>> model = linear(2, 2)
        >>> params = jax.tree.map(jax.numpy.zeros_like, model.init(jax.random.key(0)))
        >>> float(accuracy(model)(params, {"x": jax.numpy.ones(2), "y": 0}))
        1.0
    """

    def metric(params: Params, example: Example) -> jax.Array:
        logits, labels = _logits_and_labels(model, params, example)
        return _mean_over_labels(
            jnp.float32(jnp.argmax(logits, axis=-1).astype(labels.dtype) == labels), labels
        )

    return metric


def squared_loss(model: Model) -> Measure:
    """Half the squared distance of the prediction from the target.

    Example:
        >>> from reticent.models.linear import linear
        >>> model = linear(2, 1)
        >>> params = model.init(jax.random.key(0))
        >>> squared_loss(model)(params, {"x": jnp.zeros(2), "y": jnp.float32(2.0)}).item()
        2.0
    """

    def loss(params: Params, example: Example) -> jax.Array:
        predicted, target = model.apply(params, example["x"]), jnp.asarray(example["y"])
        if predicted.size != target.size:
            raise InvalidArgument(
                f"The model '{model.name}' predicts {predicted.size} numbers, "
                f"and the target has {target.size}.",
                remedy="Give the model as many outputs as the target has numbers.",
            )
        return 0.5 * jnp.sum(jnp.square(predicted.ravel() - target.ravel()))

    return loss


def _logits_and_labels(model: Model, params: Params, example: Example) -> tuple[jax.Array, jax.Array]:
    logits, labels = model.apply(params, example["x"]), jnp.asarray(example["y"])
    if logits.shape[:-1] != labels.shape:
        raise InvalidArgument(
            f"The model '{model.name}' gives logits of shape {logits.shape}, "
            f"and the label has shape {labels.shape}.",
            remedy="Labels are whole numbers: one for each vector of logits, not one-hot.",
        )
    return logits, labels


def _mean_over_labels(values: jax.Array, labels: jax.Array) -> jax.Array:
    is_labelled = labels >= 0
    count = jnp.maximum(jnp.sum(is_labelled), 1).astype(values.dtype)
    return jnp.sum(jnp.where(is_labelled, values, 0)) / count
