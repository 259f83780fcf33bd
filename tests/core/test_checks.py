"""Every check lets through what it names and nothing else, and its keyword is in the message."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core import checks
from reticent.core.errors import InvalidArgument

Check = Callable[..., None]

NUMBER_CHECKS = [checks.positive, checks.not_negative, checks.finite, checks.probability, checks.inside_unit]
HOLDS: dict[Check, Callable[[float], bool]] = {
    checks.positive: lambda x: x > 0,
    checks.not_negative: lambda x: x >= 0,
    checks.finite: lambda x: True,
    checks.probability: lambda x: 0 <= x <= 1,
    checks.inside_unit: lambda x: 0 < x < 1,
}

each_number_check = pytest.mark.parametrize("check", NUMBER_CHECKS, ids=lambda check: check.__name__)
no_number: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([math.nan, math.inf, -math.inf, np.float32("nan"), np.inf, True, False, None]),
    st.text(max_size=100),
    st.complex_numbers(),
    st.lists(st.floats()),
    st.binary(max_size=10),
    st.sampled_from([np.bool_(True), np.array([0.5]), 10**400, -(10**400)]),
)


def refused(check: Check, **values: Any) -> str:
    with pytest.raises(InvalidArgument) as caught:
        check(**values)
    return str(caught.value)


@each_number_check
@given(value=no_number)
def test_what_is_no_finite_number_fails_every_check(check: Check, value: Any):
    message = refused(check, noise_multiplier=value)
    assert message.startswith("noise_multiplier must be ")
    assert message.endswith("Pass another noise_multiplier.")
    assert "\n" not in message
    assert len(message) < 250


def test_a_value_of_numpy_is_quoted_as_a_plain_one():
    assert "got -1.5." in refused(checks.positive, epsilon=np.float64(-1.5))
    assert "got -2." in refused(checks.count, steps=np.int64(-2))
    assert "x='b' is" in refused(lambda **values: checks.one_of("ac", **values), x=np.str_("b"))
    with pytest.raises(InvalidArgument, match="epsilon must be"):
        jax.jit(lambda epsilon: checks.positive(epsilon=epsilon))(1.0)


@each_number_check
def test_a_number_too_long_to_be_written_fails_like_any_other(check: Check):
    assert "rate must be" in refused(check, rate=10**5000)
    assert "rate=a very large number" in refused(
        lambda **values: checks.one_of("ab", **values), rate=10**5000
    )


@each_number_check
@given(value=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30))
def test_a_check_holds_exactly_on_its_range(check: Check, value: float):
    if HOLDS[check](value):
        assert check(rate=value) is None
    else:
        assert refused(check, rate=value).startswith(f"rate must be {_words(check)}, got {value!r}")


def _words(check: Check) -> str:
    return {
        checks.positive: "a positive number",
        checks.not_negative: "zero or a positive number",
        checks.probability: "a probability between 0 and 1",
        checks.inside_unit: "strictly between 0 and 1",
    }[check]


@each_number_check
@pytest.mark.parametrize("value", [0.5, np.float32(0.5), np.float64(0.5), Fraction(1, 2)])
def test_numbers_of_every_kind_are_numbers(check: Check, value: Any):
    check(rate=value)


@pytest.mark.parametrize(
    ("check", "edge"),
    [(checks.positive, 0), (checks.positive, -0.0), (checks.inside_unit, 0.0), (checks.inside_unit, 1)],
)
def test_an_open_end_is_outside(check: Check, edge: float):
    refused(check, delta=edge)


@pytest.mark.parametrize(
    ("check", "edge"), [(checks.not_negative, -0.0), (checks.probability, 0), (checks.probability, 1.0)]
)
def test_a_closed_end_is_inside(check: Check, edge: float):
    check(rate=edge)


@given(value=st.integers(-(10**40), 10**40), minimum=st.integers(-3, 3))
def test_a_count_is_a_whole_number_from_its_minimum(value: int, minimum: int):
    if value >= minimum:
        checks.count(minimum=minimum, steps=value)
    else:
        message = refused(checks.count, minimum=minimum, steps=value)
        assert f"steps must be a whole number of at least {minimum}, got" in message


@given(value=no_number.filter(lambda value: type(value) is not int) | st.floats())
def test_what_is_no_whole_number_is_no_count(value: Any):
    assert refused(checks.count, steps=value).startswith("steps must be a whole number of at least 1, got")


@pytest.mark.parametrize("value", [3, np.int64(3), np.uint8(3)])
def test_whole_numbers_of_every_kind_count(value: Any):
    checks.count(steps=value)


@each_number_check
def test_the_first_of_several_that_fails_is_named(check: Check):
    assert refused(check, rate=0.5, noise_multiplier=math.nan, delta=math.inf).startswith("noise_multiplier ")


def test_nothing_to_check_is_fine():
    checks.positive()
    checks.count()


def test_an_unknown_choice_gets_the_nearest_one():
    checks.one_of(["poisson", "shuffled"], sampling="poisson")
    message = refused(lambda **values: checks.one_of(["poisson", "shuffled"], **values), sampling="poison")
    assert message == "sampling='poison' is not known. Did you mean 'poisson'?"


@given(value=no_number)
def test_what_is_no_text_is_no_choice(value: Any):
    message = refused(lambda **values: checks.one_of(["poisson", "shuffled"], **values), sampling=value)
    assert message.startswith("sampling=")
    assert "\n" not in message
