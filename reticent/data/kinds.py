"""The kinds of column that a table can have, and what is public about each.

    Number      a quantity within bounds           -> one feature, scaled to [-1, 1]
    Integer     a whole quantity within bounds     -> the same
    a date      a Number of days since 2000        -> the same
    Category    one of a list of words             -> one feature a word, or one for all if they are ordered
    Label       the class to predict               -> a number from 0
    Featured    a text or an image                 -> a row of numbers, by a public model
    Ignored     free text, identifiers             -> nothing

A field that is `None` is not known; a field named in `looked_up` was read off the data, so it may
tell something about a person in it. Neither is public until it is declared or paid for.
"""

from __future__ import annotations

import datetime
import math
import numbers
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from reticent.core.errors import DomainError
from reticent.data.buckets import FEWEST, MOST, bucket_names
from reticent.data.dates import DATE_PARTS, day_number, day_of, parse_day
from reticent.data.featured import Featured

BLANKS = " \t\n\v\f\r"  # trimmed from both ends of every cell
MAYBE_WORDS = ("-", "--", ".", "none", "None")  # missing, unless they are the target's or a column lists them
MISSING_MARKERS = (  # cells that mean "not known"
    *("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "NaT", "null", "NULL"),
    *MAYBE_WORDS,
)
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|SGD|HKD|KRW|TRY"
CURRENCY = rf"(?:[$€£¥₹₩₽₺₪฿]|US\$|{_CODES})"  # dropped before or after a number, as a regular expression
SHOWN = 40  # characters of a cell, a name or a value that a message may quote


@dataclass(frozen=True, kw_only=True)
class Number:
    """A quantity. Cells outside the bounds are clipped to them.

    With `lenient`, a cell that is not a finite number counts as missing; else it is an error. With `whole`,
    nearly all cells are whole numbers, and made-up ones should be; others are read all the same. A missing
    cell counts as the `typical` number where it has no feature of its own. With `date`, cells are dates like
    2024-01-31 and the numbers are days since the beginning of 2000; bounds are whole days. `parts` of a date,
    its month and its weekday, are features beside it: what comes back every year or every week.

    Example:
        >>> Number(bounds=(0.0, 1.0), missing=True).missing
        True
    """

    kind: ClassVar[str] = "number"

    bounds: tuple[float, float] | None = None
    missing: bool = False
    lenient: bool = False
    whole: bool = False
    typical: float | None = None
    date: bool = False
    parts: tuple[str, ...] = ()
    looked_up: frozenset[str] = frozenset()

    @classmethod
    def of_dates(cls, first: str | datetime.date, last: str | datetime.date, **fields: Any) -> Number:
        """A column of dates between two days, both included.

        >>> Number.of_dates("2000-01-01", "2000-02-01").bounds
        (0.0, 31.0)

        Raises:
            DomainError: one of them is not a date.
        """
        days = [parse_day(day, where="a column of dates") for day in (first, last)]
        return cls(bounds=(day_number(days[0]), day_number(days[1])), date=True, **fields)


@dataclass(frozen=True, kw_only=True)
class Integer:
    """A whole quantity, such as an age or a count. Cells outside the bounds are clipped to them.

    Example:
        >>> Integer(bounds=(0, 120)).bounds
        (0, 120)
    """

    kind: ClassVar[str] = "integer"

    bounds: tuple[float, float] | None = None
    missing: bool = False
    looked_up: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Category:
    """One of a list of words. With `other`, a word that is not on the list has a feature of its own.

    A cell that has no feature, a missing one or another word, counts as a mixture of the words in the shares
    of `prior`: what is known of a row whose cell tells nothing. With `ordered`, the words are listed from the
    least to the most, and share one feature from 0 to 1. With `buckets`, any word is allowed, and what counts
    is which of so many buckets a public hash sorts it into: for columns of thousands of words.

    Example:
        >>> Category(values=("yes", "no"), other=False).values
        ('yes', 'no')
        >>> Category(buckets=2).values
        ('bucket 1', 'bucket 2')
    """

    kind: ClassVar[str] = "category"

    values: tuple[str, ...] | None = None
    other: bool = True
    missing: bool = False
    prior: tuple[float, ...] | None = None
    ordered: bool = False
    buckets: int | None = None
    looked_up: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.buckets is None:
            return
        is_count = isinstance(self.buckets, int) and not isinstance(self.buckets, bool)
        if not is_count or not FEWEST <= self.buckets <= MOST or self.ordered:
            raise DomainError(
                f"{quote(self.buckets)} is not a number of buckets from {FEWEST} to {MOST}.",
                remedy="Write for example buckets = 64, and no order.",
            )
        object.__setattr__(self, "values", bucket_names(self.buckets))
        object.__setattr__(self, "other", False)


@dataclass(frozen=True, kw_only=True)
class Label:
    """The class that a model learns to predict: always the target.

    With `other`, any word that is not on the list is one more class; without, such a cell is an error. With
    `lenient` there are no errors: a row whose cell is missing, or not a class, has none and teaches nothing.

    Example:
        >>> Label(values=("no", "yes")).values
        ('no', 'yes')
    """

    kind: ClassVar[str] = "label"

    values: tuple[str, ...] | None = None
    other: bool = False
    lenient: bool = False
    looked_up: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """A column that no model sees, and why.

    Example:
        >>> Ignored(reason="a name").kind
        'ignored'
    """

    kind: ClassVar[str] = "ignored"

    reason: str = ""
    looked_up: frozenset[str] = frozenset()


_IDENTIFIER = re.compile(
    r"(?i:id|uuid|guid|rowid|index|unnamed: ?\d+)|.*[_\-. ](?i:id|uuid|guid)|.*[a-z](?:Id|ID)", re.ASCII
)


def identifiers_among(names: Iterable[str], target: str | None) -> list[str]:
    """The columns that are identifiers by their names, which are public; none if no other column is left.

    >>> identifiers_among(["id", "patient_id", "customerID", "age", "sick", "paid"], "sick")
    ['id', 'patient_id', 'customerID']
    """
    others = [name for name in names if name != target]
    found = [name for name in others if _IDENTIFIER.fullmatch(name)]
    return found if len(found) < len(others) else []


OTHER = "(other)"  # the name of the class of words that are not on a label's list


def classes_of(label: Label) -> tuple[str, ...]:
    """The names of the classes, in the order of their numbers."""
    return (label.values or ()) + (OTHER,) * label.other


Column = Number | Integer | Category | Label | Featured | Ignored

KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Number, Integer, Category, Label, Featured, Ignored)
}


def markers_for(column: Column, markers: Iterable[str]) -> tuple[str, ...]:
    """The markers that mean "not known" in a column: all but the words that it lists."""
    listed = set(getattr(column, "values", None) or ())
    return tuple(marker for marker in markers if marker not in listed)


def markers_of_target(markers: Iterable[str]) -> tuple[str, ...]:
    """The markers that mean "not known" in a target whose classes are not known: a minus may be a class."""
    return tuple(marker for marker in markers if marker not in MAYBE_WORDS)


def public_fields(column: Column) -> list[str]:
    """The names of the fields that have to be public before the column is used."""
    return [field.name for field in fields(column) if field.name in ("bounds", "values", "missing")]


def check_column(column: Column, *, where: str, markers: Iterable[str]) -> None:
    """Raises `DomainError` where a column contradicts itself. `where` names file and column."""
    if isinstance(column, (Number, Integer)):
        _check_bounds(column, where)
        _check_typical(column, where)
        _check_parts(column, where)
    if isinstance(column, (Category, Label)):
        _check_values(column, where, set(markers))
        _check_prior(column, where)
        _check_order(column, where)
    if isinstance(column, Featured):
        column.check(where)
    if isinstance(column, Ignored):
        check_text(column.reason, where=f"{where}, key 'reason'")
    else:
        _check_marks(column, where)
    for flag in ("missing", "other", "lenient", "whole", "date", "ordered"):
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
    if isinstance(column, Number) and column.date:
        _check_days(bounds, where)
    if isinstance(column, Integer) and not all(bound == math.floor(bound) for bound in bounds):
        raise DomainError(
            f"{where}: [{low:g}, {high:g}] are not whole, and the column is an integer.",
            remedy='Round them outwards, or write kind = "number".',
        )


def _check_days(bounds: tuple[float, float], where: str) -> None:
    least, most = day_number(datetime.date.min), day_number(datetime.date.max)
    if not all(least <= bound <= most and bound == math.floor(bound) for bound in bounds):
        raise DomainError(
            f"{where}: not whole days between the years 1 and 9999.",
            remedy="Write for example bounds = [2020-01-01, 2024-12-31].",
        )


def format_bound(column: Number | Integer, bound: float) -> str:
    """A bound as a person writes it: a number, or a day."""
    if isinstance(column, Number) and column.date:
        return str(day_of(bound))
    return f"{bound:.4g}"


def _check_typical(column: Number | Integer, where: str) -> None:
    typical = getattr(column, "typical", None)
    if typical is not None and not (_is_number(typical) and _is_finite(typical)):
        raise DomainError(
            f"{where}, key 'typical': {quote(typical)} is not a finite number.",
            remedy="Write the number that a missing cell counts as, or leave it out.",
        )


def _check_parts(column: Number | Integer, where: str) -> None:
    parts = getattr(column, "parts", ())
    if not parts:
        return
    if not column.date:  # pyright: ignore[reportAttributeAccessIssue] - only a Number has parts
        raise DomainError(f"{where}, key 'parts': only dates have parts.", remedy='Write kind = "date".')
    if not set(parts) <= set(DATE_PARTS) or len(set(parts)) < len(parts):
        raise DomainError(
            f"{where}, key 'parts': {quote(list(parts))} are not parts of a date.",
            remedy='Write parts = ["month", "weekday"], or one of the two.',
        )


def _check_order(column: Category | Label, where: str) -> None:
    if column.values is None and getattr(column, "ordered", False):
        raise DomainError(
            f"{where}, key 'ordered': its values are not declared, and so have no order.",
            remedy="List them from the least to the most, without a looked_up mark.",
        )


def _check_prior(column: Category | Label, where: str) -> None:
    prior = getattr(column, "prior", None)
    if prior is None:
        return
    is_list = isinstance(prior, tuple) and all(map(_is_number, prior)) and all(map(_is_finite, prior))
    if not is_list or len(prior) != len(column.values or ()):
        raise DomainError(
            f"{where}, key 'prior': not one share per value.", remedy="Write one, or leave the key out."
        )
    if min(prior) < 0 or sum(prior) > 1 + 1e-9:  # so that the row is no longer than one with a word
        raise DomainError(
            f"{where}, key 'prior': shares lie between 0 and 1 and add up to 1 at most.", remedy="Correct it."
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
        if value in markers and value not in MAYBE_WORDS:
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


def _check_marks(column: Number | Integer | Category | Label | Featured, where: str) -> None:
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
