"""Robust rules, each beside its definition written out with loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from reticent.core.errors import InvalidArgument
from reticent.federated import robust
from reticent.federated.robust import most_tolerated, robust_rule

CLIENTS, BAD, WIDTH = 11, 2, 6
RANDOM = np.random.default_rng(0)
UPDATES = RANDOM.normal(size=(CLIENTS, WIDTH)) + 3
UPDATES[-BAD:] += 40.0


def krum_scores(updates: list[np.ndarray], malicious: int) -> list[float]:
    scores = []
    for i, one in enumerate(updates):
        others = sorted(float(np.sum((one - two) ** 2)) for j, two in enumerate(updates) if j != i)
        scores.append(sum(others[: max(len(updates) - malicious - 2, 1)]))
    return scores


def by_krum(updates):
    return updates[int(np.argmin(krum_scores(list(updates), BAD)))]


def by_multi_krum(updates):
    scores = krum_scores(list(updates), BAD)
    best = sorted(range(len(updates)), key=lambda place: scores[place])[: len(updates) - BAD]
    return sum(updates[place] for place in best) / len(best)


def by_bulyan(updates):
    left, chosen = list(updates), []
    while len(chosen) < len(updates) - 2 * BAD:
        chosen.append(left.pop(int(np.argmin(krum_scores(left, BAD)))))
    found = []
    for column in np.array(chosen).T:
        middle = np.median(column)
        nearest = sorted(column, key=lambda value: abs(value - middle))[: len(chosen) - 2 * BAD]
        found.append(np.mean(nearest))
    return np.array(found)


def by_trimming(updates):
    return np.array([np.mean(sorted(column)[BAD : len(column) - BAD]) for column in updates.T])


def by_median(updates):
    return np.array([sorted(column)[len(column) // 2] for column in updates.T])


def by_search(updates):
    def far(point):
        return sum(np.linalg.norm(update - point) for update in updates)

    return minimize(far, updates.mean(axis=0), method="BFGS", options={"gtol": 1e-9}).x


def by_shortening(updates):
    return np.mean([update * min(1, 2.0 / np.linalg.norm(update)) for update in updates], axis=0)


DEFINITIONS = {
    "krum": by_krum,
    "multi_krum": by_multi_krum,
    "bulyan": by_bulyan,
    "trimmed_mean": by_trimming,
    "median": by_median,
    "geometric_median": by_search,
    "norm_bound": by_shortening,
}


def of(name, **more):
    more = {"max_norm": 2.0, **more} if name == "norm_bound" else more
    return robust_rule(name, clients=CLIENTS, malicious=BAD, **more)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_rule_gives_what_its_definition_gives(name):
    for seed in range(5):
        updates = np.random.default_rng(seed).permutation(UPDATES)
        updates = updates + np.random.default_rng(seed + 100).normal(size=updates.shape)
        tolerance = 1e-4 if name == "geometric_median" else 1e-9
        np.testing.assert_allclose(
            of(name)(updates), DEFINITIONS[name](updates), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("name", [*DEFINITIONS, "mean"])
def test_the_order_of_clients_is_of_no_importance_and_liars_move_robust_rules_little(name):
    shuffled = np.random.default_rng(3).permutation(UPDATES)
    np.testing.assert_allclose(of(name)(UPDATES), of(name)(shuffled), rtol=1e-6)
    honest = UPDATES[:-BAD].mean(axis=0)
    for far in (40.0, 1e6, 1e30):
        updates = UPDATES.copy()
        updates[-BAD:] = far
        distance = np.linalg.norm(of(name)(updates) - honest)
        assert (distance > 5) if name == "mean" else (distance < 8), far


@pytest.mark.parametrize("name", [*DEFINITIONS, "mean"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e200])
def test_an_update_that_is_not_finite_counts_as_zero(name, value):
    updates, zeroed = UPDATES.copy(), UPDATES.copy()
    updates[4, 1] = value
    zeroed[4] = 0
    np.testing.assert_array_equal(of(name)(updates), of(name)(zeroed))


def test_huge_updates_that_have_much_in_common_are_told_apart():
    near = np.full((5, 3), 1e8) + np.array([0.0, 0.1, 0.2, 0.15, 5.0])[:, None]
    chosen = robust.krum(near, 1)
    assert chosen[0] - 1e8 == pytest.approx(0.15, abs=0.06)


@pytest.mark.parametrize(
    ("name", "clients", "most"),
    [("krum", 11, 4), ("multi_krum", 10, 3), ("bulyan", 11, 2), ("median", 10, 4), ("trimmed_mean", 11, 5)],
)
def test_more_malicious_clients_than_a_rule_tolerates_are_refused(name, clients, most):
    assert most_tolerated(name, clients) == most
    robust_rule(name, clients=clients, malicious=most)
    with pytest.raises(InvalidArgument, match=f"{name} with {clients} clients tolerates at most {most}"):
        robust_rule(name, clients=clients, malicious=most + 1)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_no_rule_that_compares_clients_goes_with_secure_aggregation(name):
    with pytest.raises(InvalidArgument, match="secure aggregation"):
        of(name, visible="sums")
    robust_rule("mean", clients=CLIENTS, malicious=BAD, visible="sums")


def test_what_is_not_a_round_is_refused():
    for wrong in (np.zeros(3), np.zeros((0, 3))):
        with pytest.raises(InvalidArgument, match="one row per client"):
            robust.mean(wrong)
    with pytest.raises(InvalidArgument, match="do not go together"):
        robust_rule("median", clients=5, malicious=1, max_norm=1.0)
    with pytest.raises(InvalidArgument):
        robust_rule("best", clients=5, malicious=1)  # type: ignore[arg-type]
