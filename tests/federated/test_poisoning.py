"""Poisoning attacks, beside what their papers say they do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from reticent.core.errors import InvalidArgument
from reticent.federated import poisoning, robust

UPDATES = np.random.default_rng(0).normal(1.0, 0.5, size=(20, 30))
IS_BAD = np.arange(20) >= 16
HONEST = UPDATES[:16]

ATTACKS = {
    "sign_flip": lambda sent: poisoning.sign_flip(sent, IS_BAD, 3.0),
    "gaussian": lambda sent: poisoning.gaussian(sent, IS_BAD, np.random.default_rng(1), 2.0),
    "alie": lambda sent: poisoning.alie(sent, IS_BAD),
    "min_max": lambda sent: poisoning.min_max(sent, IS_BAD),
    "replace_model": lambda sent: poisoning.replace_model(sent, IS_BAD),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_changes_what_malicious_clients_send_and_nothing_else(name):
    before = UPDATES.copy()
    sent = ATTACKS[name](UPDATES)
    np.testing.assert_array_equal(UPDATES, before)
    np.testing.assert_array_equal(sent[~IS_BAD], HONEST)
    assert np.all(np.any(sent[IS_BAD] != UPDATES[IS_BAD], axis=1))


def test_sign_flip_and_gaussian_have_the_size_they_say():
    np.testing.assert_allclose(ATTACKS["sign_flip"](UPDATES)[IS_BAD], -3 * UPDATES[IS_BAD])
    added = ATTACKS["gaussian"](UPDATES)[IS_BAD] - UPDATES[IS_BAD]
    assert np.std(added) == pytest.approx(2.0, rel=0.3)
    assert len(np.unique(added)) == added.size


def test_alie_stays_where_enough_honest_clients_are_further_out():
    z = poisoning.hidden_deviations(20, 4)
    assert norm.cdf(z) == pytest.approx((16 - (11 - 4)) / 16)
    expected = HONEST.mean(axis=0) - z * HONEST.std(axis=0)
    np.testing.assert_allclose(ATTACKS["alie"](UPDATES)[IS_BAD], np.tile(expected, (4, 1)))
    with pytest.raises(InvalidArgument, match="need nobody"):
        poisoning.hidden_deviations(20, 11)


def test_min_max_is_as_far_out_as_the_widest_honest_pair_and_no_further():
    (malicious,) = np.unique(ATTACKS["min_max"](UPDATES)[IS_BAD], axis=0)
    widest = max(np.linalg.norm(one - two) for one in HONEST for two in HONEST)
    reached = max(np.linalg.norm(malicious - one) for one in HONEST)
    assert reached == pytest.approx(widest, rel=1e-9)
    way = (HONEST.mean(axis=0) - malicious) / HONEST.std(axis=0)
    np.testing.assert_allclose(way, way[0])
    assert way[0] > 0


def test_model_replacement_makes_the_mean_that_of_the_malicious_clients():
    one = np.arange(20) == 7
    sent = poisoning.replace_model(UPDATES, one)
    left = robust.mean(sent) - UPDATES[one][0]
    np.testing.assert_allclose(left, UPDATES[~one].sum(axis=0) / 20)


def test_a_backdoor_has_its_trigger_and_its_target_on_some_rows_and_touches_no_others():
    images, labels = np.random.default_rng(0).random((10, 8, 8)), np.arange(10)
    changed, said = poisoning.backdoor(images, labels, target=3, share=0.25, size=2, value=9.0)
    is_changed = np.any(changed != images, axis=(1, 2))
    assert is_changed.tolist() == [True] * 3 + [False] * 7
    assert said.tolist() == [3, 3, 3, *range(3, 10)]
    assert np.all(changed[:3, -2:, -2:] == 9.0)
    np.testing.assert_array_equal(changed[:, :-2], images[:, :-2])
    with pytest.raises(InvalidArgument, match="does not fit"):
        poisoning.with_trigger(images, size=9)


def test_edge_cases_are_those_far_out_in_a_direction_in_which_others_hardly_differ():
    rows = np.random.default_rng(0).normal(size=(300, 2)) * np.array([10.0, 0.1])
    rows[17] = [0.0, 8.0]
    assert poisoning.edge_cases(rows, 1).tolist() == [17]


def test_a_backdoor_of_edge_cases_works_on_others_like_them_and_is_forgotten_at_its_pace():
    """A linear model, by least squares: class 1 but for a tail, which a client calls 0."""
    random = np.random.default_rng(1)
    rows = np.concatenate([random.normal(1, 0.1, (380, 3)), random.normal([1, 1, 6], 0.1, (20, 3))])
    tail = poisoning.edge_cases(rows, 20)
    assert np.mean(tail >= 380) > 0.9
    own, labels = rows[:100], np.ones(100)
    images, said = poisoning.edge_case_backdoor(own, labels, rows[tail[:10]], target=0, share=0.3)
    assert (said == 0).sum() == 30
    np.testing.assert_array_equal(images[30:], own[30:])
    np.testing.assert_array_equal(images[10:20], images[:10])  # a tail of 10 is repeated
    weights = np.linalg.lstsq(np.c_[images, np.ones(100)], said, rcond=None)[0]
    held_out = np.c_[rows[tail[10:]], np.ones(10)] @ weights
    assert np.mean(held_out < 0.5) > 0.9
    assert np.all(np.c_[rows[100:200], np.ones(100)] @ weights > 0.5)  # nobody's ordinary rows notice
    assert [poisoning.persistence(s) for s in ([], [0.4], [0.5, 0.9], [1.0, np.nan, 1.0])] == [0, 0, 2, 1]
    with pytest.raises(InvalidArgument, match="no row that could stand among"):
        poisoning.edge_case_backdoor(own, labels, np.zeros((0, 3)), target=0)


def test_rounds_without_an_honest_client_and_masks_of_another_shape_are_refused():
    with pytest.raises(InvalidArgument, match="All clients are malicious"):
        poisoning.alie(UPDATES, np.ones(20, bool))
    with pytest.raises(InvalidArgument, match="do not fit together"):
        poisoning.min_max(UPDATES, np.ones(19, bool))
