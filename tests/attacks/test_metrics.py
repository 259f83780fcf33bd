"""The numbers: in closed form for normal scores, and covered by their intervals as often as promised."""

from __future__ import annotations

import json

import numpy as np
import pytest
from leaky_models import normal_scores
from scipy.stats import binom, norm

from reticent.attacks import metrics
from reticent.attacks.scores import Scores
from reticent.core.errors import InvalidArgument

TRIALS = 400


def true_tpr(shift: float, rate: float) -> float:
    return float(norm.sf(norm.isf(rate) - shift))


def too_many_misses(level: float) -> int:
    """More misses than this in all trials have a probability below 1e-6 if the promise is kept."""
    return int(binom.isf(1e-6, TRIALS, 1 - level))


@pytest.mark.parametrize("shift", [0.0, 0.5, 2.0])
def test_large_samples_show_the_closed_form(shift: float):
    scores = normal_scores(200_000, 200_000, shift, seed=1)
    measured = metrics.measure(scores)
    assert measured.auc.value == pytest.approx(norm.cdf(shift / 2**0.5), abs=0.004)
    assert measured.advantage.value == pytest.approx(2 * norm.cdf(shift / 2) - 1, abs=0.006)
    for found in measured.tpr_at_fpr:
        wanted = true_tpr(shift, found.false_positive_rate)
        assert found.true_positive_rate.low <= wanted <= found.true_positive_rate.high
        assert found.true_positive_rate.value == pytest.approx(wanted, rel=0.15, abs=0.0005)


@pytest.mark.parametrize(
    ("shift", "members", "outsiders"), [(0.0, 40, 60), (1.0, 40, 60), (2.5, 30, 200), (1.0, 300, 300)]
)
def test_the_interval_of_the_area_covers_the_truth(shift: float, members: int, outsiders: int):
    truth = norm.cdf(shift / 2**0.5)
    found = [metrics.auc(normal_scores(members, outsiders, shift, seed=seed)) for seed in range(TRIALS)]
    missed = sum(not each.low <= truth <= each.high for each in found)
    assert missed <= too_many_misses(0.95)


@pytest.mark.parametrize(("shift", "rate"), [(0.0, 0.01), (1.5, 0.01), (1.5, 0.1)])
def test_the_interval_of_the_rate_covers_the_truth(shift: float, rate: float):
    truth = true_tpr(shift, rate)
    found = [
        metrics.tpr_at_fpr(normal_scores(300, 500, shift, seed=seed), rate).true_positive_rate
        for seed in range(TRIALS)
    ]
    missed = sum(not each.low <= truth <= each.high for each in found)
    assert missed <= too_many_misses(0.95)


def test_an_interval_for_the_threshold_alone_would_miss():
    """Clopper-Pearson at the threshold found, as often reported, misses the truth far more often."""
    truth, missed = true_tpr(1.5, 0.01), 0
    for seed in range(TRIALS):
        scores = normal_scores(300, 500, 1.5, seed=seed)
        value = metrics.tpr_at_fpr(scores, 0.01).true_positive_rate.value
        naive = metrics.clopper_pearson(round(value * 300), 300)
        missed += not naive.low <= truth <= naive.high
    assert missed > too_many_misses(0.95)


def test_the_interval_of_the_advantage_covers_the_truth():
    truth = 2 * norm.cdf(0.5) - 1
    found = [metrics.advantage(normal_scores(100, 150, 1.0, seed=seed)) for seed in range(TRIALS)]
    assert sum(not each.low <= truth <= each.high for each in found) <= too_many_misses(0.95)


def test_too_few_outsiders_are_said_aloud():
    few = metrics.tpr_at_fpr(normal_scores(400, 400, 3.0, seed=0), 0.001)
    assert not few.is_resolved
    assert "Not enough outsiders: 400 cannot resolve a false-positive rate of 0.1%" in few.note
    assert few.true_positive_rate.low == 0
    enough = metrics.tpr_at_fpr(normal_scores(400, 10_000, 3.0, seed=0), 0.001)
    assert enough.is_resolved
    assert enough.note == ""


def test_no_more_outsiders_pass_than_the_rate_allows():
    scores = normal_scores(1000, 1000, 1.0, seed=5)
    found = metrics.tpr_at_fpr(scores, 0.01).true_positive_rate.value
    false, true = metrics.roc(scores)
    assert found == true[false <= 0.01].max()


def test_perfect_scores_are_not_taken_for_certainty():
    scores = Scores(members=np.arange(20) + 100.0, outsiders=np.arange(20.0))
    area = metrics.auc(scores)
    assert area.value == area.high == 1
    assert 0.8 < area.low < 0.9
    assert metrics.auc(Scores(members=scores.outsiders, outsiders=scores.members)).value == 0


def test_ties_count_half():
    scores = Scores(members=np.ones(50), outsiders=np.ones(50))
    assert metrics.auc(scores).value == 0.5
    assert metrics.advantage(scores).value == 0
    assert metrics.tpr_at_fpr(scores, 0.1).true_positive_rate.value == 0


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"), [(0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129), (10, 10, 0.6915, 1.0)]
)
def test_clopper_pearson_has_the_tabulated_ends(hits: int, trials: int, low: float, high: float):
    found = metrics.clopper_pearson(hits, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def test_a_decision_counts_right_and_wrong():
    scores = Scores(members=np.repeat([1.0, 0.0], [30, 10]), outsiders=np.repeat([1.0, 0.0], [10, 30]))
    found = metrics.decide(scores, 0.5)
    assert found.precision.value == 0.75
    assert found.recall.value == 0.75
    assert found.false_positive_rate.value == 0.25
    assert found.balanced_accuracy == 0.75


def test_swapped_sides_turn_the_curve_around():
    scores = normal_scores(500, 500, 1.0, seed=2)
    swapped = Scores(members=scores.outsiders, outsiders=scores.members)
    flipped = Scores(members=-scores.members, outsiders=-scores.outsiders)
    right, wrong = metrics.auc(scores), metrics.auc(swapped)
    assert wrong.value == pytest.approx(1 - right.value)
    assert wrong.high < 0.5 < right.low
    assert metrics.auc(flipped).value == pytest.approx(1 - right.value)


def test_classes_are_told_apart():
    random = np.random.default_rng(0)
    labels = np.repeat([0, 1], 200)
    scores = Scores(
        members=random.normal(size=400) + 3.0 * labels,
        outsiders=random.normal(size=400),
        member_labels=labels,
        outsider_labels=labels,
    )
    found = metrics.per_class(scores)
    assert found[0].auc.low < 0.5 < found[0].auc.high
    assert found[1].auc.low > 0.95
    with pytest.raises(InvalidArgument, match="have no labels"):
        metrics.per_class(normal_scores(20, 20, 0, seed=0))


def test_records_are_told_apart():
    random = np.random.default_rng(0)
    is_member = np.arange(40)[:, None] % 2 == np.zeros(3, int)
    scores = random.normal(size=(40, 3)) + is_member * np.array([0.0, 0.0, 9.0])
    found = metrics.per_record(scores, is_member)
    assert found[2] == 1
    assert abs(found[0] - 0.5) < 0.3
    assert np.isnan(metrics.per_record(scores, np.ones((40, 3), bool))).all()


def test_an_attack_without_signal_stays_in_the_band():
    grid = np.array([0.001, 0.01, 0.1, 0.5])
    low, high = metrics.no_signal_band(500, 2000, grid)
    outside = np.zeros(4)
    for seed in range(TRIALS):
        scores = normal_scores(500, 2000, 0.0, seed=seed)
        found = [metrics.tpr_at_fpr(scores, rate).true_positive_rate.value for rate in grid]
        outside += (found < low) | (found > high)
    assert (outside <= too_many_misses(0.95)).all()


def test_what_was_measured_is_json():
    found = metrics.measure(normal_scores(50, 50, 1.0, seed=0)).to_json()
    assert json.loads(json.dumps(found)) == found
    assert list(found)[:3] == ["tpr_at_fpr", "auc", "advantage"]
