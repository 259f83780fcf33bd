"""Networks that are measured, with random examples for them."""

from __future__ import annotations

from typing import Any

import numpy as np

import reticent as rt
from reticent.data.sampling import Poisson
from reticent.models import Model
from reticent.models.course_cnn import course_cnn
from reticent.models.mlp import mlp
from reticent.training.clipping import flat

_SHAPES = {"cnn": (28, 28), "mlp": (784,)}


def network(name: str) -> Model:
    return course_cnn(10) if name == "cnn" else mlp((784, 512, 512, 10))


def examples(name: str, rows: int, first: int = 0) -> dict[str, Any]:
    """So many rows, the first of which is row `first` of all."""
    draw = np.random.default_rng([7, first])
    return {"x": draw.random((rows, *_SHAPES[name]), np.float32), "y": draw.integers(0, 10, rows, np.int32)}


def plan(rows: int, batch: int, steps: int) -> rt.Plan:
    sampler = Poisson(examples=rows, batch_size=batch)
    return rt.Plan(
        sampler=sampler,
        clipping=flat(1.0),
        noise_multiplier=1.0,
        steps=steps,
        delta=1e-5,
        adjacency=sampler.adjacencies[0],
    )
