"""Model inversion: what does a class look like, according to the model?

From a label alone, the attacker climbs the gradient of the confidence in it, inside the box where records
lie. What comes out is a representative of the class, not a record: where a class is one person, that is
enough. How good it is is measured against the mean of every class. Whoever has unlabelled records of the same
kind keeps the search among their like, and gets much better pictures.

Reference:
    Fredrikson, Jha and Ristenpart (2015), Model inversion attacks that exploit confidence information and
    basic countermeasures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from reticent.attacks.metrics import Estimate, clopper_pearson
from reticent.attacks.scores import FEWEST
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument, ReticentError
from reticent.core.trees import ArrayTree

Logits = Callable[[jax.Array], jax.Array]  # of ONE record; JAX has to be able to differentiate it

_MOST_DIRECTIONS = 64  # in which public records vary
_CAUTION = 0.02  # how much the likelihood among public records counts beside the confidence


@dataclass(frozen=True, kw_only=True)
class Inverted:
    """A representative of each class, and how sure the model is of it.

    Args:
        pictures: (classes, *shape), inside the box.
        confidences: (classes,), from 0 to 1.
    """

    labels: tuple[int, ...]
    pictures: np.ndarray = field(repr=False)
    confidences: np.ndarray


@dataclass(frozen=True, kw_only=True)
class Likeness:
    """How much the representatives look like the classes they stand for.

    Args:
        table: (representatives, classes), the correlation of each with the mean of each class.
        own, others: the mean correlation with the own class, and with all others.
        recognised: the share of representatives that are most like their own class; 1 / classes is luck.
    """

    table: np.ndarray = field(repr=False)
    own: float
    others: float
    recognised: Estimate

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return {
            "own": self.own,
            "others": self.others,
            "recognised": self.recognised._asdict(),
            "table": self.table.tolist(),
        }


def invert(
    logits: Logits,
    shape: tuple[int, ...],
    labels: Sequence[int],
    *,
    box: tuple[float, float] = (0.0, 1.0),
    public: Any = None,
    steps: int = 200,
    smoothness: float = 0.005,
    starts: int = 4,
    seed: int = 0,
) -> Inverted:
    """Finds a representative of each class by gradient ascent on the log confidence, inside the box.

    Args:
        logits: of ONE record of this shape. Its gradient is the attacker's white box; a model that is only
            known by its answers would need as many queries as there are features for each step.
        public: unlabelled records of the same kind, if the attacker has some. The search then keeps to what
            they vary in, a normal distribution with their mean and covariance: far better pictures.
        smoothness: how much neighbouring pixels are kept alike without public records; 0 for tables.
        starts: random beginnings, whose results are averaged: what they have in common is the class.

    Raises:
        DataError: the model cannot be asked or differentiated, or is not finite.

    Example:
        >>> found = invert(lambda x: x @ jnp.eye(2), (2,), [0, 1], steps=20, smoothness=0.0)
        >>> found.pictures.argmax(axis=1).tolist()
        [0, 1]
    """
    checks.count(steps=steps, starts=starts)
    checks.not_negative(smoothness=smoothness)
    low, high = box
    checks.finite(low=low, high=high)
    if low >= high:
        raise InvalidArgument(f"The box from {low:g} to {high:g} is empty.", remedy="Give (low, high).")
    classes = _classes(logits, shape)
    wrong = [label for label in labels if not 0 <= label < classes]
    if wrong or not len(labels):
        raise InvalidArgument(
            f"Labels {wrong or 'none'} are not among the {classes} classes of the model.",
            remedy="Count classes from 0, and give at least one.",
        )
    search = _free(shape, box, smoothness) if public is None else _among(public, shape, box)
    optimizer = optax.adam(search.rate)

    def cost(code: jax.Array, label: jax.Array) -> jax.Array:
        return -jax.nn.log_softmax(logits(search.record(code)))[label] + search.unlikeliness(code)

    def climb(key: jax.Array, label: jax.Array) -> jax.Array:
        start = search.spread * jax.random.uniform(key, search.code_shape, minval=-1)

        def step(state: ArrayTree, _: None) -> tuple[Any, None]:
            code, moments = state
            updates, moments = optimizer.update(jax.grad(cost)(code, label), moments)
            return (search.project(code + updates), moments), None

        (code, _), _ = jax.lax.scan(step, (start, optimizer.init(start)), None, length=steps)
        return search.record(code)

    @jax.jit
    def invert_all(key: jax.Array, wanted: jax.Array) -> tuple[jax.Array, jax.Array]:
        keys = jnp.tile(jax.random.split(key, starts), len(labels))
        each = jax.vmap(climb)(keys, jnp.repeat(wanted, starts))
        pictures = jnp.mean(each.reshape(len(labels), starts, *shape), axis=1)
        return pictures, jax.vmap(lambda x, label: jax.nn.softmax(logits(x))[label])(pictures, wanted)

    found, sure = map(np.asarray, invert_all(jax.random.key(seed, impl="threefry2x32"), jnp.asarray(labels)))
    if not np.isfinite(found).all() or not np.isfinite(sure).all():
        raise DataError(
            "The model's gradient is not finite somewhere in the box.",
            remedy="Give its logits, not probabilities that were rounded or cut.",
        )
    return Inverted(labels=tuple(map(int, labels)), pictures=found, confidences=sure)


# Where the search goes


class _Search(NamedTuple):
    """Records written as codes, and how unlikely a code is."""

    code_shape: tuple[int, ...]
    record: Callable[[jax.Array], jax.Array]
    unlikeliness: Callable[[jax.Array], jax.Array]
    project: Callable[[jax.Array], jax.Array]
    spread: float  # of the starts
    rate: float


def _free(shape: tuple[int, ...], box: tuple[float, float], smoothness: float) -> _Search:
    """Every record of the box is as good as any other; pictures are smooth."""
    low, high = box
    middle, width = (low + high) / 2, high - low
    return _Search(
        code_shape=shape,
        record=lambda code: middle + width * code,
        unlikeliness=lambda code: smoothness * roughness(code),
        project=lambda code: jnp.clip(code, -0.5, 0.5),
        spread=0.05,
        rate=0.03,
    )


def _among(public: ArrayLike, shape: tuple[int, ...], box: tuple[float, float]) -> _Search:
    """Records like the public ones: their mean, moved along the directions in which they vary most."""
    rows = np.asarray(public, float)
    if rows.shape[1:] != shape or len(rows) < FEWEST or not np.isfinite(rows).all():
        raise DataError(
            f"Public records of shape {rows.shape} do not help to find one of shape {shape}.",
            remedy=f"Give at least {FEWEST} finite records of that shape, better 1,000.",
        )
    flat = rows.reshape(len(rows), -1)
    mean = flat.mean(axis=0)
    _, sizes, directions = np.linalg.svd(flat - mean, full_matrices=False)
    kept = min(_MOST_DIRECTIONS, int(np.sum(sizes > 1e-6 * sizes[0])))
    moves = jnp.asarray(sizes[:kept, None] * directions[:kept] / math.sqrt(len(rows)), jnp.float32)
    centre = jnp.asarray(mean, jnp.float32)
    return _Search(
        code_shape=(kept,),
        record=lambda code: jnp.clip((centre + code @ moves).reshape(shape), *box),
        unlikeliness=lambda code: _CAUTION * jnp.sum(code**2) / 2,
        project=lambda code: code,
        spread=0.1,
        rate=0.1,
    )


def roughness(x: jax.Array) -> jax.Array:
    """The sum of differences between neighbouring pixels; 0 for records that are not pictures.

    Example:
        >>> bool(roughness(jnp.eye(3)) > roughness(jnp.ones((3, 3))))
        True
    """
    if x.ndim < 2:
        return jnp.float32(0)
    down, right = x[1:] - x[:-1], x[:, 1:] - x[:, :-1]
    return jnp.sum(jnp.sqrt(down**2 + 1e-6)) + jnp.sum(jnp.sqrt(right**2 + 1e-6))


def likeness(inverted: Inverted, class_means: Any, *, confidence: float = 0.95) -> Likeness:
    """Compares representatives with the mean record of every class.

    Args:
        class_means: (classes, *shape), of records that nobody need keep secret from whoever measures.

    Raises:
        DataError: other shapes, or a class mean that is constant or not finite.

    Example:
        >>> means = np.random.default_rng(0).random((3, 4))
        >>> found = Inverted(labels=(0, 1, 2), pictures=means, confidences=np.ones(3))
        >>> likeness(found, means).recognised.value
        1.0
    """
    means = np.asarray(class_means, float)
    pictures = inverted.pictures
    if means.ndim < 2 or means.shape[1:] != pictures.shape[1:] or len(means) <= max(inverted.labels):
        raise DataError(
            f"Class means have shape {means.shape}, representatives {pictures.shape}.",
            remedy="Give one mean record for each class, in the order of the labels, at least two.",
        )
    table = _directions(pictures) @ _directions(means).T
    if not np.isfinite(table).all():
        raise DataError(
            "A class mean or a representative is constant or not finite.",
            remedy="Leave that class out: nothing can be compared with it.",
        )
    rows, labels = np.arange(len(pictures)), np.array(inverted.labels)
    is_own = np.zeros(table.shape, bool)
    is_own[rows, labels] = True
    hits = int(np.sum(table.argmax(axis=1) == labels))
    return Likeness(
        table=table,
        own=float(table[is_own].mean()),
        others=float(table[~is_own].mean()) if len(means) > 1 else float("nan"),
        recognised=clopper_pearson(hits, len(labels), confidence=confidence),
    )


def _directions(rows: np.ndarray) -> np.ndarray:
    flat = rows.reshape(len(rows), -1)
    centred = flat - flat.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def _classes(logits: Logits, shape: tuple[int, ...]) -> int:
    try:
        found = jax.eval_shape(jax.grad(lambda x: jnp.sum(logits(x))), jnp.zeros(shape, jnp.float32))
        said = jax.eval_shape(logits, found)
    except ReticentError:
        raise
    except Exception as error:
        raise DataError(
            f"The model cannot be asked about a record of shape {shape}, or not differentiated: "
            f"{type(error).__name__}: {str(error).splitlines()[0]}",
            remedy="Give a JAX function from one record to its logits.",
        ) from error
    if said.ndim != 1 or said.shape[0] < 2:
        raise DataError(
            f"For one record the model gives an array of shape {said.shape}.",
            remedy="Give a function from one record to one logit per class.",
        )
    return said.shape[0]
