"""Each mechanism of a generator on two datasets that differ by one record, against its event's whole profile.

With the record and without it, the mechanism draws many times. For every epsilon of a list, and in both
directions, the event "likelier with the record by more than e^epsilon" may have a probability that is above
e^epsilon times the other by no more than the event's delta at that epsilon, which is known exactly. An honest
mechanism fails in about one run of ten thousand; seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from generator_games import captured, lonely_table, lonely_vector, step_scores
from scipy.special import betaincinv, ndtr

from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import tight
from reticent.data.sampling import Poisson
from reticent.mechanisms.events import ExponentialMechanism, Gaussian
from reticent.mechanisms.whole import add_whole_normals
from reticent.synthetic.images import embedding, gan
from reticent.synthetic.images.basis import public_basis
from reticent.synthetic.tables import marginals
from reticent.synthetic.tables.column_pairs import errors, select
from reticent.synthetic.tables.marginals import count, measure
from reticent.training import step_noise as steps_of_training

DRAWS = 10_000
CHOICES = 5000
EPSILONS = (0.0, 0.25, 0.5, 1.0, 1.5)
FALSE_ALARM = 1e-4 / (4 * len(EPSILONS))  # of each of the bounds that a test uses

Profile = Callable[[float], tuple[float, float]]  # the delta of each direction at an epsilon


def most(hits: int, draws: int) -> float:
    return 1.0 if hits == draws else float(betaincinv(hits + 1, draws - hits, 1 - FALSE_ALARM))


def least(hits: int, draws: int) -> float:
    return 0.0 if hits == 0 else float(betaincinv(hits, draws - hits + 1, FALSE_ALARM))


def excess(scores: Sequence[np.ndarray], profile: Profile) -> float:
    """By how much the draws exceed the profile for certain: a positive number refutes it."""
    found = []
    inside, outside = scores
    for epsilon in EPSILONS:
        sides = ((inside, outside, 1.0), (outside, inside, -1.0))
        for (here, there, sign), allowed in zip(sides, profile(epsilon), strict=True):
            hits, alarms = (int((sign * side > epsilon).sum()) for side in (here, there))
            shown = least(hits, len(here)) - math.exp(epsilon) * most(alarms, len(there))
            found.append(shown - allowed)
    return max(found)


def keeps(scores: Sequence[np.ndarray], profile: Profile) -> bool:
    """Whether the draws keep to the profile, and come near to it at epsilon 1/2 in both directions."""
    shares = []
    for here, there, sign, allowed in zip(scores, scores[::-1], (1.0, -1.0), profile(0.5), strict=True):
        shown = float((sign * here > 0.5).mean() - math.exp(0.5) * (sign * there > 0.5).mean())
        shares.append(shown / allowed)
    return excess(scores, profile) <= 0 and min(shares) > 0.85


def gaussian_profile(noise_multiplier: float, epsilon: float) -> tuple[float, float]:
    delta = gaussian_dp.delta(1 / noise_multiplier, epsilon)
    return delta, delta


def ratios(noisy: np.ndarray, moved: np.ndarray, base: np.ndarray, noise: float) -> np.ndarray:
    """How much likelier each draw is around base + moved than around base, in logarithms: (draws,)."""
    flat = noisy.reshape(len(noisy), -1) - (base + moved / 2).ravel()
    return flat @ moved.ravel() / noise**2


def repeated(source: np.random.Generator, values: np.ndarray, **given: Any) -> np.ndarray:
    """Many draws of a noisy array at once, in place of one."""
    return add_whole_normals(source, np.broadcast_to(values, (DRAWS, *np.shape(values))), **given)


def holds(draw: Callable[[Any, float], np.ndarray], worlds: Any, exact: Callable, noise: float) -> bool:
    """Whether draws of a Gaussian mechanism keep to its profile; and that too little noise would not."""
    with_it, without = (exact(world) for world in worlds)
    profile = partial(gaussian_profile, noise)

    def scores(share: float) -> list[np.ndarray]:
        return [ratios(draw(world, share * noise), with_it - without, without, noise) for world in worlds]

    return keeps(scores(1.0), profile) and all(excess(scores(share), profile) > 0 for share in (0.5, 0.01))


# One noisy release


@pytest.mark.parametrize("columns", [(0,), (0, 2)])
def test_counts_keep_to_the_profile_of_their_event(
    columns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marginals, "add_whole_normals", repeated)
    source, sizes = np.random.default_rng(0), (2, 2, 2)

    def draw(codes: np.ndarray, noise: float) -> np.ndarray:
        event = Gaussian(noise_multiplier=noise)
        return measure(codes, columns, sizes, event, source).counts

    assert holds(draw, lonely_table(rows=5), lambda codes: count(codes, columns, sizes), noise=1.5)


@pytest.mark.parametrize("features", ["moments", "fourier"])
def test_an_embedded_sum_keeps_to_the_profile_of_its_event(
    features: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_WAVES", 5)
    monkeypatch.setattr(embedding, "add_whole_normals", repeated)
    source, of_vectors = np.random.default_rng(1), public_basis((2,), "none", 2)

    def plan(noise: float) -> embedding.EmbeddingPlan:
        return embedding.EmbeddingPlan(
            examples=20,
            epsilon=1.0,
            delta=0.1,
            noise_multiplier=noise,
            features=features,
            prior="none",
            radius=1.0,
        )

    def total(world: Any) -> Any:
        return embedding.sum_embeddings(world[0], world[1], of_vectors, plan(1.5), 2)

    def draw(world: Any, noise: float) -> np.ndarray:
        return embedding.release(total(world), plan(noise), source)

    assert plan(1.5).event == Gaussian(noise_multiplier=1.5)
    assert holds(draw, lonely_vector(), lambda world: total(world).value, noise=1.5)


def gan_plan(noise: float) -> gan.GanPlan:
    asked = gan.plan(
        epsilon=2.0, delta=0.04, examples=20, batch_size=10, steps=1, max_norm=0.1, prior="none", hidden=()
    )
    return gan.GanPlan(
        training=asked.training, count_noise=noise, epsilon=2.0, prior="none", hidden=(), generator_hidden=()
    )


def test_class_counts_of_a_gan_keep_to_the_profile_of_their_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gan, "add_whole_normals", repeated)
    source = np.random.default_rng(2)

    def draw(world: Any, noise: float) -> np.ndarray:
        return gan.noisy_counts(world[1], 2, gan_plan(noise), source)

    assert Gaussian(noise_multiplier=1.5) in getattr(gan_plan(1.5).event, "events", ())
    assert holds(draw, lonely_vector(), lambda world: np.bincount(world[1], minlength=2) * 1.0, noise=1.5)


# A step of the discriminator


def sampled_profile(noise: float, rate: float, epsilon: float) -> tuple[float, float]:
    """Of one Gaussian release about a batch that the record is in by a coin.

    Without the record the released number is N(0, 1), with it N(mu, 1) by the coin, in units of the noise.
    What is likelier with it by e^epsilon lies above a point, what is likelier without it below another.
    """
    mu, grown = 1 / noise, math.exp(epsilon)

    def tail(point: float, sign: float) -> tuple[float, float]:
        without = float(ndtr(sign * point))
        return (1 - rate) * without + rate * float(ndtr(sign * (point - mu))), without

    def point(ratio: float) -> float:
        share = (ratio - (1 - rate)) / rate
        return -math.inf if share <= 0 else math.log(share) / mu + mu / 2

    with_it, without = tail(point(grown), -1.0)
    removed = with_it - grown * without
    with_it, without = tail(point(1 / grown), 1.0)
    return removed, without - grown * with_it


def test_a_step_of_the_discriminator_keeps_to_the_profile_of_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = gan_plan(20.0)
    noise, sampler = asked.training.noise_multiplier, asked.training.sampler
    assert isinstance(sampler, Poisson)
    profile = partial(sampled_profile, noise, sampler.rate)
    for epsilon in EPSILONS[1:]:  # the profile is that of the event that is charged
        assert tight(asked.training.event, max(profile(epsilon))).upper == pytest.approx(epsilon, rel=1e-3)
    game = captured(lonely_vector()[0], asked)
    assert keeps(step_scores(game, runs=DRAWS)[0], profile)
    honest = steps_of_training.noise_grid
    monkeypatch.setattr(
        steps_of_training, "noise_grid", lambda noise, *given, **named: honest(noise / 2, *given, **named)
    )
    assert excess(step_scores(game, runs=DRAWS)[0], profile) > 0


# A choice


def pair_of_tables() -> tuple[np.ndarray, np.ndarray]:
    """One record more: it makes the model more wrong about one pair of columns, and less about another."""
    codes = np.zeros((10, 3), np.int32)
    return np.concatenate([codes, [[0, 1, 1]]]).astype(np.int32), codes


EXPECTED = {
    (0, 1): np.array([[1.0, 0.0], [0.0, 0.0]]),  # nobody has a 1 in column 1: the record adds an error
    (0, 2): np.array([[0.8, 0.2], [0.0, 0.0]]),  # some have a 1 in column 2: the record takes one away
}


def utilities(codes: np.ndarray) -> dict[Any, float]:
    return errors(codes, list(EXPECTED), EXPECTED, (2, 2, 2), rows=10, deviation=1.0)


def times_chosen(codes: np.ndarray, event: ExponentialMechanism, source: np.random.Generator) -> int:
    """How often the pair is chosen that the record speaks for."""
    scores = utilities(codes)
    drawn = [select(scores, lambda *given: True, [event], source)[0] for _ in range(CHOICES)]
    return drawn.count((0, 1))


def test_a_choice_stays_within_its_epsilon_on_both_tables() -> None:
    event, source = ExponentialMechanism(epsilon=1.0), np.random.default_rng(3)
    worlds = pair_of_tables()
    moved = [utilities(worlds[0])[pair] - utilities(worlds[1])[pair] for pair in EXPECTED]
    assert moved == pytest.approx([1.0, -1.0])  # as far apart as a record can move them

    def shown(claimed: float) -> float:
        """The largest factor between the two tables that the draws show for certain, in logarithms."""
        louder = ExponentialMechanism(epsilon=claimed)
        inside, outside = (times_chosen(codes, louder, source) for codes in worlds)
        ways = ((inside, outside), (CHOICES - outside, CHOICES - inside))
        return max(math.log(least(here, CHOICES) / most(there, CHOICES)) for here, there in ways)

    assert 0.5 * event.epsilon < shown(event.epsilon) <= event.epsilon
    assert shown(2 * event.epsilon) > event.epsilon  # the planted bug: the 2 in the exponent is forgotten


def test_the_range_of_a_choice_is_bounded_exactly() -> None:
    """No two answers differ in their loss by more than epsilon: densities, without any draw."""
    source = np.random.default_rng(4)
    worst = 0.0
    for _ in range(300):
        codes = source.integers(0, 2, (12, 3)).astype(np.int32)
        shares = {pair: source.dirichlet(np.full(4, 0.3)).reshape(2, 2) for pair in [(0, 1), (0, 2), (1, 2)]}
        logs = []
        for rows in (codes, codes[:-1]):
            found = errors(rows, list(shares), shares, (2, 2, 2), rows=12, deviation=1.0)
            exponents = 0.5 * np.array(list(found.values()))
            logs.append(exponents - np.log(np.exp(exponents).sum()))
        losses = logs[0] - logs[1]
        assert np.abs(losses).max() <= 1 + 1e-9
        worst = max(worst, float(np.ptp(losses)))
    assert 0.9 < worst <= 1 + 1e-9
