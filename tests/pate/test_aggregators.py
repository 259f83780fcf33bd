from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

from reticent.accounting.reserve import NEARLY_EXACT
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import CannotMeet, DataError, InvalidArgument, KeyReuse
from reticent.core.keys import Keys
from reticent.mechanisms.events import Gaussian
from reticent.pate import (
    Confident,
    ExponentialMax,
    GaussianMax,
    LaplaceMax,
    Questions,
    Teller,
    Votes,
    add_confident_labels,
    allowance_for,
    join_answers,
)
from reticent.pate.allowance import about_samplers, multiplier_for

MANY = 100_000
TWO = np.tile([60, 40], (MANY, 1))
GAP = 20.0


def votes(counts: np.ndarray) -> Votes:
    return Votes(counts=counts, teachers=int(counts[0].sum()))


def share_of_first(labels: np.ndarray) -> float:
    return float(np.mean(labels == 0))


def near(value: float) -> object:
    """Within six deviations of a share of so many answers."""
    return pytest.approx(value, abs=6 * 0.5 / math.sqrt(MANY))


# Noise is as large as it is accounted for


def test_gaussian_noise_decides_as_often_as_its_deviation_says():
    found = share_of_first(GaussianMax(sigma=30.0).answer(np.random.default_rng(0), votes(TWO)))
    assert found == near(ndtr(GAP / (30 * math.sqrt(2))))


def test_laplace_noise_decides_as_often_as_its_scale_says():
    gamma = 0.05
    found = share_of_first(LaplaceMax(gamma=gamma).answer(np.random.default_rng(0), votes(TWO)))
    assert found == near(1 - (2 + gamma * GAP) / (4 * math.exp(gamma * GAP)))


def test_exponential_choice_has_its_odds():
    gamma = 0.05
    found = share_of_first(ExponentialMax(gamma=gamma).answer(np.random.default_rng(0), votes(TWO)))
    assert found == near(1 / (1 + math.exp(-gamma * GAP)))


def test_checks_pass_as_often_as_their_noise_says():
    confident = Confident(threshold=75.0, sigma_check=25.0, sigma=1.0)
    assert np.mean(confident.passes(np.random.default_rng(0), votes(TWO))) == near(ndtr((60 - 75) / 25))


def test_a_student_who_expects_the_votes_learns_nothing_and_is_not_told():
    confident = Confident(threshold=30.0, sigma_check=1.0, sigma=1.0)
    expected = np.tile([0.6, 0.4], (MANY, 1))
    surprised = np.tile([0.0, 1.0], (MANY, 1))
    source = np.random.default_rng(0)
    assert not confident.passes(source, votes(TWO), expected).any()
    assert confident.passes(source, votes(TWO), surprised).all()
    with pytest.raises(DataError, match="shape"):
        confident.passes(source, votes(TWO), expected[:2])
    with pytest.raises(DataError, match="probabilities"):
        confident.passes(source, votes(TWO), 2 * expected)


# Neighbours: one vote moves


@pytest.mark.parametrize(
    "aggregator", [LaplaceMax(gamma=0.4), ExponentialMax(gamma=0.4), GaussianMax(sigma=2.5)]
)
def test_one_moved_vote_costs_no_more_than_the_event_says(aggregator: LaplaceMax):
    """The odds of an answer, counted on many draws for two classes, against the accounted epsilon."""
    shares = []
    for counts in ((6, 4), (5, 5)):
        drawn = aggregator.answer(np.random.default_rng(1), votes(np.tile(counts, (MANY, 1))))
        shares.append(share_of_first(drawn))
    delta = 1e-3
    epsilon = tight(aggregator.event, delta).upper
    slack = 6 * 0.5 / math.sqrt(MANY)
    for p, q in ((shares[0], shares[1]), (1 - shares[1], 1 - shares[0])):
        assert p <= math.exp(epsilon) * q + delta + slack
        assert p > 1.05 * q  # they do differ: the test sees something
    if not isinstance(aggregator, GaussianMax):
        assert tight(aggregator.event, 1e-12).upper <= 0.8 * (1 + 1e-3)  # 2 gamma


# Allowances


def test_gaussian_answers_fit_exactly():
    noise = Confident(threshold=200.0, sigma_check=150.0, sigma=40.0)
    found = allowance_for(noise, epsilon=2.5273560562375925, delta=1e-5)
    assert found.left(asked=640, answered=0) / found.answer == pytest.approx(282.7210292034, rel=1e-6)
    assert tight(found.event, 1e-5).upper == pytest.approx(2.5273560562375925, rel=1e-6)


@pytest.mark.parametrize("aggregator", [LaplaceMax(gamma=0.05), ExponentialMax(gamma=0.05)])
def test_one_more_laplace_answer_would_be_too_much(aggregator: LaplaceMax):
    found = allowance_for(aggregator, epsilon=2.0, delta=1e-5)
    times = int(found.limit)
    assert tight(found.event, 1e-5).upper <= 2.0
    from reticent.mechanisms.events import Repeated

    assert tight(Repeated(event=aggregator.event, times=times + 1), 1e-5).upper > 2.0


@pytest.mark.parametrize("delta", [1e-5, 1e-9])
@pytest.mark.parametrize(
    "noise", [GaussianMax(sigma=4000.0), Confident(threshold=200.0, sigma_check=150.0, sigma=40.0)]
)
def test_delta_has_room_for_the_samplers_of_all_answers(noise: GaussianMax | Confident, delta: float):
    """2^-64 for each of a thousand counts of every answer, and for every check."""
    found = allowance_for(noise, epsilon=2.0, delta=delta)
    checked = found.limit / found.check if found.check else 0
    drawn = checked + 1000 * found.limit / (found.check + found.answer)
    assert drawn > 5e4
    assert isinstance(found.event, Gaussian)
    off = (1 + math.exp(2.0)) * 2.0**-64
    assert gaussian_dp.delta(1 / found.event.noise_multiplier, 2.0) + drawn * off <= delta
    for beside in (None, Gaussian(noise_multiplier=20.0)):
        multiplier = multiplier_for(epsilon=2.0, delta=delta, beside=beside)
        mu = math.hypot(1 / multiplier, 0 if beside is None else 1 / beside.noise_multiplier)
        assert gaussian_dp.delta(mu, 2.0) + 98_304 * off <= delta


def test_a_guarantee_says_where_the_share_of_samplers_is_too_small():
    assert about_samplers(98_304) == ()
    assert about_samplers(98_305) == (NEARLY_EXACT,)


def test_noise_of_which_the_ends_show_is_refused():
    with pytest.raises(CannotMeet, match="ends of its sampler"):
        multiplier_for(epsilon=60.0, delta=1e-5)


def test_no_answer_at_all_is_said():
    with pytest.raises(CannotMeet, match="Not even one answer"):
        allowance_for(GaussianMax(sigma=1.0), epsilon=0.5, delta=1e-5)
    with pytest.raises(CannotMeet, match="Not even one answer"):
        allowance_for(LaplaceMax(gamma=3.0), epsilon=0.5, delta=1e-5)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_noise_has_to_be_positive(value: float):
    for make in (
        lambda: GaussianMax(sigma=value),
        lambda: LaplaceMax(gamma=value),
        lambda: ExponentialMax(gamma=value),
        lambda: Confident(threshold=5.0, sigma_check=value, sigma=1.0),
        lambda: Confident(threshold=5.0, sigma_check=1.0, sigma=value),
    ):
        with pytest.raises(InvalidArgument):
            make()


# Rounds


def test_the_allowance_is_never_passed_and_nearly_used():
    pool = votes(np.tile([95, 5], (3000, 1)))
    noise = Confident(threshold=80.0, sigma_check=60.0, sigma=20.0)
    allowance = allowance_for(noise, epsilon=1.0, delta=1e-6)
    teller = Teller(noise, allowance, Keys.seeded(3))
    first = teller.answer(pool, Questions.first(10))
    rest = teller.answer(pool, Questions(rows=np.arange(10, 3000)))
    assert first.asked == 10
    spent = teller.asked / 60**2 + 2 * teller.answered / 20**2
    assert gaussian_dp.epsilon(math.sqrt(spent), 1e-6) <= 1.0
    assert spent + 1 / 60**2 + 2 / 20**2 > allowance.limit
    both = join_answers(first, rest)
    assert len(both) == teller.answered
    assert both.asked == teller.asked
    nothing = teller.answer(pool, Questions.first(5))
    assert (nothing.asked, len(nothing)) == (0, 0)


def test_no_more_answers_than_wanted():
    pool = votes(np.tile([95, 5], (50, 1)))
    noise = GaussianMax(sigma=20.0)
    teller = Teller(noise, allowance_for(noise, epsilon=3.0, delta=1e-6), Keys.seeded(3))
    found = teller.answer(pool, Questions.first(50), most=7)
    assert (found.asked, len(found)) == (7, 7)
    assert found.questions.rows.tolist() == list(range(7))


def test_rounds_have_noise_of_their_own():
    pool = votes(np.tile([51, 49], (200, 1)))
    noise = GaussianMax(sigma=50.0)
    allowance = allowance_for(noise, epsilon=20.0, delta=1e-6)
    teller = Teller(noise, allowance, Keys.seeded(3))
    first, second = (teller.answer(pool, Questions.first(200)).labels for _ in range(2))
    assert 0.3 < np.mean(first == second) < 0.7
    keys = Keys.seeded(3)
    Teller(noise, allowance, keys).answer(pool, Questions.first(2))
    with pytest.raises(KeyReuse):
        Teller(noise, allowance, keys).answer(pool, Questions.first(2))


def test_a_threshold_that_nobody_reaches_is_refused():
    noise = Confident(threshold=200.0, sigma_check=10.0, sigma=20.0)
    teller = Teller(noise, allowance_for(noise, epsilon=3.0, delta=1e-6), Keys.seeded(0))
    with pytest.raises(InvalidArgument, match="100 teachers"):
        teller.answer(votes(np.tile([95, 5], (5, 1))), Questions.first(5))


def test_an_interactive_student_asks_in_rounds_and_is_confirmed_for_nothing():
    """The first round teaches it one half; in the second only what would surprise it is answered."""
    counts = np.where(np.arange(200)[:, None] < 100, [95, 5], [5, 95])
    pool = votes(counts)
    noise = Confident(threshold=60.0, sigma_check=8.0, sigma=12.0)
    teller = Teller(noise, allowance_for(noise, epsilon=8.0, delta=1e-6), Keys.seeded(1))
    first = teller.answer(pool, Questions.first(20))
    assert len(first) == 20
    questions = Questions(rows=np.arange(90, 110))
    beliefs = np.tile([0.97, 0.03], (20, 1))  # right about the first ten, wrong about the others
    before = teller.answered
    second = teller.answer(pool, questions, beliefs=beliefs)
    assert np.all(second.questions.rows >= 100)
    assert set(second.labels.tolist()) == {1}
    confirmed = add_confident_labels(second, questions, beliefs, sure=0.9)
    assert teller.answered - before == len(second) < len(confirmed)
    own = dict(zip(confirmed.questions.rows.tolist(), confirmed.labels.tolist(), strict=True))
    assert all(own[row] == 0 for row in range(90, 100))
    assert len(add_confident_labels(second, questions, np.full((20, 2), 0.5), sure=0.9)) == len(second)
    both = join_answers(first, confirmed)
    assert both.counts is None
    assert len(both) == len(first) + len(confirmed)
