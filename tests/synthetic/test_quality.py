"""Measures of quality: known answers, and what each of them is there to notice."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from reticent.core.errors import DataError
from reticent.core.keys import Keys
from reticent.synthetic.quality import privacy_metrics, utility
from reticent.synthetic.tables.table_model import TableModel, fit, plan

SIZES, ORDERED = (4, 3, 2), (True, False, False)


def rows(count: int, seed: int) -> np.ndarray:
    source = np.random.default_rng(seed)
    label = source.integers(0, 2, count)
    first = np.clip(label * 2 + source.integers(0, 2, count), 0, 3)
    return np.stack([first, source.integers(0, 3, count), label], axis=1).astype(np.int32)


@pytest.fixture(scope="module")
def model() -> TableModel:
    return fit(rows(3000, 0), plan(SIZES, 3000, 2.0, 1e-6, target=2), keys=Keys.seeded(0))


class Comonotone(TableModel):
    """The planted bug, as published: within a group, children are made in the same order."""

    def sample(
        self, n: int, source: int | np.random.Generator, given: Mapping[int, int] | None = None
    ) -> np.ndarray:
        codes = super().sample(n, source, given)
        for label in (0, 1):
            here = np.flatnonzero(codes[:, 2] == label)
            for column in (0, 1):
                codes[here, column] = np.sort(codes[here, column])
        return codes


def test_distances_have_their_known_values() -> None:
    first = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    second = np.array([[0, 0], [0, 0], [1, 1], [1, 1]])
    found = utility.distances(first, second, (2, 2))
    assert (found.single_mean, found.single_max) == (0, 0)
    assert (found.pair_mean, found.pair_max, found.worst_pair) == (0.5, 0.5, (0, 1))
    assert utility.distances(first[:, :1], second[:2, :1], (2,)).single_max == 0.5
    with pytest.raises(DataError, match="no rows"):
        utility.distances(first[:0], second, (2, 2))


def test_a_sampler_that_invents_correlations_fails_the_self_test(model: TableModel) -> None:
    assert utility.self_test(model, np.random.default_rng(0)).has_passed
    broken = Comonotone(model.plan, model.model, model.merging)
    found = utility.self_test(broken, np.random.default_rng(0))
    assert not found.has_passed
    assert found.worst_pair == (0, 1)
    assert found.to_json()["has_passed"] is False


def test_the_toy_of_the_published_bug(model: TableModel) -> None:
    codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 250, np.int32)
    toy = fit(codes, plan((2, 2), 1000, 5.0, 1e-6), keys=Keys.seeded(1))
    found = np.unique(toy.sample(1000, 0), axis=0, return_counts=True)[1]
    assert len(found) == 4
    assert np.abs(found - 250).max() < 60
    assert utility.self_test(toy, np.random.default_rng(0)).has_passed


def test_correlations_are_compared_where_there_are_numbers() -> None:
    source = np.random.default_rng(0)
    first = source.normal(size=500)
    real = {"a": first, "b": first + 0.1 * source.normal(size=500), "c": np.full(500, 3.0)}
    made = {"a": first, "b": source.normal(size=500), "c": np.full(500, 3.0)}
    made["a"][:50] = np.nan
    found = utility.correlations(made, real)
    assert found.max_error is not None
    assert 0.8 < found.max_error <= 1.1
    assert utility.correlations(real, real).max_error == pytest.approx(0)
    assert utility.correlations({"a": first}, {"a": first}).mean_error is None


def test_models_learn_from_good_rows_and_not_from_bad_ones(model: TableModel) -> None:
    test = rows(1000, 5)
    x_test = utility.one_hot(test, SIZES, without=2)
    made, real = model.sample(1500, 0), rows(1500, 9)
    noise = made.copy()
    noise[:, 2] = np.random.default_rng(0).permutation(noise[:, 2])
    scores = {
        name: utility.usefulness(utility.one_hot(x, SIZES, without=2), x[:, 2], x_test, test[:, 2])
        for name, x in {"made": made, "real": real, "noise": noise}.items()
    }
    assert [item.classifier for item in scores["made"]] == [
        "logistic regression",
        "gradient boosting",
        "decision tree",
    ]
    for made_one, real_one, noise_one in zip(scores["made"], scores["real"], scores["noise"], strict=True):
        assert made_one.auroc is not None
        assert real_one.auroc is not None
        assert noise_one.auroc is not None
        assert made_one.auroc > real_one.auroc - 0.05 > noise_one.auroc + 0.1
        assert made_one.accuracy > 0.9


def test_one_class_or_three_are_no_accident() -> None:
    x, x_test = np.random.default_rng(0).normal(size=(60, 2)), np.random.default_rng(1).normal(size=(30, 2))
    alone = utility.usefulness(x, np.zeros(60, int), x_test, np.arange(30) % 2)
    assert [(item.accuracy, item.auroc) for item in alone] == [(0.5, None)] * 3
    three = utility.usefulness(x, np.arange(60) % 3, x_test, np.arange(30) % 3)
    assert all(item.auroc is not None for item in three)
    unseen = utility.usefulness(x, np.arange(60) % 2, x_test, np.full(30, 1))
    assert all(item.auroc is None for item in unseen)


def test_the_nearest_row_has_its_known_distance() -> None:
    made = np.array([[0, 0, 0], [3, 2, 1]])
    records = np.array([[0, 0, 0], [1, 0, 0], [3, 2, 0], [2, 1, 1]])
    found = privacy_metrics.nearest(records, made, ORDERED, SIZES)
    assert found == pytest.approx([0, 1 / 9, 1 / 3, (1 / 3 + 1) / 3])


def test_copied_rows_are_found_out_and_private_ones_are_not() -> None:
    source, sizes, ordered = np.random.default_rng(0), (6,) * 6, (False,) * 6
    training, held_out = (source.integers(0, 6, (300, 6)).astype(np.int32) for _ in range(2))
    near, attack = privacy_metrics.nearness(training, training, held_out, ordered, sizes)
    assert near.training_exact == 1.0
    assert near.held_out_exact < 0.1
    assert attack.measured.auc.low > 0.9
    private = fit(training, plan(sizes, 300, 2.0, 1e-5), keys=Keys.seeded(0))
    near, attack = privacy_metrics.nearness(private.sample(300, 0), training, held_out, ordered, sizes)
    assert near.training_exact < 0.1
    assert attack.measured.auc.low < 0.6  # within what epsilon 2 allows: 0.88
    assert privacy_metrics.density_attack(private, training, held_out).measured.auc.low < 0.6
    assert (
        privacy_metrics.density_attack(private, training, held_out, reference=private).measured.auc.value
        == 0.5
    )
    with pytest.raises(DataError, match="too few"):
        privacy_metrics.nearness(training, training[:3], held_out, ordered, sizes)


def test_every_number_about_real_rows_is_marked(model: TableModel) -> None:
    real, other = rows(50, 1), rows(50, 2)
    made = model.sample(50, 0)
    x = utility.one_hot(real, SIZES, without=2)
    private = [
        utility.distances(made, real, SIZES),
        utility.correlations({}, {}),
        *utility.usefulness(x, real[:, 2], x, real[:, 2]),
        *privacy_metrics.nearness(made, real, other, ORDERED, SIZES),
        privacy_metrics.density_attack(model, real, other),
    ]
    assert all(item.to_json()["unreleased"] is True for item in private)
    assert utility.self_test(model, np.random.default_rng(0)).to_json()["unreleased"] is False
