"""Noise that stands in two places of a release is found wherever they are; independent noise is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import bdtrc

from reticent.audit import shared_noise as checked
from reticent.audit.shared_noise import shared_noise

SEEDS, DEVIATION = 12, 0.3
SHAPES = {"b": (24,), "deep": (4, 3, 5), "scale": (), "unused": (0,), "w": (8, 24)}

Leaves = dict[str, np.ndarray]


def draws(seed: int = 0, seeds: int = SEEDS, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Leaves:
    """Independent noise on a sum that is not small."""
    rng = np.random.default_rng(seed)
    sums = {name: 5 * rng.normal(size=shape) for name, shape in shapes.items()}
    return {
        name: (total + DEVIATION * rng.normal(size=(seeds, *total.shape))).astype(np.float32).astype(float)
        for name, total in sums.items()
    }


def noise_of(leaf: np.ndarray) -> np.ndarray:
    return leaf - leaf.mean(axis=0)


def copied(to: str, at: Any, source: Callable[[Leaves], np.ndarray], by: float = 1.0) -> Callable:
    """Puts the noise of some place into another one, beside the sum that is there."""

    def plant(found: Leaves) -> Leaves:
        place = (slice(None), *(at if isinstance(at, tuple) else (at,)))
        changed = found[to].copy()
        own = changed[place]
        rest = np.sqrt(1 - by * by) * noise_of(own)
        changed[place] = own.mean(axis=0) + by * source(found).reshape(own.shape) + rest
        return {**found, to: changed.astype(np.float32).astype(float)}

    return plant


PLANTED = {
    "the first numbers of two leaves": copied("w", 0, lambda found: noise_of(found["b"])),
    "with the other sign": copied("w", 0, lambda found: -noise_of(found["b"]), by=1.0),
    "only in part": copied("w", 0, lambda found: noise_of(found["b"]), by=0.6),
    "one number of a leaf": copied("scale", (), lambda found: noise_of(found["w"])[:, 0, 0]),
    "not at the beginning": copied("w", 5, lambda found: noise_of(found["b"])),
    "backwards": copied("w", 3, lambda found: noise_of(found["b"])[:, ::-1]),
    "a single pair of numbers": copied("w", (6, 17), lambda found: -noise_of(found["deep"])[:, 2, 1, 3]),
    "the halves of a leaf": copied("w", slice(4, 8), lambda found: noise_of(found["w"])[:, :4], by=0.5),
    "every row like the one before": copied(
        "w", slice(1, 8, 2), lambda found: noise_of(found["w"])[:, ::2], by=0.5
    ),
    "every column the same": copied(
        "w",
        (slice(None), slice(1, None)),
        lambda found: noise_of(found["w"])[:, :, :1].repeat(23, axis=2),
    ),
    "a pattern that repeats": copied("b", slice(7, 14), lambda found: noise_of(found["b"])[:, :7]),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_shared_noise_is_found(name: str) -> None:
    right = draws()
    assert shared_noise(right, DEVIATION) is None
    found = shared_noise(PLANTED[name](right), DEVIATION)
    assert found is not None
    assert "noise" in found


def test_what_shares_noise_is_named() -> None:
    first = shared_noise(PLANTED["the first numbers of two leaves"](draws()), DEVIATION)
    assert first is not None
    assert first.startswith("'b' and 'w' share noise: their difference, over the root of 2, has deviation")
    other = shared_noise(PLANTED["with the other sign"](draws()), DEVIATION)
    assert other is not None
    assert "their sum" in other
    lone = shared_noise(PLANTED["a single pair of numbers"](draws()), DEVIATION)
    assert lone == "number 38 of 'deep' and number 161 of 'w' share their noise"


def test_noise_added_to_all_beside_what_was_claimed_is_no_problem() -> None:
    rng = np.random.default_rng(1)
    common = 3 * DEVIATION * rng.normal(size=SEEDS)
    more = {name: leaf + common.reshape(-1, *[1] * (leaf.ndim - 1)) for name, leaf in draws().items()}
    assert shared_noise(more, DEVIATION) is None
    assert shared_noise({name: 4 * leaf for name, leaf in draws().items()}, DEVIATION) is None


def test_too_few_draws_find_nothing_rather_than_something_wrong() -> None:
    for seeds in (1, 2, 3, 4):
        many = {"w": (300, 100)}  # so many numbers that some are equal by chance in a single draw
        assert shared_noise(draws(seeds=seeds, shapes=many), DEVIATION) is None
    assert shared_noise({}, DEVIATION) is None
    assert shared_noise(draws(shapes={"nothing": (0,)}), DEVIATION) is None


def test_independent_noise_is_blamed_no_more_often_than_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both searches at 10% each instead of one in a million; seeds are fixed."""
    shapes = {**SHAPES, "more": (40, 7)}
    assert not [seed for seed in range(400) if shared_noise(draws(seed, shapes=shapes), DEVIATION)]
    monkeypatch.setattr(checked, "_FALSE_ALARM", 0.1)
    alarms = sum(shared_noise(draws(seed, shapes=shapes), DEVIATION) is not None for seed in range(400))
    assert bdtrc(alarms - 1, 400, 0.19) > 1e-4
    assert alarms > 10, "the test would see nothing: its level is not used"
