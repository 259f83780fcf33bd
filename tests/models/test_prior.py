"""Priors: images that depend on a seed alone, and a map of features that depends on those alone."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.models import random_shapes, random_strokes, whitening


@pytest.mark.parametrize("draw", [random_strokes, random_shapes])
def test_images_are_repeatable_varied_and_neither_empty_nor_full(draw) -> None:
    images = draw(50)
    assert (images.shape, images.dtype) == ((50, 28, 28), np.uint8)
    assert np.array_equal(images, draw(50))
    assert not np.array_equal(images, draw(50, seed=1))
    lit = (images > 5).mean(axis=(1, 2))
    assert lit.min() > 0.005
    assert lit.mean() < 0.7
    assert len(np.unique(images.reshape(50, -1), axis=0)) == 50


def test_the_prior_itself_varies_alike_in_every_direction() -> None:
    rng = np.random.default_rng(0)
    prior = (rng.normal(size=(4000, 6)) * [9, 3, 1, 0.3, 0.1, 0.03] + 5).astype(np.float32)
    made = whitening(prior, kept=4, ridge=1e-8)
    turned = (prior - made.centre) @ made.directions
    assert np.allclose(np.cov(turned.T), np.eye(4), atol=0.02)
    assert np.allclose(np.linalg.norm(made(prior), axis=1), 1, atol=1e-5)


def test_a_row_depends_on_itself_alone() -> None:
    rng = np.random.default_rng(1)
    made = whitening(rng.normal(size=(200, 10)).astype(np.float32), kept=5)
    rows = rng.normal(size=(5000, 10)).astype(np.float32)
    assert np.allclose(made(rows)[4500], made(rows[4500:4501])[0], atol=1e-6)
    assert made(rows[:0]).shape == (0, 5)


def test_more_directions_than_the_prior_has_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="12 directions cannot be found"):
        whitening(np.zeros((100, 10), np.float32), kept=12)
