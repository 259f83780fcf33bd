"""What a request declares about a table, beside its domain file: the target's classes, the task, bounds.

Unless somebody says otherwise, it is taken as public what is predicted: that the target is a number, or which
classes it has. Whoever publishes a model publishes that anyhow, and to find a rare class privately takes most
of a budget. The sentence of the guarantee says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError, InvalidArgument
from reticent.core.postgres import name_of_place
from reticent.data.arrow_cells import as_words, compute, missing_cells, unreadable_cells
from reticent.data.domain import Category, Column, Domain, Ignored, Integer, Label, Number
from reticent.data.drafting import draft
from reticent.data.files import Table
from reticent.data.kinds import MAYBE_WORDS, MISSING_MARKERS, markers_of_target, quote

if TYPE_CHECKING:
    from reticent.runs.request import Request

TaskChoice = Literal["auto", "classify", "regress", "next-character"]
ClassesChoice = tuple[str, ...] | Literal["public", "private"]

_MOST_CLASSES = 50
_FEW_NUMBERS = 10  # different whole numbers that are taken for classes
_FEWEST_ROWS = 5  # of a class that nobody named
_MOSTLY = 0.9  # the share of numbers from which on a target is one
_MOST_WORDS = 100_000  # different ones that are counted before the target is called free text
_NAMED = 8  # classes that a sentence names one by one


class Declared(NamedTuple):
    """What is public about a table, and what a guarantee that rests on it has to say.

    Args:
        domain: None if nothing is declared.
        assumptions: what was read off the data and is taken as public.
        notes: how the target is taken, for whoever asked.
        warnings: about rows that are left out; for the holder of the data.
    """

    domain: Domain | None
    assumptions: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def declare_as_asked(request: Request, target: str, table: Table, domain: Domain | None) -> Declared:
    """The domain of a request, with what its options say."""
    return declare(
        table,
        domain,
        target=target,
        task=request.task,
        classes=request.classes,
        bounds=request.bounds,
        buckets=request.buckets,
        ignore=request.ignore,
        missing=request.missing,
        assumes_public=request.prepare == "assume-public",
        user=request.user,
    )


def declare(
    table: Table,
    domain: Domain | None,
    *,
    target: str,
    task: TaskChoice = "auto",
    classes: ClassesChoice = "public",
    bounds: Mapping[str, tuple[float, float]] | None = None,
    buckets: Mapping[str, int] | None = None,
    ignore: Collection[str] = (),
    missing: Collection[str] = (),
    assumes_public: bool = False,
    user: str | None = None,
) -> Declared:
    """The domain of a request, with what its options and its target add.

    Args:
        ignore: columns to leave out.
        missing: cells that mean "not known", beside the usual ones.
        assumes_public: what no file declares is read off the data, all of it.
        user: the column that names the user of each row; it is not a feature.

    Raises:
        InvalidArgument, DataError: an option contradicts the table.
    """
    _check_columns(table, target, bounds or {}, buckets or {}, ignore)
    is_bare = domain is None  # no file declares anything
    domain = with_missing(table, domain, missing)
    if domain is not None and target in domain.columns and not _is_open(domain.columns[target]):
        domain = domain.with_target(target)
    found = Declared(domain)
    if domain is None or _is_open(domain.columns.get(target)):
        found = _public_target(table, domain, target, task, classes)
    if assumes_public:
        settled = {*ignore, *(bounds or {}), *(buckets or {}), *((user,) if user else ())}
        found = _assume_public_beside(found, table, domain, target, is_bare=is_bare, settled=settled)
    known = found.domain
    if isinstance(classes, tuple):
        known = with_column(table, known, target, Label(values=classes, lenient=True))
    known = with_bounds(table, known, bounds or {}, target)
    for name, count in (buckets or {}).items():
        known = with_column(table, known, name, Category(buckets=count, missing=True))
    for name in ignore:
        known = with_column(table, known, name, Ignored(reason="left out by --ignore"))
    if known is not None and not _is_open(known.columns.get(target)):
        known = known.with_target(target)
    return found._replace(domain=known)


def _check_columns(
    table: Table,
    target: str,
    bounds: Mapping[str, tuple[float, float]],
    buckets: Mapping[str, int],
    ignore: Collection[str],
) -> None:
    """
    Raises:
        InvalidArgument, DataError: an option names a column that is not there, or one that it is not for.
    """
    table.require([target, *bounds, *buckets, *(name for name in ignore if name not in table.unsupported)])
    if target in buckets:
        raise InvalidArgument(
            f"The target '{target}' cannot be sorted into buckets.",
            remedy="Name its classes with --classes, or choose another target.",
        )
    if target in ignore:
        raise InvalidArgument(
            f"'{target}' is the target, and cannot be left out.", remedy="Pass another --ignore or --target."
        )
    if twice := [name for name in ignore if name in bounds or name in buckets]:
        raise InvalidArgument(
            f"'{twice[0]}' is left out and declared at once.", remedy="Pass --ignore, or the other option."
        )


def _is_open(column: Column | None) -> bool:
    """Whether it is not public what a target is."""
    match column:
        case Label() | Category():
            return bool(column.looked_up & {"kind", "values"})
        case Number() | Integer():
            return "kind" in column.looked_up
    return True


def with_column(table: Table, domain: Domain | None, name: str, column: Column) -> Domain:
    """The domain with another column in it; of columns that nobody declared, kinds have to be found."""
    domain = _open_domain(table) if domain is None else domain
    target = name if isinstance(column, Label) else domain.target
    return replace(domain, columns={**domain.columns, name: column}, target=target)


def with_missing(table: Table, domain: Domain | None, missing: Collection[str]) -> Domain | None:
    """The domain with more cells that mean "not known"."""
    if not missing:
        return domain
    domain = _open_domain(table) if domain is None else domain
    return replace(domain, missing_markers=tuple(dict.fromkeys((*domain.missing_markers, *missing))))


def _open_domain(table: Table) -> Domain:
    """A domain that declares nothing: of every column it has to be found what it holds."""
    unknown: dict[str, Column] = {name: Ignored(looked_up=frozenset({"kind"})) for name in table.names}
    return Domain(
        columns=unknown, ignore_case=True, source=f"what is declared of {name_of_place(table.label)}"
    )


def with_bounds(
    table: Table, domain: Domain | None, bounds: Mapping[str, tuple[float, float]], target: str | None
) -> Domain | None:
    """The domain with public bounds of columns."""
    for name, (low, high) in bounds.items():
        column = _with_bounds(domain, name, low, high, is_target=name == target)
        domain = with_column(table, domain, name, column)
    return domain


def _with_bounds(domain: Domain | None, name: str, low: float, high: float, *, is_target: bool) -> Column:
    known = None if domain is None else domain.columns.get(name)
    if isinstance(known, Integer):
        return replace(known, bounds=(low, high), looked_up=known.looked_up - {"bounds", "kind"})
    if isinstance(known, Number):
        return replace(
            known, bounds=(float(low), float(high)), looked_up=known.looked_up - {"bounds", "kind"}
        )
    return Number(bounds=(float(low), float(high)), missing=not is_target, lenient=True)


def assume_public(
    table: Table, domain: Domain | None, target: str | None, settled: Collection[str] = ()
) -> Declared:
    """Everything that a draft reads off the data, taken as public; what a file declares goes first.

    Args:
        settled: columns of which nothing that is read is used: they are left out, or declared otherwise.
    """
    drafted = draft(table, target, markers=MISSING_MARKERS if domain is None else domain.missing_markers)
    columns = {name: _as_public(column) for name, column in drafted.columns.items()}
    declared = {} if domain is None else domain.columns
    declared = {name: column for name, column in declared.items() if not column.looked_up}
    columns = {name: declared.get(name, column) for name, column in columns.items()}
    used = [column for name, column in columns.items() if name not in declared and name not in settled]
    numbers = sum(isinstance(column, (Number, Integer)) for column in used)
    words = sum(isinstance(column, (Category, Label)) for column in used)
    sentence = (
        "what was read off the data is public: the kinds of all columns, which of them have missing cells, "
        f"bounds of {numbers} and words of {words}"
    )
    return Declared(replace(drafted, columns=columns, target=target), (sentence,))


def _assume_public_beside(
    chosen: Declared,
    table: Table,
    domain: Domain | None,
    target: str,
    *,
    is_bare: bool,
    settled: Collection[str],
) -> Declared:
    """The rest of a table taken as public, beside a target that is chosen by the same rule as without that.

    A draft alone would take a few whole numbers for classes, whatever the task.
    """
    column = None if chosen.domain is None else chosen.domain.columns.get(target)
    is_number = not _is_open(column) and isinstance(column, (Number, Integer))
    drafted = assume_public(table, domain, None if is_number else target, settled)
    assert drafted.domain is not None
    columns = dict(drafted.domain.columns)
    read = columns[target]
    if isinstance(read, Number) and is_number:
        columns[target] = replace(read, missing=False, lenient=True)
    elif isinstance(column, Label) and not _is_open(column):
        columns[target] = column
    if is_bare:  # as where words are found privately
        columns = {name: _in_one_spelling(each) for name, each in columns.items()}
    known = replace(drafted.domain, columns=columns, target=target, ignore_case=is_bare)
    return chosen._replace(domain=known, assumptions=(*chosen.assumptions, *drafted.assumptions))


def _in_one_spelling(column: Column) -> Column:
    """Without words that differ from an earlier one in upper and lower case only."""
    if not isinstance(column, (Category, Label)) or column.values is None:
        return column
    first = {word.casefold(): word for word in reversed(column.values)}
    return replace(column, values=tuple(word for word in column.values if first[word.casefold()] == word))


def _as_public(column: Column) -> Column:
    column = replace(column, looked_up=frozenset())
    if isinstance(column, Integer):
        column = Number(bounds=column.bounds, missing=column.missing, whole=True)
    return replace(column, lenient=True) if isinstance(column, (Number, Label)) else column


def _public_target(
    table: Table, domain: Domain | None, target: str, task: TaskChoice, classes: ClassesChoice
) -> Declared:
    if isinstance(classes, tuple):
        return Declared(domain)
    if classes == "private":
        if task == "regress":
            raise InvalidArgument(
                "--classes private finds classes, and --task regress asks for a number.",
                remedy="Pass one of the two.",
            )
        return Declared(domain)
    markers = MISSING_MARKERS if domain is None else domain.missing_markers
    seen = _Counted.of(table, target, markers_of_target(markers))
    if not seen.words:
        raise DataError(
            f"{table.label}: the target {quote(target)} is missing in every row.",
            remedy="Choose another target.",
        )
    kept = seen.classes()
    if task == "regress" or (task == "auto" and seen.is_number and not seen.is_few_numbers(kept)):
        return _as_number(table, domain, target, seen)
    return _as_classes(table, domain, target, task, seen, kept)


def _as_number(table: Table, domain: Domain | None, target: str, seen: _Counted) -> Declared:
    if not seen.is_number:
        raise InvalidArgument(
            f"The target {quote(target)} of {table.label} holds words, which are not numbers to predict.",
            remedy="Pass --task classify, or choose another target.",
        )
    known = with_column(table, domain, target, Number(lenient=True))
    return Declared(
        known,
        (f"it is public that the target {quote(target)} is a number",),
        (f"{quote(target)} is a number to predict. To treat its values as classes: --task classify.",),
    )


def _as_classes(
    table: Table, domain: Domain | None, target: str, task: TaskChoice, seen: _Counted, kept: dict[str, int]
) -> Declared:
    if len(kept) < 2:
        raise InvalidArgument(
            f"{table.label}: fewer than two values of the target {quote(target)} are in at least "
            f"{_FEWEST_ROWS} rows each, so there are no classes to tell apart.",
            remedy="Choose another target, name its classes with --classes, or pass --task regress.",
        )
    rare = seen.present - sum(kept.values())
    if len(kept) > _MOST_CLASSES or (task == "auto" and rare > seen.present / 20):
        raise InvalidArgument(
            f"The target {quote(target)} of {table.label} has {len(seen.words):,} different values, which "
            "looks like free text or an identifier.",
            remedy="Choose another target, group its values, or name the classes that count with --classes.",
        )
    names = sorted(kept, key=lambda word: (_as_float(word), word))
    known = with_column(table, domain, target, Label(values=tuple(names), lenient=True))
    shown = ", ".join(map(quote, names)) if len(names) <= _NAMED else f"{len(names)} of them"
    warnings = ()
    if rare:
        warnings = (
            f"{rare:,} rows have a label that fewer than {_FEWEST_ROWS} rows share. They are left out; "
            "to keep them, name all classes with --classes.",
        )
    note = f"classes of {quote(target)}: {shown}"
    if seen.is_number:
        note += ". To predict it as a number: --task regress"
    return Declared(
        known, (f"the classes of the target {quote(target)} are public: {shown}",), (f"{note}.",), warnings
    )


class _Counted(NamedTuple):
    """The different values of a column, and in how many rows each is."""

    words: Counter[str]
    numbers: int  # rows whose value reads as a number
    present: int

    @classmethod
    def of(cls, table: Table, name: str, markers: tuple[str, ...]) -> _Counted:
        words, numbers, present = Counter[str](), 0, 0
        for rows in table.batches([name]):
            column = rows.batch.column(name)
            missing = missing_cells(column, markers)
            cells = column.filter(pa.array(~missing))
            unreadable = unreadable_cells(cells, np.zeros(len(cells), bool), table.dialect.reading)
            numbers += len(cells) - int(np.count_nonzero(unreadable))
            present += len(cells)
            if len(words) <= _MOST_WORDS:
                found = compute.value_counts(as_words(cells))
                words.update(
                    dict(
                        zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)
                    )
                )
        if numbers > _MOSTLY * present:  # among numbers, a minus is a missing cell
            present -= sum(words.pop(word, 0) for word in MAYBE_WORDS)
        return cls(words, numbers, present)

    @property
    def is_number(self) -> bool:
        return self.numbers > _MOSTLY * self.present

    def classes(self) -> dict[str, int]:
        """Values that are in some rows at least; those that differ in case only are one, as most spell it."""
        spelt: dict[str, str] = {}
        counts: Counter[str] = Counter()
        for word, count in self.words.most_common():
            counts[spelt.setdefault(word.casefold(), word)] += count
        return {word: count for word, count in counts.items() if count >= _FEWEST_ROWS}

    def is_few_numbers(self, kept: dict[str, int]) -> bool:
        """Whether a column of numbers holds a few whole ones over and over, as codes of classes do."""
        whole = all(_as_float(word).is_integer() for word in kept)
        return 1 < len(kept) <= _FEW_NUMBERS and whole and sum(kept.values()) >= 0.99 * self.present


def _as_float(word: str) -> float:
    """The number that a word writes, or none: those come last and stay in alphabetical order."""
    try:
        return float(word.replace(",", "."))
    except ValueError:
        return float("inf")
