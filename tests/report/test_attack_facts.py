"""One rule for which attack is shown, and by which of its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from reticent.attacks.explain import describe
from reticent.attacks.metrics import measure
from reticent.attacks.scores import Scores
from reticent.report.facts.attacks import _strongest_in_words, strongest_value, trade_off
from reticent.report.facts.odds import ClaimPoint

NOTHING = [ClaimPoint(epsilon=0.0, delta=0.0)]  # at most the false-positive rate itself


def attack(
    tpr: float, low: float, high: float, *, auc: float = 0.48, resolved: bool = True
) -> dict[str, Any]:
    rate = {"value": tpr, "low": low, "high": high}
    return {
        "tpr_at_fpr": [{"false_positive_rate": 0.001, "is_resolved": resolved, "true_positive_rate": rate}],
        "auc": {"value": auc, "low": auc - 0.02, "high": auc + 0.02},
    }


def test_the_figure_that_makes_an_attack_the_strongest_is_shown_and_not_its_auc() -> None:
    found = strongest_value({"weak": attack(0.001, 0, 0.002, auc=0.53), "sure": attack(0.004, 0.001, 0.01)})
    assert found is not None
    assert (found.name, found.value, found.shown) == ("members found by the strongest attack", 0.004, "0.40%")
    assert "'sure' at a false-positive rate of 0.1%, 95% interval 0.10% to 1.00%" in found.note


def test_an_auc_is_shown_where_no_rate_can_be_measured() -> None:
    found = strongest_value({"few": attack(0.0, 0.0, 1.0, resolved=False)})
    assert found is not None
    assert (found.name, found.shown) == ("AUC of the strongest attack", "48.0%")
    assert "46.00% to 50.00%; guessing gives 50%" in found.note
    assert strongest_value({}) is None


@pytest.mark.parametrize(
    ("low", "said"),
    [(0.0005, "inside the interval: what exceeds it is within the error"), (0.002, "interval lies above it")],
)
def test_a_rate_above_the_proved_limit_is_explained(low: float, said: str) -> None:
    words = _strongest_in_words({"sure": attack(0.005, low, 0.01)}, NOTHING)
    assert "finds 0.50% of the members" in words
    assert "The proved limit there is 0.100%" in words
    assert said in words


def test_a_rate_below_the_limit_needs_no_word_more() -> None:
    words = _strongest_in_words({"weak": attack(0.0005, 0.0, 0.01)}, NOTHING)
    assert words.endswith("The proved limit there is 0.100%.")


@pytest.mark.parametrize(("found", "is_explained"), [(0.5, False), (0.6, True)])
def test_a_curve_above_the_proved_one_is_explained(found: float, is_explained: bool) -> None:
    curve = {"false_positive_rate": [0.0, 0.5, 1.0], "true_positive_rate": [0.0, found, 1.0]}
    (chart,) = trade_off({"attacks": {"sure": attack(0.5, 0.0, 1.0) | {"roc": curve}}}, tuple(NOTHING))
    assert ("chance may explain that" in chart.description) is is_explained


@pytest.mark.parametrize(("shift", "said"), [(-0.5, True), (0.5, False)])
def test_an_attack_worse_than_guessing_is_said_to_be_no_better(shift: float, said: bool) -> None:
    rng = np.random.default_rng(0)
    scores = Scores(members=rng.normal(shift, 1, 300), outsiders=rng.normal(0, 1, 300))
    assert ("so on the whole it does no better" in describe(measure(scores))[0]) == said
