"""Certificates: the bound of the fast accountant is proved, and nothing that is wrong is."""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import json
import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
import pytest
from mpmath import binomial, mp, mpf

from reticent.accounting import certificate as package
from reticent.accounting.certificate import balls, check, measure, prove, read
from reticent.accounting.certificate.balls import SampledBalls, ball_of
from reticent.accounting.certificate.certificate import Certificate, LossLattice, Span
from reticent.accounting.certificate.measure import Cells
from reticent.accounting.certificate.releases import Released, overfull
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution.dominating import Neighbours, directions
from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.core.errors import DataError, IntegrityError, InvalidArgument, Unavailable, Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_ADD, _REPLACE, _ZERO = Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE, Adjacency.ZERO_OUT


def _times(event: Event, times: int) -> Event:
    return events.Repeated(event=event, times=times)


def _gaussian(noise: float) -> Event:
    return events.Gaussian(noise_multiplier=noise)


def _poisson(event: Event, rate: float = 0.01) -> Event:
    return events.PoissonSampled(rate=rate, event=event)


def _truncated(capacity: int) -> Event:
    return events.TruncatedPoissonSampled(rate=0.01, capacity=capacity, examples=5000, event=_gaussian(1.0))


_LAPLACE = events.Laplace(noise_multiplier=5.0)
_COVERED: dict[str, tuple[Event, Adjacency, int]] = {
    "gaussians": (events.Composed(events=(_gaussian(3.0), _times(_gaussian(8.0), 7))), _ADD, 1),
    "gaussians of a group": (_times(_gaussian(30.0), 9), _REPLACE, 2),
    "laplace": (_times(_LAPLACE, 20), _ADD, 1),
    "laplace replaced": (_times(_LAPLACE, 5), _REPLACE, 1),
    "poisson": (_times(_poisson(_gaussian(1.0)), 20), _ADD, 1),
    "poisson blanked": (_times(_poisson(_gaussian(1.0)), 3), _ZERO, 1),
    "poisson replaced": (_times(_poisson(_gaussian(1.0)), 4), _REPLACE, 1),
    "poisson of a group": (_times(_poisson(_gaussian(2.0)), 3), _ADD, 3),
    "poisson laplace": (_times(_poisson(_LAPLACE), 10), _ZERO, 1),
    "poisson of a claim": (_times(_poisson(events.PureDp(epsilon=0.3)), 50), _ADD, 1),
    "roomy": (_times(_truncated(120), 3), _ADD, 1),
    "often overfull": (_times(_truncated(50), 3), _ADD, 1),
    "often overfull, blanked": (_times(_truncated(60), 2), _ZERO, 1),
    "always overfull, of a group": (_times(_truncated(1), 1), _ADD, 2),
    "fixed": (
        _times(events.FixedSizeSampled(batch_size=50, examples=5000, event=_gaussian(2.0)), 5),
        _REPLACE,
        1,
    ),
    "full": (_times(_poisson(_gaussian(20.0), 1.0), 50), _ADD, 1),
    "never": (_times(_poisson(_gaussian(20.0), 0.0), 50), _ADD, 1),
    "answers": (_times(events.RandomizedResponse(truth=0.4, choices=4), 20), _REPLACE, 1),
    "pure": (_times(events.PureDp(epsilon=0.1), 30), _ADD, 1),
    "pure replaced": (_times(events.PureDp(epsilon=0.1), 30), _REPLACE, 1),
    "approximate": (_times(events.ApproximateDp(epsilon=0.1, delta=1e-9), 20), _ADD, 3),
    "all of delta": (events.ApproximateDp(epsilon=0.1, delta=1e-6), _ADD, 1),
    "mixed": (
        events.Composed(events=(_times(_poisson(_gaussian(1.0)), 5), _gaussian(3.0), _times(_LAPLACE, 2))),
        _ADD,
        1,
    ),
    "nothing": (events.Composed(events=()), _ADD, 1),
}


@pytest.mark.parametrize("name", _COVERED)
def test_the_fast_bound_is_proved_from_the_text_alone(name: str):
    event, adjacency, group = _COVERED[name]
    found = tight(event, 1e-6, adjacency, group=group).upper
    certificate = prove(event, found, 1e-6, adjacency, group=group)
    assert certificate.epsilon == found
    again = read(certificate.write())
    assert again == certificate
    check(again)


@pytest.mark.parametrize(
    "name",
    ["gaussians", "poisson", "poisson replaced", "poisson of a group", "often overfull", "fixed", "mixed"],
)
def test_nothing_below_the_lower_bound_is_proved(name: str):
    event, adjacency, group = _COVERED[name]
    found = tight(event, 1e-6, adjacency, group=group)
    honest = prove(event, found.upper, 1e-6, adjacency, group=group)
    wrong = _with(honest, epsilon=found.lower * (1 - 1e-6))
    with pytest.raises(Unproven, match="does not prove"):
        check(read(wrong))


_HONEST = prove(_times(_poisson(_gaussian(1.0)), 20), 0.7, 1e-6, distance=1e-14)
_EDITS: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 0.5},
    "delta": {"delta": 1e-9},
    "times": {"event": {**events.to_json(_HONEST.event), "times": 300}},
    "noise": {"event": events.to_json(_times(_poisson(_gaussian(0.6)), 20))},
    "rate": {"event": events.to_json(_times(_poisson(_gaussian(1.0), 0.05), 20))},
    "group": {"group": 4},
    "adjacency": {"adjacency": "replace"},
    "distance": {"distance": 1e-6},
    "no lattice": {"removed": {"spacing": 1.0, "spans": []}},
    "few bits": {"bits": 12},
    "a lattice that ends early": {"removed": {"spacing": _HONEST.removed.spacing, "spans": [[0.0, -9, 9]]}},
}


def _with(certificate: Certificate, **changes: Any) -> str:
    """The certificate with other numbers and a hash that fits them."""
    said = {**certificate.to_json(), **changes}
    del said["sha256"]
    return _hashed(said)


def _hashed(said: dict[str, Any]) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return json.dumps({**said, "sha256": hashlib.sha256(text.encode()).hexdigest()})


@pytest.mark.parametrize("name", _EDITS)
def test_an_edited_number_fails_the_proof_even_where_the_hash_was_made_anew(name: str):
    with pytest.raises(Unproven):
        check(read(_with(_HONEST, **_EDITS[name])))


_STRANGE: list[Any] = [None, True, "", "1", [], {}, [[1]], -1, 0, 1, 3, 0.1, -0.0, 1e-300, 1e308, 10**30]


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value in a JSON text, the outermost left out."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inside:
        yield (*path, name)
        yield from _places(item, (*path, name))


def _edited(said: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(said))
    inner = copy
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    return copy


def test_whatever_stands_in_any_place_only_true_claims_pass():
    """Every number, list and object replaced by every strange value, with a hash that fits."""
    said, passed, refused = _HONEST.to_json(), [], 0
    del said["sha256"]
    for path in _places(said):
        for value in _STRANGE:
            try:
                claim = read(_hashed(_edited(said, path, value)))
                check(claim)
            except (DataError, Unproven):
                refused += 1
                continue
            passed.append(path)
            least = tight(claim.event, claim.delta, claim.adjacency, group=claim.group).lower
            assert claim.epsilon >= least * (1 - 1e-9), (path, value)
    assert refused > 15 * len(passed) / 2
    assert {path[0] for path in passed} <= {
        "epsilon",
        "delta",
        "event",
        "distance",
        "removed",
        "added",
        "group",
    }


def test_the_proof_of_another_event_proves_nothing_here():
    other = prove(_times(_poisson(_gaussian(1.0)), 2), 0.45, 1e-6)
    lattices = {side: other.to_json()[side] for side in ("removed", "added", "bits")}
    with pytest.raises(Unproven, match="does not prove"):
        check(read(_with(_HONEST, **lattices, epsilon=0.45)))


def test_what_was_not_edited_passes_and_says_what_it_proves():
    check(read(_with(_HONEST)))
    assert str(_HONEST).startswith("(0.7, 1e-06)-differential privacy for adding or removing one record")


def test_an_edit_is_seen_by_the_hash_before_anything_is_proved():
    text = _HONEST.write()
    with pytest.raises(IntegrityError, match="changed after it was written"):
        read(text.replace('"times": 20', '"times": 19'))
    for at, digit in enumerate(text):  # any one digit, in any field, the hash itself included
        if digit.isdigit():
            with contextlib.suppress(DataError):  # a seventeenth digit may write the same float
                assert read(f"{text[:at]}{(int(digit) + 1) % 10}{text[at + 1 :]}") == _HONEST


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format": "reticent certificate 2"}',
        _HONEST.write().replace('"epsilon": 0.7', '"epsilon": NaN'),
        _HONEST.write().replace('"bits": ', '"bits": 9999'),
        _HONEST.write().replace('"group": 1', '"group": true'),
        _HONEST.write().replace('"add-or-remove"', '"whatever"'),
        _HONEST.write().replace('"group": 1', '"groups": 1'),
        _HONEST.write().replace('"spans": [', '"spans": [[0.0, 0, 99999999999999],'),
        _HONEST.write().replace('"epsilon": 0.7', '"epsilon": 0.7, "epsilon": 0.5'),
        _HONEST.write().replace('"epsilon": 0.7', '"epsilon": 1e999'),
        _HONEST.write().replace('"times": 20', f'"times": 1{400 * "0"}'),
        _HONEST.write().replace('"event": {', 150 * '{"kind": "repeated", "times": 1, "event": ', 1)
        + 150 * "}",
    ],
)
def test_what_is_not_a_certificate_is_refused_in_words(text: str):
    with pytest.raises(DataError, match="not a certificate"):
        read(text)


def test_what_no_certificate_covers_is_refused_in_words():
    trials = events.BestOfTrials(shape=1.0, gamma=0.5, event=_gaussian(1.0))
    with pytest.raises(Unproven, match="No certificate covers BestOfTrials"):
        prove(trials, 5.0, 1e-6)
    with pytest.raises(Unproven, match="No certificate covers FixedSizeSampled"):
        prove(events.FixedSizeSampled(batch_size=2, examples=9, event=_gaussian(1.0)), 5.0, 1e-6)
    with pytest.raises(Unproven, match="infinite"):
        prove(_gaussian(1.0), math.inf, 1e-6)
    with pytest.raises(Unproven, match=r"No epsilon up to 0\.1"):
        prove(_times(_poisson(_gaussian(1.0)), 2), 0.1, 1e-6)


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name == "flint":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.delitem(sys.modules, "flint")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Unavailable, match=r"'python-flint'.*pip install 'reticent\[certify\]'"):
        guarantee(_gaussian(2.0), 1e-5).certify()


def test_a_guarantee_certifies_itself_with_what_its_samplers_take():
    promise = guarantee(_times(_truncated(120), 3), 1e-6)
    found = promise.certify()
    assert (found.epsilon, found.delta, found.distance) == (promise.epsilon, 1e-6, promise.distance)
    assert promise.distance > 0
    read_back = Guarantee(epsilon=1.0, delta=1e-5, adjacency=_ADD, accountant="a file")
    with pytest.raises(InvalidArgument, match="does not know what was released"):
        read_back.certify()


def test_the_checker_shares_no_code_with_the_fast_accountant():
    """Of the package it imports errors, checks of arguments, JSON, and the words for events."""
    folder = Path(package.__file__).parent
    allowed = ("reticent.core", "reticent.mechanisms", "reticent.accounting.certificate")
    for name in ("balls", "measure", "releases", "certificate", "checker"):
        tree = ast.parse((folder / f"{name}.py").read_text(encoding="utf-8"))
        found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        modules = [node.module or "" for node in found if isinstance(node, ast.ImportFrom)]
        modules += [item.name for node in found if isinstance(node, ast.Import) for item in node.names]
        for module in modules:
            assert not module.startswith("reticent") or module.startswith(allowed), (name, module)
            assert module.partition(".")[0] not in ("numpy", "scipy", "mpmath"), (name, module)
        assert "prover" not in " ".join(modules), name


def test_balls_hold_the_masses_of_the_fast_pairs():
    """Two programs, one theorem: they agree to nine digits on both sides of every edge."""
    import numpy as np

    edges = np.array([-0.9, -0.31, -0.02, 0.004, 0.13, 0.77])
    for name, (event, adjacency, group) in _COVERED.items():
        if "gaussians" in name:  # joined into one
            continue
        with flint.ctx.workprec(160):
            for found in Released(event, adjacency, group).releases():
                item = next(iter(Released(event, adjacency, group).counts()))
                if len(Released(event, adjacency, group).counts()) > 1:
                    continue
                fast = directions(item, Neighbours(adjacency, group))
                fast = fast.without_slack or fast
                for pair, other in ((found.removed, fast.removed), (found.added, fast.added)):
                    masses = other.masses(edges)
                    for i, edge in enumerate(edges):
                        split = pair.split(ball_of(float(edge)))
                        assert float(split.p_below) == pytest.approx(masses.p[: i + 1].sum(), abs=2e-9), name
                        assert float(split.q_above) == pytest.approx(masses.q[i + 1 :].sum(), abs=2e-9), name
                        assert float(split.p_above + split.p_below) == pytest.approx(1), name
                        assert float(split.q_above + split.q_below) == pytest.approx(1), name


def test_the_chance_of_an_overfull_batch_is_next_to_the_exact_one_and_above_it():
    with mp.workdps(50), flint.ctx.workprec(160):
        for capacity, most, rate in (
            (20, 100, 0.1),
            (60, 5000, 0.01),
            (3, 5, 0.5),
            (500, 60_000, 256 / 60_000),
        ):
            exact = mp.fsum(
                binomial(most, k) * mpf(rate) ** k * (1 - mpf(rate)) ** (most - k)
                for k in range(capacity + 1, min(most, capacity + 600) + 1)
            )
            found = overfull(capacity, most, Fraction(rate))
            assert found > flint.arb(mp.nstr(exact * (1 - mpf(10) ** -40), 45))
            assert float(found) == pytest.approx(float(mp.nstr(exact, 17)), rel=1e-12)
        assert overfull(5, 5, Fraction(1, 2)) == 0
        assert overfull(10, 10**9, Fraction(1, 2)) == 1  # far below the mean: no bound but this


def test_masses_are_never_rounded_down_and_none_is_lost():
    """One release on a lattice has at least the mass of the truth right of every point."""
    bits = 60
    with flint.ctx.workprec(200):
        pair = SampledBalls(balls.GaussianBalls(ball_of(1)), ball_of(Fraction(1, 8)))
        cells = Cells(Fraction(1, 16), Fraction(1, 100), -5, 60)
        one = measure.round_up(pair, cells, bits)
        several = measure.power(one, 13, bits, 100)
        for found in (one, several):
            total = found.masses(1) + found.infinite
            assert 2**bits <= total <= 2**bits + 20_000
        exact = one.masses**13
        for power in (several, measure.power(one, 13, bits, 0)):
            # Right of every loss lies at least what lies there in exact arithmetic.
            shift = power.first - 13 * one.first
            above = sum(exact[i] for i in range(40 + shift, len(exact)))
            kept = sum(power.masses[i] for i in range(40, len(power.masses))) + power.infinite
            assert kept * flint.fmpz(2) ** (12 * bits) >= above


def test_delta_on_a_lattice_is_the_sum_that_defines_it():
    bits = 40
    masses = [3, 1, 4, 1, 5, 9, 2, 6]
    with flint.ctx.workprec(160):
        found = measure.LossMeasure(-3, flint.fmpz_poly(masses), flint.fmpz(7))
        spacing, offset, epsilon = Fraction(1, 4), Fraction(1, 10), Fraction(3, 10)
        value = float(measure.delta_at(found, spacing, offset, epsilon, bits)) * 2**bits
        losses = [float(offset + spacing * (i - 3)) for i in range(len(masses))]
        expected = 7 + sum(m * max(0.0, 1 - math.exp(0.3 - x)) for m, x in zip(masses, losses, strict=True))
        assert value == pytest.approx(expected, rel=1e-12)


def test_two_overlapping_balls_decide_nothing():
    with flint.ctx.workprec(30):
        third = ball_of(Fraction(1, 3))
        pair = balls.AtomBalls(((third, third, third),), third, third)
        with pytest.raises(balls.Undecided):
            pair.split(ball_of(Fraction(1, 3)))


def test_a_certificate_with_another_number_of_lattices_is_refused():
    spans = (Span(0.0, -9, 9), Span(0.0, -9, 9))
    text = _with(_HONEST, removed={"spacing": 0.1, "spans": [list(span) for span in spans]})
    with pytest.raises(Unproven, match="2 spans for 1 kinds"):
        check(read(text))
    assert read(text).removed == LossLattice(0.1, spans)
