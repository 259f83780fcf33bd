"""The curves of an additive run, in the units of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.additive.columns import Columns
from reticent.additive.model import AdditiveModel, CurveShape
from reticent.core.errors import DataError
from reticent.data.domain import Domain
from reticent.data.kinds import Category
from reticent.runs import folder as folders
from reticent.runs.predict import Predictor
from reticent.runs.problem import curve_columns

MISSING, OTHER = "(missing)", "(other)"


class ColumnShape(NamedTuple):
    """What one column adds to a prediction.

    Args:
        name: of the column.
        edges: of a number: where its bins begin and end, one more than there are bins; empty for words.
        words: of a category: the words of each bin; empty for numbers.
        values: what each bin adds, (bins, outputs): in units of the target, or a logit for each class.
        deviations: the standard deviation of the noise in each value; see `additive.CurveShape`.
        missing: what a missing number adds, and the deviation; None for words.
    """

    name: str
    edges: tuple[float, ...]
    words: tuple[tuple[str, ...], ...]
    values: np.ndarray
    deviations: np.ndarray
    missing: tuple[np.ndarray, np.ndarray] | None

    def to_json(self) -> dict[str, Any]:
        missing = None if self.missing is None else [part.tolist() for part in self.missing]
        return {
            "name": self.name,
            "edges": list(self.edges),
            "words": [list(group) for group in self.words],
            "values": self.values.tolist(),
            "deviations": self.deviations.tolist(),
            "missing": missing,
        }


def shapes(folder: Path) -> list[ColumnShape]:
    """The curves of a finished run, column by column. They are released: the run's guarantee covers them.

    Raises:
        DataError: the run has no curves, or is not finished.
    """
    predictor = Predictor(folder)
    if predictor.learner.name != "additive":
        raise DataError(
            f"The model in {folder} is '{predictor.learner.name}', which has no curves.",
            remedy="Train one with --model additive.",
        )
    problem, params = predictor.problem, predictor.params
    low, high = problem.bounds or (-1.0, 1.0)
    unit = (high / 2 - low / 2) or 1.0
    kinds = problem.columns or Columns.of_numbers(problem.shape[0]).kinds
    model = AdditiveModel(
        columns=Columns(kinds),
        constant=np.asarray(params["constant"]),
        curve=np.asarray(params["curve"], np.float64) * unit,
        deviation=np.asarray(params["deviation"], np.float64) * unit,
    )
    columns = _columns(folders.read_domain(folder), len(kinds))
    return [
        _name_curve(shape, name, column)
        for shape, (name, column) in zip(model.shapes(), columns, strict=True)
    ]


def _columns(domain: Domain | None, count: int) -> list[tuple[str, Any]]:
    """The names and kinds of the columns that are features, in their order."""
    if domain is None:
        return [(f"feature {number}", None) for number in range(1, count + 1)]
    return [(name, column) for name, column, _ in curve_columns(domain)]


def _name_curve(shape: CurveShape, name: str, column: Any) -> ColumnShape:
    if isinstance(column, Category):
        words = (*(column.values or ()), *[OTHER] * column.other, *[MISSING] * column.missing)
        groups = [tuple(words[cell] for cell in group if cell < len(words)) for group in shape.cells]
        kept = [at for at, group in enumerate(groups) if group]
        return ColumnShape(
            name, (), tuple(groups[at] for at in kept), shape.values[kept], shape.deviations[kept], None
        )
    low, high = column.bounds if column is not None and column.bounds else (-1.0, 1.0)
    edges = low / 2 + high / 2 + (high / 2 - low / 2) * shape.edges
    return ColumnShape(
        name,
        tuple(edges.tolist()),
        (),
        shape.values[:-1],
        shape.deviations[:-1],
        (shape.values[-1], shape.deviations[-1]),
    )
