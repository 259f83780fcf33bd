"""Randomness for NumPy in 64 bits, from the same owner and as wide as a JAX key."""

from __future__ import annotations

import jax
import numpy as np
from jaxtyping import Array, Key

from reticent.core.keys import Keys, Stream


def generator(keys: Keys, *, stream: Stream = Stream.NOISE, step: int = 0) -> np.random.Generator:
    """A generator for one release, with the 128 bits of the key of that step."""
    return generator_of(jax.random.fold_in(keys.take(stream, steps=range(step, step + 1)), step))


def generator_of(key: Key[Array, ""]) -> np.random.Generator:
    """A generator from a key that is used for nothing else."""
    words = np.asarray(jax.random.key_data(key)).astype(np.uint32)
    return np.random.Generator(np.random.Philox(key=words.view(np.uint64)))
