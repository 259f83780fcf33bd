"""Tables as codes, and codes as tables again, by a public domain and nothing else.

Marginals are tables of counts, so every column becomes whole numbers from 0:

    category, label     the words of the domain in their order; one more for any other word
    number, integer     bins within the declared bounds (see `bins`)
    missing cells       the last code of a column that may have them

What a row becomes depends on that row and on the domain. Nothing is fitted on data: a bin whose edges follow
the records, or a list of words read off them, would be a release that nobody paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from reticent.core import checks
from reticent.core.errors import DataError, DomainError
from reticent.core.observer import OnProgress
from reticent.data.dates import day_of
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number, abbreviate
from reticent.data.encoding import ColumnCells
from reticent.data.files import RowBatch, Table
from reticent.data.kinds import OTHER, quote
from reticent.synthetic.tables.bins import BINS, Bins, bins_for

MANY_VALUES = 200  # a category with more of them is warned about
MOST_VALUES = 5000  # and with more than these refused: nobody can count them privately
_MISSING = ""


@dataclass(frozen=True, kw_only=True)
class CodedColumn:
    """One column: its words or bins, and whether its last code stands for a missing cell."""

    name: str
    column: Column
    words: tuple[str, ...] = ()
    bins: Bins | None = None
    has_missing: bool = False

    @property
    def size(self) -> int:
        return (len(self.words) if self.bins is None else self.bins.size) + self.has_missing


class Coder:
    """The function from rows to codes, and back, that a domain defines.

    Attributes:
        names: the columns that are coded, in the domain's order.
        sizes: how many codes each has.
        ordered: whether neighbouring codes of a column are neighbouring values, for each.
        target: the position of the domain's target, or None.
        warnings: in words, what is allowed and will not come out well.

    Args:
        ignore: columns to leave out, beside those that `domain` does not name.
        bins: about how many a number or a long range of integers gets.

    Raises:
        DomainError: a column holds identifiers or free text, or nothing is declared about it.
    """

    def __init__(self, domain: Domain, *, bins: int = BINS, ignore: Sequence[str] = ()) -> None:
        checks.count(minimum=2, bins=bins)
        self.domain = domain
        used = {name: column for name, column in domain.columns.items() if name not in set(ignore)}
        _require_usable(domain, used)
        self.columns = tuple(_code_column(name, column, bins) for name, column in used.items())
        self.names = tuple(column.name for column in self.columns)
        self.sizes = tuple(column.size for column in self.columns)
        self.ordered = tuple(column.bins is not None for column in self.columns)
        self.target = self.names.index(domain.target) if domain.target in self.names else None
        self.warnings = tuple(_warnings(self.columns))

    def encode(self, table: Table, *, on_progress: OnProgress = lambda done: None) -> np.ndarray:
        """The rows of a table as codes: (rows, columns) int32. A batch of rows at a time.

        Guarantee:
            A record moves its own row of codes and no other.

        Raises:
            DataError: a cell is not what the domain says; the message names file, line and column.
        """
        table.require(self.names)
        codes = np.zeros((table.row_count, len(self.columns)), np.int32)
        filled = 0
        for rows in table.batches(self.names):
            filled = rows.first + rows.batch.num_rows
            for position, column in enumerate(self.columns):
                codes[rows.first : filled, position] = self._column(column, rows, table)
            on_progress(rows.done)
        if filled != len(codes):
            raise DataError(
                f"{table.label} changed while it was read.", remedy="Try again once it is complete."
            )
        return codes

    def _column(self, coded: CodedColumn, rows: RowBatch, table: Table) -> np.ndarray:
        cells = ColumnCells(rows, table, self.domain, coded.name)
        cells.forgive(coded.column)
        if cells.missing.any() and not coded.has_missing:
            cells.refuse_missing()
        match coded.column:
            case Category(values=values, other=other) | Label(values=values, other=other):
                is_lenient = isinstance(coded.column, Label) and coded.column.lenient
                codes = cells.codes(values or (), may_be_other=other or is_lenient)
                codes = np.minimum(codes, coded.size - 1)  # a word that is not a class counts as missing
            case Number() | Integer():
                assert coded.bins is not None
                codes = coded.bins.encode(cells.numbers(coded.column))
            case _:
                raise AssertionError("checked when the coder was made")
        return np.where(cells.missing, coded.size - 1, codes)

    def decode(self, codes: np.ndarray, source: np.random.Generator) -> dict[str, list[str]]:
        """The cells of each column as text: words as in the domain, numbers drawn from their bins.

        A missing cell is empty, whatever marked it in the original; another word is "(other)".
        """
        codes = self.check(codes)
        return {
            column.name: _cells(column, codes[:, position], source)
            for position, column in enumerate(self.columns)
        }

    def numbers(self, codes: np.ndarray, source: np.random.Generator) -> Mapping[str, np.ndarray]:
        """The numeric columns as float64, NaN where missing; for measuring correlations."""
        codes = self.check(codes)
        found = {}
        for position, column in enumerate(self.columns):
            if column.bins is not None:
                drawn = column.bins.decode(codes[:, position], source)
                found[column.name] = np.where(codes[:, position] < column.bins.size, drawn, np.nan)
        return found

    def check(self, codes: np.ndarray) -> np.ndarray:
        """Checks that codes can belong to this table, and returns them as an array.

        Raises:
            DataError: they are not whole numbers of the right shape and range.
        """
        return check_codes(codes, self.sizes)


def check_codes(codes: np.ndarray, sizes: Sequence[int]) -> Int[np.ndarray, "rows columns"]:
    """Codes as an array (rows, columns) of whole numbers within `sizes`, or a `DataError`."""
    codes = np.asarray(codes)
    if codes.ndim != 2 or codes.shape[1] != len(sizes) or not np.issubdtype(codes.dtype, np.integer):
        raise DataError(
            f"Codes are whole numbers of shape (rows, {len(sizes)}), got {codes.dtype} of {codes.shape}.",
            remedy="Make them with Coder.encode.",
        )
    if codes.size and ((codes < 0).any() or (codes >= np.asarray(sizes)).any()):
        raise DataError(
            "A code is outside its column's range.", remedy="Use the coder that made them, with its sizes."
        )
    return codes


def _code_column(name: str, column: Column, bins: int) -> CodedColumn:
    match column:
        case Category(values=values, other=other, missing=missing):
            words = (values or ()) + (OTHER,) * other
            return CodedColumn(name=name, column=column, words=words, has_missing=missing)
        case Label(values=values, other=other, lenient=lenient):
            words = (values or ()) + (OTHER,) * other
            return CodedColumn(name=name, column=column, words=words, has_missing=lenient)
        case Number(bounds=bounds, missing=missing) | Integer(bounds=bounds, missing=missing):
            assert bounds is not None
            is_whole = isinstance(column, Integer) or column.whole or column.date
            found = bins_for(bounds, is_whole=is_whole, bins=bins)
            return CodedColumn(
                name=name, column=column, bins=found, has_missing=missing or _is_lenient(column)
            )
        case _:
            raise AssertionError("refused before")


def _is_lenient(column: Column) -> bool:
    return isinstance(column, Number) and column.lenient


def _cells(column: CodedColumn, codes: np.ndarray, source: np.random.Generator) -> list[str]:
    if column.bins is None:
        words = [*column.words, _MISSING]
        return [words[code] for code in codes.tolist()]
    drawn = column.bins.decode(codes, source)
    is_date = isinstance(column.column, Number) and column.column.date
    decimals = 0 if column.bins.is_whole else column.bins.decimals
    is_missing = codes >= column.bins.size
    return [
        _MISSING if missing else str(day_of(number)) if is_date else f"{number:.{decimals}f}"
        for number, missing in zip((drawn + 0.0).tolist(), is_missing.tolist(), strict=True)
    ]


def _require_usable(domain: Domain, columns: Mapping[str, Column]) -> None:
    if not columns:
        raise DomainError(f"{domain.source}: no column is left.", remedy="Keep at least one of them.")
    ignored = [name for name, column in columns.items() if isinstance(column, Ignored)]
    if ignored:
        raise DomainError(
            f"{domain.source}: {len(ignored)} columns hold identifiers or free text ({abbreviate(ignored)}), "
            "which cannot be learned privately.",
            remedy="Leave them out (ignore=...), or declare the words or bounds that they may have.",
        )
    in_buckets = [name for name, column in columns.items() if getattr(column, "buckets", None) is not None]
    if in_buckets:
        raise DomainError(
            f"{domain.source}: words cannot be made of buckets ({abbreviate(in_buckets)}).",
            remedy="Leave these columns out (ignore=...), or declare the words that they may have.",
        )
    pending = [key for key in domain.undeclared() if key.rpartition(".")[0] in columns]
    if pending:
        raise DomainError(
            f"{domain.source}: {len(pending)} values are not declared ({abbreviate(pending)}).",
            remedy="Declare them in a domain file, leave out identifiers and free text, "
            "or let a part of the budget find them: --prepare private.",
        )
    for name, column in columns.items():
        values = getattr(column, "values", None) or ()
        if len(values) > MOST_VALUES:
            raise DomainError(
                f"{domain.source}, column {quote(name)}: {len(values)} values are more than the "
                f"{MOST_VALUES} that can be counted.",
                remedy='Group them, or declare kind = "ignored" and leave the column out.',
            )


def _warnings(columns: Sequence[CodedColumn]) -> list[str]:
    return [
        f"{quote(column.name)} has {len(column.words)} values: rare ones are generated together, "
        "in proportion to their noisy counts. Group them if they matter."
        for column in columns
        if len(column.words) > MANY_VALUES
    ]
