"""The sentence that may be printed: never below the number it stands for."""

from __future__ import annotations

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Gaussian, PoissonSampled, PureDp, Repeated

_RUN = Repeated(event=PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.1)), times=100)


@given(epsilon=st.floats(1e-6, 1e6), share=st.floats(0, 1))
def test_what_is_printed_is_still_an_upper_and_a_lower_bound(epsilon: float, share: float):
    made = Guarantee(
        epsilon=epsilon,
        epsilon_lower=share * epsilon,
        delta=1e-5,
        adjacency=Adjacency.ADD_OR_REMOVE,
        accountant="test",
    )
    numbers = [float(item) for item in re.findall(r"(?:\(|than )([0-9]+(?:\.[0-9]+)?)", str(made))]
    assert epsilon <= numbers[0] <= epsilon * 1.01
    if len(numbers) > 1:
        assert numbers[1] <= share * epsilon


@given(
    epsilon=st.one_of(
        st.floats(1e-6, 1e6), st.integers(1000, 9999).map(lambda k: math.nextafter(k / 1000, 10))
    ),
    delta=st.one_of(st.floats(1e-300, 1), st.sampled_from([1.0000049e-5, math.nextafter(1e-5, 1)])),
)
def test_the_printed_pair_is_never_below_the_pair_that_is_proved(epsilon: float, delta: float):
    made = Guarantee(epsilon=epsilon, delta=delta, adjacency=Adjacency.REPLACE, accountant="test")
    found = re.match(r"\(([0-9.]+), ([0-9.e-]+)\)", str(made))
    assert found is not None
    assert epsilon <= float(found[1]) <= epsilon * 1.01
    assert delta <= float(found[2]) <= delta * (1 + 1.1e-5)
    assert (made.to_json()["epsilon"], made.to_json()["delta"]) == (epsilon, delta)


def test_a_round_number_is_printed_as_it_is():
    made = Guarantee(epsilon=0.1, delta=1e-5, adjacency=Adjacency.REPLACE, accountant="test")
    assert str(made).startswith("(0.1000, 1e-05)-")


def test_the_sentence_names_all_it_depends_on():
    made = guarantee(_RUN, 1e-5, group=3, unit="user", assumptions=("the number of examples is public",))
    sentence = str(made)
    for word in ("1e-05", "group of 3 users", "adding or removing", "the number of examples is public"):
        assert word in sentence, sentence
    assert made.epsilon_lower <= made.epsilon
    assert json.loads(json.dumps(made.to_json()))["adjacency"] == "add-or-remove"


def test_a_lower_bound_above_the_upper_one_is_never_printed():
    with pytest.raises(AssertionError):
        Guarantee(epsilon=1.0, epsilon_lower=1.1, delta=1e-5, adjacency=Adjacency.REPLACE, accountant="test")
    with pytest.raises(AssertionError):
        Guarantee(epsilon=math.nan, delta=1e-5, adjacency=Adjacency.REPLACE, accountant="test")
    with pytest.raises(AssertionError):
        Guarantee(epsilon=-1.0, delta=1e-5, adjacency=Adjacency.REPLACE, accountant="test")


@pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan])
def test_a_delta_that_is_no_probability_is_refused(delta: float):
    with pytest.raises(InvalidArgument):
        Guarantee(epsilon=1.0, delta=delta, adjacency=Adjacency.REPLACE, accountant="test")


def test_without_protection_it_says_so():
    made = Guarantee(epsilon=math.inf, delta=1e-5, adjacency=Adjacency.REPLACE, accountant="test")
    assert str(made) == "No privacy guarantee: epsilon is infinite."


def test_a_claim_costs_what_it_claims_at_its_own_delta() -> None:
    claim = ApproximateDp(epsilon=4.0, delta=1e-5)
    assert tight(claim, 1e-5).upper == 4.0
    assert tight(claim, 0.99e-5).upper == math.inf
    assert tight(Composed(events=(claim, PureDp(epsilon=1.0))), 1e-5).upper == 5.0
    assert tight(Repeated(event=claim, times=2), 1.99e-5).upper == math.inf
