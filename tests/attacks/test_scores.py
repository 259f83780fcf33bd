"""What attacks are given is checked first: each thing that is wrong has one clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reticent.attacks import battery
from reticent.attacks.membership import label_only
from reticent.attacks.scores import Outputs, Scores, check_apart
from reticent.core.errors import DataError, InvalidArgument

RANDOM = np.random.default_rng(0)


def outputs(records: int = 60, classes: int = 3, *, labels: Any = None, features: Any = None) -> Outputs:
    found = np.arange(records) % classes if labels is None else labels
    return Outputs.from_logits(RANDOM.normal(size=(records, classes)), found, features=features)


@pytest.mark.parametrize(
    ("given", "labels", "message"),
    [
        (np.full((20, 3), 0.5), np.zeros(20, int), "row 0 sum to 1.5"),
        (np.tile([1.5, -0.5, 0.0], (20, 1)), np.zeros(20, int), "the smallest is -0.5"),
        (np.full((20, 3), np.nan), np.zeros(20, int), "not finite in 20 rows, first in row 0"),
        (np.full((3, 3), 1 / 3), np.zeros(3, int), "3 records are too few"),
        (np.ones((20, 1)), np.zeros(20, int), "have one class"),
        (np.full(20, 0.5), np.zeros(20, int), r"have shape \(20,\)"),
        (np.full((20, 2), 0.5), np.full(20, 2), "run from 2 to 2, and there are 2 columns"),
        (np.full((20, 2), 0.5), np.zeros(19, int), r"int64 of shape \(19,\), for 20 records"),
        (np.full((20, 2), 0.5), np.zeros(20), "float64 of shape"),
        ([["yes", "no"]] * 20, np.zeros(20, int), "are not numbers"),
    ],
)
def test_bad_outputs_are_refused_with_the_reason(given: Any, labels: Any, message: str):
    with pytest.raises(DataError, match=message) as caught:
        Outputs.from_probabilities(given, labels)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (np.zeros(9), "9 members are too few"),
        (np.append(np.zeros(20), np.nan), "in row 20 is nan"),
        (np.append(np.zeros(20), np.inf), "in row 20 is inf"),
        (np.zeros((20, 2)), r"have shape \(20, 2\)"),
        (["high"] * 20, "are not numbers"),
    ],
)
def test_bad_scores_are_refused_with_the_reason(members: Any, message: str):
    with pytest.raises(DataError, match=message):
        Scores(members=members, outsiders=np.zeros(20))


def test_labels_of_another_length_are_refused():
    with pytest.raises(DataError, match="19 labels for 20 scores of outsiders"):
        Scores(
            members=np.zeros(20),
            outsiders=np.zeros(20),
            member_labels=np.zeros(20, int),
            outsider_labels=np.zeros(19, int),
        )


def test_records_on_both_sides_are_named():
    rows = RANDOM.normal(size=(120, 5))
    inside = outputs(features=rows[:60])
    outside = outputs(features=np.concatenate([rows[60:118], rows[[7, 30]]]))
    with pytest.raises(
        DataError, match="2 of 60 outsiders are also among the members: member 7 = outsider 58"
    ):
        check_apart(inside, outside)
    check_apart(inside, outputs(features=rows[60:]))


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (outputs(classes=3), outputs(classes=4), "3 classes for members and 4 for outsiders"),
        (
            outputs(features=np.zeros((60, 2))),
            outputs(features=np.ones((60, 3))),
            "Members have 2 features and outsiders 3",
        ),
        (
            outputs(20, 10, labels=np.arange(20) % 5),
            outputs(20, 10, labels=5 + np.arange(20) % 5),
            "different labels: 0, 1, 2, 3, 4 and 5 more are only on one side, with 40 records",
        ),
        (
            outputs(60, 3, labels=np.arange(60) % 2),
            outputs(60, 3),
            "different labels: 2 found only on one side, with 20 records",
        ),
    ],
)
def test_sides_that_differ_in_more_than_membership_are_refused(
    inside: Outputs, outside: Outputs, message: str
):
    with pytest.raises(DataError, match=message):
        check_apart(inside, outside)


def test_rare_labels_may_be_on_one_side_by_chance():
    random = np.random.default_rng(3)
    check_apart(
        outputs(50, 100, labels=random.integers(0, 100, 50)),
        outputs(50, 100, labels=random.integers(0, 100, 50)),
    )


def test_a_label_that_everybody_has_is_no_difference():
    check_apart(outputs(labels=np.zeros(60, int)), outputs(labels=np.zeros(60, int)))


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda rows: 1 / 0, "The model failed on 20 records: ZeroDivisionError"),
        (lambda rows: np.zeros((len(rows), 2, 2)), r"an answer of shape \(20, 2, 2\)"),
        (lambda rows: np.zeros(3), r"an answer of shape \(3,\)"),
    ],
)
def test_a_model_that_fails_is_reported_as_one(predict: Any, message: str):
    with pytest.raises(DataError, match=message):
        label_only.scores(
            predict, np.zeros((20, 4)), np.zeros(20, int), disturb=label_only.flip_bits(0.1), copies=2
        )


def test_probabilities_of_zero_stay_finite():
    found = Outputs.from_probabilities(np.tile([1.0, 0.0], (20, 1)), np.ones(20, int))
    assert np.isfinite(found.log_probabilities).all()


def test_outputs_of_one_model_are_enough_for_four_attacks():
    found = battery.run_without_shadows(outputs(200), outputs(200))
    assert [result.name for result in found.results] == ["gap", "threshold", "entropy", "population"]
    assert found.left_out["likelihood"] == "It needs shadow models."


def test_outputs_of_one_model_are_attacked_by_those_that_were_named():
    found = battery.run_without_shadows(outputs(200), outputs(200), attacks=["threshold"])
    assert [result.name for result in found.results] == ["threshold"]
    for name in ("likelihood", "label_only"):
        with pytest.raises(InvalidArgument, match=f"The attack {name} needs shadow models"):
            battery.run_without_shadows(outputs(200), outputs(200), attacks=["gap", name])
