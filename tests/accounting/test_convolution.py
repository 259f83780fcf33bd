"""The Fourier composition against direct convolution in extended precision: its stated error is real."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting.loss_distribution import convolution, window
from reticent.accounting.loss_distribution.convolution import compose
from reticent.accounting.loss_distribution.distribution import RepeatedPair, lower_epsilon, upper_epsilon
from reticent.accounting.loss_distribution.lattice import Lattice, RepeatedLattice, Sketch, round_up, sketch
from reticent.accounting.loss_distribution.pairs import AtomPair, GaussianPair, LaplacePair, Pair, SampledPair
from reticent.accounting.theorems import composition, gaussian_dp
from reticent.mechanisms.events import Gaussian, PoissonSampled, Repeated

tight: Any = importlib.import_module("reticent.accounting.tight_epsilon")  # the module, not the function

_LONG = np.longdouble


def _copy(lattice: Lattice) -> Sketch:
    some = lattice.masses > 0
    losses, masses = lattice.losses[some], lattice.masses[some]
    return Sketch(losses, masses, losses, np.cumsum(masses), np.cumsum(masses[::-1])[::-1])


def response_pair(epsilon: float) -> AtomPair:
    truth = 1 / (1 + math.exp(-epsilon))
    return AtomPair((-epsilon, epsilon), (1 - truth, truth), (truth, 1 - truth))


def _random_lattice(rng: np.random.Generator, spacing: float) -> Lattice:
    size = int(rng.integers(2, 40))
    masses = rng.random(size) ** 4
    masses[rng.random(size) < 0.3] = 0.0
    masses[rng.integers(size)] += 5.0  # most mass in one place, as with rare sampling
    infinite = float(rng.choice([0.0, 1e-9]))
    masses *= (1 - infinite) / masses.sum()
    return Lattice(
        spacing, float(rng.uniform(-spacing, spacing)), -int(rng.integers(0, size)), masses, infinite
    )


def _direct(parts: list[RepeatedLattice]) -> tuple[np.ndarray, np.ndarray]:
    """Losses and masses of the composition, by repeated convolution in extended precision."""
    total, first, shift = np.ones(1, _LONG), 0, 0.0
    for part in parts:
        masses = part.lattice.masses.astype(_LONG)
        for _ in range(part.times):
            total = np.convolve(total, masses)
        first += part.times * part.lattice.first
        shift += part.times * part.lattice.offset
    return shift + parts[0].lattice.spacing * (first + np.arange(len(total))), total


def _composition(parts: list[RepeatedLattice], tilt: float, width: float, tolerated: float = 1e-9):
    return compose(parts, [_copy(part.lattice) for part in parts], tilt, width, tolerated)


def _in_window(composed: convolution.Composition, losses: np.ndarray, masses: np.ndarray):
    """The direct masses on the points of the window, tilted; and what lies outside of it, tilted."""
    step = composed.losses[1] - composed.losses[0]
    index = np.rint((losses - composed.losses[0]) / step).astype(int)
    tilted = masses * np.exp((composed.tilt * losses - composed.log_scale).astype(_LONG))
    inside = (index >= 0) & (index < len(composed.losses))
    window = np.zeros(len(composed.losses), _LONG)
    window[index[inside]] = tilted[inside]
    wrapped = window.copy()
    np.add.at(wrapped, index[~inside] % len(window), tilted[~inside])
    return window, wrapped, float(tilted[~inside].sum())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    times=st.lists(st.integers(1, 24), min_size=1, max_size=3),
    tilt=st.floats(0.02, 30),
    width=st.floats(0.5, 40),
)
def test_every_mass_is_within_the_stated_error_of_the_direct_one(seed, times, tilt: float, width: float):
    rng = np.random.default_rng(seed)
    parts = [RepeatedLattice(_random_lattice(rng, 0.05), count) for count in times]
    composed = _composition(parts, tilt, width)
    losses, masses = _direct(parts)
    inside, wrapped, outside = _in_window(composed, losses, masses)
    # Wrapped around the window, the transform is what it should be, and the rest is accounted for.
    slack = composed.error + composed.relative * np.asarray(wrapped, float) + 1e-17
    assert np.all(np.abs(composed.mass - wrapped) <= slack)
    assert outside <= composed.outside * (1 + composed.relative) + 1e-15
    right = masses[losses > composed.losses[-1] + 1e-9]
    assert float(right.sum()) <= composed.beyond * (1 + composed.relative) + 1e-300
    assert composed.error < 1e-9
    # The window starts with what is inside, so an upper bound from it counts at least that.
    assert np.all(composed.mass + slack >= np.asarray(inside, float))
    # Right of a central loss, what came round counts for no more than is said of it.
    for least in composed.losses[[composed.is_central(loss) for loss in composed.losses]]:
        right = composed.losses > least
        weights = np.exp(-composed.tilt * (composed.losses[right] - least))
        came = float(np.sum((wrapped - inside)[right] * weights))
        assert came <= composed.returning * (1 + composed.relative) + 1e-15


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    times=st.lists(st.integers(1, 24), min_size=1, max_size=3),
    tilt=st.floats(0.02, 30),
    log_delta=st.floats(math.log(1e-12), math.log(0.3)),
)
def test_epsilon_read_off_is_on_the_right_side_of_the_direct_one(seed, times, tilt: float, log_delta: float):
    rng = np.random.default_rng(seed)
    parts = [RepeatedLattice(_random_lattice(rng, 0.05), count) for count in times]
    delta = math.exp(log_delta)
    composed = _composition(parts, tilt, 40.0)
    losses, masses = _direct(parts)
    infinite = -math.expm1(math.fsum(p.times * math.log1p(-p.lattice.infinite) for p in parts))

    def exact(epsilon: float) -> float:
        return infinite + float(masses @ np.maximum(-np.expm1(epsilon - losses), 0.0))

    above, below = composed.epsilon_above(delta), composed.epsilon_below(delta)
    if above is not None and math.isfinite(above):
        assert exact(above) <= delta * (1 + 1e-9)
    if below is not None and 0 < below < math.inf:
        assert exact(below) >= delta * (1 - 1e-9)
    if below is not None and math.isinf(below):
        assert infinite > delta


def test_the_claimed_error_is_not_idle():
    """It bounds the real error, and is within a few orders of it, so that nobody is tempted to drop it."""
    rng = np.random.default_rng(1)
    lattice = _random_lattice(rng, 0.05)
    composed = _composition([RepeatedLattice(lattice, 200)], 1.0, 60.0)
    losses, masses = _direct([RepeatedLattice(lattice, 200)])
    _, wrapped, _ = _in_window(composed, losses, masses)
    real = float(np.abs(composed.mass - wrapped).max())
    assert real <= composed.error + composed.relative * float(wrapped.max())
    assert composed.error < 1e-8


@pytest.mark.parametrize("times", [1, 3, 100, 10_000, 10**6])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-12])
def test_binomial_losses_of_randomised_response(times: int, delta: float):
    """Two losses, so that the composition is binomial: an independent closed form at any T."""
    epsilon = 1 / math.sqrt(times)
    truth = 1 / (1 + math.exp(-epsilon))
    pair = AtomPair((-epsilon, epsilon), (1 - truth, truth), (truth, 1 - truth))
    exact = composition.optimal(epsilon, 0.0, times, delta)
    upper = upper_epsilon([RepeatedPair(pair, times)], delta)
    lower = lower_epsilon([RepeatedPair(pair, times)], delta, near=upper)
    assert lower <= exact * (1 + 1e-7) + 1e-12
    assert exact * (1 - 1e-7) <= upper
    assert upper - lower <= 1e-3 * max(exact, 1)


@pytest.mark.parametrize(
    ("pair", "times", "delta"),
    [
        (LaplacePair(16 / 3.031292650103419), 4, 1.4666639951369723e-18),
        (LaplacePair(2 / 2.1123302022682258), 26, 2.3513590387606996e-19),
        (LaplacePair(1.0), 3, 1e-15),
        (response_pair(0.00044936926040148794), 9, 4.416768405002201e-18),
        (response_pair(0.1), 9, 1e-15),
        (response_pair(5.0), 2, 1e-20),
    ],
)
def test_a_largest_loss_that_is_likelier_than_delta_is_paid_in_full(pair: Pair, times: int, delta: float):
    """A small leeway at the heaviest point once sent the crossing far to its left: 20.69 for 21.11."""
    top = times * max(pair.atoms())
    upper = upper_epsilon([RepeatedPair(pair, times)], delta)
    lower = lower_epsilon([RepeatedPair(pair, times)], delta, near=upper)
    assert lower <= top * (1 + 1e-12)
    assert upper >= top * (1 - 1e-9)
    assert upper - lower <= 1e-3 * top


@settings(max_examples=80)
@given(
    epsilon=st.floats(1e-5, 6),
    times=st.integers(1, 30),
    log_delta=st.floats(math.log(1e-25), math.log(1e-2)),
    is_laplace=st.booleans(),
)
def test_bounded_losses_are_in_the_bracket(epsilon: float, times: int, log_delta: float, is_laplace: bool):
    """delta(eps) is at least the mass of the largest loss times 1 - e^(eps - loss): a floor under `upper`."""
    pair, delta = LaplacePair(epsilon) if is_laplace else response_pair(epsilon), math.exp(log_delta)
    truth = 0.5 if is_laplace else 1 / (1 + math.exp(-epsilon))
    top, mass = times * epsilon, truth**times
    upper = upper_epsilon([RepeatedPair(pair, times)], delta)
    assert lower_epsilon([RepeatedPair(pair, times)], delta, near=upper) <= upper * (1 + 1e-12)
    if delta < mass:
        assert upper >= (top + math.log1p(-delta / mass)) * (1 - 1e-9) - 1e-12
    if not is_laplace:
        exact = composition.optimal(epsilon, 0.0, times, delta)
        assert upper >= exact * (1 - 1e-9) - 1e-12


# --- planted bugs: each would make the package claim too little, and each is seen


def _exact_pair() -> tuple[list[RepeatedPair], float]:
    return [RepeatedPair(GaussianPair(0.1), 100)], 1e-5


def _exact() -> float:
    return gaussian_dp.epsilon(1.0, 1e-5)


def test_planted_dropped_wrap_term_lifts_the_lower_bound_above_the_truth(monkeypatch: pytest.MonkeyPatch):
    """On a window too narrow for the composition, mass comes round; without its term it counts twice."""
    pair = SampledPair(GaussianPair(2.0), 0.3)
    lattice = round_up(pair, 0.05, 0.0, -2.0, 12.0)
    parts, copies = [RepeatedLattice(lattice, 20)], [sketch(pair)]
    monkeypatch.setattr(window, "_LARGEST_WINDOW", 128)
    composed = compose(parts, copies, 0.5, 1.0, 1e-12)
    losses, masses = _direct(parts)

    def exact(epsilon: float) -> float:
        gains = masses @ np.maximum(-np.expm1(epsilon - losses), 0.0)
        return float(gains) - math.expm1(20 * math.log1p(-lattice.infinite))

    delta = exact(float(composed.losses[len(composed.losses) // 2]))
    planted = composed._replace(outside=0.0, returning=0.0).epsilon_below(delta)
    honest = composed.epsilon_below(delta)
    assert planted is not None
    assert exact(planted) < delta * (1 - 1e-3)  # too high: a false claim
    assert honest is None or honest == 0 or exact(honest) >= delta * (1 - 1e-9)


def test_planted_dropped_tail_beyond_the_window_is_seen():
    pair = SampledPair(GaussianPair(2.0), 0.3)
    lattice = round_up(pair, 0.05, 0.0, -2.0, 12.0)
    composed = compose([RepeatedLattice(lattice, 20)], [sketch(pair)], 0.5, 6.0, 1e-3)
    losses, masses = _direct([RepeatedLattice(lattice, 20)])
    right = float(masses[losses > composed.losses[-1] + 1e-9].sum())
    assert 0 < right <= composed.beyond
    assert composed._replace(beyond=0.0).beyond < right


def test_planted_dropped_infinite_mass_is_seen():
    leaky = AtomPair((-math.inf, -0.1, 0.1, math.inf), *_leaky(1e-6, 0.1))
    releases = [RepeatedPair(leaky, 20)]
    assert math.isinf(upper_epsilon(releases, 1.9e-5))
    assert math.isinf(lower_epsilon(releases, 1.9e-5))
    assert math.isfinite(upper_epsilon(releases, 2.1e-5))


def _leaky(delta: float, epsilon: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    high = (1 - delta) / (1 + math.exp(-epsilon))
    low = 1 - delta - high
    return (0.0, low, high, delta), (delta, high, low, 0.0)


def test_planted_counts_and_noise_leave_the_bracket(monkeypatch: pytest.MonkeyPatch):
    releases, delta = _exact_pair()
    assert lower_epsilon(releases, delta) <= _exact() <= upper_epsilon(releases, delta)
    whole = convolution._convolve

    def one_less(parts, tilted, size, origin, tolerated):
        fewer = [part._replace(times=part.times - 1) for part in parts]
        return whole(fewer, tilted, size, origin, tolerated)

    monkeypatch.setattr(convolution, "_convolve", one_less)
    assert not lower_epsilon(releases, delta) <= _exact() <= upper_epsilon(releases, delta)


def test_planted_skipped_direction_is_seen(monkeypatch: pytest.MonkeyPatch):
    """Mostly removing is the worse direction; here adding is."""
    event = Repeated(event=PoissonSampled(rate=0.9, event=Gaussian(noise_multiplier=2.0)), times=1)
    sides = tight._sides
    honest = {delta: tight.tight(event, delta) for delta in (0.1, 0.01, 1e-3, 1e-5)}
    one_sided: dict[int, list[float]] = {}
    for kept in (0, 1):
        monkeypatch.setattr(
            tight, "_sides", lambda parts, attained, kept=kept: [sides(parts, attained=attained)[kept]]
        )
        one_sided[kept] = [tight.tight(event, delta).upper for delta in honest]
    lowers = [cost.lower for cost in honest.values()]
    assert any(found < lower for found, lower in zip(one_sided[0] + one_sided[1], lowers * 2, strict=True))
    for kept in (0, 1):
        for found, cost in zip(one_sided[kept], honest.values(), strict=True):
            assert found <= cost.upper * (1 + 1e-3)
