"""What is released of an additive model: a curve per column, with the size of the noise in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reticent.additive.columns import STEPS, Columns


class CurveShape(NamedTuple):
    """The curve of one column.

    Args:
        column: its place among the columns.
        edges: of a number: the ends of its bins, from -1 to 1, one more than there are bins; empty for words.
        cells: of a category: for each bin the places of its words. The place after the last word stands for
            none of them.
        values: what each bin adds to the scores, (bins, outputs). For a number the last one is for missing
            cells.
        deviations: the standard deviation of the noise in each value before it was shrunk, as if no column
            told anything about another. A curve that stays within two of them may be noise alone.
    """

    column: int
    edges: np.ndarray
    cells: tuple[tuple[int, ...], ...]
    values: np.ndarray
    deviations: np.ndarray


@dataclass(frozen=True, kw_only=True)
class AdditiveModel:
    """Scores are a constant and one value per column, looked up by the cell that a row is in.

    Args:
        constant: (outputs,).
        curve, deviation: (cells, outputs), the cells of all columns one after the other.
    """

    columns: Columns
    constant: np.ndarray
    curve: np.ndarray
    deviation: np.ndarray

    def scores(self, x: np.ndarray) -> np.ndarray:
        """The scores of rows, (rows, outputs)."""
        return self.scores_of_cells(self.columns.cells_of(x))

    def scores_of_cells(self, cells: np.ndarray) -> np.ndarray:
        total = np.tile(np.asarray(self.constant, np.float64), (len(cells), 1))
        for column, first in enumerate(self.columns.firsts):
            total += self.curve[first + cells[:, column]]
        return total

    def shapes(self) -> list[CurveShape]:
        """The curves, column by column, in their bins."""
        return [self._shape(column) for column in range(len(self.columns))]

    def _shape(self, column: int) -> CurveShape:
        first, size = int(self.columns.firsts[column]), self.columns.sizes[column]
        values, deviations = (part[first : first + size] for part in (self.curve, self.deviation))
        if not self.columns.is_number(column):
            whole = np.concatenate([values, deviations], axis=1)
            kinds, bins = np.unique(whole, axis=0, return_inverse=True)
            groups = (tuple(np.flatnonzero(bins.ravel() == at).tolist()) for at in range(len(kinds)))
            cells = tuple(sorted(groups))
            firsts = [group[0] for group in cells]
            return CurveShape(column, np.empty(0), cells, values[firsts], deviations[firsts])
        inside = np.concatenate([values, deviations], axis=1)[:-1]
        starts = np.flatnonzero(np.append(True, np.any(inside[1:] != inside[:-1], axis=1)))
        between = (starts[1:] - 0.5) * 2 / STEPS - 1  # cells are rounded to: they end halfway
        edges = np.concatenate([[-1.0], between, [1.0]])
        places = np.append(starts, size - 1)
        return CurveShape(column, edges, (), values[places], deviations[places])
