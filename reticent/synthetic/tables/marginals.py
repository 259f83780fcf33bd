"""Marginals: how many rows have each combination of codes in a few columns, counted with noise.

A record is in one cell of each marginal. Adding or removing it changes that cell by one and no other, so the
whole table of counts has sensitivity 1, in L1 and in L2. Counts are whole, and so is the noise on them, in
public parts of one: nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.whole import add_whole_normals
from reticent.synthetic.tables.junction import Clique

ONE_RECORD_COUNTS = 1.0  # in each marginal


class Marginal(NamedTuple):
    """A released table of counts: noisy, some of them negative, and the deviation of their noise."""

    columns: Clique
    counts: np.ndarray  # one axis per column, float64
    deviation: float


def count(
    codes: Int[np.ndarray, "rows columns"], columns: Clique, sizes: Sequence[int]
) -> Float[np.ndarray, " ..."]:
    """The exact counts: private, never released."""
    shape = [sizes[column] for column in columns]
    cells = np.ravel_multi_index(tuple(codes[:, column] for column in columns), shape)
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape).astype(np.float64)


def measure(
    codes: np.ndarray,
    columns: Clique,
    sizes: Sequence[int],
    event: Gaussian,
    source: np.random.Generator,
    *,
    rows_per_user: int = 1,
) -> Marginal:
    """The counts of a marginal with independent Gaussian noise on every cell, empty ones among them.

    Guarantee:
        Costs `event`, up to 2^-64 per cell. For codes that differ by one record the counts differ by one in
        one cell: an L2 distance of 1, and the noise has the deviation `event.noise_multiplier` times that.
        A user has at most `rows_per_user` records. Their counts are furthest apart if all are in one cell:
        an L2 distance of `rows_per_user`, and the noise is so many times larger.
    """
    reach = rows_per_user * ONE_RECORD_COUNTS
    deviation = event.noise_multiplier * reach
    exact = count(codes, columns, sizes)
    noisy = add_whole_normals(source, exact, max_norm=reach, deviation=deviation, are_whole=True)
    return Marginal(columns, noisy, deviation)


def combine(marginals: Iterable[Marginal]) -> list[Marginal]:
    """Combines marginals of the same columns into one, averaged by their precision."""
    groups: dict[Clique, list[Marginal]] = {}
    for marginal in marginals:
        groups.setdefault(marginal.columns, []).append(marginal)
    return [group[0] if len(group) == 1 else _average(group) for group in groups.values()]


def _average(group: Sequence[Marginal]) -> Marginal:
    weights = np.array([marginal.deviation**-2 for marginal in group])
    counts = sum(weight * marginal.counts for weight, marginal in zip(weights, group, strict=True))
    total = float(weights.sum())
    return Marginal(group[0].columns, np.asarray(counts) / total, total**-0.5)
