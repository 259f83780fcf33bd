"""PATE's costs: published figures, the reference's own test values, and its votes to many digits."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from reticent.accounting.theorems import gaussian_dp
from reticent.pate import costs, divergence, sensitivity
from reticent.pate.aggregators import Confident, LaplaceMax
from reticent.pate.costs import CostRelease
from reticent.pate.votes import Questions, Votes

FOLDER = (
    Path(os.environ.get("RETICENT_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    / "pate_votes"
)
needs_votes = pytest.mark.skipif(not FOLDER.is_dir(), reason="the published votes are not on this machine")

PAPER_ORDERS = np.concatenate([np.arange(2, 100.75, 0.5), np.geomspace(100, 500, 100)])


def published(name: str) -> Votes:
    return Votes(counts=np.load(FOLDER / f"{name}_250_teachers.npy"), teachers=250)


# Single values


def test_the_bound_on_a_wrong_answer_and_its_divergence():
    log_wrong = divergence.log_wrong_gaussian(np.array([[200, 30, 20]]), 40)
    assert log_wrong == pytest.approx([-6.185839427144275], rel=1e-12)
    found = divergence.gaussian_max(log_wrong, 40, np.array([2.0, 14.0, 32.0]))
    expected = [[5.450645914614779e-4, 9.11775352131514e-4, 3.2355447469009633e-3]]
    assert found == pytest.approx(np.array(expected), rel=1e-9)


def test_unanimous_teachers_cost_almost_nothing():
    log_wrong = divergence.log_wrong_gaussian(np.array([[250] + [0] * 9]), 40)
    assert log_wrong == pytest.approx([-10.019228294289038], rel=1e-12)
    found = divergence.gaussian_max(log_wrong, 40, np.array([14.0]))
    assert found == pytest.approx(np.array([[3.120157896191148e-5]]), rel=1e-9)


def test_divided_teachers_cost_what_no_votes_would():
    log_wrong = divergence.log_wrong_gaussian(np.array([[100, 90, 60]]), 40)
    assert log_wrong == pytest.approx([np.log(2 / 3)], rel=1e-12)
    orders = np.array([1.5, 8.0, 60.0])
    assert divergence.gaussian_max(log_wrong, 40, orders) == pytest.approx(orders[None] / 1600, rel=1e-15)


def test_laplace_noise():
    log_wrong = divergence.log_wrong_laplace(np.array([[200, 30, 20]]), 20)
    assert log_wrong == pytest.approx([-7.043023688042238], rel=1e-12)
    found = divergence.pure_dp(log_wrong, 0.1, np.array([2.0, 9.0, 14.0]))
    expected = [[1.8372125732773e-4, 2.2551022841945e-4, 2.7079916772541e-4]]
    assert found == pytest.approx(np.array(expected), rel=1e-9)


def test_a_threshold_that_is_nearly_even_costs_what_no_votes_would():
    log_pass = divergence.log_pass_probability(np.array([[180, 70]]), 200, 150)
    found = divergence.gaussian_check(log_pass, 150, np.array([14.0]))
    assert found == pytest.approx(np.array([[14 / (2 * 150**2)]]), rel=1e-12)


@pytest.mark.parametrize(
    ("sigma", "order", "expected"),
    [(40, 14, -3.4029724173980505), (40, 7.5, -3.941573180160814), (100, 20.5, -3.8638961556005893)],
)
def test_where_votes_stop_to_help(sigma: float, order: float, expected: float):
    assert sensitivity.log_turning_point(sigma, order) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [
        (1.5, (2.8, 2.6, 427, None)),
        (15, (4.8, 4.0, 4.7, 275)),
        (1500, (9.6, 8.8, 6.0, 4)),
        (15000, (12, 11.2, 8.6, 6.4)),
    ],
)
def test_the_turning_point_by_hand(sigma: float, expected: tuple[float | None, ...]):
    for order, value in zip((1.1, 2.5, 32, 250), expected, strict=True):
        if value is None:
            continue
        at = sensitivity.log_turning_point(sigma, order)
        assert value <= -at <= value * 1.08
        halves = at - np.log(2) * np.arange(1, 20)
        falling = divergence.gaussian_max(halves, sigma, np.array([order]))[:, 0]
        assert np.all(np.diff(falling) < 0)
        above = divergence.gaussian_max(np.linspace(-value + 0.2, -1e-3, 20), sigma, np.array([order]))
        assert above == pytest.approx(np.full((20, 1), order / sigma**2), rel=1e-9)


def test_publishing_a_cost_costs_what_the_paper_says():
    release = CostRelease(order=14, beta=0.0329, sigma=6.23, confidence=0.5)
    assert release.divergence == pytest.approx(0.5183929399476159, rel=1e-12)
    careful = CostRelease(order=14, beta=0.0329, sigma=6.23, confidence=0.95)
    assert careful.divergence > release.divergence


# How far a teacher moves a cost: the reference's own tests


@pytest.mark.parametrize(("sigma", "expected"), [(20, (True, False)), (30, (True, True))])
def test_the_conditions_of_the_theorem(sigma: float, expected: tuple[bool, bool]):
    cost = sensitivity.GaussianMaxCost(sigma=sigma, order=25.0, classes=10)
    assert cost.conditions_hold() == expected


def test_local_sensitivity_of_an_answer():
    found = sensitivity.gaussian_max(np.array([[10, 0, 0]]), 10, sigma=0.5, order=1.5)[0]
    expected = [3.13503646e-17, 1.60178280e-8, 5.90681786e-3, *[5.99981308] * 7]
    assert found == pytest.approx(expected, rel=1e-7)
    found = sensitivity.gaussian_max(np.array([[1000, 500, 300, 200, 0]]), 2000, sigma=250, order=10)[0]
    expected = [*[0.0] * 298, 2.77693450548e-7, 2.10853979548e-6, *[2.73113623988e-6] * 1700]
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-30)


_UP = [
    1.48454129e-4,
    1.47826870e-2,
    3.94153241e-2,
    6.45775697e-2,
    9.01543247e-2,
    1.16054002e-1,
    1.42180452e-1,
]
_DOWN = [0.0575152142, 0.00678695871, *[0.0] * 6, 0.000536304908, 0.0172181073, 0.041909870, *[0.0] * 10]


@pytest.mark.parametrize(
    ("counts", "threshold", "expected"),
    [
        ((20, 10, 0), 16, [*[0.0] * 3, *_UP, _UP[-1], *_UP, 1.68302106e-1, 1.93127860e-1, *[0.0] * 10]),
        (
            (20, 10, 0),
            2,
            [1.60212079e-1, *[2.07021132e-1] * 2, 1.93127860e-1, 1.68302106e-1, *_UP[::-1], *[0.0] * 18],
        ),
        (
            (19.5, -5.1, 0),
            10.1,
            [
                *(0.0620410301, 0.0875807131, 0.113451958, 0.139561671, 0.1657074530, 0.1908244840),
                *(0.2070270720, 0.207027072, 0.169718100),
                *_DOWN,
            ],
        ),
    ],
)
def test_local_sensitivity_of_a_check(counts: tuple[float, ...], threshold: float, expected: list[float]):
    found = sensitivity.check(np.array([counts]), 30, threshold=threshold, sigma=2, order=10)[0]
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-30)


def test_local_sensitivity_of_a_check_that_nobody_passes():
    found = sensitivity.check(np.array([[20, 10, 0]]), 30, threshold=50, sigma=2, order=10)[0]
    rising = [1.35750725752e-19, 1.88990500499e-17, 2.05403154065e-15, 1.74298153642e-13, 1.15489723995e-11]
    rising += [5.97584949325e-10, 2.41486826748e-8, 7.62150641922e-7, 1.87846248741e-5, 3.60973025976e-4]
    falling = [2.76377015215e-50, 1.00904975276e-53, 2.87254164748e-57, 6.37583360761e-61, 1.10331620211e-64]
    falling += [1.48844393335e-68, 1.56535552444e-72, 1.28328011060e-76, 8.20047697109e-81]
    assert found[:10] == pytest.approx(rising, rel=1e-7)
    assert found[10] == pytest.approx(rising[-1], rel=1e-7)
    assert found[11:20] == pytest.approx(falling, rel=1e-7, abs=0)
    assert not found[20:].any()


# The published votes


@needs_votes
def test_laplace_teachers_on_mnist():
    rows = np.load(FOLDER / "mnist_250_teachers_100_indices_used_by_student.npy")
    votes = published("mnist").about(Questions(rows=rows))
    for most, expected in ((8, 2.048561096236246), (64, 1.4078530526088626)):
        cost = costs.unreleased_cost(votes, LaplaceMax(gamma=0.1), orders=np.arange(2.0, most + 2))
        assert cost.epsilon_classical(1e-5) == pytest.approx(expected, abs=1e-9)
    assert costs.unreleased_cost(votes, LaplaceMax(gamma=0.1)).epsilon(1e-5) <= 1.408


@needs_votes
@pytest.mark.parametrize(
    ("name", "first", "delta", "expected"),
    [
        ("svhn", 500, 1e-6, 5.041318218),
        ("svhn", 1000, 1e-6, 8.191689552),
        ("mnist", 1000, 1e-5, 8.257443515),
    ],
)
def test_laplace_teachers_with_eight_moments(name: str, first: int, delta: float, expected: float):
    votes = published(name).about(Questions.first(first))
    cost = costs.unreleased_cost(votes, LaplaceMax(gamma=0.1), orders=np.arange(2.0, 10.0))
    assert cost.epsilon_classical(delta) == pytest.approx(expected, abs=1e-8)


def test_laplace_answers_without_votes():
    none = Votes(counts=np.full((100, 2), 125), teachers=250)
    cost = costs.unreleased_cost(none, LaplaceMax(gamma=0.1), orders=np.arange(2.0, 10.0))
    assert cost.epsilon_classical(1e-5) == pytest.approx(11.756462732, abs=1e-8)


# name, threshold, check, vote, questions, delta | answered, old epsilon, order, improved, exact |
# beta, smooth sensitivity, sigma, cost of the release | sanitised
TABLE = [
    (
        *("mnist", 200, 150, 40, 640, 1e-5),
        *(282.7210292034, 1.998816592268984, 14.0, 1.7119020283872461, 2.5273560562375925),
        *(0.03285714285714288, 0.061746532156752174, 6.232825076021522, 0.5173833587650614),
        2.5161999510340456,
    ),
    (
        *("svhn", 300, 200, 40, 8500, 1e-6),
        *(2969.0914464898, 4.91520318811412, 7.5, 4.449698204802902, 10.870238119799243),
        *(0.05333333333333332, 0.07164547430991416, 4.883513755290608, 0.5352230371763319),
        5.450426225290451,
    ),
    (
        *("adult", 300, 200, 40, 1500, 1e-5),
        *(538.2613062369, 1.6781799478414112, 15.5, 1.4136166351411381, 3.5949223902972154),
        *(0.030967741935483864, 0.03325716079302101, 7.9149514565792645, 0.40732797963517775),
        2.085507927476589,
    ),
]


@needs_votes
@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_confident_teachers(row: tuple):
    name, threshold, check, sigma, questions, delta, answered, old, order, improved, exact, *published_at = (
        row
    )
    beta, smooth, sigma_release, release_cost, sanitised = published_at
    votes = published(name).about(Questions.first(questions))
    confident = Confident(threshold=threshold, sigma_check=check, sigma=sigma)
    expected = np.exp(divergence.log_pass_probability(votes.counts, threshold, check)).sum()
    assert expected == pytest.approx(answered, abs=1e-6)

    cost = costs.unreleased_cost(votes, confident, orders=PAPER_ORDERS)
    assert cost.epsilon_classical(delta) == pytest.approx(old, abs=1e-9)
    assert costs.unreleased_cost(votes, confident).epsilon(delta) == pytest.approx(improved, abs=1e-6)

    mu = np.sqrt(questions / check**2 + 2 * answered / sigma**2)
    assert gaussian_dp.epsilon(mu, delta) == pytest.approx(exact, abs=1e-8)
    independent = (order_grid := PAPER_ORDERS) * mu**2 / 2 - np.log(delta) / (order_grid - 1)
    assert independent.min() == pytest.approx(
        {"mnist": 3.157, "svhn": 12.393, "adult": 4.402}[name], abs=6e-4
    )

    release = CostRelease(order=order, beta=beta, sigma=sigma_release, confidence=0.5)
    found = costs.smooth_sensitivity(votes, confident, release)
    assert found == pytest.approx(smooth, rel=1e-9)
    assert (order * np.exp(2 * beta) / found) ** (1 / 3) == pytest.approx(sigma_release, rel=1e-9)
    assert release.divergence == pytest.approx(release_cost, rel=1e-9)
    assert old + release.divergence == pytest.approx(sanitised, abs=1e-9)
