"""Exposure: exact where it can be, a bound and an estimate where it cannot."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import norm

from reticent.attacks.reconstruction.extraction import (
    Canary,
    estimated_exposure,
    exact_exposure,
    measure_exposure,
    plant,
)
from reticent.core.errors import DataError, InvalidArgument

DIGITS = "0123456789"
CANARY = Canary(template="the code is {}", secret="4071", alphabet=DIGITS)


def trigram_model(texts: Sequence[str]):
    """Counts of three symbols in a row, smoothed: a language model that remembers what it reads."""
    triples, pairs = Counter(), Counter()
    for text in texts:
        padded = "^^" + text
        for start in range(len(text)):
            triples[padded[start : start + 3]] += 1
            pairs[padded[start : start + 2]] += 1

    def loss_of(text: str) -> float:
        padded = "^^" + text
        return -sum(
            math.log((triples[padded[s : s + 3]] + 0.05) / (pairs[padded[s : s + 2]] + 0.05 * 40))
            for s in range(len(text))
        )

    return lambda texts: [loss_of(text) for text in texts]


def ordinary_texts(count: int) -> list[str]:
    random = np.random.default_rng(0)
    return [f"the code is {number:04d}" for number in random.integers(0, 10_000, count)]


def test_a_planted_secret_is_fully_exposed():
    texts = plant(["the sun is up", "the tea is hot"] * 20, CANARY, 5)
    assert sorted(Counter(texts).values())[0] == 5
    found = measure_exposure(trigram_model(texts), CANARY)
    assert (found.kind, found.bits) == ("exact", pytest.approx(math.log2(10_000)))
    assert found.at_least == found.bits == found.space_bits
    assert found.to_json()["kind"] == "exact"


def test_nothing_planted_gives_about_one_bit():
    score = trigram_model(ordinary_texts(300))
    exposures = [
        measure_exposure(score, Canary.random("the code is {}", DIGITS, 3, seed=seed)).bits
        for seed in range(100)
    ]
    # Of a uniform rank the mean is log2(e) = 1.44 bits and so is the deviation, here 0.144 of the mean.
    assert 1.44 - 4 * 0.144 < np.mean(exposures) < 1.44 + 4 * 0.144


def test_the_rank_counts_ties_against_the_attacker():
    assert exact_exposure(1.0, np.array([2.0, 3.0, 4.0])).bits == 2
    assert exact_exposure(1.0, np.array([1.0, 3.0, 4.0])).bits == 1
    assert exact_exposure(9.0, np.array([1.0, 3.0, 4.0])).bits == 0


def test_more_copies_expose_more():
    other = Canary.random("my key is {}", DIGITS, 4, seed=3)
    ordinary = [text.replace("the code", "my key") for text in ordinary_texts(2000)]
    bits = [
        measure_exposure(trigram_model(plant(ordinary, other, copies)), other).bits for copies in (0, 20, 200)
    ]
    assert bits[0] < bits[1] <= bits[2]
    assert bits[2] > 12


@pytest.mark.parametrize("skew", [0.0, 0.5])
def test_the_estimate_is_right_where_the_truth_is_known(skew: float):
    random = np.random.default_rng(1)
    sampled = random.normal(100, 5, 4096) + skew * random.exponential(5, 4096)
    if skew == 0:
        found = estimated_exposure(85.0, sampled, space=10**9)
        assert found.bits == pytest.approx(-norm.logcdf(-3) / math.log(2), abs=0.4)
    found = estimated_exposure(float(np.quantile(sampled, 1 / 64)), sampled, space=10**9)
    assert found.bits == pytest.approx(6, abs=0.6)
    assert found.kind == "estimate"
    assert found.fit is not None
    assert found.fit > 0.001


def test_the_bound_is_below_the_truth_as_often_as_it_says():
    random = np.random.default_rng(0)
    truth = -norm.logcdf(-2.0) / math.log(2)
    above = sum(
        estimated_exposure(-2.0, random.normal(0, 1, 400), space=10**9).at_least > truth for _ in range(400)
    )
    assert above <= 33  # 20 expected at 95%; more happens with probability 0.003


def test_the_bound_cannot_pass_what_the_sample_shows_nor_the_estimate_the_space():
    found = estimated_exposure(-50.0, np.random.default_rng(0).normal(0, 1, 1000), space=2**20)
    assert found.bits == pytest.approx(20)
    assert found.at_least == pytest.approx(-math.log2(1 - 0.05 ** (1 / 1000)), abs=1e-6)


def test_a_large_space_is_sampled():
    canary = Canary.random("the code is {}", DIGITS, 12, seed=0)
    found = measure_exposure(trigram_model(plant(ordinary_texts(50), canary, 20)), canary, samples=500)
    assert (found.kind, found.scored) == ("estimate", 500)
    assert found.at_least > 6
    assert found.space_bits == pytest.approx(12 * math.log2(10))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"template": "no slot"}, "has 0 slots"),
        ({"secret": "40x1"}, "not made of the 10 symbols"),
        ({"secret": ""}, "not made of"),
        ({"secret": "aa", "alphabet": "a"}, "fewer than two"),
    ],
)
def test_canaries_that_make_no_sense_are_refused(arguments: dict, message: str):
    with pytest.raises(InvalidArgument, match=message):
        Canary(**({"template": "x {}", "secret": "4071", "alphabet": DIGITS} | arguments))


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda texts: 1 / 0, "The model failed to score 1 texts: ZeroDivisionError"),
        (lambda texts: [float("nan")] * len(texts), "0 finite"),
        (lambda texts: [1.0, 2.0], "gave 2 losses"),
    ],
)
def test_a_model_that_does_not_score_is_refused(score, message: str):
    with pytest.raises(DataError, match=message):
        measure_exposure(score, CANARY)


def test_scores_that_do_not_read_the_secret_are_refused():
    canary = Canary.random("the code is {}", DIGITS, 9, seed=0)
    with pytest.raises(DataError, match="have the same loss"):
        measure_exposure(lambda texts: np.ones(len(texts)), canary)
