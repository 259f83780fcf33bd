"""Attribute inference: a planted leak is found, no leak is no excess, imputation is no leak."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reticent.attacks.inference.attribute import ATTACKS, Sensitive, excess_of, infer_attribute
from reticent.core.errors import DataError, InvalidArgument

COLUMN = Sensitive.one_hot("marital status", (0, 1, 2), ("single", "married", "widowed"))


def records(count: int, *, seed: int) -> dict[str, np.ndarray]:
    """Three values that a fourth column half tells, and a label that depends on it alone."""
    random = np.random.default_rng(seed)
    value = random.integers(0, 3, count)
    hint = value + random.normal(0, 1, count)
    x = np.column_stack([np.eye(3)[value], hint, random.normal(0, 1, (count, 3))])
    return {"x": x, "y": (hint + random.normal(0, 1, count) > 1).astype(int)}


def ignorant(x: np.ndarray) -> np.ndarray:
    """A model that never looks at the sensitive column."""
    p = 1 / (1 + np.exp(1 - x[:, 3]))
    return np.column_stack([1 - p, p])


def remembering(members: dict[str, np.ndarray]):
    """The same, but sure of the label for records that it knows whole."""
    known = {row.tobytes(): label for row, label in zip(members["x"], members["y"], strict=True)}

    def predict(x: np.ndarray) -> np.ndarray:
        answers = ignorant(x)
        for row, record in enumerate(x):
            if record.tobytes() in known:
                answers[row] = np.eye(2)[known[record.tobytes()]]
        return answers

    return predict


SIDES: dict[str, Any] = {
    "members": records(400, seed=1),
    "outsiders": records(400, seed=2),
    "reference": records(2000, seed=3),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_value_that_nobody_has_is_never_guessed(attack: str):
    """The encoding has a feature for other words, and this model is surest of the label with it."""
    column = Sensitive.one_hot("smokes", (0, 1, 2), ("no", "yes", "(other)"))
    random = np.random.default_rng(0)

    def draw(count: int) -> dict[str, np.ndarray]:
        value, hint = random.integers(0, 2, count), random.normal(0, 1, count)
        return {"x": np.column_stack([np.eye(3)[value], hint]), "y": value}

    def predict(x: np.ndarray) -> np.ndarray:
        p = np.select([x[:, 2] > 0, x[:, 1] > 0], [0.5 + 0.49 * np.sign(x[:, 3]), np.full(len(x), 0.6)], 0.4)
        return np.column_stack([1 - p, p])

    sides: dict[str, Any] = {"members": draw(200), "outsiders": draw(200), "reference": draw(500)}
    report = infer_attribute(predict, **sides, sensitive=column)
    assert report.row(attack).accuracy.value == 1


@pytest.mark.parametrize("attack", ["confidence", "csmia", "informed"])
def test_a_model_that_remembers_gives_its_members_away_and_nobody_else(attack: str):
    report = infer_attribute(remembering(SIDES["members"]), **SIDES, sensitive=COLUMN)
    assert report.row(attack).accuracy.low > (0.7 if attack == "informed" else 0.9)
    assert report.row(attack).excess.low > 0.15
    assert report.row(attack, "outsiders").excess.high < 0.05
    assert report.of_membership[attack].low > 0.15


def test_a_model_that_does_not_look_adds_nothing_to_imputation():
    report = infer_attribute(ignorant, **SIDES, sensitive=COLUMN)
    for side in ("members", "outsiders"):
        assert report.row("informed", side).excess.value == 0
        assert report.row("informed", side).excess.low < 0 < report.row("informed", side).excess.high
        blind = report.row("confidence", side)
        assert blind.accuracy.low < 1 / 3 < blind.accuracy.high
        assert blind.excess.high < 0
    assert report.of_membership["informed"].low < 0 < report.of_membership["informed"].high


def test_what_columns_tell_of_each_other_is_not_called_a_leak():
    """A model that uses the column, and learned nothing of any single record."""

    def honest(x: np.ndarray) -> np.ndarray:
        p = 1 / (1 + np.exp(2 * (1 - x[:, 3] - 0.3 * x[:, 1])))
        return np.column_stack([1 - p, p])

    report = infer_attribute(honest, **SIDES, sensitive=COLUMN)
    assert report.row("csmia").accuracy.value > 0  # it guesses something,
    assert all(row.excess.low < 0.05 for row in report.rows)  # but nothing beyond imputation
    for difference in report.of_membership.values():
        assert difference.low < 0 < difference.high


def test_labels_alone_are_enough_where_one_value_makes_them_right():
    members = SIDES["members"]
    truth = COLUMN.values_of(members["x"])

    def labels_only(x: np.ndarray) -> np.ndarray:
        return np.eye(2)[(COLUMN.values_of(x) == 1).astype(int)]

    married = {"x": members["x"], "y": (truth == 1).astype(int)}
    others: dict[str, Any] = {
        side: {"x": SIDES[side]["x"], "y": (COLUMN.values_of(SIDES[side]["x"]) == 1).astype(int)}
        for side in ("outsiders", "reference")
    }
    # Only "married" is right for the married; the others stay untold, so there is one value to learn from.
    report = infer_attribute(labels_only, members=married, **others, sensitive=COLUMN, attacks=["lomia"])
    assert "too alike" in report.left_out["lomia"]


def test_an_attack_that_has_too_little_to_learn_from_is_left_out_and_the_others_are_played():
    few = {row.tobytes() for row in SIDES["members"]["x"][:6]}

    def predict(x: np.ndarray) -> np.ndarray:  # wrong but for six members with their true value
        labels = (x[:, 3] > 1).astype(int)
        known = np.array([row.tobytes() in few for row in x])
        return np.eye(2)[np.where(known, labels, 1 - labels)]

    sides: dict[str, Any] = {
        side: {**rows, "y": (rows["x"][:, 3] > 1).astype(int)} for side, rows in SIDES.items()
    }
    report = infer_attribute(predict, **sides, sensitive=COLUMN)
    assert "on 6 records: too few" in report.left_out["lomia"]
    assert {row.attack for row in report.rows} == set(ATTACKS) - {"lomia"}


def test_the_label_only_attack_finds_a_planted_leak():
    random = np.random.default_rng(5)
    column = Sensitive.single("smokes", 0, (0, 1))

    def draw(count: int) -> dict[str, np.ndarray]:
        smokes, other = random.integers(0, 2, (2, count))
        return {"x": np.column_stack([smokes, other]).astype(float), "y": smokes ^ other}

    def predict(x: np.ndarray) -> np.ndarray:
        return np.eye(2)[x[:, 0].astype(int) ^ x[:, 1].astype(int)]

    sides: dict[str, Any] = {"members": draw(200), "outsiders": draw(200), "reference": draw(500)}
    report = infer_attribute(predict, **sides, sensitive=column)
    assert report.row("lomia").accuracy.value == 1
    # Exclusive or is nothing that logistic regression could have imputed.
    assert report.row("lomia").excess.low > 0.3


def test_the_interval_of_an_excess_covers_the_truth():
    random = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        attack, baseline = random.random(200) < 0.7, random.random(200) < 0.6
        estimate = excess_of(attack, baseline)
        covered += estimate.low <= 0.1 <= estimate.high
    assert covered >= 0.92 * 400  # 95% promised; fewer happens with probability 0.006 by chance


def test_the_report_is_plain_numbers_and_words():
    found = infer_attribute(ignorant, **SIDES, sensitive=COLUMN).to_json()
    assert {row["attack"] for row in found["rows"]} | set(found["left_out"]) == set(ATTACKS)
    assert set(found["rows"][0]["excess"]) == {"value", "low", "high"}


# Bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"members": records(3, seed=1)}, "3 members are too few"),
        ({"members": {"x": SIDES["members"]["x"]}}, "need `x` and `y`"),
        ({"reference": SIDES["members"]}, "400 of 400 members are also among the 400 reference"),
        (
            {"reference": {"x": np.ones((20, 7)) * [1, 0, 0, 1, 1, 1, 1], "y": np.zeros(20, int)}},
            "1 of the 3",
        ),
        ({"members": {"x": np.zeros((20, 7)), "y": np.zeros(20, int)}}, "none of the 3 values"),
        ({"members": {"x": np.zeros((20, 2)), "y": np.zeros(20, int)}}, "records have shape"),
    ],
)
def test_records_that_cannot_be_used_are_refused(change: dict, message: str):
    with pytest.raises(DataError, match=message):
        infer_attribute(ignorant, **(SIDES | change), sensitive=COLUMN)


@pytest.mark.parametrize(
    ("predict", "message"),
    [
        (lambda x: 1 / 0, "The model failed when it was asked about members: ZeroDivisionError"),
        (lambda x: np.zeros(3), "gave an array of shape"),
        (lambda x: np.full((len(x), 2), np.nan), "not finite"),
        (lambda x: np.full((len(x), 2), 0.7), "sum to 1.4"),
    ],
)
def test_a_model_that_gives_no_probabilities_is_refused(predict, message: str):
    with pytest.raises(DataError, match=message):
        infer_attribute(predict, **SIDES, sensitive=COLUMN)


def test_a_column_needs_two_values_and_an_attack_a_name():
    with pytest.raises(InvalidArgument, match="1 values"):
        Sensitive.one_hot("x", (0,))
    with pytest.raises(InvalidArgument, match="Did you mean 'csmia'"):
        infer_attribute(ignorant, **SIDES, sensitive=COLUMN, attacks=["csmai"])
