"""Teachers learn from their own shard, start from keys of their own, and are compiled once."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from reticent.core.errors import DataError
from reticent.models import linear, mlp
from reticent.models.model import Model
from reticent.pate.partition import partition
from reticent.pate.propagation import neighbour_graph
from reticent.pate.teachers import teach, teach_estimators

TEACHERS = 5


@pytest.fixture(scope="module")
def task():
    """Three clusters that are easy to tell apart: 200 private records, 100 public ones."""
    source = np.random.default_rng(0)
    y = source.integers(3, size=300)
    x = (3 * np.eye(3, 6)[y] + source.standard_normal((300, 6))).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x[:200], y[:200], x[200:], y[200:]


def test_teachers_learn_and_every_record_moves_one_teacher(task) -> None:
    x, y, public, public_y = task
    shards = partition(200, TEACHERS, seed=0)
    before = teach(linear(6, 3), shards, x, y, steps=20)
    assert (before.vote(public) == public_y).mean() > 0.9
    changed_y = y.copy()
    changed_y[17] = (y[17] + 1) % 3
    after = teach(linear(6, 3), shards, x, changed_y, steps=20)
    moved = np.abs(np.asarray(before.params["w"]) - np.asarray(after.params["w"])).max(axis=(1, 2)) > 1e-6
    assert list(np.flatnonzero(moved)) == [shards.shard_of[17]]


def test_padding_teaches_nothing(task) -> None:
    x, y, *_ = task
    shards = partition(200, TEACHERS, seed=0)
    smallest = int(shards.sizes.argmin())
    assert shards.sizes[smallest] < shards.sizes.max()
    together = teach(linear(6, 3), shards, x, y, steps=10)
    moved = x.copy()
    moved[0] += 5  # what padding points at
    if shards.shard_of[0] == smallest:
        smallest = int(np.argsort(shards.sizes)[1])
    again = teach(linear(6, 3), shards, moved, y, steps=10)
    np.testing.assert_array_equal(together.params["w"][smallest], again.params["w"][smallest])


def test_every_teacher_starts_from_a_key_of_its_own(task) -> None:
    x, y, *_ = task
    shards = partition(200, TEACHERS, seed=0)
    zero = teach(mlp((6, 4, 3)), shards, x, y, steps=1, optimizer=_standing_still())
    starts = np.asarray(zero.params["dense1"]["w"]).reshape(TEACHERS, -1)
    assert len(np.unique(starts, axis=0)) == TEACHERS
    other = teach(mlp((6, 4, 3)), shards, x, y, steps=1, optimizer=_standing_still(), seed=1)
    assert (np.asarray(other.params["dense1"]["w"]).reshape(TEACHERS, -1) != starts).all()


def test_chunks_change_nothing_and_one_program_is_compiled(task) -> None:
    x, y, *_ = task
    shards = partition(200, TEACHERS, seed=0)
    traced = []
    model = linear(6, 3)

    def apply(params, row):
        traced.append(row)
        return model.apply(params, row)

    counted = Model(name="counted", description="", starts=model.starts, apply=apply)
    done: list[float] = []
    in_twos = teach(counted, shards, x, y, steps=10, chunk=2, on_progress=done.append)
    first = len(traced)
    teach(counted, shards, x, y, steps=10, chunk=TEACHERS)
    assert len(traced) == 2 * first  # as often for three chunks as for one
    assert done == [0.4, 0.8, 1.0]
    at_once = teach(model, shards, x, y, steps=10)
    np.testing.assert_allclose(in_twos.params["w"], at_once.params["w"], atol=1e-4)


def test_batches_are_drawn_from_the_own_shard(task) -> None:
    x, y, public, public_y = task
    shards = partition(200, TEACHERS, seed=0)
    teachers = teach(linear(6, 3), shards, x, y, steps=60, batch_size=8)
    assert (teachers.vote(public) == public_y).mean() > 0.85


@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC()])
def test_any_classifier_of_scikit_learn_teaches(task, estimator) -> None:
    x, y, public, public_y = task
    teachers = teach_estimators(estimator, partition(200, TEACHERS, seed=0), x, y, classes=3)
    alone = teachers.vote(public)
    assert alone.shape == (TEACHERS, 100)
    assert (alone == public_y).mean() > 0.9
    graph = neighbour_graph(public)
    assert (teachers.vote(public, smooth=graph.smooth) == public_y).mean() > 0.9
    assert not hasattr(estimator, "coef_")  # a clone was fitted, not this one


def test_a_shard_of_one_class_is_refused_before_any_fit(task) -> None:
    x, y, *_ = task
    shards = partition(200, TEACHERS, seed=0)
    alike = np.where(shards.shard_of == 2, 1, y)
    with pytest.raises(DataError, match="Shard 2 of 5"):
        teach_estimators(LogisticRegression(), shards, x, alike, classes=3)


def test_other_records_than_were_divided_are_refused(task) -> None:
    x, y, *_ = task
    with pytest.raises(DataError, match="200 records were divided"):
        teach(linear(6, 3), partition(200, TEACHERS, seed=0), x[:150], y[:150])


def _standing_still():
    import optax

    return optax.sgd(0.0)


def test_smoothing_is_done_for_each_teacher_alone(task) -> None:
    """Else a record would move the votes of several."""
    x, y, public, _ = task
    graph = neighbour_graph(public)
    teachers = teach(linear(6, 3), partition(200, TEACHERS, seed=0), x, y, steps=10)
    votes = teachers.vote(public, smooth=graph.smooth)
    params = jax.tree.map(lambda leaf: leaf.copy(), teachers.params)
    params["w"][3] *= -1
    changed = type(teachers)(model=teachers.model, count=TEACHERS, params=params)
    differs = (changed.vote(public, smooth=graph.smooth) != votes).any(axis=1)
    assert list(np.flatnonzero(differs)) == [3]
