"""Random Fourier features: a Gaussian kernel, the same for a row wherever it stands, in every version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import DataError
from reticent.models import FourierFeatures
from reticent.runs.attacks.view import require_cells

# of the first release that had them
EXPECTED = [[0.3887734115123749, -0.3556887209415436, -0.593887448310852, 0.6079789996147156]]
ROWS = np.random.default_rng(0).uniform(-1, 1, (40, 8))


def test_inner_products_are_those_of_a_gaussian_kernel():
    found = FourierFeatures(8, 1 << 14, width=2.0)(ROWS)
    apart = ((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=-1)
    assert np.abs(found @ found.T - np.exp(-apart * 2.0**2 / 8 / 2)).max() < 0.05  # 6 / sqrt(16,384)


def test_features_of_a_row_depend_on_that_row_alone():
    features = FourierFeatures(8)
    whole = features(ROWS)
    assert np.array_equal(whole[7:13], features(ROWS[7:13]))
    assert np.array_equal(whole[::-1], features(ROWS[::-1]))
    assert np.all(np.linalg.norm(whole.astype(np.float64), axis=1) < 1 + 1e-6)


def test_directions_are_the_same_for_ever():
    """A saved model is read with them."""
    found = FourierFeatures(2, 4)(np.array([[0.5, -0.25]]))
    assert np.allclose(found, EXPECTED, atol=1e-6)


def test_attacks_on_cells_are_refused_where_a_model_sees_none():
    again: Any = SimpleNamespace(learner=SimpleNamespace(name="fourier"))
    with pytest.raises(DataError, match="features of whole rows"):
        require_cells(again, "Attribute inference")
