"""The networks and the batches that are measured. NumPy only: every interpreter imports this."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MLP_SIZES = (784, 512, 512, 10)
CNN_CLASSES = 10
TEXT = {"symbols": 10_000, "classes": 2, "width": 16}
TEXT_LENGTH = 256
TRANSFORMER = {"symbols": 10_000, "classes": 2, "length": 128, "width": 128, "layers": 2, "heads": 4}

MAX_NORM = 1.0
NOISE_MULTIPLIER = 1.0
LEARNING_RATE = 0.1

MOST_GIGABYTES = 4.0  # of gradients of single examples; a peer that would need more is not run


class Case(NamedTuple):
    """A network, the batch it is trained with, and how much slower than without privacy it may be."""

    name: str
    network: str
    batch: int
    examples: int
    bar: float


CASES = (
    Case("mlp-1024", "mlp", 1024, 60_000, 1.30),
    Case("mlp-4096", "mlp", 4096, 60_000, 1.10),
    Case("cnn-256", "cnn", 256, 60_000, 0.95),
    Case("cnn-1024", "cnn", 1024, 60_000, 1.0),
    Case("text", "text", 1024, 25_000, 1.6),
    Case("transformer", "transformer", 64, 512, 1.15),
)

DESCRIPTIONS = {
    "mlp": "perceptron 784-512-512-10, relu",
    "cnn": "course CNN: two convolutions, two dense layers, 28 x 28 images",
    "text": "embedding bag: mean of 256 token vectors of width 16 out of 10,000, one dense layer",
    "transformer": "2 layers, width 128, 4 heads, 128 tokens out of 10,000, to classify a text",
}


def make_data(network: str, rows: int, *, as_bytes: bool = False) -> dict[str, np.ndarray]:
    """Random examples of the right shape: `x`, and `y`, the label."""
    draw = np.random.default_rng(0)
    if network in ("mlp", "cnn"):
        shape = (rows, 784) if network == "mlp" else (rows, 28, 28)
        pixels = draw.integers(0, 256, shape, np.uint8) if as_bytes else draw.random(shape, np.float32)
        return {"x": pixels, "y": draw.integers(0, 10, rows, np.int32)}
    symbols, length = (
        (TEXT["symbols"], TEXT_LENGTH)
        if network == "text"
        else (TRANSFORMER["symbols"], TRANSFORMER["length"])
    )
    tokens = draw.integers(1, symbols, (rows, length), np.int32)  # 0 is padding: none here
    return {"x": tokens, "y": draw.integers(0, 2, rows, np.int32)}


def steps_at_once(case: Case) -> int:
    """How many steps one compiled call takes: as many as an epoch has, and 64 at most."""
    return min(64, -(-case.examples // case.batch))


def gradient_gigabytes(parameters: int, examples: int) -> float:
    """What the gradients of so many single examples take in float32."""
    return parameters * examples * 4 / 1e9
