"""Bounds that are bounds: known answers, coverage on mechanisms of known epsilon, and that they show much.

Coverage: a bound at 95% may exceed the truth in 5% of trials. Of 400 trials of a bound that does so in
exactly 5%, more than 33 do with probability 0.2%; seeds are fixed.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from mechanisms import LEAKS, MECHANISMS, trials
from scipy.special import betainc

from reticent import audit
from reticent.audit import binomial, tradeoff
from reticent.audit.evidence import Evidence, EvidenceKind
from reticent.audit.guesses import GuessRule, rules
from reticent.core.errors import DataError, InvalidArgument

TRIALS, CANARIES, MOST = 400, 200, 33 / 400
EPSILONS = (0.0, 0.5, 1.0, 4.0)


# Known answers


@pytest.mark.parametrize(("guesses", "answer"), [(100, 3.49), (500, 5.11), (1000, 5.81), (5000, 7.42)])
@pytest.mark.parametrize("test", ["binomial", "curve"])
def test_ceilings_of_one_run_are_those_of_the_formula(guesses: int, answer: float, test):
    found = audit.one_run_ceiling(guesses, delta=0.0, select=guesses, test=test)
    assert found == pytest.approx(answer, abs=0.006)
    share = 0.05 ** (1 / guesses)
    assert found == pytest.approx(math.log(share / (1 - share)), abs=1e-3)


@pytest.mark.parametrize(("runs", "answer"), [(100, 3.28), (500, 4.91), (1000, 5.60)])
def test_ceilings_of_many_runs_are_those_of_clopper_and_pearson(runs: int, answer: float):
    assert audit.many_runs_ceiling(runs, runs) == pytest.approx(answer, abs=0.006)


def test_the_ceiling_of_jagielski_2020_with_500_and_500_runs_at_99_percent_is_4_54():
    assert audit.many_runs_ceiling(500, 500, error=0.01) == pytest.approx(4.54, abs=0.006)


def test_without_delta_the_test_is_the_binomial_tail():
    found = binomial.p_values(canaries=50, guesses=40, correct=30, epsilons=np.array([1.0]), delta=0.0)
    assert found[0] == pytest.approx(float(betainc(30, 11, 1 / (1 + math.exp(-1)))))


def test_the_term_for_delta_is_that_of_the_theorem_by_brute_force():
    canaries, guesses, correct, epsilon, delta = 60, 20, 15, 0.7, 1e-3
    right = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(guesses, k) * right**k * (1 - right) ** (guesses - k) for k in range(guesses + 1)]
    steepest = max(sum(mass[correct - i : correct]) / i for i in range(1, correct + 1))
    wanted = sum(mass[correct:]) + 2 * canaries * delta * steepest
    found = binomial.p_values(
        canaries=canaries, guesses=guesses, correct=correct, epsilons=np.array([epsilon]), delta=delta
    )
    assert found[0] == pytest.approx(wanted, rel=1e-9)


def test_both_tests_agree_where_delta_is_nothing_and_the_curve_wins_where_it_is_much():
    few = {"canaries": 500, "guesses": 100, "correct": 85, "error": 0.05}
    assert binomial.smallest_epsilon(delta=0.0, **few) == pytest.approx(
        tradeoff.smallest_epsilon(delta=0.0, **few), abs=0.03
    )
    many = {"canaries": 32_000, "guesses": 500, "correct": 463, "error": 0.006, "delta": 1e-5}
    assert tradeoff.smallest_epsilon(**many) > binomial.smallest_epsilon(**many) + 0.5


def test_the_inverses_of_the_curves_undo_the_curves():
    chances = np.linspace(0.0, 1.0, 101)
    epsilon, delta = 0.8, 0.05
    curve = np.minimum(
        math.exp(epsilon) * chances + delta, 1 - math.exp(-epsilon) * (1 - delta - chances)
    ).clip(max=1.0)
    inverse = tradeoff.approximate(np.array([epsilon]), delta)
    back = np.concatenate([inverse(np.array([value])) for value in curve])
    inside = curve < 1
    assert np.allclose(back[inside], chances[inside], atol=1e-12)


@pytest.mark.parametrize("test", [binomial.smallest_epsilon, tradeoff.smallest_epsilon])
def test_more_right_guesses_never_show_less(test):
    found = [test(canaries=300, guesses=60, correct=c, delta=1e-4, error=0.05) for c in range(25, 61)]
    assert found == sorted(found)
    assert found[0] == 0 < found[-1]


# Coverage


def one_run_epsilons(included: np.ndarray, scores: np.ndarray, **options) -> np.ndarray:
    return np.array([audit.one_run(s, i, **options).epsilon for s, i in zip(scores, included, strict=True)])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.thorough
def test_one_run_exceeds_the_truth_no_more_often_than_it_says(name: str, epsilon: float):
    included, scores = trials(MECHANISMS[name](epsilon, 1e-5), canaries=CANARIES, count=TRIALS)
    ways = ({}, {"select": "split"}, {"select": 50}, {"test": "binomial"})
    for options in ways:
        found = one_run_epsilons(included, scores, delta=1e-5, **options)
        assert np.mean(found > epsilon) <= MOST, options


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("test", ["curve", "binomial"])
def test_one_run_covers_mechanisms_that_use_all_of_their_delta(name: str, test):
    included, scores = trials(LEAKS[name](1.0, 0.02), canaries=CANARIES, count=TRIALS, seed=1)
    for select in ("bonferroni", "split", 20):
        found = one_run_epsilons(included, scores, delta=0.02, test=test, select=select)
        assert np.mean(found > 1.0) <= MOST, select


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("name", MECHANISMS)
def test_many_runs_exceed_the_truth_no_more_often_than_they_say(name: str, epsilon: float):
    included, scores = trials(MECHANISMS[name](epsilon, 1e-5), canaries=CANARIES, count=TRIALS, seed=2)
    for threshold in (0.5, (0.0, 0.5, 1.0, 2.0)):
        found = [
            audit.many_runs(s[i], s[~i], delta=1e-5, threshold=threshold).epsilon
            for s, i in zip(scores, included, strict=True)
        ]
        assert np.mean(np.array(found) > epsilon) <= MOST


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_many_runs_with_a_threshold_from_other_runs_cover(epsilon: float):
    included, scores = trials(MECHANISMS["Laplace"](epsilon, 0.0), canaries=CANARIES, count=TRIALS, seed=3)
    found = [audit.many_runs(s[i], s[~i], delta=0.0).epsilon for s, i in zip(scores, included, strict=True)]
    assert np.mean(np.array(found) > epsilon) <= MOST


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_gaussian_bound_covers_gaussians(epsilon: float):
    included, scores = trials(MECHANISMS["Gaussian"](epsilon, 1e-5), canaries=CANARIES, count=TRIALS, seed=4)
    found = [audit.gaussian_one_run(s, i, delta=1e-5).epsilon for s, i in zip(scores, included, strict=True)]
    assert np.mean(np.array(found) > epsilon) <= MOST


def test_the_gaussian_bound_is_wrong_for_randomised_response_and_says_what_it_assumes():
    mechanism = MECHANISMS["randomised response"](1.0, 0.0)
    included, scores = trials(mechanism, canaries=1000, count=20, seed=5)
    found = [audit.gaussian_one_run(s, i, delta=1e-5) for s, i in zip(scores, included, strict=True)]
    assert np.mean([each.epsilon > 1.0 for each in found]) > 0.5
    assert {each.kind for each in found} == {EvidenceKind.CONDITIONAL}
    assert "Gaussian" in str(found[0])


def test_a_bound_that_takes_the_best_rule_without_paying_would_be_noticed():
    """The planted bug: every rule gets the whole error."""
    included, scores = trials(MECHANISMS["Laplace"](0.0, 0.0), canaries=CANARIES, count=TRIALS)
    cheating = []
    for s, i in zip(scores, included, strict=True):
        order = np.argsort(s, kind="stable")
        cheating.append(
            max(
                tradeoff.smallest_epsilon(
                    canaries=CANARIES, guesses=r.guesses, correct=r.correct(order, i), delta=0.0, error=0.05
                )
                for r in rules(CANARIES)
            )
        )
    assert np.mean(np.array(cheating) > 0) > MOST


# Power


@pytest.mark.parametrize(("epsilon", "least"), [(0.5, 0.2), (1.0, 0.7), (4.0, 3.0)])
def test_one_run_shows_most_of_randomised_response(epsilon: float, least: float):
    mechanism = MECHANISMS["randomised response"](epsilon, 0.0)
    included, scores = trials(mechanism, canaries=1000, count=8, seed=6)
    assert np.mean(one_run_epsilons(included, scores, delta=1e-5)) > least


@pytest.mark.thorough
def test_many_canaries_show_half_of_a_gaussian():
    included, scores = trials(MECHANISMS["Gaussian"](4.0, 1e-5), canaries=32_000, count=1, seed=7)
    assert np.mean(one_run_epsilons(included, scores, delta=1e-5)) > 1.8
    found = audit.gaussian_one_run(scores[0], included[0], delta=1e-5)
    assert 2.2 < found.epsilon < 4.0


def test_many_runs_show_most_of_randomised_response():
    mechanism = MECHANISMS["randomised response"](2.0, 0.0)
    included, scores = trials(mechanism, canaries=2000, count=1, seed=8)
    found = audit.many_runs(scores[0][included[0]], scores[0][~included[0]], delta=0.0, threshold=0.5)
    assert 1.6 < found.epsilon < 2.0


def test_the_estimate_is_about_right_and_no_bound():
    included, scores = trials(MECHANISMS["Gaussian"](4.0, 1e-5), canaries=4000, count=1, seed=9)
    found = audit.gaussian_estimate(scores[0][included[0]], scores[0][~included[0]], delta=1e-5)
    assert found.epsilon == pytest.approx(4.0, abs=0.4)
    assert found.kind is EvidenceKind.ESTIMATE
    assert found.confidence is None
    assert "about" in str(found)


# What is said, and what is refused


def test_evidence_says_everything_and_goes_into_json():
    included, scores = trials(MECHANISMS["Gaussian"](4.0, 1e-5), canaries=500, count=1)
    found = audit.one_run(scores[0], included[0], delta=1e-5, threat="white box")
    said = str(found)
    for part in ("at least", "95% confidence", "bound", "white box", "500 canaries", "Bonferroni", "at most"):
        assert part in said
    assert json.loads(json.dumps(found.to_json()))["kind"] == "bound"


def test_rules_follow_from_the_number_of_canaries_alone():
    assert rules(100) == (GuessRule(100, "both"), GuessRule(50, "both"), GuessRule(50, "top"))
    assert max(rule.guesses for rule in rules(10**6)) == 8192
    assert len(rules(4)) == 1


def test_guesses_are_counted_by_hand():
    included = np.array([True, False, True, True, False, False])
    order = np.argsort([0.9, 0.8, 0.7, 0.3, 0.2, 0.1])
    assert GuessRule(2, "top").correct(order, included) == 1
    assert GuessRule(4, "both").correct(order, included) == 3
    assert GuessRule(6, "both").correct(order, included) == 4


@pytest.mark.parametrize(
    ("scores", "included", "match"),
    [
        (np.zeros(10), np.zeros(9, bool), "one score and one coin"),
        (np.zeros(10), np.zeros(10), "True where a canary was in"),
        (np.full(10, np.nan), np.zeros(10, bool), "10 of 10 scores are NaN"),
        (np.zeros(3), np.zeros(3, bool), "too few for an audit"),
        (np.zeros((2, 5)), np.zeros((2, 5), bool), "one score and one coin"),
    ],
)
def test_scores_that_make_no_sense_are_refused(scores, included, match: str):
    with pytest.raises(DataError, match=match):
        audit.one_run(scores, included, delta=1e-5)


def test_levels_and_rules_that_make_no_sense_are_refused():
    scores, included = np.arange(10.0), np.arange(10) % 2 == 0
    for options in ({"confidence": 1.0}, {"delta": -1.0}, {"select": 11}, {"select": "best"}, {"test": "t"}):
        with pytest.raises(InvalidArgument):
            audit.one_run(scores, included, **{"delta": 1e-5, **options})
    with pytest.raises(DataError, match="one number per run"):
        audit.many_runs([1.0, 2.0], np.arange(5.0), delta=0.0)


def test_evidence_cannot_be_mislabelled():
    included, scores = trials(MECHANISMS["Gaussian"](1.0, 1e-5), canaries=100, count=1)
    found = audit.one_run(scores[0], included[0], delta=1e-5)
    values = {name: getattr(found, name) for name in found.__dataclass_fields__}
    for change in (
        {"kind": EvidenceKind.CONDITIONAL},
        {"kind": EvidenceKind.ESTIMATE},
        {"assumption": "anything"},
    ):
        with pytest.raises(AssertionError):
            Evidence(**{**values, **change})


def test_constant_scores_show_nothing():
    included = np.random.default_rng(0).integers(0, 2, 1000).astype(bool)
    assert audit.one_run(np.zeros(1000), included, delta=1e-5).epsilon < 0.3
