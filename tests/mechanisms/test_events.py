"""Events: written to JSON and read back unchanged, and nothing else is let in."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core.errors import InvalidArgument
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_positive = st.floats(1e-12, 1e12)
_unit = st.floats(0, 1)
_counts = st.integers(1, 10**12)
_adjacencies = st.sampled_from(list(Adjacency))


def _leaves() -> st.SearchStrategy[Event]:
    return st.one_of(
        st.builds(lambda x: events.Gaussian(noise_multiplier=x), _positive),
        st.builds(lambda x: events.Laplace(noise_multiplier=x), _positive),
        st.builds(
            lambda k, share: events.RandomizedResponse(truth=min(1 / k + share, 1.0), choices=k),
            st.integers(2, 50),
            _unit,
        ),
        st.builds(lambda x, a: events.ExponentialMechanism(epsilon=x, adjacency=a), _positive, _adjacencies),
        st.builds(lambda x, a: events.PureDp(epsilon=x, adjacency=a), st.floats(0, 1e6), _adjacencies),
        st.builds(
            lambda x, d, a: events.ApproximateDp(epsilon=x, delta=d, adjacency=a),
            st.floats(0, 1e6),
            _unit,
            _adjacencies,
        ),
        st.just(events.NonPrivate()),
    )


def _around(inner: st.SearchStrategy[Event]) -> st.SearchStrategy[Event]:
    return st.one_of(
        st.builds(lambda r, e: events.PoissonSampled(rate=r, event=e), _unit, inner),
        st.builds(
            lambda r, c, n, e: events.TruncatedPoissonSampled(rate=r, capacity=c, examples=n, event=e),
            _unit,
            _counts,
            _counts,
            inner,
        ),
        st.builds(
            lambda b, n, e: events.FixedSizeSampled(batch_size=min(b, n), examples=n, event=e),
            _counts,
            _counts,
            inner,
        ),
        st.builds(
            lambda s, k, r, c, e: events.Allocated(
                steps=s,
                times=min(k, s),
                released=None if r is None else min(r, s),
                capacity=c,
                examples=c,
                event=e,
            ),
            _counts,
            _counts,
            st.none() | _counts,
            st.none() | _counts,
            inner,
        ),
        st.builds(lambda t, e: events.Repeated(event=e, times=t), st.integers(0, 10**12), inner),
        st.builds(
            lambda s, g, e: events.BestOfTrials(shape=s, gamma=g, event=e),
            st.floats(-0.999, 1e6),
            st.floats(1e-12, 1 - 1e-12),
            inner,
        ),
        st.lists(inner, max_size=4).map(lambda items: events.Composed(events=tuple(items))),
    )


any_event = st.recursive(_leaves(), _around, max_leaves=12)


@given(any_event)
def test_json_and_back_is_the_same_event(event: Event):
    written = json.dumps(events.to_json(event), allow_nan=False)
    assert events.read(written) == event
    assert json.dumps(events.to_json(events.read(written))) == written
    assert hash(events.read(written)) == hash(event)


def test_every_kind_of_event_goes_through_json():
    kinds = {type(events.read(json.dumps(value))) for value in _ONE_OF_EACH.values()}
    assert kinds == set(Event.__args__)
    for name, value in _ONE_OF_EACH.items():
        assert value["kind"] == name
        assert events.to_json(events.from_json(value)) == value


_GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.5}
_ONE_OF_EACH: dict[str, dict[str, Any]] = {
    "gaussian": _GAUSSIAN,
    "laplace": {"kind": "laplace", "noise_multiplier": 2.0},
    "randomized_response": {"kind": "randomized_response", "truth": 0.75, "choices": 2},
    "exponential_mechanism": {"kind": "exponential_mechanism", "epsilon": 1.0, "adjacency": "replace"},
    "pure_dp": {"kind": "pure_dp", "epsilon": 1.0, "adjacency": "add-or-remove"},
    "approximate_dp": {"kind": "approximate_dp", "epsilon": 1.0, "delta": 1e-6, "adjacency": "zero-out"},
    "poisson_sampled": {"kind": "poisson_sampled", "rate": 0.1, "event": _GAUSSIAN},
    "truncated_poisson_sampled": {
        "kind": "truncated_poisson_sampled",
        "rate": 0.1,
        "capacity": 20,
        "examples": 100,
        "event": _GAUSSIAN,
    },
    "fixed_size_sampled": {"kind": "fixed_size_sampled", "batch_size": 5, "examples": 10, "event": _GAUSSIAN},
    "allocated": {
        "kind": "allocated",
        "steps": 9,
        "event": _GAUSSIAN,
        "times": 2,
        "released": 4,
        "capacity": 20,
        "examples": 100,
    },
    "repeated": {"kind": "repeated", "event": _GAUSSIAN, "times": 3},
    "composed": {"kind": "composed", "events": [_GAUSSIAN, {"kind": "non_private"}]},
    "best_of_trials": {"kind": "best_of_trials", "shape": 0.5, "gamma": 0.1, "event": _GAUSSIAN},
    "non_private": {"kind": "non_private"},
}


@pytest.mark.parametrize("name", _ONE_OF_EACH)
def test_a_field_too_many_or_too_few_is_refused(name: str):
    value = _ONE_OF_EACH[name]
    with pytest.raises(InvalidArgument, match="no field 'sigma'"):
        events.from_json({**value, "sigma": 1.0})
    optional = {"kind", "adjacency", "choices"}
    if name == "allocated":
        optional |= {"times", "released"}
    for field in value.keys() - optional:
        with pytest.raises(InvalidArgument, match=field):
            events.from_json({key: item for key, item in value.items() if key != field})


_WRONG = [None, "1.0", [], {}, True, math.nan, math.inf, -1, -0.5, 10**400, [1], {"kind": 3}]


@pytest.mark.parametrize("name", _ONE_OF_EACH)
def test_a_value_of_the_wrong_kind_or_size_is_refused(name: str):
    let_in = []
    for field, wrong in itertools.product(_ONE_OF_EACH[name].keys() - {"kind"}, _WRONG):
        is_count = field in ("times", "capacity", "choices", "examples", "steps")
        if (field, wrong) in (("events", []), ("shape", -0.5), ("released", None)) or (
            is_count and wrong == 10**400
        ):
            continue  # a value that the field may have; accountants refuse counts beyond measure
        try:
            events.from_json({**_ONE_OF_EACH[name], field: wrong})
        except InvalidArgument:
            continue
        let_in.append((field, wrong))
    assert let_in == []


@pytest.mark.parametrize(
    "value", [None, 3, "gaussian", [], [_GAUSSIAN], {}, {"kind": None}, {"kind": ["gaussian"]}]
)
def test_what_is_no_event_is_refused(value: Any):
    with pytest.raises(InvalidArgument):
        events.from_json(value)


def test_an_unknown_kind_is_refused_with_the_nearest_known_one():
    with pytest.raises(InvalidArgument, match="Did you mean 'gaussian'"):
        events.from_json({"kind": "gausian", "noise_multiplier": 1.0})
    with pytest.raises(InvalidArgument, match="no event of kind"):
        events.from_json({"kind": "__class__"})


@pytest.mark.parametrize("text", ["", "{", "nul", "[1, 2", '{"kind": }', "\x00"])
def test_what_is_no_json_is_refused(text: str):
    with pytest.raises(InvalidArgument):
        events.read(text)


def test_nesting_is_read_as_far_as_python_goes_and_refused_beyond():
    def nested(levels: int) -> str:
        return '{"kind": "repeated", "times": 1, "event": ' * levels + json.dumps(_GAUSSIAN) + "}" * levels

    inner = events.read(nested(50))
    for _ in range(50):
        assert isinstance(inner, events.Repeated)
        inner = inner.event
    assert inner == events.Gaussian(noise_multiplier=1.5)
    for levels in (5000, 200_000):
        with pytest.raises(InvalidArgument):
            events.read(nested(levels))
    value: Any = _GAUSSIAN
    for _ in range(5000):
        value = {"kind": "composed", "events": [value]}
    with pytest.raises(InvalidArgument, match="nested"):
        events.from_json(value)


@pytest.mark.parametrize(
    "make",
    [
        lambda: events.Gaussian(noise_multiplier=0.0),
        lambda: events.Gaussian(noise_multiplier=-1.0),
        lambda: events.Gaussian(noise_multiplier=math.nan),
        lambda: events.Laplace(noise_multiplier=math.inf),
        lambda: events.RandomizedResponse(truth=0.4),
        lambda: events.RandomizedResponse(truth=1.1),
        lambda: events.RandomizedResponse(truth=0.9, choices=1),
        lambda: events.ExponentialMechanism(epsilon=0.0),
        lambda: events.PureDp(epsilon=-1.0),
        lambda: events.ApproximateDp(epsilon=1.0, delta=1.5),
        lambda: events.PoissonSampled(rate=1.5, event=events.NonPrivate()),
        lambda: events.PoissonSampled(rate=-0.1, event=events.NonPrivate()),
        lambda: events.TruncatedPoissonSampled(rate=0.1, capacity=0, examples=9, event=events.NonPrivate()),
        lambda: events.FixedSizeSampled(batch_size=11, examples=10, event=events.NonPrivate()),
        lambda: events.FixedSizeSampled(batch_size=0, examples=10, event=events.NonPrivate()),
        lambda: events.BestOfTrials(shape=-1.0, gamma=0.1, event=events.NonPrivate()),
        lambda: events.BestOfTrials(shape=math.inf, gamma=0.1, event=events.NonPrivate()),
        lambda: events.BestOfTrials(shape=0.0, gamma=0.0, event=events.NonPrivate()),
        lambda: events.BestOfTrials(shape=0.0, gamma=1.0, event=events.NonPrivate()),
        lambda: events.Repeated(event=events.NonPrivate(), times=-1),
        lambda: events.Repeated(event=events.NonPrivate(), times=1.0),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_release_that_cannot_be_is_refused_when_it_is_described(make):
    with pytest.raises(InvalidArgument):
        make()


def test_reach_of_the_adjacencies():
    assert {item: item.reach for item in Adjacency} == {
        Adjacency.ADD_OR_REMOVE: 1,
        Adjacency.REPLACE: 2,
        Adjacency.ZERO_OUT: 1,
    }


def test_epsilon_of_randomised_response_is_the_largest_log_ratio():
    assert events.RandomizedResponse(truth=0.5, choices=4).epsilon == pytest.approx(math.log(3))
    assert math.isinf(events.RandomizedResponse(truth=1.0).epsilon)
    assert events.RandomizedResponse(truth=0.5).epsilon == 0.0
