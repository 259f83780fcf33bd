"""The student: a model of a few noisy answers and the whole public pool.

Everything here is computed from public records and from answers that were paid for: it costs nothing more,
and all of it may be published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.core.observer import OnProgress
from reticent.models.model import Model, Params
from reticent.pate.propagation import Graph


def soft_labels(
    graph: Graph, asked: ArrayLike, answers: ArrayLike, *, classes: int, own: float = 0.03, steps: int = 60
) -> np.ndarray:
    """Class shares for the whole pool from answers about part of it: (pool, classes), rows sum to 1.

    Answers spread over the graph and add up: a wrong one among right ones is overruled, its own record
    included. Noisy counts are better than the labels they would give, at the same price: how far the first
    is ahead of the others tells how far it is to be trusted.

    Args:
        asked: (answers,) rows of the pool that were asked about, repeated ones included.
        answers: (answers,) classes, or (answers, classes) noisy counts as they were released.
        own: how much a record's own answer counts against its neighbourhood.

    Returns:
        Rows that no answer reaches are uniform.
    """
    asked, evidence = check_answers(graph.rows, asked, answers, classes)
    evidence -= evidence.mean(axis=1, keepdims=True)  # only differences between counts matter
    evidence /= np.maximum(np.abs(evidence).mean(), 1e-12)
    sources = np.zeros((graph.rows, classes), np.float32)
    np.add.at(sources, asked, evidence)
    spread = np.maximum(graph.smooth(sources, own=own, steps=steps), 0)
    shares = np.square(spread / np.maximum(spread.max(axis=1, keepdims=True), 1e-30))
    totals = shares.sum(axis=1, keepdims=True)
    return np.where(totals > 0, shares / np.maximum(totals, 1e-30), 1 / classes).astype(np.float32)


def check_answers(
    pool: int, asked: ArrayLike, answers: ArrayLike, classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and numbers (answers, classes) of which the largest is the class that was answered."""
    checks.count(classes=classes, minimum=2)
    asked, answers = np.asarray(asked), np.asarray(answers)
    if len(asked) != len(answers) or not len(asked):
        raise DataError(
            f"{len(asked)} records were asked about, and there are {len(answers)} answers.",
            remedy="Pass the rows that were answered, and one answer each.",
        )
    if not np.issubdtype(asked.dtype, np.integer) or asked.min() < 0 or asked.max() >= pool:
        raise DataError(
            f"Rows of a pool of {pool} are whole numbers from 0 to {pool - 1}.",
            remedy="Pass the rows that were asked about, not their labels or features.",
        )
    if answers.ndim == 2 and answers.shape[1] == classes:
        return asked, answers.astype(np.float32)
    if (
        answers.ndim == 1
        and np.issubdtype(answers.dtype, np.integer)
        and 0 <= answers.min() <= answers.max() < classes
    ):
        return asked, np.eye(classes, dtype=np.float32)[answers]
    raise DataError(
        f"Answers are classes from 0 to {classes - 1}, or counts (answers, {classes}); "
        f"got {answers.dtype} of shape {answers.shape}.",
        remedy="Pass what the aggregator answered.",
    )


def fit_student(
    model: Model,
    x: ArrayLike,  # (pool, ...)
    labels: ArrayLike,  # (pool, classes)
    *,
    optimizer: optax.GradientTransformation | None = None,
    steps: int = 150,
    batch_size: int | None = None,
    shrinkage: float = 3e-5,
    seed: int = 0,
    on_progress: OnProgress = lambda done: None,
) -> Params:
    """Trains the final model on the public pool with soft labels: its parameters, which may be published.

    Args:
        x: the pool, as inputs of the model.
        labels: (pool, classes) shares, as `soft_labels` gives them. A uniform row teaches nothing.
        optimizer: Adam with a rate that falls to zero unless given: right for a linear model on features of
            length 1.
        batch_size: records per step; without one each step sees the whole pool.
        shrinkage: half the squared length of all matrices times this is added to the loss.

    Example:
        >>> from reticent.models.linear import linear
        >>> x = np.eye(2, dtype=np.float32)
        >>> params = fit_student(linear(2, 2), x, np.eye(2), steps=5)
        >>> sorted(params)
        ['b', 'w']
    """
    x, labels = np.asarray(x), np.asarray(labels, np.float32)
    if labels.ndim != 2 or len(x) != len(labels):
        raise DataError(
            f"The pool has {len(x)} records, and soft labels have shape {labels.shape}.",
            remedy="Pass one row of shares per record, such as soft_labels gives.",
        )
    checks.count(steps=steps)
    optimizer = optax.adam(optax.linear_schedule(1.0, 0.0, steps)) if optimizer is None else optimizer
    start_key, batch_key = jax.random.split(jax.random.key(seed, impl="threefry2x32"))
    step = _step(model, optimizer, shrinkage)
    params = model.init(start_key)
    moments = optimizer.init(params)
    x, labels = jnp.asarray(x), jnp.asarray(labels)
    for number in range(steps):
        batch = (x, labels)
        if batch_size is not None:
            rows = jax.random.randint(jax.random.fold_in(batch_key, number), (batch_size,), 0, len(x))
            batch = (x[rows], labels[rows])
        params, moments = step(params, moments, *batch)
        on_progress((number + 1) / steps)
    return params


def _step(model: Model, optimizer: optax.GradientTransformation, shrinkage: float) -> Callable[..., Any]:
    def loss(params: Params, x: jax.Array, labels: jax.Array) -> jax.Array:
        logits = jax.vmap(lambda row: model.apply(params, row))(x)
        classes = labels.shape[-1]
        sure = 1 - jnp.sum(-labels * jnp.log(labels + 1e-12), axis=-1) / jnp.log(classes)
        losses = -jnp.sum(labels * jax.nn.log_softmax(logits), axis=-1)
        matrices = [leaf for leaf in jax.tree.leaves(params) if leaf.ndim > 1]
        length = sum((jnp.vdot(leaf, leaf) for leaf in matrices), jnp.float32(0))
        return jnp.vdot(losses, sure) / jnp.maximum(sure.sum(), 1e-6) + shrinkage / 2 * length

    @jax.jit
    def step(params: Params, moments: Any, x: jax.Array, labels: jax.Array) -> tuple[Params, Any]:
        updates, moments = optimizer.update(jax.grad(loss)(params, x, labels), moments, params)
        return optax.apply_updates(params, updates), moments

    return step
