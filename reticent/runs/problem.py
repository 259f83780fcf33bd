"""What is public about a learning problem: everything that a default may depend on, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reticent.core import checks
from reticent.core.errors import DomainError, InvalidArgument
from reticent.data.domain import Domain, Integer, Label, Number
from reticent.data.kinds import classes_of


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A number of rows, the shape of one, and what is predicted.

    Args:
        classes: their names, for a problem of classification.
        bounds: of the target, for one of regression.
        scale: what features are multiplied by, so that no row is longer than 1 in L2 norm.
    """

    rows: int
    shape: tuple[int, ...]
    classes: tuple[str, ...] = ()
    bounds: tuple[float, float] | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        checks.count(rows=self.rows)
        if bool(self.classes) == (self.bounds is not None):
            raise AssertionError("a problem has classes or bounds")
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
    # A column contributes one number within [-1, 1], or a single 1 among its words.
    columns = sum(column.kind != "ignored" for column in used)
    scale = 1 / math.sqrt(max(columns, 1))
    if isinstance(target, Label):
        return Problem(rows=rows, shape=(features,), classes=classes_of(target), scale=scale)
    assert isinstance(target, (Number, Integer))
    assert target.bounds is not None
    return Problem(rows=rows, shape=(features,), bounds=target.bounds, scale=scale)


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
