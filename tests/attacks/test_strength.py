"""One rule for the strongest attack and one for the alarm, wherever they are shown."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from reticent.attacks.battery import Battery, Result
from reticent.attacks.explain import explain
from reticent.attacks.metrics import curve, measure
from reticent.attacks.scores import Scores
from reticent.attacks.shadows.outputs import Accuracies
from reticent.attacks.strength import ALARMING_AUC, is_alarming, strongest_attack
from reticent.core.errors import InvalidArgument
from reticent.report.facts.attacks import played_attacks, sections
from reticent.report.facts.odds import ClaimPoint
from reticent.report.from_run import _verdict


def battery(**attacks: Scores) -> Battery:
    results = [
        Result(name=name, what=name, measured=measure(scores), decision=None, seconds=0.0, scores=scores)
        for name, scores in attacks.items()
    ]
    return Battery(
        results=tuple(results),
        accuracies=Accuracies(0.9, 0.8),
        models=1,
        shadows=0,
        left_out={},
        seconds=0.0,
    )


def sure_of_few(rng: np.random.Generator, count: int = 4000) -> Scores:
    """Finds a tenth of the members without error, and guesses about the others: AUC 0.55."""
    members, outsiders = rng.normal(size=count), rng.normal(size=count)
    members[: count // 10] = 10.0
    return Scores(members=members, outsiders=outsiders)


def unsure_of_all(rng: np.random.Generator, shift: float, count: int = 4000) -> Scores:
    """A larger AUC, and hardly anybody found without false positives."""
    return Scores(members=rng.normal(shift, 1, count), outsiders=rng.normal(0, 1, count))


def saved(found: Battery) -> dict:
    """What stands in attack.json."""
    attacks = found.to_json()
    for result in found.results:
        attacks["attacks"][result.name]["roc"] = curve(result.scores)
    return json.loads(json.dumps(attacks))


@pytest.fixture
def two(rng: np.random.Generator) -> Battery:
    return battery(all=unsure_of_all(rng, 0.5), few=sure_of_few(rng))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_who_is_sure_of_a_few_is_stronger_than_who_has_the_larger_auc(two: Battery) -> None:
    assert two["all"].measured.auc.value > two["few"].measured.auc.value
    assert two.strongest.name == "few"


def test_terminal_json_and_report_name_the_same_attack(two: Battery) -> None:
    attacked = saved(two)
    unread: Any = None  # only an audit needs the record
    (roc,) = sections(unread, attacked, None, (ClaimPoint(1.0, 1e-5),))[0].charts
    assert attacked["strongest"] == strongest_attack(played_attacks(attacked)) == two.strongest.name == "few"
    assert "The strongest attack is 'few'" in " ".join(explain(two))
    assert "The strongest attack, few," in roc.description


@pytest.mark.parametrize(("shift", "is_alarm"), [(0.0, False), (0.7, False), (1.1, True)])
def test_terminal_json_and_report_warn_together(
    rng: np.random.Generator, shift: float, is_alarm: bool
) -> None:
    """The strongest attack alone would never warn here: its AUC is 0.55."""
    found = battery(few=sure_of_few(rng), all=unsure_of_all(rng, shift))
    attacked = saved(found)
    verdict, tone = _verdict(attacked, {"verdict": {"outcome": "CONSISTENT"}})
    assert found.strongest.name == "few"
    assert (attacked["is_alarming"], found.is_alarming, is_alarming(attacked["attacks"])) == (is_alarm,) * 3
    assert any("do not publish it" in line for line in explain(found)) == is_alarm
    assert (tone == "bad") == ("do not publish" in verdict) == is_alarm


def test_an_auc_that_luck_may_explain_is_no_alarm(rng: np.random.Generator) -> None:
    few, many = (battery(all=unsure_of_all(rng, 0.9, count)) for count in (20, 4000))
    assert few.strongest.measured.auc.high > ALARMING_AUC > few.strongest.measured.auc.low
    assert not few.is_alarming
    assert many.is_alarming


def test_a_rate_that_outsiders_cannot_resolve_decides_nothing(rng: np.random.Generator) -> None:
    """Of 50 outsiders nobody knows who is above 1 in 1,000, nor above 1 in 100: the AUC decides."""
    lucky = Scores(members=np.r_[np.full(5, 9.0), rng.normal(size=45)], outsiders=rng.normal(size=50))
    better = Scores(members=rng.normal(2, 1, 50), outsiders=np.r_[rng.normal(size=49), 9.5])
    assert lucky.members.max() > lucky.outsiders.max()
    assert battery(lucky=lucky, better=better).strongest.name == "better"


def test_no_attack_is_neither_strongest_nor_an_alarm() -> None:
    assert strongest_attack({}) is None
    assert not is_alarming({})
    assert battery().to_json()["strongest"] is None
    with pytest.raises(InvalidArgument, match="No attack was run"):
        _ = battery().strongest
