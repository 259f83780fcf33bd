"""Tables in JSON lines: one object per line, its keys the columns.

The keys that one in twenty of the first lines has are the columns; a line that lacks one has a missing cell,
and other keys are not read. Numbers are taken as they are written, so no digit is lost.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from reticent.core.errors import DataError
from reticent.data.files.dialect import DeclaredFormat, Dialect
from reticent.data.files.row_batches import as_text, batches_of
from reticent.data.files.table import Table, check_names, report_damage
from reticent.data.files.text import LINE_LIMIT, CleanText, is_gzip

_LINES_LOOKED_AT = 1000
_DOCUMENT = re.compile(rb'(\xef\xbb\xbf)?\s*(\[\s*[\[{]|\{\s*\r?\n?\s*"[^"\n]*"\s*:)')
_RARE = 20  # a key that fewer than one line in so many has is not a column


def looks_like_json_lines(start: bytes) -> bool:
    """Whether the first line of a file is a JSON object."""
    line = start.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0].strip()
    if not line.startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return b"\n" not in start and b'":' in line  # the first line is longer than what was looked at


def refuse_document(path: Path, start: bytes) -> None:
    """Raises `DataError` for a JSON document that holds all rows in one list or object."""
    if _DOCUMENT.match(start):
        raise DataError(
            f"{path} is one JSON document, and tables in JSON are read line by line.",
            remedy="Write one object per line: in pandas, table.to_json(FILE, orient='records', lines=True).",
        )


class JsonLinesTable(Table):
    """A file with one JSON object per line. Every column is text; blank lines are skipped."""

    def __init__(self, path: Path, *, declared: DeclaredFormat, line_limit: int = LINE_LIMIT) -> None:
        self.path, self.unsupported, self._line_limit = path, {}, line_limit
        self._encoding = declared.encoding or "utf-8-sig"
        with report_damage(path, "JSON lines"):
            first = [found for _, found, _ in islice(self._objects(), _LINES_LOOKED_AT)]
        if not first:
            raise DataError(f"{path} is empty.", remedy="Give a file with at least one row.")
        keys = Counter(key for found in first for key in found)
        self.names = tuple(key for key, times in keys.items() if _RARE * times >= len(first))
        check_names(path, self.names)
        cells = Counter(text for found in first for value in found.values() if (text := as_text(value)))
        signs = declared.signs(cells, ",")
        self.dialect = Dialect(
            format="jsonl",
            decimal=declared.decimal or ".",
            day_first=signs.day_first,
            is_day_in_doubt=signs.is_day_in_doubt,
            compression="gzip" if is_gzip(path) else None,
        )

    @property
    def format_assumption(self) -> str | None:
        return (
            f"the format of the file is public: {self.dialect.describe_format()}, {len(self.names)} columns"
        )

    def place(self, row: int) -> str:
        for index, (line, _, _) in enumerate(self._objects()):
            if index == row:
                return f"line {line}"
        return super().place(row)

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        total, done = max(1, self.path.stat().st_size), 0.0

        def rows() -> Iterator[list[str | None]]:
            nonlocal done
            for _, found, position in self._objects():
                done = position / total
                yield [as_text(found.get(name)) for name in columns]

        with report_damage(self.path, "JSON lines"):
            for batch in batches_of(rows(), columns, range(len(columns))):
                yield batch, done

    def _objects(self) -> Iterator[tuple[int, dict[str, Any], int]]:
        """Each line that is not blank: its number, its object, and how many bytes of the file are read."""
        with CleanText(
            self.path, encoding=self._encoding, is_lenient=True, line_limit=self._line_limit
        ) as stream:
            lines = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8", newline="\n")
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, self._parse(line, number), stream.position

    def _parse(self, line: str, number: int) -> dict[str, Any]:
        try:
            found = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise DataError(
                f"{self.path}, line {number} is not a JSON object.",
                remedy='Write one object per line, such as {"age": 39, "sick": false}.',
            )
        return found
