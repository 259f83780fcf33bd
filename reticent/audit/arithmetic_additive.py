"""The audit of arithmetic for additive models: one pass, on the rows of a run and on strange ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from reticent.additive import bins as binning
from reticent.additive import sums
from reticent.additive.bins import ColumnBins
from reticent.additive.curves import CurveFeatures, features_of
from reticent.additive.plan import AdditivePlan
from reticent.additive.targets import MOST, UNIT
from reticent.audit.additive import AdditiveRows
from reticent.audit.arithmetic import Arithmetic, arithmetic
from reticent.core.generators import generator
from reticent.core.keys import Keys
from reticent.training.contributions import user_table


def arithmetic_additive(
    rows: AdditiveRows, plan: AdditivePlan, *, confidence: float = 0.95, seed: int = 0
) -> Arithmetic:
    """The audit of arithmetic for one pass of an additive model, on its own rows and on strange ones.

    Where users are protected, it is users who join a batch and who are strange, all rows of each.

    Guarantee:
        As that of `arithmetic`.
    """
    found = _bins(rows)
    features = [features_of(bins) for bins in found]
    tables = _tables(features)

    def one_pass(batch: dict[str, np.ndarray], seed: int, step: int) -> Any:
        given, siblings = _rows_of_batch(rows, batch)
        residuals, is_inside = _residuals(given)
        source = generator(Keys.seeded(1000 * seed + step))
        released = sums.release_pass(
            source,
            _places(given, features),
            tables,
            residuals,
            is_inside,
            plan.each_pass,
            siblings=siblings,
        )
        return released.columns

    return arithmetic(
        one_pass,
        _batch_of_units(rows),
        max_norm=MOST * sums.longest_row(tables),
        noise_multiplier=plan.each_pass,
        divisor=MOST * sums.WEIGHT,
        confidence=confidence,
        seed=seed,
    )


def _bins(rows: AdditiveRows) -> list[ColumnBins]:
    """The bins that a fit would find if its counts had no noise: for whoever holds the data."""
    found = []
    for column, cells in enumerate(rows.columns.cells_of(rows.x).T):
        if not rows.columns.is_number(column):
            counts = np.bincount(cells, minlength=rows.columns.sizes[column]).astype(np.float64)
            found.append(binning.bins_of_words(counts, 0.0, most=len(counts)))
            continue
        first = _exact(binning.parts_of_numbers(), cells)
        parts = binning.finer_parts(first, len(rows.x))
        found.append(binning.bins_of_numbers(parts, first, _exact(parts, cells), len(rows.x)))
    return found


def _exact(parts: np.ndarray, cells: np.ndarray) -> sums.Noisy:
    """A count without noise."""
    counts = np.bincount(parts[cells], minlength=int(parts[-1]) + 1)
    return sums.Noisy(counts.astype(np.float64), 0.0)


def _batch_of_units(rows: AdditiveRows) -> dict[str, np.ndarray]:
    """One row each, or where users are protected all rows of a user, filled up with its first one."""
    if rows.users is None:
        return {"x": rows.x, "y": rows.y}
    places, is_row = user_table(rows.users, rows.rows_per_user)
    return {"x": rows.x[places], "y": rows.y[places], "has rows": is_row.sum(axis=1)}


def _rows_of_batch(
    rows: AdditiveRows, batch: dict[str, np.ndarray]
) -> tuple[AdditiveRows, np.ndarray | None]:
    """The rows of all units of a batch, and how many the user of each has."""
    if rows.users is None:
        return rows._replace(x=batch["x"], y=batch["y"]), None
    count = batch["has rows"]
    is_row = np.arange(rows.rows_per_user) < count[:, None]
    given = rows._replace(x=batch["x"][is_row], y=batch["y"][is_row], users=None)
    return given, sums.rows_of_own_user(np.repeat(np.arange(len(count)), count))


def _places(rows: AdditiveRows, features: Sequence[CurveFeatures]) -> list[np.ndarray]:
    cells = rows.columns.cells_of(rows.x)
    return [part.of_cell[cell] for part, cell in zip(features, cells.T, strict=True)]


def _tables(features: Sequence[CurveFeatures]) -> list[np.ndarray]:
    """The whole features of each place, all columns weighted alike, as in the first pass."""
    weights = np.full(len(features), 1 / math.sqrt(len(features)))
    return sums.whole_tables([part.released for part in features], weights)


def _residuals(rows: AdditiveRows) -> tuple[np.ndarray, np.ndarray]:
    """The residuals of scores of 0, as long as they may be."""
    scores = np.zeros((len(rows.x), rows.target.outputs), np.int64)
    return rows.target.residuals(rows.y, scores, UNIT)
