"""Small coloured images under names of the catalog: ten classes, told apart by colour and by stripes."""

from __future__ import annotations

import numpy as np
import pytest

from reticent.data import catalog
from reticent.data.catalog import Splits
from reticent.data.dataset import Dataset

SIDE = 16


def images(count: int, *, seed: int, classes: int = 10) -> dict[str, np.ndarray]:
    """Images whose class decides a colour and the width of stripes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=count).astype(np.int32)
    colours = np.random.default_rng(0).integers(40, 216, (classes, 3))
    stripes = np.sin(np.arange(SIDE)[None, :] * (1 + y[:, None] % 5) * 0.6) * 60  # (count, side)
    found = (
        colours[y][:, None, None, :] + stripes[:, :, None, None] + rng.normal(0, 12, (count, SIDE, SIDE, 3))
    )
    return {"x": np.clip(found, 0, 255).astype(np.uint8), "y": y}


def put_into_catalog(monkeypatch: pytest.MonkeyPatch, rows: int = 800) -> dict[str, Splits]:
    """`cifar10` and `cifar100` are small from now on; no image is in both."""
    known = {
        "cifar10": Splits(
            train=Dataset(arrays=images(rows, seed=1), name="cifar10"),
            test=Dataset(arrays=images(200, seed=2), name="cifar10"),
        ),
        "cifar100": Splits(train=Dataset(arrays=images(400, seed=3), name="cifar100")),
    }
    usual = catalog.load
    monkeypatch.setattr(catalog, "load", lambda name, **named: known.get(name) or usual(name, **named))
    return known
