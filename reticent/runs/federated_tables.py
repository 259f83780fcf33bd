"""Tables about a federated run that were measured on private rows: who poisoned what, who inferred what.

They lie in the private part of the folder, and the report shows them as they are.

    {"what": "...", "tables": [{"kind": "poisoning", "title": "...", "text": "...",
                                "headings": ["rule", "accuracy"], "rows": [["median", "0.80"]]}]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from reticent.core import checks, strict_json
from reticent.core.errors import IntegrityError, InvalidArgument
from reticent.core.files import read_inside, write_whole
from reticent.runs.json_values import mapping, one_of, text, texts
from reticent.runs.private_part import PRIVATE, make_private

NAME = "federated.json"
MeasuredKind = Literal["poisoning", "inference"]
_WHAT = "measured on the rows of a federated run: private, estimates"
_MOST_COLUMNS, _MOST_ROWS, _MOST_TABLES, _LONGEST = 12, 200, 8, 400


class MeasuredTable(NamedTuple):
    """A table of the report.

    Args:
        kind: what clients did to the model, or what was learned about them.
        text: what was measured and how, in a sentence or two.
    """

    kind: MeasuredKind
    title: str
    text: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def write_tables(folder: Path, tables: Sequence[MeasuredTable]) -> None:
    """Keeps tables in the private part of a run's folder, in the place of those that were there.

    Raises:
        InvalidArgument: a table is too large, or a row does not fit its headings.
    """
    for table in tables:
        checks.one_of(get_args(MeasuredKind), kind=table.kind)
        if not _fits(table) or len(tables) > _MOST_TABLES:
            raise InvalidArgument(
                f"The table '{table.title[:80]}' is not one that a report shows.",
                remedy=f"Use at most {_MOST_TABLES} tables of {_MOST_ROWS} rows and {_MOST_COLUMNS} columns, "
                "with a cell for every heading.",
            )
    said = {"what": _WHAT, "tables": [table._asdict() for table in tables]}
    make_private(folder)
    write_whole(folder / PRIVATE / NAME, json.dumps(said, indent=2).encode(), is_private=True)


def keep_table(folder: Path, table: MeasuredTable) -> None:
    """Keeps one more table, in the place of that of the same title."""
    others = [each for each in read_tables(folder) if each.title != table.title]
    write_tables(folder, [*others, table])


def read_tables(folder: Path) -> tuple[MeasuredTable, ...]:
    """The tables of a run's folder; none where nothing was measured.

    Raises:
        IntegrityError: the file is not one that `write_tables` wrote.
    """
    try:
        found = strict_json.parse_object(read_inside(folder, f"{PRIVATE}/{NAME}"))
        tables = tuple(_table(mapping(each)) for each in found["tables"])
        if len(tables) > _MOST_TABLES or not all(map(_fits, tables)):
            raise ValueError("too large")
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise IntegrityError(
            f"{folder / PRIVATE / NAME} does not hold tables about a federated run.",
            remedy="Delete it, or measure again.",
        ) from error
    return tables


def _table(value: Any) -> MeasuredTable:
    return MeasuredTable(
        kind=one_of(get_args(MeasuredKind), value["kind"]),
        title=text(value["title"]),
        text=text(value["text"]),
        headings=tuple(texts(value["headings"])),
        rows=tuple(tuple(texts(row)) for row in value["rows"]),
    )


def _fits(table: MeasuredTable) -> bool:
    words = (table.title, *table.headings, *(cell for row in table.rows for cell in row))
    return (
        0 < len(table.headings) <= _MOST_COLUMNS
        and len(table.rows) <= _MOST_ROWS
        and all(len(row) == len(table.headings) for row in table.rows)
        and all(len(word) <= _LONGEST for word in words)
        and len(table.text) <= 4 * _LONGEST
    )
