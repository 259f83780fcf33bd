"""Training steps that are right on paper, each wrong in one way that the machine makes of it.

All claim to clip to 1 and to add noise of deviation `NOISE`. Where noise is not what is wrong, it is that of
the package, so that one mistake is all that can be found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.keys import Keys, Stream, step_key
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.gaussian import add_gaussian_noise
from reticent.mechanisms.sensitivity import BoundedSum

NOISE = 4.0
BLOCK = 16

Batch = dict[str, np.ndarray]
Noise = Callable[[np.ndarray, int], Any]


@jax.jit
def _whole(total: jax.Array, key: jax.Array) -> jax.Array:
    return add_gaussian_noise(key, BoundedSum(value=total, max_norm=1.0), Gaussian(noise_multiplier=NOISE))


def whole_noise(total: np.ndarray, seed: int) -> Any:
    """The package's own: whole numbers on a grid."""
    key = step_key(Keys.seeded(seed).take(Stream.NOISE, steps=range(1)), 0)
    return _whole(jnp.asarray(total, jnp.float32), key)


# Noise


# erfinv(1 - p) / (1 - p) by w = -ln(p (2 - p)): in w - 2.5 below 5, in sqrt(w) - 3 above.
_CENTRE = (2.85342684e-08, 3.4372634e-07, -3.52885331e-06, -4.39677343e-06, 0.000218602171,
           -0.00125370754, -0.00417770772, 0.246640726, 1.50140942)  # fmt: skip
_TAIL = (-1.08439828e-05, -0.000138048409, 0.0011498155, -0.00339587268, 0.00581009571,
         -0.00771754804, 0.00942791388, 1.00168227, 2.83297734)  # fmt: skip


def normals_of_words(words: np.ndarray) -> np.ndarray:
    """What this package drew once: a float32 by the inverse of the error function, from 32 bits."""
    rarity = ((words >> 1).astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-31)
    w = -np.log(rarity * (2 - rarity))
    near, far = w - np.float32(2.5), np.sqrt(np.maximum(w, 5)) - np.float32(3)
    centre = np.polyval(np.asarray(_CENTRE, np.float32), near)
    tail = np.polyval(np.asarray(_TAIL, np.float32), far)
    size = np.float32(2**0.5) * (1 - rarity) * np.where(w < 5, centre, tail)
    return np.where(words & 1 == 0, size, -size).astype(np.float32)


def word_noise(total: np.ndarray, seed: int) -> np.ndarray:
    words = np.random.default_rng(seed).integers(0, 2**32, total.shape, np.uint32)
    return total.astype(np.float32) + np.float32(NOISE) * normals_of_words(words)


@jax.jit
def _jax(total: jax.Array, seed: jax.Array) -> jax.Array:
    return total + NOISE * jax.random.normal(jax.random.key(seed), total.shape)


def jax_noise(total: np.ndarray, seed: int) -> Any:
    return _jax(jnp.asarray(total, jnp.float32), seed)


def float64_noise(total: np.ndarray, seed: int) -> np.ndarray:
    return total + NOISE * np.random.default_rng(seed).normal(size=total.shape)


def whole_noise_on_floats(total: np.ndarray, seed: int) -> np.ndarray:
    """Noise on a grid, and a sum that is not on it."""
    step = NOISE / 100_000
    drawn = np.rint(np.random.default_rng(seed).normal(size=total.shape) * NOISE / step)
    return (total + step * drawn).astype(np.float32)


def mean(noise: Noise, batch: Batch, seed: int, at: int) -> Any:
    """The sum of clipped rows, with float64 to spare."""
    rows = np.where(np.isfinite(batch["x"]).all(axis=1, keepdims=True), batch["x"], 0).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return noise((rows / np.maximum(lengths * (1 + 1e-6), 1)).sum(axis=0), 1000 * at + seed)


# Sums


def wide_layer(batch: Batch, seed: int, at: int) -> Any:
    """A layer on two positions, measured by their inner products, with a slack that knows no dimension."""
    with np.errstate(all="ignore"):
        products = _inner_products(batch["c"]) * _inner_products(batch["x"])  # (examples, length, length)
        uncancelled = np.trace(products, axis1=1, axis2=2)
        norm = np.sqrt(np.maximum(products.sum(axis=(1, 2)), 0) + np.float32(2.0**-21) * uncancelled)
        factor = np.where(np.isfinite(norm), 1 / np.maximum(norm, 1), 0)
        gradients = np.einsum("nlr,nlc->nrc", batch["x"], batch["c"])
        total = np.einsum("n,nrc->rc", factor, np.where(factor[:, None, None] > 0, gradients, 0))
    return whole_noise(total, seed)


def _inner_products(rows: np.ndarray) -> np.ndarray:
    """Of all pairs of positions, in float32 from left to right: (examples, length, numbers)."""
    pairs = rows[:, :, None, :] * rows[:, None, :, :]
    return np.add.accumulate(pairs, axis=3, dtype=np.float32)[..., -1]


def running_sum(batch: Batch, seed: int, at: int) -> Any:
    """Numbers clipped to 1, added up in float32: block by block, as an accumulator does."""
    clipped = np.clip(np.nan_to_num(batch["x"], posinf=0, neginf=0), -1, 1).astype(np.float32)
    blocks = np.pad(clipped, (0, -len(clipped) % BLOCK)).reshape(-1, BLOCK).sum(axis=1, dtype=np.float32)
    total = np.add.accumulate(np.append(np.float32(0), blocks), dtype=np.float32)[-1]
    return whole_noise(np.asarray(total), seed)


def two_roundings(batch: Batch, seed: int, at: int) -> Any:
    """One gradient, rounded in one way where it is measured and in another where it is summed.

    Two fusions of one compiler do that: a product and a sum are one operation here, and two there.
    """
    narrow, wide = batch["x"].astype(np.float32), batch["x"].astype(np.float64)

    def gradient(first: np.ndarray) -> np.ndarray:
        one = (first[:, 4] * first[:, 6] - narrow[:, 0] * narrow[:, 2]).astype(np.float32)
        return one + (first[:, 3] * first[:, 2] - narrow[:, 7] * narrow[:, 6]).astype(np.float32)

    with np.errstate(all="ignore"):
        measured, summed = np.abs(gradient(narrow)), gradient(wide)
        is_finite = np.isfinite(measured) & np.isfinite(summed)
        factor = np.where(is_finite, 1 / np.maximum(measured * (1 + 1e-6), 1), 0)
        total = np.where(is_finite, summed * factor, 0).sum(dtype=np.float64)
    return whole_noise(np.full(4, total / 2), seed)


right = partial(mean, whole_noise)
