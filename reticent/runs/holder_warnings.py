"""Warnings for the holder of a table, before a run is paid for: what spoils a model and is easily mended.

They are found by looking at the first rows as they are, without noise. So they are for whoever holds the
rows: printed on their screen, kept in the private part of the run, and never part of what is released.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.files import write_whole
from reticent.core.observer import Observer
from reticent.data.domain import Column, Domain, Featured, Ignored, Integer, Label, Number
from reticent.data.files import Table
from reticent.data.kinds import format_bound, identifiers_among, quote
from reticent.runs.first_cells import FirstCells, first_cells
from reticent.runs.private_part import HOLDER_WARNINGS, PRIVATE, make_private

FOR_HOLDER = "For you only, from rows without noise"

_ROWS, _COLUMNS, _CELLS = 20_000, 1000, 1_000_000  # that are looked at, at most
_FEWEST_ROWS = 50
_SENTINELS = {sign * value for value in (99, 999, 9999, 99999, 999999) for sign in (1.0, -1.0)} | {-9.0, -1.0}
_SENTINEL_SHARE = 0.005
_UNKNOWN = {"unknown", "unk", "undefined", "unspecified", "missing", "none", "n/a", "na", "-", "--", ".", "?"}
_UNKNOWN |= {"not available", "not known", "not reported", "not specified", "keine angabe", "unbekannt"}
_UNKNOWN_SHARE = 0.3
_IDENTIFIER = re.compile(
    r"(^|[_\W])(id|ids|key|uuid|guid|nr|number|index)($|[_\W])|[a-z](Id|ID|Key|Nr)$|^(id|ID)"
)
_MOST_WORDS = 50  # of a column that may give a label away
_ALIKE = 0.9  # as many different numbers as the target has, nearly
_UNDECLARED_SHARE = 0.05  # of cells outside what was declared


def tell_holder(source: Any, observer: Observer) -> tuple[str, ...]:
    """Says what is in doubt about a table, what a request implies, and what its holder should look at.

    Returns:
        What is for the holder only.
    """
    if source.table is not None and (doubt := source.table.doubt) is not None:
        observer.warn(doubt)
    for warning in source.declares.warnings:
        observer.warn(warning)
    if source.table is None:
        return ()
    request = source.request
    found = tuple(
        holder_warnings(
            source.table, source.declared, target=request.target, ignore=getattr(request, "ignore", ())
        )
    )
    for line in found:
        observer.warn(line)
    return found


def write_holder_warnings(folder: Path, warnings: tuple[str, ...]) -> None:
    """Keeps warnings in the private part of a run.

    Raises:
        DataError: they cannot be written.
    """
    if not warnings:
        return
    said = {"what": "found in rows without noise: private, not to be shared", "warnings": list(warnings)}
    make_private(folder)
    content = json.dumps(said, indent=2, ensure_ascii=False) + "\n"
    write_whole(folder / PRIVATE / HOLDER_WARNINGS, content.encode(), is_private=True)


def holder_warnings(
    table: Table, declared: Domain | None, *, target: str | None = None, ignore: Collection[str] = ()
) -> list[str]:
    """Looks through the first rows of a table; one line for each thing that its holder should know.

    Guarantee:
        None. Whoever prints the lines for somebody else releases what they say.
    """
    known = {} if declared is None else declared.columns
    by_name = {name for name in identifiers_among(table.names, target) if _is_open(known.get(name))}
    used = [
        name
        for name in table.names
        if name not in table.unsupported
        and name not in by_name
        and name not in ignore
        and (declared is None or name in known)
        and not _is_left_out(known.get(name))
    ]
    used = [name for at, name in enumerate(used) if at < _COLUMNS or name == target]
    most = min(_ROWS, _CELLS // max(len(used), 1))
    columns = first_cells(table, used, declared, most) if most >= _FEWEST_ROWS else {}
    if not columns or len(next(iter(columns.values())).codes) < _FEWEST_ROWS:
        return []
    goal = columns.get(target or "")
    said = [line for column in columns.values() for line in _about_column(column, is_target=column is goal)]
    if declared is not None:
        said += [line for column in columns.values() for line in _about_declaration(column, declared)]
    if goal is not None:
        said += [
            line for column in columns.values() if column is not goal for line in _about_leak(column, goal)
        ]
    return [f"{FOR_HOLDER}: {line}" for line in said]


def _is_left_out(column: Column | None) -> bool:
    """Whether a column is declared to be ignored, or given to a public model; of others it is open."""
    return isinstance(column, Featured) or (isinstance(column, Ignored) and "kind" not in column.looked_up)


def _is_open(column: Column | None) -> bool:
    """Whether it is still to be found what a column holds: it is then ignored if its name says identifier."""
    return isinstance(column, Ignored) and "kind" in column.looked_up


def _about_column(column: FirstCells, *, is_target: bool) -> Iterator[str]:
    if column.numbers is not None:
        yield from _about_sentinels(column.name, column.numbers[np.isfinite(column.numbers)])
        if not is_target:
            yield from _about_identifier(column.name, column.numbers)
    yield from _about_unknown(column)


def _about_sentinels(name: str, numbers: np.ndarray) -> Iterator[str]:
    """A number such as -999 that many rows have and that is far from all others."""
    for value in sorted(_SENTINELS & set(np.unique(numbers).tolist())):
        times, others = int((numbers == value).sum()), numbers[numbers != value]
        if times < max(5, _SENTINEL_SHARE * len(numbers)) or len(others) < _FEWEST_ROWS // 2:
            continue
        low, high = np.quantile(others, [0.001, 0.999])
        is_far = max(low - value, value - high) > max(high - low, 1)
        is_only_negative = value < 0 <= others.min()
        if is_far or is_only_negative:
            yield (
                f"{times:,} of {len(numbers):,} cells of {quote(name)} are {value:g}, and no other is near: "
                f"a mark for missing cells? If so: --missing {value:g}."
            )


def _about_identifier(name: str, numbers: np.ndarray) -> Iterator[str]:
    """A whole number that no two rows share, in a range hardly larger than the table."""
    if not np.isfinite(numbers).all() or (numbers != np.round(numbers)).any():
        return
    if len(np.unique(numbers)) < len(numbers):
        return
    is_dense = numbers.max() - numbers.min() < 3 * len(numbers)
    if is_dense or _IDENTIFIER.search(name):
        yield (
            f"{quote(name)} is a whole number that no two rows share: an identifier? It tells nothing about "
            f"new rows. Leave it out: --ignore {shlex.quote(name)}. If it names users, pass it as --user."
        )


def _about_unknown(column: FirstCells) -> Iterator[str]:
    """A word for "not known" that much of a column consists of."""
    if column.numbers is not None:
        return
    for code, word in enumerate(column.words):
        share = float(np.mean(column.codes == code)) if word.strip().lower() in _UNKNOWN else 0.0
        if share >= _UNKNOWN_SHARE:
            yield (
                f"{share:.0%} of the cells of {quote(column.name)} say {quote(word)}. If that means missing: "
                f"--missing {shlex.quote(word)}."
            )


def _about_declaration(column: FirstCells, domain: Domain) -> Iterator[str]:
    """Cells that are not as declared: rows of no class teach nothing, and numbers are clipped."""
    declared = domain.columns.get(column.name)
    if declared is None or declared.looked_up:
        return
    if isinstance(declared, Label) and declared.values and not declared.other:
        yield from _about_classes(column, declared.values, ignores_case=domain.ignore_case)
    elif isinstance(declared, (Number, Integer)) and declared.bounds and column.numbers is not None:
        low, high = declared.bounds
        numbers = column.numbers[np.isfinite(column.numbers)]
        numbers = numbers[~np.isin(numbers, list(_SENTINELS))]  # those have a line of their own
        share = float(np.mean((numbers < low) | (numbers > high))) if len(numbers) else 0.0
        if share > _UNDECLARED_SHARE:
            yield (
                f"{share:.0%} of the cells of {quote(column.name)} lie outside its bounds, "
                f"{format_bound(declared, low)} to {format_bound(declared, high)}: they count as the nearest "
                "bound. If that is a mistake, correct the bounds."
            )


def _about_classes(column: FirstCells, classes: tuple[str, ...], *, ignores_case: bool) -> Iterator[str]:
    key = str.casefold if ignores_case else str
    known, cells = {key(name) for name in classes}, column.codes[column.codes >= 0]
    times = dict(zip(column.words, np.bincount(cells, minlength=len(column.words)).tolist(), strict=True))
    others = {word: count for word, count in times.items() if count and key(word) not in known}
    if sum(others.values()) > _UNDECLARED_SHARE * len(cells):
        share, most = sum(others.values()) / len(cells), max(others, key=lambda word: others[word])
        yield (
            f"{share:.0%} of the cells of {quote(column.name)} are none of its classes, most of them "
            f"{quote(most)}. They teach the model nothing. Add the class, or correct how it is spelt."
        )
    present = {key(word) for word, count in times.items() if count}
    if absent := [quote(name) for name in classes if key(name) not in present]:
        yield (
            f"None of {len(column.codes):,} rows of {quote(column.name)} has the class {', '.join(absent)}. "
            "Is it spelt as in the table?"
        )


def _about_leak(column: FirstCells, target: FirstCells) -> Iterator[str]:
    """A column from which the target can be told without a mistake."""
    if _gives_away(column, target):
        yield (
            f"{quote(column.name)} alone determines {quote(target.name)}: does it hold the "
            f"answer? If so, leave it out: --ignore {shlex.quote(column.name)}."
        )


def _gives_away(column: FirstCells, target: FirstCells) -> bool:
    is_known = (column.codes >= 0) & (target.codes >= 0)
    codes, goals = column.codes[is_known], target.codes[is_known]
    classes = np.unique(goals)
    if len(goals) < _FEWEST_ROWS or len(classes) < 2:
        return False
    if len(classes) > _MOST_WORDS:
        if column.numbers is None or target.numbers is None:
            return False
        pair = column.numbers[is_known], target.numbers[is_known]
        return _is_multiple(*pair) or _is_in_order(*pair)
    if column.numbers is not None and np.isfinite(column.numbers[is_known]).all():
        return _are_apart(column.numbers[is_known], goals)
    words = len(np.unique(codes))
    if words > min(_MOST_WORDS, len(goals) // 10):
        return False
    return len(np.unique(codes.astype(np.int64) * len(target.words) + goals)) == words


def _is_multiple(numbers: np.ndarray, goals: np.ndarray) -> bool:
    """Whether two columns of numbers are the same up to scale and shift."""
    known = np.isfinite(numbers) & np.isfinite(goals)
    a, b = _centred(numbers[known]), _centred(goals[known])
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return scale > 0 and abs(float((a * b).sum())) / scale > 1 - 1e-6


def _is_in_order(numbers: np.ndarray, goals: np.ndarray) -> bool:
    """Whether one column of numbers only rises, or only falls, with another: such as its logarithm."""
    known = np.isfinite(numbers) & np.isfinite(goals)
    a, b = numbers[known], goals[known]
    values = len(np.unique(a))
    if values < _ALIKE * len(np.unique(b)) or values <= _MOST_WORDS:
        return False
    return any((np.diff(side[np.lexsort((side, a))]) >= 0).all() for side in (b, -b))


def _centred(numbers: np.ndarray) -> np.ndarray:
    """The centred numbers, scaled to at most 1, so that no sum of squares overflows."""
    numbers = numbers / max(float(np.abs(numbers).max(initial=0.0)), np.finfo(float).tiny)
    return numbers - numbers.mean()


def _are_apart(numbers: np.ndarray, classes: np.ndarray) -> bool:
    """Whether each class has its own interval of numbers."""
    ends = sorted(
        (numbers[classes == each].min(), numbers[classes == each].max()) for each in np.unique(classes)
    )
    return all(before[1] < after[0] for before, after in pairwise(ends))
