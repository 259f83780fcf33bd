"""Which events have a theorem under which neighbours, and what the theorem's pairs are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from mpmath import binomial, mp, mpf

from reticent.accounting.accountants import ACCOUNTANTS
from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.distribution import RepeatedPair, lower_epsilon
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.loss_distribution.pairs import (
    AtomPair,
    GaussianPair,
    LaplacePair,
    MixturePair,
    SampledPair,
)
from reticent.accounting.theorems import gaussian_dp, zcdp
from reticent.accounting.tight_epsilon import bracket_event, tight
from reticent.core.errors import ReticentError, Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

_GAUSSIAN = events.Gaussian(noise_multiplier=2.0)
_LAPLACE = events.Laplace(noise_multiplier=2.0)
_PURE = events.PureDp(epsilon=1.0)
_EVERY = [(adjacency, size) for adjacency in Adjacency for size in (1, 3)]


def _poisson(inner: Event, rate: float = 0.1) -> Event:
    return events.PoissonSampled(rate=rate, event=inner)


def _fixed(inner: Event) -> Event:
    return events.FixedSizeSampled(batch_size=1, examples=10, event=inner)


_ADD, _REPLACE, _ZERO = Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE, Adjacency.ZERO_OUT
_COVERED: dict[str, tuple[Event, set[tuple[Adjacency, int]]]] = {
    "gaussian": (_GAUSSIAN, set(_EVERY)),
    "laplace": (_LAPLACE, set(_EVERY)),
    "claim": (_PURE, {(_ADD, 1), (_ADD, 3), (_REPLACE, 1), (_REPLACE, 3)}),
    "claim of replacement": (
        events.PureDp(epsilon=1.0, adjacency=_REPLACE),
        {(_REPLACE, 1), (_REPLACE, 3)},
    ),
    "claim of zeroing out": (events.PureDp(epsilon=1.0, adjacency=_ZERO), {(_ZERO, 1), (_ZERO, 3)}),
    "response": (events.RandomizedResponse(truth=0.75), {(_REPLACE, 1)}),
    "poisson gaussian": (_poisson(_GAUSSIAN), {(_ADD, 1), (_ADD, 3), (_ZERO, 1), (_ZERO, 3), (_REPLACE, 1)}),
    "poisson laplace": (_poisson(_LAPLACE), {(_ADD, 1), (_ZERO, 1)}),
    "poisson claim": (_poisson(_PURE), {(_ADD, 1)}),
    "poisson claim of zeroing out": (_poisson(events.PureDp(epsilon=1.0, adjacency=_ZERO)), set()),
    "poisson twice": (_poisson(_poisson(_GAUSSIAN)), set()),
    "fixed gaussian": (_fixed(_GAUSSIAN), {(_REPLACE, 1)}),
    "fixed claim": (_fixed(_PURE), {(_REPLACE, 1)}),
    "truncated": (
        events.TruncatedPoissonSampled(rate=0.1, capacity=60, examples=100, event=_GAUSSIAN),
        {(_ADD, 1), (_ADD, 3), (_ZERO, 1), (_ZERO, 3), (_REPLACE, 1)},
    ),
}


@pytest.mark.parametrize("name", _COVERED)
def test_only_what_has_a_theorem_is_accounted_for(name: str):
    event, covered = _COVERED[name]
    for neighbours in _EVERY:
        if neighbours in covered:
            dominating.directions(event, Neighbours(*neighbours))
        else:
            with pytest.raises(Unproven):
                dominating.directions(event, Neighbours(*neighbours))


@pytest.mark.parametrize("name", _COVERED)
def test_rows_that_amplify_refuse_what_the_loss_distribution_refuses(name: str):
    event, covered = _COVERED[name]
    for accountant, neighbours in itertools.product(("basic", "advanced", "rdp", "pld"), _EVERY):
        if neighbours in covered or name == "response":
            continue
        with pytest.raises(Unproven):
            ACCOUNTANTS[accountant](event, 1e-5, Neighbours(*neighbours))


def test_the_coin_does_not_hide_a_blank_record_from_a_mechanism_known_only_by_its_guarantee():
    """A counterexample: it answers for the record by randomised response, or says that it is not there.

    Blanking out the record changes the answer by epsilon only, so it is epsilon-DP under zero-out. On a
    Poisson batch the loss is epsilon with probability about `rate`, not ln(1 + rate (e^epsilon - 1)).
    """
    rate, epsilon, delta = 0.01, 1.0, 1e-5
    truth = 1 / (1 + math.exp(-epsilon))
    pair = AtomPair(
        (-epsilon, 0.0, epsilon),
        (rate * (1 - truth), 1 - rate, rate * truth),
        (rate * truth, 1 - rate, rate * (1 - truth)),
    )
    real = lower_epsilon([RepeatedPair(pair, 1)], delta)
    assert real > 0.9 > math.log1p(rate * math.expm1(epsilon))
    event = _poisson(events.PureDp(epsilon=epsilon, adjacency=_ZERO), rate)
    for name in ("basic", "advanced", "pld", "rdp"):
        with pytest.raises(Unproven):
            ACCOUNTANTS[name](event, delta, Neighbours(_ZERO))
    assert zcdp.epsilon(event, delta, Neighbours(_ZERO)) >= real  # which claims no amplification


@pytest.mark.parametrize(
    "event",
    [
        events.FixedSizeSampled(batch_size=1, examples=2, event=events.Gaussian(noise_multiplier=1.0)),
        events.TruncatedPoissonSampled(
            rate=1.0, capacity=1, examples=1, event=events.Gaussian(noise_multiplier=1.0)
        ),
    ],
)
def test_a_record_more_that_pushes_another_out_of_the_batch_moves_the_sum_twice_as_far(event: Event):
    # A batch of one: {-1} gives N(-1), {-1, +1} gives either of N(-1), N(+1) with a half each.
    pair = SampledPair(GaussianPair(2.0), 0.5)
    real = lower_epsilon([RepeatedPair(pair, 1)], 1e-5)
    assert real > 8.9
    for name, accountant in ACCOUNTANTS.items():
        try:
            assert accountant(event, 1e-5, Neighbours(_ADD)) >= real, name
        except Unproven:
            continue


def test_the_exponential_mechanism_has_a_lower_bound_that_bounded_range_allows():
    event = events.Repeated(event=events.ExponentialMechanism(epsilon=0.05), times=2000)
    proved = zcdp.to_epsilon(2000 * zcdp.exponential(0.05), 1e-5)
    bracket = bracket_event(event, 1e-5, Neighbours(_ADD))
    assert 0 < bracket.lower <= proved < bracket.upper
    assert tight(event, 1e-5).upper <= proved * (1 + 1e-3)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_group_of_a_pure_claim_has_a_lower_bound_that_some_mechanism_attains(size: int):
    # Laplace noise of scale 1/epsilon is epsilon-DP; for a group it is Laplace noise of scale 1/(k epsilon).
    claimed = bracket_event(events.PureDp(epsilon=0.3), 1e-3, Neighbours(_ADD, size))
    laplace = bracket_event(events.Laplace(noise_multiplier=1 / 0.3), 1e-3, Neighbours(_ADD, size))
    assert claimed.lower <= laplace.upper <= claimed.upper * (1 + 1e-9)
    assert claimed.lower >= laplace.lower * (1 - 1e-3)


def test_a_claim_about_adding_counts_twice_under_replacement_and_nothing_follows_backwards():
    assert dominating.claim(_PURE, 1.0, 1e-6, _ADD, Neighbours(_REPLACE)) == (
        2.0,
        pytest.approx(1e-6 * (1 + math.e)),
    )
    for own, asked in [(_REPLACE, _ADD), (_ZERO, _ADD), (_ADD, _ZERO), (_REPLACE, _ZERO), (_ZERO, _REPLACE)]:
        with pytest.raises(Unproven):
            dominating.claim(_PURE, 1.0, 0.0, own, Neighbours(asked))


def test_gaussians_join_into_one_and_nothing_else_does():
    event = events.Composed(
        events=(
            events.Repeated(event=events.Gaussian(noise_multiplier=3.0), times=9),
            events.Gaussian(noise_multiplier=1.0),
            _LAPLACE,
            events.Repeated(event=_LAPLACE, times=2),
        )
    )
    counts = dominating.flatten(event)
    assert counts[_LAPLACE] == 3
    (joined,) = [item for item in counts if isinstance(item, events.Gaussian)]
    assert joined.noise_multiplier == pytest.approx(1 / math.sqrt(2), rel=1e-15)
    assert counts[joined] == 1


def test_several_gaussians_on_one_batch_are_one_release():
    twice = _poisson(events.Repeated(event=_GAUSSIAN, times=4))
    once = _poisson(events.Gaussian(noise_multiplier=1.0))
    assert dominating.directions(twice, Neighbours(_ADD)) == dominating.directions(once, Neighbours(_ADD))


@pytest.mark.parametrize("group", [0, -1, 1.5, True, math.nan])
def test_a_group_is_a_whole_number_of_records(group: float):
    with pytest.raises(ReticentError):
        dominating.directions(_GAUSSIAN, Neighbours(_ADD, group))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("capacity", "examples", "rate"), [(20, 100, 0.1), (400, 60_000, 256 / 60_000), (3, 3, 0.5), (10, 1, 1.0)]
)
def test_the_chance_of_an_overfull_batch_is_never_understated(capacity: int, examples: int, rate: float):
    event = events.TruncatedPoissonSampled(rate=rate, capacity=capacity, examples=examples, event=_GAUSSIAN)
    for size in (1, 2):
        slack = dominating.directions(event, Neighbours(_ADD, size)).slack
        trials = examples + size
        with mp.workdps(40):
            exact = mp.fsum(
                binomial(trials, k) * mpf(rate) ** k * (1 - mpf(rate)) ** (trials - k)
                for k in range(capacity + 1, min(trials, capacity + 400) + 1)
            )
        assert slack >= exact * (1 - mpf(10) ** -12)
        assert slack <= exact * (1 + mpf(10) ** -6) + mpf(10) ** -300


def test_a_capacity_that_cannot_be_passed_hides_no_other_truncation():
    roomy = events.TruncatedPoissonSampled(rate=0.1, capacity=200, examples=100, event=_GAUSSIAN)
    narrow = events.TruncatedPoissonSampled(rate=0.1, capacity=10, examples=100, event=_GAUSSIAN)
    assert dominating.directions(roomy, Neighbours(_ADD)).slack == 0.0
    without = tight(events.Composed(events=(roomy, _poisson(_GAUSSIAN))), 1e-5)
    assert tight(events.Composed(events=(roomy, narrow)), 1e-5).upper > 1.5 * without.upper


def test_truncation_costs_something_and_more_where_it_happens_more():
    def upper(capacity: int) -> float:
        step = events.TruncatedPoissonSampled(
            rate=256 / 60_000, capacity=capacity, examples=60_000, event=events.Gaussian(noise_multiplier=1.1)
        )
        return tight(events.Repeated(event=step, times=1000), 1e-5).upper

    untruncated = tight(
        events.Repeated(event=_poisson(events.Gaussian(noise_multiplier=1.1), 256 / 60_000), times=1000), 1e-5
    )
    assert untruncated.lower <= upper(500) <= upper(380) <= upper(360) <= upper(256)
    assert upper(500) == pytest.approx(untruncated.upper, rel=1e-3)
    # A record that pushes another out in every batch moves the sum twice as far.
    twice = tight(
        events.Repeated(event=_poisson(events.Gaussian(noise_multiplier=0.55), 256 / 60_000), times=1000),
        1e-5,
    )
    assert 1.5 * untruncated.upper < upper(256) < upper(1) <= 1.001 * twice.upper


@pytest.mark.parametrize("rate", [0.4, 0.9])
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_truncated_batches_are_dominated_and_attained(adjacency: Adjacency, rate: float):
    """Every set of coins of four other records, of the worst contributions, against the pair of the event."""
    noise, capacity = 0.8, 2
    event = events.TruncatedPoissonSampled(
        rate=rate, capacity=capacity, examples=4, event=events.Gaussian(noise_multiplier=noise)
    )
    found = dominating.directions(event, Neighbours(adjacency)).without_slack
    assert found is not None
    changed = {_ADD: None, Adjacency.ZERO_OUT: 0.0, Adjacency.REPLACE: -1.0}[adjacency]
    grid = np.linspace(-9, 9, 6001)
    edges = np.linspace(-12, 12, 4801)
    thresholds = np.exp(np.linspace(-3, 6, 37))
    for others in ((-1.0,) * 4, (0.0,) * 4, (-1.0, -1.0, 1.0, 1.0)):
        with_it = _density_of_truncated(1.0, others, rate, capacity, noise, grid)
        without = _density_of_truncated(changed, others, rate, capacity, noise, grid)
        for p, q, pair, lower in (
            (with_it, without, found.removed, found.attained[0]),
            (without, with_it, found.added, found.attained[1]),
        ):
            exact = _hockey_sticks(p, q, thresholds) * (grid[1] - grid[0])
            masses, least = pair.masses(edges), lower.masses(edges)
            assert (exact <= _hockey_sticks(masses.p, masses.q, thresholds) + 1e-4).all(), others
            if not any(others) and adjacency is not Adjacency.REPLACE:
                assert (exact >= _hockey_sticks(least.p, least.q, thresholds) - 1e-6).all()


def _density_of_truncated(
    value: float | None,
    others: tuple[float, ...],
    rate: float,
    capacity: int,
    noise: float,
    grid: np.ndarray,
) -> np.ndarray:
    """The noisy sum over a Poisson batch of which a random `capacity` is kept; None stands for no record."""
    values = [*others, *(() if value is None else (value,))]
    total = np.zeros_like(grid)
    for joins in itertools.product((False, True), repeat=len(values)):
        batch = [item for item, is_in in zip(values, joins, strict=True) if is_in]
        chance = math.prod(rate if is_in else 1 - rate for is_in in joins)
        kept = list(itertools.combinations(batch, min(capacity, len(batch))))
        for some in kept:
            z = (grid - sum(some)) / noise
            total += chance / len(kept) * np.exp(-z * z / 2) / (noise * math.sqrt(2 * math.pi))
    return total


def _hockey_sticks(p: np.ndarray, q: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    return np.maximum(p - np.multiply.outer(thresholds, q), 0).sum(axis=1)


def test_pairs_of_a_group_are_binomial():
    pair = dominating.directions(_poisson(_GAUSSIAN, 0.25), Neighbours(_ADD, 2)).removed
    assert isinstance(pair, MixturePair)
    np.testing.assert_allclose(pair.p_weights, [0.5625, 0.375, 0.0625], rtol=1e-14)
    np.testing.assert_allclose(pair.p_means, [0.0, 0.5, 1.0], rtol=1e-15)


def test_planted_half_the_noise_is_seen():
    right = dominating.directions(_GAUSSIAN, Neighbours(_ADD)).removed
    assert right == GaussianPair(0.5)
    planted = lower_epsilon([RepeatedPair(GaussianPair(1.0), 1)], 1e-5)
    assert planted > 1.5 * gaussian_dp.epsilon(0.5, 1e-5)
    assert dominating.directions(_LAPLACE, Neighbours(_REPLACE, 3)).removed == LaplacePair(3.0)


def _one_step_profile(p_means: list, q_means: list, weights: list[float], alphas: np.ndarray) -> np.ndarray:
    """sum over a fine 2-D grid of (P - alpha Q)+, for mixtures of unit normals in the plane."""
    axis = np.arange(-9, 9, 0.03)
    x, y = np.meshgrid(axis, axis, indexing="ij")

    def density(means: list) -> np.ndarray:
        parts = [
            w * np.exp(-((x - m[0]) ** 2 + (y - m[1]) ** 2) / 2) for w, m in zip(weights, means, strict=True)
        ]
        return np.sum(parts, axis=0) / (2 * math.pi) * 0.03**2

    p, q = density(p_means), density(q_means)
    return np.array([np.maximum(p - alpha * q, 0.0).sum() for alpha in alphas])


def _our_profile(rate: float, mu: float, alphas: np.ndarray) -> np.ndarray:
    event = _poisson(events.Gaussian(noise_multiplier=1 / mu), rate)
    pair = dominating.directions(event, Neighbours(_REPLACE)).removed
    masses = pair.masses(np.log(alphas))
    p, q = np.cumsum(masses.p[::-1])[::-1][1:], np.cumsum(masses.q[::-1])[::-1][1:]
    return p - alphas * q


@pytest.mark.parametrize(("rate", "mu"), [(0.1, 1.0), (0.5, 0.7), (0.02, 2.0)])
def test_replacing_under_poisson_is_worst_for_opposite_contributions(rate: float, mu: float):
    """Vectors u and v of norm at most 1 in the plane, u for v: no choice exceeds our pair's profile."""
    alphas = np.array([0.3, 0.7, 0.95, 1.0, 1.05, 1.3, 2.0, 4.0])
    ours = _our_profile(rate, mu, alphas)
    for angle, u, v in itertools.product((0, 60, 120, 150, 180), (0.0, 0.5, 1.0), (0.5, 1.0)):
        turned = (v * mu * math.cos(math.radians(angle)), v * mu * math.sin(math.radians(angle)))
        theirs = _one_step_profile([(0, 0), (u * mu, 0.0)], [(0, 0), turned], [1 - rate, rate], alphas)
        assert np.all(theirs <= ours + 3e-5), (angle, u, v)  # 3e-5: the quadrature of a kink
    opposite = _one_step_profile([(0, 0), (mu, 0)], [(0, 0), (-mu, 0)], [1 - rate, rate], alphas)
    np.testing.assert_allclose(opposite, ours, atol=3e-5)


@pytest.mark.parametrize(("rate", "mu"), [(0.1, 1.0), (0.5, 0.7), (0.02, 2.0), (0.9, 3.0)])
def test_replacing_under_poisson_is_worst_on_a_line_at_the_ends(rate: float, mu: float):
    alphas = np.geomspace(0.05, 50, 60)
    ours = _our_profile(rate, mu, alphas)
    x = np.arange(-12, 12, 2e-3)
    base = (1 - rate) * np.exp(-x * x / 2)
    for u, v in itertools.product(np.linspace(-1, 1, 9), repeat=2):
        p = (base + rate * np.exp(-((x - u * mu) ** 2) / 2)) * 2e-3 / math.sqrt(2 * math.pi)
        q = (base + rate * np.exp(-((x - v * mu) ** 2) / 2)) * 2e-3 / math.sqrt(2 * math.pi)
        theirs = np.maximum(p - alphas[:, None] * q, 0.0).sum(axis=1)
        assert np.all(theirs <= ours + 1e-6 * (1 + alphas)), (u, v)
