"""What is not declared is found near where it lies, or refused; what a single row has is not shown."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from recording import separable
from scipy import sparse

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.whole import normal_grid
from reticent.sklearn import PrivateLogisticRegression, PrivateScaler, private_bounds
from reticent.sklearn.private_bounds import Finder, row_norms
from reticent.sklearn.spending import Spending


def finder(rows: int, *, seed: int = 0, epsilon: float = 1.0) -> tuple[Finder, Spending]:
    """A tenth of epsilon for one look at so many rows."""
    spending = Spending(
        epsilon=epsilon, delta=1e-6, adjacency="replace", examples=rows, keys=Keys.seeded(seed), budget=None
    )
    return Finder(spending, 0.1, 1), spending


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_the_norm_covers_most_rows_and_not_much_more(scale: float):
    x = scale * np.random.default_rng(0).normal(size=(3000, 8))
    for seed in range(20):
        found = finder(3000, seed=seed)[0].norm(x)
        assert np.mean(row_norms(x) <= found) > 0.8
        assert found < 2 * row_norms(x).max()


def test_on_few_rows_the_norm_is_that_of_standardised_columns():
    x = 1e6 * np.ones((5, 9))
    found = [finder(5, seed=seed)[0].norm(x) for seed in range(50)]
    assert 1.0 < np.median(found) < 9.0


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-5.0, 3.0), (20_000.0, 500_000.0), (-9.0, -7.0)])
def test_bounds_hold_most_targets(low: float, high: float):
    targets = np.random.default_rng(0).uniform(low, high, 5000)
    found, spending = finder(5000)
    least, most = found.bounds(targets)
    assert np.mean((least <= targets) & (targets <= most)) > 0.9
    assert most - least < 5 * (high - low) + 4 * max(abs(low), abs(high))
    assert tight(spending.event, 1e-9, Adjacency.REPLACE).upper <= 0.2 * (1 + 1e-9)


def test_bounds_of_few_targets_are_found_too():
    """With a fortieth of epsilon for each end, less than a third of them would be near the targets."""
    targets = np.random.default_rng(0).uniform(20_000, 90_000, 300)
    near = 0
    for seed in range(40):
        spending = Spending(
            epsilon=1.0,
            delta=1e-6,
            adjacency="add-or-remove",
            examples=300,
            keys=Keys.seeded(seed),
            budget=None,
        )
        low, high = Finder(spending, 0.1, 4).bounds(targets)
        near += bool(np.mean((low <= targets) & (targets <= high)) > 0.8 and -(2**17) <= low < high <= 2**19)
    assert near >= 34  # fewer by chance once in a million times, if one in fifty fails


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.5, 0.99])
def test_what_finds_bounds_leaves_something_for_the_fit(share: float):
    for rows, others in itertools.product([1, 100, 3000, 10**9], [0, 1]):
        spending = Spending(
            epsilon=2.0,
            delta=1e-12,
            adjacency="add-or-remove",
            examples=rows,
            keys=Keys.seeded(0),
            budget=None,
        )
        looking = Finder(spending, share, 2 + others)
        looking.bounds(np.linspace(0.0, 9.0, 50))
        for _ in range(others):
            looking.norm(np.ones((50, 2)))
        whole: Any = spending.event
        paid = sum(event.epsilon for event in whole.events)
        assert 0 < paid <= 2.0 - spending.left[0] + 1e-12
        assert spending.left[0] > 0


@pytest.mark.parametrize("adjacency", ["replace", "add-or-remove"])
def test_a_row_moves_the_scores_of_a_norm_by_what_is_charged(monkeypatch: pytest.MonkeyPatch, adjacency: str):
    """Rows of all lengths, one of them replaced, or removed while the declared number stays."""
    told = []

    def spied(key, scores, event, *, max_change):
        told.append((np.asarray(scores, np.float64), max_change * event.adjacency.reach))
        return 0

    monkeypatch.setattr(private_bounds, "exponential_mechanism", spied)
    x = np.geomspace(1e-4, 1e4, 30)[:, None] * np.ones((1, 4))
    neighbours = [np.vstack([x[1:], 1e9 * x[:1]])] if adjacency == "replace" else [x[1:], x[:-1]]
    for rows in [x, *neighbours]:
        spending = Spending(
            epsilon=1.0, delta=1e-6, adjacency=adjacency, examples=30, keys=Keys.seeded(0), budget=None
        )
        Finder(spending, 0.1, 1).norm(rows)
    (here, reach), *others = told
    changes = [np.abs(here - there).max() for there, _ in others]
    assert max(changes) <= reach
    assert max(changes) == pytest.approx(1.0)  # half of that would be too little


def test_counts_of_a_finder_lie_on_the_grid_of_their_release(monkeypatch: pytest.MonkeyPatch):
    released = []
    exact = PreparationNoise.noisy

    def spied(self, root, release, counts, columns):
        noisy = exact(self, root, release, counts, columns)
        deviation = self.multiplier(release) * np.sqrt(columns)
        _, step = normal_grid(1, max_norm=1.0, deviation=deviation, are_whole=True)
        released.append((release, noisy * round(1 / step), round(1 / step), (noisy - counts) / deviation))
        return noisy

    monkeypatch.setattr(PreparationNoise, "noisy", spied)
    finder(5000)[0].columns(np.random.default_rng(0).normal(size=(5000, 9)))
    finder(2900)[0].classes(np.array(["a"] * 1500 + ["b"] * 1400))
    assert [release for release, *_ in released] == [
        PreparationRelease.RANGES,
        PreparationRelease.QUANTILES,
        PreparationRelease.WORDS,
    ]
    for release, steps, parts, units in released:
        assert np.abs(steps - np.rint(steps)).max() <= 1e-12 * np.abs(steps).max()
        assert parts > 100
        if release is not PreparationRelease.WORDS:  # beyond these by chance once in a million times
            assert 0.8 < units.std() < 1.25


def test_frequent_classes_are_found_and_rare_ones_are_not_shown():
    labels = np.array(["a"] * 1500 + ["b"] * 1400 + ["only me"] + ["rare"] * 20)
    for seed in range(10):
        found, _ = finder(len(labels), seed=seed)
        assert list(found.classes(labels)) == ["a", "b"]


def test_where_classes_cannot_be_found_it_says_what_to_do():
    x, y = separable(60)
    with pytest.raises(InvalidArgument, match="classes='public'"):
        PrivateLogisticRegression(classes="private").fit(x, y)


def test_rows_of_a_class_that_was_not_found_count_without_features():
    x, y = separable(3000, classes=3)
    y = np.where(np.arange(3000) < 10, 9, y)
    model = PrivateLogisticRegression(method="output", norm=1.5, epsilon=3.0, classes="private").fit(x, y)
    assert list(model.classes_) == [0, 1, 2]
    assert model.score(x, y) > 0.9


def test_columns_are_brought_into_the_unit_interval():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.uniform(0, 90, 4000), rng.normal(size=4000), np.full(4000, 7.0)])
    scaler = PrivateScaler(epsilon=1.0).fit(x)
    moved = scaler.transform(x)
    assert np.abs(moved).max() <= 1
    assert moved[:, 0].min() < -0.8
    assert moved[:, 0].max() > 0.6  # where the noise leaves a choice, bounds are wide
    assert np.abs(scaler.transform(1e9 * x)).max() <= 1
    assert scaler.transform(x.astype(np.float32)).dtype == np.float32


def test_a_column_of_which_nothing_is_seen_is_clipped_and_named():
    scaler = PrivateScaler().fit(np.random.default_rng(0).normal(size=(50, 2)))
    assert "columns [0, 1]" in scaler.notes_[0]
    assert np.array_equal(scaler.bounds_, [[-1, 1], [-1, 1]])


def test_bounds_may_be_declared_for_each_column():
    x = np.array([[0.0, 10.0], [1.0, 30.0]])
    scaler = PrivateScaler(bounds=[(0, 1), (10, 20)]).fit(x)
    assert np.array_equal(scaler.transform(x), [[-1, -1], [1, 1]])
    with pytest.raises(InvalidArgument, match="smallest and a largest"):
        PrivateScaler(bounds=(1.0, 0.0)).fit(x)


def test_lengths_do_not_overflow():
    x = np.array([[3e200, 4e200], [0.0, 0.0], [3e-200, 4e-200]])
    assert row_norms(x) == pytest.approx([5e200, 0.0, 5e-200])
    assert row_norms(sparse.csr_array(x)) == pytest.approx([5e200, 0.0, 5e-200])
