"""Teachers: one model per shard, all trained at once, and their votes about public records.

A teacher needs no noise: what protects a record is that it can change the votes of one teacher only.
Nothing of a teacher may be published, and neither may a single vote. Even whether a teacher could be trained
is private, so no record, whatever it holds, causes an error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.core.observer import OnProgress
from reticent.core.trees import ArrayTree
from reticent.distributed.spread import Spread
from reticent.models.losses import classification_loss
from reticent.models.model import Model, Params
from reticent.pate.partition import Shards

Smooth = Callable[[np.ndarray], np.ndarray]  # (queries, columns) -> (queries, columns)

_ROOM = 2**28  # bytes of the inputs of teachers that are trained together
_QUERIES_AT_ONCE = 4096
_REHEARSED = 20  # made-up records per class


@dataclass(frozen=True, kw_only=True)
class Teachers:
    """Trained teachers of one kind. Their parameters are private: nothing of them may be published.

    Args:
        params: a tree of arrays with one more axis in front: (teachers, ...).
        only: (teachers,) the class that a teacher votes for whatever is asked, because its shard has no other
            (0 for an empty shard); negative for one that has learned to tell classes apart.
    """

    model: Model
    count: int
    params: Params = field(repr=False)
    only: np.ndarray | None = field(default=None, repr=False)

    def vote(
        self, x: Any, *, smooth: Smooth | None = None, on_progress: OnProgress = lambda done: None
    ) -> np.ndarray:
        """The class that each teacher gives each public record: (teachers, queries) int32.

        Args:
            smooth: from the probabilities of the whole public pool to better ones, by public data alone
                (`propagation.Graph.smooth`). Those of each teacher are smoothed separately, so that a record
                still moves only one teacher.
            on_progress: called with the fraction done, from 0 to 1.
        """
        x = np.asarray(x)
        labels = np.empty((self.count, len(x)), np.int32)
        for start in range(0, self.count, self._spread.count):  # one teacher per device
            group = slice(start, start + self._spread.count)
            for teacher, found in enumerate(self._probabilities(group, x), start):
                found = np.nan_to_num(found, nan=0.0)  # of a teacher whose training blew up
                labels[teacher] = (found if smooth is None else smooth(found)).argmax(axis=1)
                on_progress((teacher + 1) / self.count)
        if self.only is None:
            return labels
        return np.where(self.only[:, None] >= 0, self.only[:, None], labels).astype(np.int32)

    def _probabilities(self, group: slice, x: np.ndarray) -> np.ndarray:
        """(teachers of the group, queries, classes)"""
        params = jax.tree.map(lambda leaf: leaf[group], self.params)
        pieces = []
        for start in range(0, len(x), _QUERIES_AT_ONCE):
            piece = x[start : start + _QUERIES_AT_ONCE]
            room = min(_QUERIES_AT_ONCE, len(x)) - len(piece)
            filled = np.pad(piece, [(0, room)] + [(0, 0)] * (x.ndim - 1))
            pieces.append(self._ask(params, filled)[:, : len(piece)])
        return np.concatenate(pieces, axis=1)

    @cached_property
    def _spread(self) -> Spread:
        return Spread()

    @cached_property
    def _ask(self) -> Callable[[Params, np.ndarray], np.ndarray]:
        def ask(params: Params, x: jax.Array) -> jax.Array:
            only = jax.tree.map(lambda leaf: leaf[0], params)  # the teacher of this device
            return jax.nn.softmax(jax.vmap(lambda row: self.model.apply(only, row))(x))[None]

        return self._spread.over(ask, shared=1)


def teach(
    model: Model,
    shards: Shards,
    x: ArrayLike,  # (records, ...)
    y: ArrayLike,  # (records,)
    *,
    optimizer: optax.GradientTransformation | None = None,
    steps: int = 50,
    batch_size: int | None = None,
    shrinkage: float = 2e-4,
    chunk: int | None = None,
    seed: int = 0,
    on_progress: OnProgress = lambda done: None,
) -> Teachers:
    """Trains one model on every shard; many at once, compiled once, on all devices.

    Args:
        x, y: all private records: inputs of the model, and classes counted from 0 (negative: no label).
            A number that is not finite counts as 0.
        optimizer: Adam with a rate that falls from 1 to zero, unless given: right for a linear model on
            features of length 1. A deeper network needs a smaller one.
        batch_size: records per step, drawn from the shard with replacement; without one each step sees the
            whole shard.
        shrinkage: half the squared length of all matrices times this is added to the loss.
        chunk: teachers trained together, at least one on each device; without one as many as take a quarter
            of a gigabyte there.
        seed: each teacher starts, and draws batches, by a key of its own.
        on_progress: called with the fraction done, from 0 to 1.

    Edge cases:
        an empty shard           its teacher always votes for class 0
        a shard of one class     its teacher always votes for that class
        NaN or infinity          counts as 0; a teacher whose training diverged still votes

    Guarantee:
        The parameters of a teacher are a function of the seed, its number, its shard and public shapes: the
        records of other shards do not change a bit of them, whatever they hold.

    Example:
        >>> from reticent.models.linear import linear
        >>> from reticent.pate.partition import partition
        >>> x, y = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32), np.arange(60) % 2
        >>> teachers = teach(linear(2, 2), partition(60, 3, seed=0), x, y, steps=2)
        >>> teachers.vote(x[:5]).shape
        (3, 5)
    """
    x, y = np.asarray(x), np.asarray(y).astype(np.int32)
    _require_same_records(shards, x, y)
    with np.errstate(over="ignore"):  # too large for the type that JAX computes in: not finite
        x = x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)
    checks.count(steps=steps)
    checks.not_negative(shrinkage=shrinkage)
    row_bytes = 4 * max(int(np.prod(x.shape[1:])), 1)
    spread = Spread()
    at_once = spread.count * max(_ROOM // (row_bytes * shards.capacity), 1) if chunk is None else chunk
    checks.count(chunk=at_once)
    at_once = spread.room_for(min(at_once, shards.teachers))
    optimizer = optax.adam(optax.linear_schedule(1.0, 0.0, steps)) if optimizer is None else optimizer
    one = _one_teacher(model, optimizer, steps, batch_size, shrinkage)
    many = spread.over(jax.vmap(one))
    root = jax.random.key(seed, impl="threefry2x32")  # rbg keys all draw alike under vmap
    parts = []
    for teachers in _chunks(shards.teachers, at_once):
        keys = jax.vmap(lambda teacher: jax.random.fold_in(root, teacher))(jnp.asarray(teachers))
        rows, labels = _finite(shards.gather(x, teachers)), shards.gather(y, teachers)
        parts.append(many(keys, rows, labels, shards.is_real[teachers]))
        on_progress(min(len(parts) * at_once / shards.teachers, 1.0))
    params = jax.tree.map(lambda *leaves: np.concatenate(leaves)[: shards.teachers], *parts)
    only = np.array([_only_class(y[rows]) for rows in shards], np.int32)
    return Teachers(model=model, count=shards.teachers, params=params, only=only)


def _require_same_records(shards: Shards, x: Any, y: np.ndarray) -> None:
    if not x.shape[0] == len(y) == len(shards.shard_of):
        raise DataError(
            f"{len(shards.shard_of)} records were divided; "
            f"there are {x.shape[0]} inputs and {len(y)} labels.",
            remedy="Pass the same records that were divided.",
        )


def _finite(records: np.ndarray) -> np.ndarray:
    """Replaces what is not finite by 0."""
    return np.nan_to_num(records, nan=0.0, posinf=0.0, neginf=0.0)


def _only_class(labels: np.ndarray) -> int:
    """The only class of a shard, 0 for an empty shard; -1 if there are several."""
    known = labels[labels >= 0]
    if len(known) == 0:
        return 0
    return int(known[0]) if (known == known[0]).all() else -1


def _chunks(teachers: int, chunk: int) -> Iterator[np.ndarray]:
    """Teacher numbers in chunks of one size: the last is padded, which is cheaper than compiling again."""
    for start in range(0, teachers, chunk):
        yield np.minimum(np.arange(start, start + chunk), teachers - 1)


def _one_teacher(
    model: Model,
    optimizer: optax.GradientTransformation,
    steps: int,
    batch_size: int | None,
    shrinkage: float,
) -> Callable[..., Params]:
    loss = classification_loss(model)

    def mean_loss(params: Params, x: jax.Array, y: jax.Array, weights: jax.Array) -> jax.Array:
        losses = jax.vmap(lambda x, y: loss(params, {"x": x, "y": y}))(x, y)
        matrices = [leaf for leaf in jax.tree.leaves(params) if leaf.ndim > 1]
        length = sum((jnp.vdot(leaf, leaf) for leaf in matrices), jnp.float32(0))
        return jnp.vdot(losses, weights) / jnp.maximum(weights.sum(), 1) + shrinkage / 2 * length

    def one(key: jax.Array, x: jax.Array, y: jax.Array, is_real: jax.Array) -> Params:
        start_key, batch_key = jax.random.split(key)
        weights = is_real.astype(jnp.float32)
        params = model.init(start_key)

        def step(state: ArrayTree, number: jax.Array) -> tuple[Any, None]:
            params, moments = state
            batch = (x, y, weights)
            if batch_size is not None:  # real records stand first
                own = jax.random.fold_in(batch_key, number)
                rows = jax.random.randint(own, (batch_size,), 0, jnp.maximum(is_real.sum(), 1))
                batch = (x[rows], y[rows], weights[rows])
            updates, moments = optimizer.update(jax.grad(mean_loss)(params, *batch), moments, params)
            return (optax.apply_updates(params, updates), moments), None

        (params, _), _ = jax.lax.scan(step, (params, optimizer.init(params)), jnp.arange(steps))
        return params

    return one


@dataclass(frozen=True, kw_only=True)
class TeacherEstimators:
    """Fitted scikit-learn classifiers, one per shard, that know `classes` classes between them."""

    classes: int
    estimators: tuple[Any, ...] = field(repr=False)

    @property
    def count(self) -> int:
        return len(self.estimators)

    def vote(
        self, x: Any, *, smooth: Smooth | None = None, on_progress: OnProgress = lambda done: None
    ) -> np.ndarray:
        """The class that each estimator gives each record: (teachers, queries); see `Teachers.vote`."""
        labels = np.empty((self.count, len(x)), np.int32)
        for teacher, estimator in enumerate(self.estimators):
            if smooth is None:
                labels[teacher] = estimator.predict(x)
            else:
                labels[teacher] = smooth(self._shares(estimator, x)).argmax(axis=1)
            on_progress((teacher + 1) / self.count)
        return labels

    def _shares(self, estimator: Any, x: Any) -> np.ndarray:
        """(queries, classes): probabilities, or ones for predictions where there are none."""
        shares = np.zeros((len(x), self.classes), np.float32)
        if hasattr(estimator, "predict_proba"):
            shares[:, np.asarray(estimator.classes_, int)] = np.nan_to_num(estimator.predict_proba(x))
        else:
            shares[np.arange(len(x)), estimator.predict(x)] = 1
        return shares


@dataclass(frozen=True)
class _Always:
    """The teacher of a shard that has one class, or of one that nothing can be fitted to."""

    label: int

    def predict(self, x: Any) -> np.ndarray:
        return np.full(len(x), self.label)


def teach_estimators(
    estimator: Any,
    shards: Shards,
    x: Any,  # (records, features)
    y: ArrayLike,  # (records,)
    *,
    classes: int,
    on_progress: OnProgress = lambda done: None,
) -> TeacherEstimators:
    """Fits a clone of any scikit-learn classifier on every shard, one after the other.

    A shard of one class votes for that class whatever is asked, and an empty one for class 0. One that the
    classifier refuses votes for its most frequent class: an error would tell something about its records.
    A clone is fitted to made-up records first, so that a classifier that refuses everything is noticed.

    Args:
        x: all private records. A number that is not finite counts as 0.
        y: classes counted from 0. A record with another label than those teaches nobody.
        classes: how many there are: public.

    Example:
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from reticent.pate.partition import partition
        >>> x, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
        >>> teachers = teach_estimators(GaussianNB(), partition(60, 3, seed=0), x, y, classes=2)
        >>> teachers.vote(x[:5]).shape
        (3, 5)
    """
    from sklearn.base import clone
    from threadpoolctl import threadpool_limits

    checks.count(classes=classes)
    x, y = x if hasattr(x, "shape") else np.asarray(x), np.asarray(y).astype(int)
    _require_same_records(shards, x, y)
    is_dense = isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.number) and x.ndim == 2
    fitted: list[Any] = []
    # Small fits: several threads spend their time on waiting for each other.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about private records
        if is_dense:
            _rehearse(clone(estimator), x.shape[1], classes)
        for rows in shards:
            known = rows[(y[rows] >= 0) & (y[rows] < classes)]
            records = _finite(x[known]) if is_dense else x[known]
            fitted.append(_fit_teacher(clone(estimator), records, y[known]))
            on_progress(len(fitted) / shards.teachers)
    return TeacherEstimators(classes=classes, estimators=tuple(fitted))


def _rehearse(estimator: Any, columns: int, classes: int) -> None:
    """Fits made-up records first, so that an error of the estimator itself is raised."""
    labels = np.arange(_REHEARSED * max(classes, 2)) % max(classes, 2)
    estimator.fit(np.random.default_rng(0).random((len(labels), columns), np.float32), labels)


def _fit_teacher(estimator: Any, x: ArrayLike, y: np.ndarray) -> Any:
    only = _only_class(y)
    if only >= 0:
        return _Always(only)
    try:
        return estimator.fit(x, y)
    except Exception:  # noqa: BLE001 - whatever it is, it tells something about this shard
        return _Always(int(np.bincount(y).argmax()))
