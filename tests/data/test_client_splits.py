"""Clients made from labels."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.data.client_splits import dirichlet_split

LABELS = np.arange(6000) % 10


def shares(concentration: float, seed: int = 0) -> np.ndarray:
    """How much of each class each client has: (classes, clients)."""
    owners = dirichlet_split(LABELS, 50, concentration, seed=seed)
    counts = np.zeros((10, 50))
    np.add.at(counts, (LABELS, owners), 1)
    return counts / counts.sum(axis=1, keepdims=True)


def test_every_row_has_one_client_and_the_seed_decides_which():
    owners = dirichlet_split(LABELS, 50, 0.5, seed=0)
    assert owners.shape == LABELS.shape
    assert owners.min() >= 0
    assert owners.max() < 50
    np.testing.assert_array_equal(owners, dirichlet_split(LABELS, 50, 0.5, seed=0))
    assert np.any(owners != dirichlet_split(LABELS, 50, 0.5, seed=1))


@pytest.mark.parametrize("concentration", [0.1, 1.0, 10.0])
def test_shares_spread_as_the_dirichlet_law_says(concentration: float):
    # A share has variance (1/n)(1 - 1/n) / (n a + 1); ten classes x three seeds give it within a third.
    found = np.mean([np.var(shares(concentration, seed), axis=1) for seed in range(3)])
    assert found == pytest.approx((1 / 50) * (49 / 50) / (50 * concentration + 1), rel=0.35)


def test_rows_of_a_class_are_not_handed_out_in_their_order():
    owners = dirichlet_split(np.zeros(1000, int), 10, 10.0, seed=0)
    assert np.any(np.diff(owners) < 0)


def test_what_is_no_column_of_labels_is_refused():
    with pytest.raises(DataError):
        dirichlet_split(np.zeros((3, 2)), 5, 0.5, seed=0)
    with pytest.raises(InvalidArgument):
        dirichlet_split(LABELS, 5, 0.0, seed=0)
