"""Tables in Markdown, and bars: a number, what it has to be, and whether it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple


class Check(NamedTuple):
    """One promise. A value of None was not measured, and `why` says why."""

    what: str
    value: float | None
    direction: Literal["<=", ">=", "<", "="]
    bar: float
    unit: str = "x"
    why: str = ""

    @property
    def is_met(self) -> bool | None:
        if self.value is None:
            return None
        return {
            "<=": self.value <= self.bar,
            ">=": self.value >= self.bar,
            "<": self.value < self.bar,
            "=": self.value == self.bar,
        }[self.direction]

    def cells(self) -> tuple[str, str, str, str]:
        met = {
            True: "met",
            False: "**not met**",
            None: f"not measured: {self.why}" if self.why else "not measured",
        }
        return (
            self.what,
            shown(self.value, self.unit),
            f"{self.direction} {self.bar:g}{_gap(self.unit)}{self.unit}",
            met[self.is_met],
        )


class Section(NamedTuple):
    """A part of the report."""

    title: str
    text: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    checks: Sequence[Check]

    def markdown(self) -> str:
        parts = [f"## {self.title}", self.text]
        if self.rows:
            parts.append(table(self.header, self.rows))
        if self.checks:
            parts.append(table(("", "measured", "bar", ""), [check.cells() for check in self.checks]))
        return "\n\n".join(parts)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def shown(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    digits = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 1 else f"{value:.2f}"
    return f"{digits}{_gap(unit)}{unit}"


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else shown(seconds * 1000)


def _gap(unit: str) -> str:
    return "" if unit in ("", "x") else " "
