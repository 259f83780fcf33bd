"""Defences: masks keep labels, hide scores from simple attacks, and hide nothing from those on labels."""

from __future__ import annotations

import numpy as np
import pytest
from leaky_models import shadows
from scipy.special import softmax

from reticent.attacks.defences import (
    compare,
    compare_shadows,
    defend_shadows,
    label_only,
    masking,
    rounding,
    standard_masks,
    temperature,
    top,
)
from reticent.attacks.predictors import outputs_of
from reticent.core.errors import DataError, InvalidArgument

CLASSES = 4


def records(count: int, *, seed: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"x": random.normal(0, 1, (count, CLASSES + 1)), "y": random.integers(0, CLASSES, count)}


MEMBERS, OUTSIDERS = records(400, seed=1), records(400, seed=2)


def overfitted(x: np.ndarray) -> np.ndarray:
    """Right about everybody in the room, and surer of members, as if it had seen them."""
    known = {row.tobytes() for row in MEMBERS["x"]}
    label_of = {
        row.tobytes(): label
        for side in (MEMBERS, OUTSIDERS)
        for row, label in zip(side["x"], side["y"], strict=True)
    }
    logits = 0.3 * x[:, :CLASSES]
    for row, record in enumerate(x):
        logits[row, label_of[record.tobytes()]] += 6.0 if record.tobytes() in known else 3.0
    return softmax(logits, axis=1)


def well_trained(x: np.ndarray) -> np.ndarray:
    return softmax(0.3 * x[:, :CLASSES], axis=1)


def guard(budget: float):
    return masking(
        outputs_of(overfitted, MEMBERS, name="members"),
        outputs_of(overfitted, OUTSIDERS, name="outsiders"),
        budget=budget,
    )


MASKS = {
    "nothing": lambda probabilities: probabilities,
    "hard": temperature(0.2),
    **standard_masks(CLASSES),
    "noise": guard(1.0),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_keeps_every_label_and_gives_probabilities(name: str):
    random = np.random.default_rng(0)
    sharp = softmax(random.normal(0, 8, (2000, CLASSES)), axis=1)
    flat = softmax(random.normal(0, 0.02, (2000, CLASSES)), axis=1)
    for before in (sharp, flat):
        after = MASKS[name](before)
        assert (after.argmax(axis=1) == before.argmax(axis=1)).all()
        np.testing.assert_allclose(after.sum(axis=1), 1, atol=1e-9)
        assert after.min() >= 0


def test_masks_do_what_they_are_called():
    answer = np.array([[0.05, 0.62, 0.23, 0.10]])
    np.testing.assert_allclose(rounding(1)(answer), [[0.0, 0.7, 0.2, 0.1]])
    np.testing.assert_allclose(top(2)(answer), [[0.075, 0.62, 0.23, 0.075]])
    np.testing.assert_allclose(top(9)(answer), answer)
    np.testing.assert_allclose(label_only(answer), [[0, 1, 0, 0]])
    np.testing.assert_allclose(temperature(1.0)(answer), answer)
    assert temperature(3.0)(answer).max() < 0.62


@pytest.mark.parametrize("budget", [0.0, 0.2, 1.0])
def test_noise_stays_within_its_budget_and_is_the_same_again(budget: float):
    answers = overfitted(OUTSIDERS["x"])
    defence = guard(budget)
    assert np.abs(defence(answers) - answers).sum(axis=1).max() <= budget + 1e-9
    np.testing.assert_array_equal(defence(answers), defence(answers))


def test_the_table_shows_what_each_defence_leaves():
    rows = {
        row.name: row for row in compare({"as it is": overfitted, "other": well_trained}, MEMBERS, OUTSIDERS)
    }
    auc = {name: row.battery["threshold"].measured.auc for name, row in rows.items()}
    assert auc["as it is"].value > 0.95
    assert auc["label only"].value < 0.6  # everybody is labelled right: nothing is left to see
    assert auc["noise up to 1"].value < auc["as it is"].value - 0.1
    assert auc["other"].low < 0.5 < auc["other"].high
    assert all(row.kept == 1 for row in rows.values())
    assert rows["as it is"].changed == 0 < rows["label only"].changed
    assert rows["label only"].to_json()["labels_kept"] == 1
    # One scale for all answers, however soft, changes no order: temperature is no defence against ranking.
    assert auc["temperature 4"].value > 0.9


def test_labels_pass_every_mask():
    planted = shadows(2.0)
    rows = compare_shadows(
        {"as it is": planted},
        masks={"label only": label_only},
        attacks=["likelihood", "label_only"],
    )
    before, after = rows
    assert (
        after.battery["likelihood"].measured.auc.value
        < before.battery["likelihood"].measured.auc.value - 0.05
    )
    assert after.battery["label_only"].measured.auc == before.battery["label_only"].measured.auc
    assert after.battery["label_only"].measured.auc.low > 0.55


def test_masked_shadow_models_are_those_of_another_recipe():
    planted = shadows(1.0)
    masked, changed, kept = defend_shadows(planted, rounding(1), name="rounded")
    assert masked.fingerprint != planted.fingerprint
    assert changed > 0
    assert kept == 1


# Bad input


def test_a_mask_that_makes_no_probabilities_is_named():
    with pytest.raises(DataError, match="The mask 'halved' returned shape"):
        compare({"a": well_trained}, MEMBERS, OUTSIDERS, masks={"halved": lambda p: p / 2})


def test_nobody_to_defend_is_refused():
    with pytest.raises(InvalidArgument, match="no model to defend"):
        compare({}, MEMBERS, OUTSIDERS)
    with pytest.raises(InvalidArgument, match="no shadow models"):
        compare_shadows({})


def test_members_among_outsiders_are_named():
    with pytest.raises(DataError, match="member 0 = outsider 0"):
        compare({"a": well_trained}, MEMBERS, MEMBERS)


def test_a_model_that_raises_is_named():
    def failing(x: np.ndarray) -> np.ndarray:
        raise RuntimeError("out of memory")

    with pytest.raises(DataError, match="RuntimeError: out of memory"):
        compare({"a": failing}, MEMBERS, OUTSIDERS)


@pytest.mark.parametrize(
    "make", [lambda: top(0), lambda: rounding(0), lambda: temperature(-1), lambda: guard(-1)]
)
def test_masks_out_of_range_are_refused(make):
    with pytest.raises(InvalidArgument, match="must be"):
        make()
