"""Facts: what a report says, before anybody decides how it looks.

HTML, terminal and JSON are renderings of the same facts, so a number cannot differ between them. Every number
says what kind of number it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal

from reticent.accounting.rounding import Side, to_places
from reticent.core.html_summary import html_table


class ValueKind(StrEnum):
    """How far a number may be trusted."""

    BOUND = "bound"  # proved, under the assumptions that are named
    ESTIMATE = "estimate"  # measured, with luck in it
    ASSUMPTION = "assumption"  # taken for granted
    SETTING = "setting"  # chosen


@dataclass(frozen=True, kw_only=True)
class Value:
    """A number or a word with a name.

    Args:
        shown: how it is printed; rounded in the direction that is safe where it is a bound.
        note: what a reader has to know with it.
    """

    name: str
    value: float | int | str | None
    kind: ValueKind
    shown: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Line:
    """One curve of a chart."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    is_dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Band:
    """An area between two curves."""

    name: str
    x: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves over an axis, with a description in words for readers who cannot see them."""

    id: str
    title: str
    description: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...] = ()
    bands: tuple[Band, ...] = ()
    is_log_x: bool = False
    is_log_y: bool = False
    y_range: tuple[float, float] | None = None
    style: Literal["lines", "steps"] = "lines"


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Named amounts side by side, with an interval or a mark where there is one."""

    id: str
    title: str
    description: str
    unit: str
    names: tuple[str, ...]
    amounts: tuple[float, ...]
    notes: tuple[str, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    mark: float | None = None
    mark_name: str = ""


@dataclass(frozen=True, kw_only=True)
class RowsTable:
    """A table."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the page, for one of its readers.

    Args:
        text: paragraphs.
        code: commands or records, shown as they are.
    """

    id: str
    title: str
    text: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()
    charts: tuple[Chart | Bars, ...] = ()
    tables: tuple[RowsTable, ...] = ()
    code: tuple[tuple[str, str], ...] = ()
    terms: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, repr=False)
class Facts:
    """Everything on the page, from the first screen to the record.

    Args:
        verdict: one word or a few for the first screen, and whether it is good news.
    """

    title: str
    subtitle: str
    verdict: str
    tone: Literal["good", "plain", "bad"]
    lead: tuple[str, ...]
    headline: tuple[Value, ...]
    sections: tuple[Section, ...] = field(default=())

    def __repr__(self) -> str:
        headline = ", ".join(f"{value.name} {value.shown}" for value in self.headline)
        return f"Facts('{self.title}', {self.verdict}, {headline}, {len(self.sections)} sections)"

    def _repr_html_(self) -> str:
        values = [(value.name, f"{value.shown} {value.note}".strip()) for value in self.headline]
        return html_table(self.title, [("verdict", self.verdict), *values])

    def to_json(self) -> dict[str, Any]:
        return _plain(asdict(self))


def bound_from_above(name: str, value: float, *, digits: int = 4, note: str = "") -> Value:
    """An upper bound, rounded up."""
    return Value(
        name=name,
        value=value,
        kind=ValueKind.BOUND,
        shown=_round_to_digits(value, digits, "up"),
        note=note,
    )


def share_from_above(name: str, share: float, *, note: str = "") -> Value:
    """An upper bound on a share, in percent and rounded up."""
    shown = f"{_round_to_digits(100 * share, 3, 'up')}%"
    return Value(name=name, value=share, kind=ValueKind.BOUND, shown=shown, note=note)


def bound_from_below(name: str, value: float, *, digits: int = 3, note: str = "") -> Value:
    """A lower bound, rounded down."""
    return Value(
        name=name,
        value=value,
        kind=ValueKind.BOUND,
        shown=_round_to_digits(value, digits, "down"),
        note=note,
    )


def estimate(name: str, value: float, *, form: str = ".4g", note: str = "") -> Value:
    return Value(name=name, value=value, kind=ValueKind.ESTIMATE, shown=format(value, form), note=note)


def setting(name: str, value: float | int | str, *, note: str = "") -> Value:
    shown = f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else value
    return Value(name=name, value=value, kind=ValueKind.SETTING, shown=shown, note=note)


def _round_to_digits(value: float, digits: int, side: Side) -> str:
    """So many digits, and no fewer than all before the point: 12345 keeps its five."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 12)
    return f"{to_places(value, places, side):f}"


def _plain(value: Any) -> Any:
    """JSON has no infinity and no enumerations."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value.value if isinstance(value, StrEnum) else value
