"""What is public about a learning problem: everything that a default may depend on, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from reticent.additive.columns import MAY_BE_MISSING, NUMBER
from reticent.core import checks
from reticent.core.errors import DomainError, InvalidArgument
from reticent.data.dates import DATE_PARTS
from reticent.data.domain import Category, Domain, Integer, Label, Number
from reticent.data.kinds import classes_of


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A number of rows, the shape of one, and what is predicted.

    Args:
        classes: their names, for a problem of classification.
        bounds: of the target, for one of regression.
        scale: what features are multiplied by, so that no row is longer than 1 in L2 norm.
        columns: of a table, the kinds of its columns as `additive.Columns` has them.
        class_weights: what the loss of a row is multiplied by, by its class; empty if all count the same.
    """

    rows: int
    shape: tuple[int, ...]
    classes: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    scale: float = 1.0
    columns: tuple[int, ...] = ()
    class_weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        checks.count(rows=self.rows)
        if bool(self.classes) == (self.bounds is not None):
            raise AssertionError("a problem has classes or bounds")
        if self.class_weights and len(self.class_weights) != len(self.classes):
            raise AssertionError("every class has a weight, or none has")
        if self.classes and len(self.classes) < 2:
            raise DomainError(
                f"The target has one class only ({', '.join(self.classes)}): there is nothing to learn.",
                remedy="Choose another target, or declare all its values.",
            )

    @property
    def is_classification(self) -> bool:
        return bool(self.classes)

    @property
    def outputs(self) -> int:
        return len(self.classes) or 1

    @property
    def is_image(self) -> bool:
        return len(self.shape) >= 2


def of_table(domain: Domain, features: int, rows: int) -> Problem:
    """The problem that a table poses, by its domain."""
    target = domain.columns[domain.target or ""]
    used = [column for name, column in domain.columns.items() if name != domain.target]
    # A column contributes one number within [-1, 1], or a single 1 among its words; a date also a single 1
    # for each of its parts.
    columns = sum((column.kind != "ignored") + len(getattr(column, "parts", ())) for column in used)
    scale = 1 / math.sqrt(max(columns, 1))
    if isinstance(target, Label):
        return Problem(
            rows=rows,
            shape=(features,),
            classes=classes_of(target),
            scale=scale,
            columns=column_kinds(domain),
        )
    assert isinstance(target, (Number, Integer))
    assert target.bounds is not None
    return Problem(
        rows=rows, shape=(features,), bounds=target.bounds, scale=scale, columns=column_kinds(domain)
    )


def column_kinds(domain: Domain) -> tuple[int, ...]:
    """The kinds of the columns that are features, in the order in which they are encoded.

    >>> column_kinds(Domain(columns={"age": Number(bounds=(0, 99)), "job": Category(values=("a", "b"))}))
    (-1, 3)
    """
    return tuple(kind for _, _, kind in curve_columns(domain))


def curve_columns(domain: Domain) -> list[tuple[str, Number | Integer | Category, int]]:
    """The columns that an additive model has curves of: name, what it holds, and kind.

    Words in an order are one number, their place among them, from 0 to the last; what else a cell of such a
    column may hold, another word or nothing, has a curve of its own.

    >>> grade = Category(values=("low", "mid", "high"), ordered=True)
    >>> [(column.kind, kind) for _, column, kind in curve_columns(Domain(columns={"grade": grade}))]
    [('number', -1), ('category', 1)]
    """
    found = []
    for name, column in domain.columns.items():
        if name == domain.target:
            continue
        if isinstance(column, (Number, Integer)):
            found.append((name, column, MAY_BE_MISSING if column.missing else NUMBER))
            for part in column.parts if isinstance(column, Number) else ():
                values = DATE_PARTS[part]
                found.append((f"{name} ({part})", Category(values=values, other=False), len(values)))
        elif isinstance(column, Category):
            if column.ordered:
                last = max(len(column.values or ()) - 1, 1)
                found.append((name, Number(bounds=(-float(last), float(last))), NUMBER))
                column = replace(column, values=(), ordered=False, prior=None)
            if count := len(column.values or ()) + column.other + column.missing:
                found.append((name, column, count))
    return found


def with_class_weights(problem: Problem, weights: Mapping[str, float]) -> Problem:
    """The problem with weights for some of its classes; the others weigh 1.

    The largest weight becomes 1. A larger one would be clipped away: what bounds one row's gradient does not
    know about weights, and so the proof is that of the unweighted problem.

    Raises:
        InvalidArgument: one of them is not a class.
    """
    if not weights:
        return problem
    if unknown := [name for name in weights if name not in problem.classes]:
        raise InvalidArgument(
            f"There is no class '{unknown[0]}' to give a weight to.",
            remedy=f"Classes: {', '.join(problem.classes[:12]) or 'none, the target is a number'}.",
        )
    largest = max(1.0, *weights.values()) if len(weights) < len(problem.classes) else max(weights.values())
    given = tuple(float(weights.get(name, 1.0)) / largest for name in problem.classes)
    return replace(problem, class_weights=given)


def default_delta(rows: int) -> float:
    """The largest power of ten that is at most a tenth of 1 / rows.

    >>> default_delta(32_561)
    1e-06
    """
    checks.count(rows=rows)
    return 10.0 ** math.floor(math.log10(0.1 / rows) + 1e-9)


def checked_delta(delta: float | None, rows: int) -> float:
    """The delta that was asked for, or the default.

    Raises:
        InvalidArgument: it is no smaller than 1 / rows. To publish one row chosen at random has that delta.
    """
    if delta is None:
        return default_delta(rows)
    checks.inside_unit(delta=delta)
    if not (delta < 1 / rows):
        raise InvalidArgument(
            f"delta={delta:g} promises nothing for {rows} rows: publishing one of them at random has delta "
            f"{1 / rows:.2g}.",
            remedy=f"Leave it out for {default_delta(rows):g}, or choose one below 1 / rows.",
        )
    return delta
