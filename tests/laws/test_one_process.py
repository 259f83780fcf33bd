"""Whatever draws noise and knows of no other process refuses to be one of several, before it charges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from reticent import convex, pate, synthetic
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.distributed.consensus import require_alone
from reticent.sklearn import PrivateScaler
from reticent.synthetic.images import embedding, gan
from reticent.synthetic.tables import table_model

NOISE = pate.GaussianMax(sigma=40.0)
ALLOWANCE = pate.allowance_for(NOISE, epsilon=1.0, delta=1e-6)
IMAGES, CLASSES = np.zeros((200, 4, 4), np.uint8), np.arange(200) % 2


class Untouched:
    """A budget that nobody may charge."""

    def charge(self, *given: Any, **named: Any) -> None:
        raise AssertionError("charged")


def oracle(folder: Path) -> Any:
    return pate.Oracle(lambda x: None, NOISE, ALLOWANCE, budget=Untouched(), journal=folder / "journal")  # type: ignore[arg-type, return-value]


def convex_fit(folder: Path) -> Any:
    rows = np.eye(4)[np.arange(40) % 4]
    return convex.fit(
        convex.losses.logistic(),
        rows,
        np.arange(40) % 2,
        epsilon=1.0,
        delta=1e-3,
        norm=1.0,
        budget=Untouched(),
    )


def from_a_file(folder: Path) -> Any:
    return synthetic.fit("digits", epsilon=1.0, folder=folder / "generator")


def from_codes(folder: Path) -> Any:
    plan = table_model.plan(sizes=(2, 3), rows=100, epsilon=1.0, delta=1e-4)
    return table_model.fit(np.zeros((100, 2), np.int32), plan, keys=Keys.seeded(0))


def from_one_sum(folder: Path) -> Any:
    plan = embedding.plan(epsilon=1.0, delta=1e-4, examples=200, prior="waves", kept=6, radius=2.0)
    return embedding.fit(IMAGES, CLASSES, plan, classes=2, budget=Untouched())


def from_a_gan(folder: Path) -> Any:
    plan = gan.plan(epsilon=4.0, delta=1e-3, examples=200, batch_size=20, steps=2, prior="waves", kept=5)
    return gan.fit(IMAGES, CLASSES, plan, classes=2, budget=Untouched())


def estimator(folder: Path) -> Any:
    return PrivateScaler(epsilon=1.0, budget=Untouched()).fit(np.zeros((100, 2)))


@pytest.mark.parametrize(
    "draw",
    [
        lambda folder: pate.Teller(NOISE, ALLOWANCE, Keys.seeded(0)),
        oracle,
        convex_fit,
        from_a_file,
        from_codes,
        from_one_sum,
        from_a_gan,
        estimator,
    ],
    ids=["teller", "oracle", "convex", "synthetic", "tables", "embedding", "gan", "sklearn"],
)
def test_several_processes_are_refused_before_anything_happens(
    draw: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(InvalidArgument, match="in one process, and 2 processes are joined here"):
        draw(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_one_process_is_alone() -> None:
    require_alone("This test")
