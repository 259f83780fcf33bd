"""Accuracy that was measured at a given epsilon, for a first idea of what a plan may reach.

The figures are those of the tables in the documentation, which a test compares with these. They say how a
method did on one public data set, and promise nothing about another.
"""

from __future__ import annotations

from typing import NamedTuple


class MeasuredScores(NamedTuple):
    """Scores of one recipe on one data set.

    Args:
        points: (epsilon, score in percent), from the smallest epsilon on.
        page: of the documentation, where the figures come from; command: that measures them.
    """

    name: str
    rows: int
    score: str
    recipe: str
    points: tuple[tuple[float, float], ...]
    page: str
    command: str


MEASURED: tuple[MeasuredScores, ...] = (
    MeasuredScores(
        name="Adult, a census table",
        rows=48_842,
        score="accuracy",
        recipe="reticent train on the raw file, what is not declared found privately",
        points=((0.5, 84.11), (1.0, 84.61), (4.0, 85.12)),
        page="docs/benchmarks/tabular.md",
        command="make bench-tabular",
    ),
    MeasuredScores(
        name="MNIST, handwritten digits",
        rows=60_000,
        score="accuracy",
        recipe="A linear model on whitened scattering features",
        points=((1.0, 98.66), (3.0, 98.93)),
        page="docs/training.md",
        command="make bench-accuracy",
    ),
    MeasuredScores(
        name="MNIST, a network on pixels",
        rows=60_000,
        score="accuracy",
        recipe="tanh_cnn, a convolutional network",
        points=((0.5, 96.04), (2.0, 97.73), (8.0, 98.10)),
        page="docs/training.md",
        command="make bench-accuracy",
    ),
    MeasuredScores(
        name="Fashion-MNIST, articles of clothing",
        rows=60_000,
        score="accuracy",
        recipe="A linear model on whitened scattering features",
        points=((1.0, 88.95), (3.0, 90.34)),
        page="docs/training.md",
        command="make bench-accuracy",
    ),
)
