"""Tables in libsvm's sparse text: a label, then `index:value` for every feature that is not zero."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.data.arrow_cells import compute
from reticent.data.files.dialect import Dialect
from reticent.data.files.shards import byte_range, cut_error, line_ends_before
from reticent.data.files.table import MOST_COLUMNS, Table, report_damage
from reticent.data.files.text import LINE_LIMIT, CleanText, is_gzip

WIDEST = MOST_COLUMNS - 1  # features; each row is written out in full, zeros and all

_BLOCK = 1 << 20  # bytes of text
_CELLS = 1 << 22  # in one batch
_LINE = re.compile(rb"[+-]?[\d.][\w.+-]*(,[\d.]+)*([ \t]+[\w.]+:[+-]?[\w.][\w.+-]*)*[ \t]*(#.*)?")
_PAIR = re.compile(rb"[ \t]\d+:")
_FEATURE = re.compile(r"feature_(0|[1-9][0-9]{0,9})")
_LINE_END = re.compile(rb"\n")
_LINES_LOOKED_AT = 1000


def looks_like_libsvm(start: bytes) -> bool:
    """Whether most of the first lines are a number each, followed by pairs of index and value.

    A line that is unlike the others decides nothing: no record moves how the rest are read.
    """
    lines = [line.strip(b"\r") for line in start.split(b"\n")[:_LINES_LOOKED_AT] if line.strip()]
    fitting = sum(bool(_PAIR.search(line) and _LINE.fullmatch(line)) for line in lines)
    return 2 * fitting >= len(lines) > 0


class LibsvmTable(Table):
    """A libsvm file: `label`, then `feature_1` to the highest index (from `feature_0` if that occurs)."""

    def __init__(self, path: Path, *, line_limit: int = LINE_LIMIT) -> None:
        self.path = path
        self.unsupported = {}
        self._line_limit = line_limit
        self._bytes = (0, path.stat().st_size)
        self.dialect = Dialect(format="libsvm", compression="gzip" if is_gzip(path) else None)
        lowest, highest, self._row_count = 1, 0, 0
        for rows, _ in self._parse_all():
            self._row_count += len(rows.labels)
            if len(rows.indices):
                lowest, highest = min(lowest, rows.indices.min()), max(highest, rows.indices.max())
        if not self._row_count:
            raise DataError(f"{path} is empty.", remedy="Give a file with at least one row.")
        self._lowest = int(lowest)
        self.names = ("label", *(f"feature_{i}" for i in range(self._lowest, int(highest) + 1)))

    def require(self, columns: Collection[str]) -> None:
        """As of every table; but a feature that no line has is there: it is zero in all of them.

        Or the record with the highest index would decide whether declared columns can be read. A name that
        is asked for alone, as a target, is more likely a slip.
        """
        asked = [int(found[1]) for name in columns if (found := _FEATURE.fullmatch(name))]
        lowest, highest = self._lowest, self._lowest + len(self.names) - 2
        is_new = asked and not lowest <= min(asked) <= max(asked) <= highest
        if len(columns) > 1 and is_new and max(asked) <= WIDEST:
            self._lowest = min(lowest, *asked)
            features = range(self._lowest, max(highest, *asked) + 1)
            self.names = ("label", *(f"feature_{i}" for i in features))
        super().require(columns)

    @property
    def format_assumption(self) -> str | None:
        return f"the format of the file is public: LIBSVM, {len(self.names)} columns"

    def shard(self, number: int, count: int) -> LibsvmTable:
        if self.dialect.compression:
            raise cut_error(self, f"packed with {self.dialect.compression}")
        shard = copy(self)
        first, end = self._bytes
        shard._bytes = byte_range(self.path, number, count, first=first, end=end, line_end=_LINE_END)
        shard._row_count = None
        shard._part = f" of shard {number + 1} of {count}"
        return shard

    def place(self, row: int) -> str:
        for rows, _ in self._parse_all():
            if row < len(rows.lines):
                return f"line {line_ends_before(self.path, self._bytes[0]) + rows.lines[row]}"
            row -= len(rows.lines)
        return super().place(row)

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        width = len(self.names) - 1
        step = max(1, _CELLS // max(1, width))
        place = {name: number - 1 for number, name in enumerate(self.names)}
        positions = [place[name] for name in columns if name != "label"]
        for rows, done in self._parse_all():
            for first in range(0, len(rows.labels), step):
                labels = rows.labels[first : first + step]
                dense = np.zeros((width, len(labels)), dtype=np.float64)
                inside = (rows.owners >= first) & (rows.owners < first + step)
                dense[rows.indices[inside] - self._lowest, rows.owners[inside] - first] = rows.values[inside]
                features = {f"feature_{i + self._lowest}": pa.array(dense[i]) for i in positions}
                cells = {"label": pa.array(labels)} | features
                yield pa.RecordBatch.from_pydict({name: cells[name] for name in columns}), done

    def _parse_all(self) -> Iterator[tuple[_Lines, float]]:
        begin, end = self._bytes
        with (
            report_damage(self.path, "text"),
            CleanText(
                self.path, encoding="utf-8", line_limit=self._line_limit, begin=begin,
                end=None if self.dialect.compression else end,
            ) as stream,
        ):  # fmt: skip
            line, rest = 1, b""
            while piece := stream.read(_BLOCK):
                whole, newline, rest = (rest + piece).rpartition(b"\n")
                if newline:
                    yield self._rows(whole, line), (stream.position - begin) / max(1, end - begin)
                    line += whole.count(b"\n") + 1
            if rest:
                yield self._rows(rest, line), 1.0

    def _rows(self, text: bytes, line: int) -> _Lines:
        try:
            return _parse(self.path, text, line)
        except DataError:  # only a message needs to know how many lines come before a shard
            return _parse(self.path, text, line + line_ends_before(self.path, self._bytes[0]))


class _Lines(NamedTuple):
    lines: np.ndarray  # (rows,) where each stands in the file, from 1
    labels: np.ndarray  # (rows,)
    owners: np.ndarray  # (pairs,) which row a pair belongs to
    indices: np.ndarray  # (pairs,)
    values: np.ndarray  # (pairs,)


def _parse(path: Path, text: bytes, first_line: int) -> _Lines:
    """The rows of some whole lines, by Arrow's string functions: no loop over cells."""
    every = pa.array(text.decode("utf-8").split("\n"), type=pa.string())
    every = compute.ascii_trim_whitespace(compute.replace_substring_regex(every, "#.*", ""))
    is_row = compute.not_equal(every, "").to_numpy(zero_copy_only=False)
    lines = np.flatnonzero(is_row) + first_line
    words = compute.ascii_split_whitespace(every.filter(pa.array(is_row)))
    starts = words.offsets.to_numpy()
    owners = np.repeat(np.arange(len(lines)), np.diff(starts))
    is_label = np.zeros(len(owners), dtype=bool)
    is_label[starts[:-1]] = True
    flat = words.flatten()
    labels = _cast(path, flat.filter(pa.array(is_label)), pa.float64(), lines, "the label is not a number")
    pairs, owners = flat.filter(pa.array(~is_label)), owners[~is_label]
    at = lines[owners]
    broken = compute.not_equal(compute.count_substring(pairs, ":"), 1).to_numpy(zero_copy_only=False)
    if broken.any():
        raise _refusal(path, at[int(broken.argmax())], "a feature is not written as index:value")
    halves = compute.split_pattern(pairs, ":").flatten()
    even = np.arange(len(halves)) % 2 == 0
    indices = _cast(path, halves.filter(pa.array(even)), pa.int64(), at, "a feature's index is not a number")
    values = _cast(
        path, halves.filter(pa.array(~even)), pa.float64(), at, "a feature's value is not a number"
    )
    wrong = (indices < 0) | (indices > WIDEST)
    if wrong.any():
        raise _refusal(path, at[int(wrong.argmax())], f"a feature's index is outside 0 to {WIDEST}")
    return _Lines(lines, labels, owners, indices, values)


def _cast(path: Path, words: pa.Array, kind: pa.DataType, lines: np.ndarray, complaint: str) -> np.ndarray:
    try:
        return compute.cast(words, kind).to_numpy()
    except pa.ArrowInvalid:
        from reticent.data.arrow_cells import first_failing

        raise _refusal(path, lines[first_failing(words, kind)], complaint) from None


def _refusal(path: Path, line: np.integer, complaint: str) -> DataError:
    return DataError(
        f"{path}, line {line}: {complaint}.", remedy="Write each line as: label index:value index:value ..."
    )
