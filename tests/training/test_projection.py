"""Feasible sets: every point ends in them, and one that is inside stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.training.projection import onto_ball, onto_box, onto_simplex

SETS: dict[str, tuple[Any, Callable[[np.ndarray], bool]]] = {
    "ball": (onto_ball(0.3), lambda w: bool(np.linalg.norm(w) <= 0.3 + 1e-6)),
    "box": (onto_box(-0.1, 0.2), lambda w: w.min() >= -0.1 and w.max() <= 0.2),
    "simplex": (onto_simplex(), lambda w: abs(w.sum() - 1) < 1e-5 and w.min() >= 0),
}


@pytest.mark.parametrize("name", SETS)
def test_projections_put_every_point_into_their_set(name: str) -> None:
    project, holds = SETS[name]
    outside = np.random.default_rng(0).normal(0, 2, (30, 5)).astype(np.float32)
    assert not any(holds(point) for point in outside)
    assert all(holds(point) for point in np.asarray(jax.vmap(project)({"w": outside})["w"]))


def test_projections_move_no_point_that_is_inside() -> None:
    inside = {"w": jnp.array([0.2, 0.3, 0.5])}
    for project in (onto_ball(1.0), onto_box(0.0, 1.0), onto_simplex()):
        assert np.allclose(project(inside)["w"], inside["w"], atol=1e-6)
