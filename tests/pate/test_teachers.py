"""Teachers learn from their own shard, start from keys of their own, and are compiled once."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from reticent.core.errors import DataError
from reticent.models import linear, mlp
from reticent.models.model import Model
from reticent.pate.partition import Shards, partition
from reticent.pate.propagation import neighbour_graph
from reticent.pate.teachers import Teachers, teach, teach_estimators

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
    moved[0] += 5
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


def bits_of(teachers: Teachers) -> list[bytes]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(teachers.params)]
    return [b"".join(leaf[number].tobytes() for leaf in leaves) for number in range(teachers.count)]


@pytest.mark.parametrize("by_content", [True, False], ids=["coins by content", "coins by place"])
def test_one_record_less_changes_no_bit_of_another_teacher(by_content: bool) -> None:
    """At 232 and 231 rows the room of a shard used to differ, and all 8 teachers with it."""
    source = np.random.default_rng(232)
    x = source.normal(size=(232, 20)).astype(np.float32)
    y = (x[:, 0] + 0.3 * source.normal(size=232) > 0).astype(np.int32)
    whole = partition(232, 8, examples=232, seed=0, content=(x, y) if by_content else None)
    before = bits_of(teach(linear(20, 2), whole, x, y))
    for removed in (231, 100, 0):
        fewer_x, fewer_y = np.delete(x, removed, axis=0), np.delete(y, removed)
        if by_content:
            fewer = partition(231, 8, examples=232, seed=0, content=(fewer_x, fewer_y))
        else:  # coins that are as likely
            fewer = replace(partition(231, 8, examples=232), shard_of=np.delete(whole.shard_of, removed))
        after = bits_of(teach(linear(20, 2), fewer, fewer_x, fewer_y))
        changed = [number for number in range(8) if before[number] != after[number]]
        assert changed == [whole.shard_of[removed]]


@pytest.mark.parametrize(
    ("model", "batch_size"),
    [(linear(6, 3), None), (mlp((6, 4, 3)), 8)],
    ids=["linear on whole shards", "mlp on batches"],
)
def test_whatever_a_record_holds_reaches_one_teacher(task, model, batch_size) -> None:
    """Record 0 used to stand in all padding: with 3e38 or NaN in it every teacher became NaN."""
    x, y, public, _ = task
    x = x.astype(np.float64)
    shards = partition(200, TEACHERS, seed=0)
    before = teach(model, shards, x, y, steps=5, batch_size=batch_size)
    for record, worst in [(0, 3e38), (0, -np.inf), (0, np.nan), (17, -3e38), (17, np.inf), (17, 1e300)]:
        changed_x = x.copy()
        changed_x[record] = worst
        after = teach(model, shards, changed_x, y, steps=5, batch_size=batch_size)
        others = np.arange(TEACHERS) != shards.shard_of[record]
        assert (np.array(bits_of(before)) == np.array(bits_of(after)))[others].all(), (record, worst)
        assert (before.vote(public) != after.vote(public)).sum(axis=0).max() <= 1, (record, worst)


def test_what_is_not_finite_counts_as_zero(task) -> None:
    x, y, *_ = task
    shards = partition(200, TEACHERS, seed=0)
    x[3, 2], broken = 0, x.copy()
    broken[3, 2] = np.nan
    one, other = (teach(linear(6, 3), shards, rows, y, steps=5) for rows in (x, broken))
    assert bits_of(one) == bits_of(other)


@pytest.mark.parametrize("worst", [3e38, np.inf, np.nan, 1e300])
@pytest.mark.parametrize("estimator", [LogisticRegression(), DecisionTreeClassifier(random_state=0)])
def test_whatever_a_record_holds_reaches_one_estimator_and_ends_in_no_error(task, worst, estimator) -> None:
    x, y, public, _ = task
    x = x.astype(np.float64)
    shards = partition(200, TEACHERS, seed=0)
    before = teach_estimators(estimator, shards, x, y, classes=3).vote(public)
    for record, label in ((0, y[0]), (17, -1), (17, 3)):
        changed_x, changed_y = x.copy(), y.copy()
        changed_x[record], changed_y[record] = worst, label
        after = teach_estimators(estimator, shards, changed_x, changed_y, classes=3).vote(public)
        assert set(np.flatnonzero((before != after).any(axis=1))) <= {shards.shard_of[record]}


def _taught_by_jax(shards, x, y):
    return teach(linear(6, 3), shards, x, y, steps=3)


def _taught_by_estimators(shards, x, y):
    return teach_estimators(LogisticRegression(), shards, x, y, classes=3)


@pytest.mark.parametrize("taught", [_taught_by_jax, _taught_by_estimators])
@pytest.mark.parametrize("is_smooth", [False, True])
def test_a_shard_of_one_class_votes_for_it_and_an_empty_one_for_the_first(task, taught, is_smooth) -> None:
    """A refusal would tell what the labels are: for two tables that differ in one of them, or in none."""
    x, y, public, _ = task
    shard_of = partition(200, TEACHERS, seed=0).shard_of
    shards = Shards(shard_of=np.where(shard_of == 3, 4, shard_of), teachers=TEACHERS, capacity=120)
    alike = np.where(shards.shard_of == 2, 1, y)
    smooth = neighbour_graph(public).smooth if is_smooth else None
    votes = taught(shards, x, alike).vote(public, smooth=smooth)
    assert (votes[2] == 1).all()
    assert (votes[3] == 0).all()
    assert all(len(set(votes[number])) == 3 for number in (0, 1, 4))
    nobody = taught(partition(0, TEACHERS, examples=200), x[:0], y[:0]).vote(public)
    assert (nobody == 0).all()


class Choosy(LogisticRegression):
    """Refuses records that are longer than made-up ones."""

    def fit(self, X, y, sample_weight=None):  # noqa: N803
        if np.abs(X).max() > 1.5:
            raise ValueError("too long")
        return super().fit(X, y, sample_weight)


def test_a_shard_that_a_classifier_refuses_votes_for_its_most_frequent_class(task) -> None:
    x, y, public, _ = task
    shards = partition(200, TEACHERS, seed=0)
    far = x.copy()
    far[17] = 2.0
    before, after = (teach_estimators(Choosy(), shards, rows, y, classes=3).vote(public) for rows in (x, far))
    own = shards.shard_of[17]
    assert (after[own] == np.bincount(y[shards.shard_of == own]).argmax()).all()
    assert (np.delete(before, own, axis=0) == np.delete(after, own, axis=0)).all()


def test_a_classifier_that_refuses_everything_is_noticed(task) -> None:
    x, y, *_ = task
    with pytest.raises(ValueError, match="'C' parameter"):
        teach_estimators(LogisticRegression(C=-1.0), partition(200, TEACHERS, seed=0), x, y, classes=3)


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
