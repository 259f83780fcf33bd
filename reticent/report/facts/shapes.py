"""What an additive model looks at: a curve per column, with the noise in it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from reticent.core.errors import ReticentError
from reticent.core.plain_numbers import plain_number
from reticent.report.facts.facts import Band, Bars, Chart, Line, Section
from reticent.runs.record import RunRecord
from reticent.runs.shapes import ColumnShape, shapes

MOST_CURVES = 12  # on a page
_MOST_BARS = 15


class ColumnEffect(NamedTuple):
    """What a column does to one score.

    Args:
        output: the class whose score it moves, or the target.
        edges: of a number, the ends of its bins in its own units; empty for words.
        words: of a category, the words of each bin; empty for a number.
        values, deviations: what each bin adds, and the deviation of the noise in it.
        missing: what a missing number adds.
    """

    column: str
    output: str
    edges: tuple[float, ...]
    words: tuple[str, ...]
    values: tuple[float, ...]
    deviations: tuple[float, ...]
    missing: float | None

    @property
    def reach(self) -> float:
        """How far the column moves the score at most."""
        return max(self.values) - min(self.values)


def effects_of_columns(folder: Path, record: RunRecord) -> list[ColumnEffect]:
    """The curves of an additive model, the one that moves a score most first.

    Two classes have one score between them, the log-odds of the second. With more classes, each is compared
    with the mean over the classes, since only differences matter.

    Raises:
        DataError: the model has no curves.
    """
    problem = record.result.problem
    classes = () if problem is None else problem.classes
    outputs = classes[1:] if len(classes) == 2 else classes or (record.request.target or "the target",)
    found = [
        _effect(shape, output, at, len(classes))
        for shape in shapes(folder)
        for at, output in enumerate(outputs)
    ]
    return sorted(found, key=lambda effect: -effect.reach)


def _effect(shape: ColumnShape, output: str, at: int, classes: int) -> ColumnEffect:
    def compared(values: np.ndarray) -> np.ndarray:
        if classes == 2:
            return values[..., 1] - values[..., 0]
        return values[..., at] - (values.mean(axis=-1) if classes else 0.0)

    noise = shape.deviations[..., 1 if classes == 2 else at]
    return ColumnEffect(
        shape.name,
        output,
        shape.edges,
        tuple(", ".join(group) for group in shape.words),
        tuple(compared(shape.values).tolist()),
        tuple(noise.tolist()),
        None if shape.missing is None else float(compared(shape.missing[0])),
    )


def shape_sections(folder: Path, record: RunRecord) -> list[Section]:
    """A section about the curves of an additive model; none for other models."""
    if record.is_generator or record.result.model.name != "additive":
        return []
    try:
        found = effects_of_columns(folder, record)
    except ReticentError:  # the model is missing: the rest of the report does not need it
        return []
    several = len({shape.output for shape in found}) > 1
    return [
        Section(
            id="curves",
            title="What the model looks at",
            text=(
                "A prediction is a sum of one value per column. The columns that move it most come first; "
                "bands are two standard deviations of the noise that was added for privacy. The curves are "
                "the model, and may be published with it.",
            ),
            charts=tuple(
                shape_chart(shape, at, several=several) for at, shape in enumerate(found[:MOST_CURVES])
            ),
        )
    ]


def shape_chart(shape: ColumnEffect, number: int, *, several: bool = False) -> Chart | Bars:
    """The curve of a number as steps within its noise, or the values of words as bars."""
    moved = f" on the score of '{shape.output}'" if several else ""
    title = f"{shape.column}: its effect{moved}"
    if shape.words:
        order = sorted(range(len(shape.words)), key=lambda at: -abs(shape.values[at]))[:_MOST_BARS]
        return Bars(
            id=f"curve{number}",
            title=title,
            description="; ".join(f"{shape.words[at]}: {_with_sign(shape.values[at])}" for at in order[:5]),
            unit="size of the effect",
            names=tuple(_shorten(shape.words[at]) for at in order),
            amounts=tuple(abs(shape.values[at]) for at in order),
            notes=tuple(
                f"{_with_sign(shape.values[at])} ± {plain_number(shape.deviations[at], digits=2)}"
                for at in order
            ),
        )
    x = tuple(edge for pair in zip(shape.edges, shape.edges[1:], strict=False) for edge in pair)
    middle, low, high = (
        tuple(value + side * 2 * noise for value, noise in _pairs(shape) for _ in (0, 1))
        for side in (0, -1, 1)
    )
    places = range(len(shape.values))
    lowest, highest = (choose(places, key=shape.values.__getitem__) for choose in (min, max))
    missing = "" if shape.missing is None else f" A missing cell adds {_with_sign(shape.missing)}."
    return Chart(
        id=f"curve{number}",
        title=title,
        description=f"From {_with_sign(shape.values[lowest])} near {plain_number(_centre(shape, lowest))} to "
        f"{_with_sign(shape.values[highest])} near {plain_number(_centre(shape, highest))}.{missing}",
        x_label=shape.column,
        y_label=f"effect on '{shape.output}'",
        lines=(Line(name="effect", x=x, y=middle),),
        bands=(Band(name="noise, two deviations", x=x, low=low, high=high),),
        y_range=_range(low, high),
    )


def _pairs(shape: ColumnEffect) -> list[tuple[float, float]]:
    return list(zip(shape.values, shape.deviations, strict=True))


def _centre(shape: ColumnEffect, at: int) -> float:
    return (shape.edges[at] + shape.edges[at + 1]) / 2


def _range(low: tuple[float, ...], high: tuple[float, ...]) -> tuple[float, float]:
    bottom, top = min(*low, 0.0), max(*high, 0.0)
    room = 0.05 * (top - bottom) or 1.0
    return bottom - room, top + room


def _with_sign(value: float) -> str:
    return f"{'+' if value >= 0 else '-'}{plain_number(abs(value), digits=3)}"


def _shorten(name: str) -> str:
    return name if len(name) <= 34 else f"{name[:33]}…"
