"""Every attack: chance where nothing leaks, more where something does, and broken ones are caught."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from leaky_models import shadows
from scipy.stats import norm

from reticent.attacks import battery, metrics
from reticent.attacks.membership import (
    entropy,
    likelihood,
    population,
    relative,
    shadow_classifier,
    threshold,
)
from reticent.attacks.membership.games import ATTACKS
from reticent.attacks.scores import Outputs, Scores
from reticent.attacks.shadows.outputs import Accuracies, Shadows, check_alike
from reticent.attacks.signals import signals_of
from reticent.core.errors import DataError, InvalidArgument

WIDE = 0.999  # of intervals: eleven attacks and three seeds give a false alarm once in thirty suites


def planted_robustness(models: Shadows) -> np.ndarray:
    assert models.robustness is not None
    return models.robustness


@cache
def without_leak(seed: int) -> battery.Battery:
    return battery.run(shadows(0.0, seed=seed))


@cache
def with_leak() -> battery.Battery:
    return battery.run(shadows(2.0, seed=1))


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_nothing_where_nothing_leaks(name: str, seed: int):
    scores = without_leak(seed)[name].scores
    area = metrics.auc(scores, confidence=WIDE)
    assert area.low <= 0.5 <= area.high
    for rate in (0.001, 0.01):
        found = metrics.tpr_at_fpr(scores, rate, confidence=WIDE).true_positive_rate
        assert found.low <= rate


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_finds_a_planted_leak(name: str):
    found = with_leak()[name]
    assert found.measured.auc.low > 0.55
    if found.decision is not None:
        assert found.decision.balanced_accuracy > 0.53


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_with_its_sign_flipped_is_caught(name: str):
    scores = with_leak()[name].scores
    flipped = Scores(members=-scores.members, outsiders=-scores.outsiders)
    assert metrics.auc(flipped).high < 0.5


@pytest.mark.parametrize("name", ["likelihood", "label_only_likelihood", "threshold", "shadow_classifier"])
def test_shadows_with_members_and_outsiders_swapped_are_caught(name: str):
    right = shadows(2.0, seed=1)
    target = battery.Target(
        logits=right.logits[15], is_member=right.is_member[15], robustness=planted_robustness(right)[15]
    )
    swapped = replace(right, is_member=~right.is_member).first(14)
    # Their accuracies give them away before any attack is played.
    with pytest.raises(DataError, match="accuracy"):
        battery.run(swapped, target=target, attacks=[name], tolerance=0.03)
    if name != "threshold":  # which learns nothing from them but where to cut
        found = battery.run(swapped, target=target, attacks=[name], tolerance=1.0)[name]
        assert found.measured.auc.high < 0.5


def test_the_likelihood_ratio_comes_near_the_best_there_is():
    """With means and deviations known, the best attack on normal signals has an area of Phi(d / sqrt 2)."""
    random = np.random.default_rng(0)
    records, models, shift = 3000, 64, 2.0
    is_member = np.tile(np.eye(2, dtype=bool), (models // 2, records // 2))
    centre = random.normal(0, 5, records)
    signal = centre + shift * is_member + random.normal(size=(models, records))
    truth = random.random(records) < 0.5
    target = centre + shift * truth + random.normal(size=records)
    for variance in ("shrunk", "published", "fixed", "per-example"):
        scores = likelihood.lira(target, signal, is_member, variance=variance)
        area = metrics.auc(Scores.of_games(scores, truth))
        assert area.value == pytest.approx(norm.cdf(shift / 2**0.5), abs=0.02), variance
    plain = metrics.auc(Scores.of_games(target, truth))
    assert plain.value < 0.65  # a threshold for all has to guess how hard a record is


def test_the_deviation_is_that_of_residuals():
    random = np.random.default_rng(0)
    centre = random.normal(0, 50, 500)
    is_member = np.tile(np.eye(2, dtype=bool), (8, 250))
    signal = centre + np.where(is_member, 3 * random.normal(size=(16, 500)), random.normal(size=(16, 500)))
    inside, outside = likelihood.fit(signal, is_member, variance="fixed")
    assert inside.variance[0] == pytest.approx(9, rel=0.1)
    assert outside.variance[0] == pytest.approx(1, rel=0.1)  # 2,500 of raw signals, 9 if that of IN were used
    shrunk_in, shrunk_out = likelihood.fit(signal, is_member)
    assert np.median(shrunk_in.variance) == pytest.approx(9, rel=0.3)
    assert np.median(shrunk_out.variance) < 3


def test_the_variance_of_members_used_for_outsiders_costs_power():
    random = np.random.default_rng(0)
    records = 4000
    is_member = np.tile(np.eye(2, dtype=bool), (8, records // 2))
    truth = random.random(records) < 0.5
    centre = random.normal(0, 5, records)

    def draw(mask: np.ndarray) -> np.ndarray:
        noise = random.normal(size=mask.shape)
        return centre + np.where(mask, 1.0 + 0.3 * noise, 1.5 * noise)

    signal, target = draw(is_member), draw(truth)
    right = likelihood.lira(target, signal, is_member, variance="fixed")
    inside, outside = likelihood.fit(signal, is_member, variance="fixed")
    wrong = likelihood.log_density(target, inside) - likelihood.log_density(
        target, outside._replace(variance=inside.variance)
    )
    areas = [metrics.auc(Scores.of_games(scores, truth)).value for scores in (right, wrong)]
    assert areas[0] > areas[1] + 0.05


def test_shrinking_helps_where_models_are_few():
    few = shadows(2.0, models=8, records=2000, seed=3)
    areas = {}
    for variance in ("shrunk", "per-example"):
        rows = [
            likelihood.lira(
                few.signals.confidence[model],
                few.signals.confidence[few.others(model)],
                few.is_member[few.others(model)],
                variance=variance,
            )
            for model in range(few.models)
        ]
        areas[variance] = metrics.auc(Scores.of_games(np.stack(rows), few.is_member)).value
    assert areas["shrunk"] > areas["per-example"] + 0.01


def test_too_few_models_on_a_side_are_refused():
    with pytest.raises(InvalidArgument, match="1 shadow models on one side"):
        likelihood.lira(np.zeros(4), np.zeros((2, 4)), np.array([[True] * 4, [False] * 4]))


def test_the_threshold_is_the_best_on_what_it_was_swept_over():
    random = np.random.default_rng(0)
    known = Scores(members=random.normal(1, 1, 500), outsiders=random.normal(0, 1, 500))
    cut = threshold.best_threshold(known)
    best = metrics.advantage(known).value
    found = metrics.decide(known, cut)
    assert found.recall.value - found.false_positive_rate.value == pytest.approx(best)


@pytest.mark.parametrize("members", [np.zeros(20), np.ones(20), -np.ones(20)])
def test_the_threshold_of_scores_without_order_is_a_number(members: np.ndarray):
    assert np.isfinite(threshold.best_threshold(Scores(members=members, outsiders=np.zeros(20))))


def test_the_training_loss_makes_a_threshold():
    outputs = Outputs.from_probabilities(np.tile([0.8, 0.2], (20, 1)), np.zeros(20, int))
    assert threshold.scores(outputs) == pytest.approx(np.full(20, np.log(0.8)))
    assert (threshold.scores(outputs) > threshold.from_training_loss(0.3)).all()
    with pytest.raises(InvalidArgument, match="mean_loss"):
        threshold.from_training_loss(-1.0)


def test_modified_entropy_tells_right_from_wrong():
    outputs = Outputs.from_probabilities(np.tile([0.98, 0.01, 0.01], (20, 1)), np.arange(20) % 2)
    found = entropy.scores(outputs)
    assert (found[::2] > found[1::2]).all()
    by_hand = -(0.02 * np.log(0.98) + 2 * 0.01 * np.log(0.99))
    assert found[0] == pytest.approx(-np.log(by_hand))


def test_the_population_attack_compares_within_a_label():
    random = np.random.default_rng(0)
    labels = np.arange(1000) % 2
    sure = np.stack([random.normal(size=1000) + 5 * labels, np.zeros(1000)], axis=1)
    theirs = np.where(labels[:, None] == 0, sure, sure[:, ::-1])
    outputs = Outputs.from_logits(theirs, labels)
    found = population.scores(outputs, outputs)
    assert abs(found[labels == 0].mean() - found[labels == 1].mean()) < 0.2


def test_gains_are_compared_with_other_gains():
    random = np.random.default_rng(0)
    shadow = np.log(random.uniform(0.4, 0.6, (8, 200)))
    is_member = np.tile(np.eye(2, dtype=bool), (4, 100))
    target = np.full(200, np.log(0.5))
    target[0] = np.log(0.99)
    for attack in (relative.online, relative.offline):
        assert np.argmax(attack(target, shadow, is_member)) == 0
    with pytest.raises(InvalidArgument, match="gamma"):
        relative.online(target, shadow, is_member, gamma=0.0)


def test_a_classifier_taught_on_other_records_still_works():
    taught_by, attacked = shadows(3.0, seed=5), shadows(3.0, seed=6)
    taught = shadow_classifier.fit(taught_by.signals.answers, taught_by.labels, taught_by.is_member)
    outputs = Outputs.from_logits(attacked.logits[0], attacked.labels)
    scores = Scores.of_games(taught.scores(outputs), attacked.is_member[0])
    assert metrics.auc(scores).low > 0.55


def test_labels_that_were_never_taught_get_the_common_classifier():
    taught_by = shadows(3.0, classes=3, seed=5)
    taught = shadow_classifier.fit(taught_by.signals.answers, taught_by.labels, taught_by.is_member)
    assert np.isfinite(taught.log_odds(taught_by.signals.answers[0], np.full(400, 7))).all()


def test_a_classifier_needs_both_sides():
    with pytest.raises(DataError, match="no members, or no outsiders"):
        shadow_classifier.fit(np.zeros((2, 20, 3)), np.zeros(20, int), np.ones((2, 20), bool))


def test_made_up_records_keep_the_margins():
    random = np.random.default_rng(0)
    records = (random.random((4000, 3)) < [0.1, 0.5, 0.9]).astype(float)
    drawn = shadow_classifier.marginal_records(records, 4000, seed=1)
    assert drawn.mean(axis=0) == pytest.approx([0.1, 0.5, 0.9], abs=0.03)
    noisy = shadow_classifier.noisy_records(records, 0.2, seed=1)
    assert (noisy != records).mean() == pytest.approx(0.2 * np.mean([0.18, 0.5, 0.18]), abs=0.02)


def test_signals_stay_finite_and_apart_near_certainty():
    logits = np.array([[30.0, 0.0], [60.0, 0.0], [-800.0, 0.0]])
    found = signals_of(logits, np.zeros(3, int))
    assert found.confidence == pytest.approx([30, 60, -800])
    for signal in found[:5]:
        assert np.isfinite(signal).all()


def test_a_target_is_attacked_beside_its_shadows():
    every = shadows(2.0, seed=1, models=18)
    target = battery.Target(
        logits=every.logits[17], is_member=every.is_member[17], robustness=planted_robustness(every)[17]
    )
    found = battery.run(every.first(16), target=target)
    assert found.models == 1
    assert len(found.results) == len(ATTACKS)
    assert found["likelihood"].measured.auc.low > 0.6
    assert json.loads(json.dumps(found.to_json()))["attacks"]["gap"]["auc"]["value"] > 0.5


def test_without_disturbed_copies_two_attacks_are_left_out():
    found = battery.run(replace(shadows(2.0), robustness=None))
    assert set(found.left_out) == {"label_only", "label_only_likelihood"}


def test_whom_it_hits_is_told():
    found = with_leak()
    assert found.risks is not None
    assert found.risks.shape == (400,)
    assert found.risks.mean() > 0.75
    assert sorted(found.per_class("likelihood")) == [0, 1, 2, 3]
    harmless = without_leak(0).risks
    assert harmless is not None
    assert harmless.mean() == pytest.approx(0.5, abs=0.03)


def test_whoever_is_found_is_rare_among_outsiders():
    every = shadows(2.0, seed=1)
    target = battery.Target(logits=every.logits[15], is_member=every.is_member[15])
    found = battery.run(every.first(14), target=target, attacks=["likelihood"])
    rare = metrics.rarity(found["likelihood"].scores)
    assert rare.shape == (200,)
    assert rare.min() == pytest.approx(1 / 201)


def test_without_shadows_the_mean_training_loss_is_the_threshold():
    models = shadows(3.0, seed=1, records=2000)
    inside, outside = (
        Outputs.from_logits(models.logits[0][rows], models.labels[rows])
        for rows in (models.is_member[0], ~models.is_member[0])
    )
    found = battery.run_without_shadows(inside, outside)
    decision = found["threshold"].decision
    assert decision is not None
    assert decision.balanced_accuracy > 0.53
    assert found["entropy"].decision is None


def test_an_attack_says_what_it_did_with_shadow_models_and_without():
    models = shadows(1.0)
    inside, outside = (
        Outputs.from_logits(models.logits[0][rows], models.labels[rows])
        for rows in (models.is_member[0], ~models.is_member[0])
    )
    alone = battery.run_without_shadows(inside, outside)
    assert not [result.what for result in alone.results if "shadow" in result.what]
    assert alone["threshold"].what == "the loss is below a threshold, the mean training loss"
    assert "threshold" not in alone["entropy"].what  # there is none to decide by
    assert alone.to_json()["attacks"]["threshold"]["what"] == alone["threshold"].what
    together = battery.run(models, attacks=["threshold", "entropy"])
    assert together["threshold"].what == "the loss is below a threshold, the best on shadow models"
    assert "threshold of its label" in together["entropy"].what


def test_progress_ends_at_one():
    seen: list[float] = []
    battery.run(shadows(0.0, records=60), attacks=["gap", "threshold"], on_progress=seen.append)
    assert seen == [0.5, 1.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda all_: (all_.first(4), None), "4 shadow models are too few"),
        (
            lambda all_: (all_, battery.Target(logits=all_.logits[0][:50], is_member=all_.is_member[0])),
            "the shadow models have",
        ),
        (
            lambda all_: (all_, battery.Target(logits=all_.logits[0] * np.nan, is_member=all_.is_member[0])),
            "not finite in 400 rows, first in row 0",
        ),
        (
            lambda all_: (all_, battery.Target(logits=all_.logits[0], is_member=np.ones(400, bool))),
            "400 members among 400 records",
        ),
        (
            lambda all_: (all_, battery.Target(logits=-all_.logits[0], is_member=all_.is_member[0])),
            "The shadow models have a train accuracy of",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(change, message: str):
    models, target = change(shadows(2.0))
    with pytest.raises(DataError, match=message):
        battery.run(models, target=target)


def test_an_attack_that_is_not_known_is_refused():
    with pytest.raises(InvalidArgument, match="Did you mean 'likelihood'"):
        battery.run(shadows(0.0), attacks=["likelyhood"])


def test_shadows_unlike_the_target_are_refused():
    models = shadows(2.0)
    check_alike(models, models.accuracies)
    with pytest.raises(DataError, match="test accuracy of"):
        check_alike(models, Accuracies(models.accuracies.train, models.accuracies.test - 0.2))
    with pytest.raises(DataError, match="train accuracy of"):
        check_alike(models, Accuracies(float("nan"), models.accuracies.test))


def test_attacks_never_see_the_twin():
    models = shadows(0.0, models=8)
    others = models.others(3)
    assert others.tolist() == [0, 1, 4, 5, 6, 7]
    assert (models.is_member[others].sum(axis=0) == 3).all()


def test_shadows_that_are_not_in_halves_are_refused():
    models = shadows(0.0)
    with pytest.raises(DataError, match="every record in exactly half"):
        Shadows(logits=models.logits, is_member=models.is_member | True, labels=models.labels)
