"""The kinds of column that a table can have, and what is public about each.

    Number      a quantity within bounds           -> one feature, scaled to [-1, 1]
    Integer     a whole quantity within bounds     -> the same
    Category    one of a list of words             -> one feature a word
    Label       the class to predict               -> a number from 0
    Ignored     free text, identifiers             -> nothing

A field that is `None` is not known; a field named in `looked_up` was read off the data, so it may
tell something about a person in it. Neither is public until it is declared or paid for.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from reticent.core.errors import DomainError

BLANKS = " \t\n\v\f\r"  # trimmed from both ends of every cell
MISSING_MARKERS = ("", "?", "NA", "N/A", "nan", "NaN", "null", "NULL")  # cells that mean "not known"
SHOWN = 40  # characters of a cell, a name or a value that a message may quote


@dataclass(frozen=True, kw_only=True)
class Number:
    """A quantity. Cells outside the bounds are clipped to them.

    With `lenient`, a cell that is not a finite number counts as missing; else it is an error. With `whole`,
    nearly all cells are whole numbers, and made-up ones should be; others are read all the same.
    """

    kind: ClassVar[str] = "number"

    bounds: tuple[float, float] | None = None
    missing: bool = False
    lenient: bool = False
    whole: bool = False
    looked_up: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Integer:
    """A whole quantity, such as an age or a count. Cells outside the bounds are clipped to them."""

    kind: ClassVar[str] = "integer"

    bounds: tuple[float, float] | None = None
    missing: bool = False
    looked_up: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Category:
    """One of a list of words. With `other`, a word that is not on the list has a feature of its own."""

    kind: ClassVar[str] = "category"

    values: tuple[str, ...] | None = None
    other: bool = True
    missing: bool = False
    looked_up: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Label:
    """The class that a model learns to predict: always the target.

    With `other`, any word that is not on the list is one more class; without, such a cell is an error. With
    `lenient` there are no errors: a row whose cell is missing, or is no class, has none and teaches nothing.
    """

    kind: ClassVar[str] = "label"

    values: tuple[str, ...] | None = None
    other: bool = False
    lenient: bool = False
    looked_up: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """A column that no model sees, and why."""

    kind: ClassVar[str] = "ignored"

    reason: str = ""
    looked_up: frozenset[str] = frozenset()


OTHER = "(other)"  # the name of the class of words that are not on a label's list


def classes_of(label: Label) -> tuple[str, ...]:
    """The names of the classes, in the order of their numbers."""
    return (label.values or ()) + (OTHER,) * label.other


Column = Number | Integer | Category | Label | Ignored

KINDS: dict[str, type[Column]] = {kind.kind: kind for kind in (Number, Integer, Category, Label, Ignored)}


def public_fields(column: Column) -> list[str]:
    """The names of the fields that have to be public before the column is used."""
    return [field.name for field in fields(column) if field.name in ("bounds", "values", "missing")]


def check_column(column: Column, *, where: str, markers: Iterable[str]) -> None:
    """Raises `DomainError` where a column contradicts itself. `where` names file and column."""
    if isinstance(column, (Number, Integer)):
        _check_bounds(column, where)
    if isinstance(column, (Category, Label)):
        _check_values(column, where, set(markers))
    if isinstance(column, Ignored):
        check_text(column.reason, where=f"{where}, key 'reason'")
    else:
        _check_marks(column, where)
    for flag in ("missing", "other", "lenient", "whole"):
        if not isinstance(getattr(column, flag, False), bool):
            raise DomainError(
                f"{where}, key '{flag}': neither true nor false.", remedy=f"Write {flag} = true or false."
            )


def check_text(text: Any, *, where: str) -> None:
    if not isinstance(text, str):
        raise DomainError(f"{where}: {quote(text)} is not text.", remedy="Write it in quotes.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DomainError(
            f"{where}: {quote(text)} holds half of a surrogate pair.", remedy="Write it in valid Unicode."
        ) from None


def quote(value: Any) -> str:
    """A value as a message shows it: one line of at most 40 characters.

    >>> quote("Private")
    "'Private'"
    """
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]!r}..."
    shown = repr(value)
    return shown if isinstance(value, str) or len(shown) <= SHOWN else f"{shown[:SHOWN]}..."


def _check_bounds(column: Number | Integer, where: str) -> None:
    bounds, where = column.bounds, f"{where}, key 'bounds'"
    if bounds is None:
        return
    if not (isinstance(bounds, tuple) and len(bounds) == 2 and all(map(_is_number, bounds))):
        raise DomainError(f"{where}: not a pair of numbers.", remedy="Write for example bounds = [0, 100].")
    low, high = bounds
    if not all(map(_is_finite, bounds)):
        raise DomainError(
            f"{where}: {quote(low)} to {quote(high)} is not finite.",
            remedy="Choose bounds that you would publish; cells outside them are clipped.",
        )
    if low > high:
        raise DomainError(
            f"{where}: the lower bound {low:g} is above the upper bound {high:g}.",
            remedy=f"Write the smaller one first: bounds = [{high:g}, {low:g}].",
        )
    if isinstance(column, Integer) and not all(bound == math.floor(bound) for bound in bounds):
        raise DomainError(
            f"{where}: [{low:g}, {high:g}] are not whole, and the column is an integer.",
            remedy='Round them outwards, or write kind = "number".',
        )


def _check_values(column: Category | Label, where: str, markers: set[str]) -> None:
    values, where = column.values, f"{where}, key 'values'"
    if values is None:
        return
    if not isinstance(values, tuple) or not values:
        raise DomainError(
            f"{where}: the list of values is empty.", remedy="List every value a cell may have."
        )
    seen: set[str] = set()
    for value in values:
        check_text(value, where=where)
        if value in seen:
            raise DomainError(f"{where}: {quote(value)} is listed twice.", remedy="Remove one of the two.")
        if value in markers:
            raise DomainError(
                f"{where}: {quote(value)} is also a missing marker, so no cell can ever have it.",
                remedy="Remove it from this list, or from missing_markers.",
            )
        if value != value.strip(BLANKS):
            raise DomainError(
                f"{where}: {quote(value)} begins or ends with a blank, and cells are read without.",
                remedy="Write it without.",
            )
        seen.add(value)


def _check_marks(column: Number | Integer | Category | Label, where: str) -> None:
    for mark in sorted(column.looked_up):
        if mark not in ("kind", *public_fields(column)):
            known = ", ".join(("kind", *public_fields(column)))
            raise DomainError(
                f"{where}, key 'looked_up': {quote(mark)} is not a field that {column.kind} columns declare.",
                remedy=f"Available fields: {known}.",
            )


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number with hundreds of digits
        return False
