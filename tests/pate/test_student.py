"""The student overrules wrong answers, uses the pool, and says what does not fit."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.models import linear
from reticent.pate.asking import choose_far_apart, choose_settings
from reticent.pate.kernel import KernelBasis, Regression
from reticent.pate.learning import learn
from reticent.pate.propagation import neighbour_graph
from reticent.pate.scaling import PoolScale
from reticent.pate.student import fit_student, soft_labels


@pytest.fixture(scope="module")
def rings():
    """Two circles, one in the other: no plane divides them, near neighbours do."""
    source = np.random.default_rng(0)
    y = source.integers(2, size=400)
    angle = source.uniform(0, 2 * np.pi, 400)
    x = (1 + y)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return (x + 0.05 * source.standard_normal(x.shape)).astype(np.float32), y


def test_labels_follow_the_graph(rings) -> None:
    x, y = rings
    asked = np.concatenate([np.flatnonzero(y == 0)[:6], np.flatnonzero(y == 1)[:6]])
    shares = soft_labels(neighbour_graph(x), asked, y[asked], classes=2)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert (shares.argmax(axis=1) == y).mean() > 0.95
    elsewhere = neighbour_graph(np.random.default_rng(1).standard_normal((400, 2)))
    assert (soft_labels(elsewhere, asked, y[asked], classes=2).argmax(axis=1) == y).mean() < 0.7


def test_a_wrong_answer_is_overruled_by_its_neighbourhood(rings) -> None:
    x, y = rings
    asked = np.arange(0, 400, 2)
    answers = y[asked].copy()
    wrong = np.random.default_rng(2).permutation(200)[:12]  # 6 %
    answers[wrong] = 1 - answers[wrong]
    found = soft_labels(neighbour_graph(x), asked, answers, classes=2).argmax(axis=1)
    assert (found[asked[wrong]] == y[asked[wrong]]).mean() > 0.9


def test_counts_say_more_than_the_labels_they_give(rings) -> None:
    x, y = rings
    graph, source = neighbour_graph(x), np.random.default_rng(3)
    by_counts, by_labels = [], []
    for _ in range(10):
        counts = 100 * np.eye(2)[y] + 150 * source.standard_normal((400, 2))
        for answers, found in ((counts, by_counts), (counts.argmax(axis=1), by_labels)):
            found.append((soft_labels(graph, np.arange(400), answers, classes=2).argmax(axis=1) == y).mean())
    assert np.mean(by_counts) > np.mean(by_labels)


def test_the_graph_is_the_same_in_blocks(rings, monkeypatch) -> None:
    x, _ = rings
    whole = neighbour_graph(x).weights.toarray()
    monkeypatch.setattr("reticent.pate.propagation._AT_ONCE", 37)
    np.testing.assert_allclose(neighbour_graph(x).weights.toarray(), whole, atol=1e-5)
    assert abs(whole - whole.T).max() < 1e-6
    assert np.linalg.eigvalsh(whole.astype(float)).max() <= 1 + 1e-5
    assert whole.diagonal().max() == 0


def test_a_record_out_of_reach_stays_undecided() -> None:
    pool = np.concatenate([np.arange(10.0), 1000 + np.arange(10.0)])[:, None]
    shares = soft_labels(neighbour_graph(pool, neighbours=2), [3], [1], classes=2)
    assert shares[4, 1] > 0.9
    np.testing.assert_allclose(shares[10:], 0.5)


def test_learning_picks_the_graph_where_neighbours_are_alike_and_else_the_answers() -> None:
    source = np.random.default_rng(4)
    # Twenty tight clusters with labels of their own, against a plane through one cloud.
    middles, label_of = source.standard_normal((20, 8)), source.integers(2, size=20)
    cluster = source.integers(20, size=600)
    clustered = (middles[cluster] + 0.05 * source.standard_normal((600, 8))).astype(np.float32)
    cloud = source.standard_normal((600, 8)).astype(np.float32)
    for pool, y, way in (
        (clustered, label_of[cluster], "graph"),
        (cloud, (cloud[:, 0] > 0).astype(int), "direct"),
    ):
        asked = np.random.default_rng(0).permutation(600)[:200]
        counts = 100 * np.eye(2)[y[asked]] + 60 * source.standard_normal((200, 2))
        student = learn(pool, asked, counts, classes=2, teachers=100, sigma=60.0, centres=100)
        assert student.way == way
        assert (student.shares.argmax(axis=1) == y).mean() > 0.85


def test_the_published_model_says_what_the_student_says(rings) -> None:
    x, y = rings
    student = learn(x, np.arange(100), y[:100], classes=2, way="direct", centres=50)
    logits = jax.vmap(lambda row: student.model.apply(student.params, row))(x)
    assert (np.asarray(logits).argmax(axis=1) == student.shares.argmax(axis=1)).mean() > 0.99
    assert (np.asarray(logits).argmax(axis=1) == y).mean() > 0.95
    assert {name: leaf.shape for name, leaf in student.params.items()} == {
        name: start.shape for name, start in student.model.starts.items()
    }


def test_a_regression_is_the_same_from_either_side() -> None:
    source = np.random.default_rng(5)
    rows, values = source.standard_normal((30, 40)), source.standard_normal((30, 2))
    weights, bias = Regression(rows, 0.5)(values)
    ridge = np.linalg.solve(rows.T @ rows + 0.5 * np.eye(40), rows.T @ (values - values.mean(axis=0)))
    np.testing.assert_allclose(weights, ridge, atol=1e-4)
    np.testing.assert_allclose(bias, values.mean(axis=0))
    tall, _ = Regression(rows.T, 0.5)(np.zeros((40, 1)))
    assert tall.shape == (30, 1)


def test_more_noise_leans_more_on_the_others() -> None:
    x = np.linspace(-1, 1, 50)[:, None].astype(np.float32)
    values = np.where(np.arange(50) == 25, 5.0, 0.0)[:, None]
    coordinates = KernelBasis.of(x, centres=50)(x)
    at_spike = []
    for noise in (0.01, 10.0):
        weights, bias = Regression(coordinates, noise)(values)
        at_spike.append(float((coordinates[25] @ weights + bias)[0]))
    assert at_spike[0] > 2 * at_spike[1]


def test_a_model_of_ones_own_learns_from_soft_labels(rings) -> None:
    x, _ = rings
    y = (x[:, 0] > 0).astype(int)
    shares = 0.9 * np.eye(2)[y] + 0.05
    params = fit_student(linear(2, 2), x, shares, steps=30)
    scores = np.asarray(jax.vmap(lambda row: linear(2, 2).apply(params, row))(x))
    assert (scores.argmax(axis=1) == y).mean() > 0.97
    with pytest.raises(DataError, match="soft labels have shape"):
        fit_student(linear(2, 2), x, y)


@pytest.mark.parametrize(
    ("asked", "answers", "message"),
    [
        ([0, 1], [0], "2 records were asked about, and there are 1 answers"),
        ([0, 400], [0, 1], "from 0 to 399"),
        ([0, 1], [0, 2], "classes from 0 to 1"),
        ([0, 1], [[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], "counts"),
        ([0.5, 1.0], [0, 1], "not their labels or features"),
    ],
)
def test_answers_that_do_not_fit_are_refused(rings, asked, answers, message) -> None:
    with pytest.raises(DataError, match=message):
        soft_labels(neighbour_graph(rings[0]), asked, answers, classes=2)


def test_counts_without_their_noise_are_refused(rings) -> None:
    with pytest.raises(InvalidArgument, match="need the number of teachers"):
        learn(rings[0], [0, 1], np.ones((2, 2)), classes=2)


def test_questions_cover_the_pool() -> None:
    source = np.random.default_rng(6)
    pool = np.concatenate([source.standard_normal((990, 2)), [[30.0, 0], [0, 30], [-30, 0], [0, -30]]])
    chosen = choose_far_apart(pool, 30, seed=0)
    assert len(set(chosen)) == 30
    assert set(range(990, 994)) <= set(chosen)  # at random one would be there once in eight times
    assert sorted(choose_far_apart(pool, 5000, seed=0)) == list(range(994))
    copies = np.ones((10, 2))
    assert len(set(choose_far_apart(copies, 7, seed=0))) == 7


def test_scales_come_from_the_pool_and_rows_stay_their_own() -> None:
    source = np.random.default_rng(7)
    pool = np.stack([1e4 * source.standard_normal(200) + 5e4, source.integers(2, size=200)], axis=1)
    scale = PoolScale.of(pool)
    scaled = scale(pool)
    assert 0.9 < np.sqrt(np.square(scaled).sum(axis=1).mean()) < 1.1
    assert set(np.unique(scaled[:, 1])) == {0.0, np.float32(1 / scale.length)}
    np.testing.assert_array_equal(scale(pool[:3]), scaled[:3])
    assert np.abs(scale(np.array([[1e12, 0.0]]))).max() <= 4 / scale.length + 1e-6


@pytest.mark.parametrize("teachers", [3, 20, 250])
@pytest.mark.parametrize("pool", [50, 9000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_settings_spend_the_budget_and_no_more(teachers, pool, epsilon) -> None:
    from reticent.accounting.theorems import gaussian_dp

    chosen = choose_settings(teachers, 10, pool, epsilon, 1e-5)
    assert 1 <= chosen.queries <= pool
    spent = gaussian_dp.epsilon(np.sqrt(2 * chosen.queries) / chosen.sigma_vote, 1e-5)
    assert spent == pytest.approx(epsilon, rel=1e-6)
    assert spent <= epsilon
