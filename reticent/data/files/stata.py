"""Tables of Stata (.dta), of the versions 8 to 18: numbers, words and dates, a batch of rows at a time.

A number that the file has a label for is that word, and one without a label stays a number, each cell by
itself. Days and times are written out; all kinds of missing values are missing. The records have a fixed
width, so the file is mapped and never read as a whole.

Reference:
    `help dta` of Stata, formats 113 to 115 and 117 to 119.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.data.files.dialect import Dialect
from reticent.data.files.table import Table, check_names, check_width, damage_error, report_damage

_OLD = (113, 114, 115)
MAGICS = (b"<stata_dta>", *(bytes([version, order, 1]) for version in _OLD for order in (1, 2)))

_ROWS = 1 << 16  # at once
_KINDS = {251: "i1", 252: "i2", 253: "i4", 254: "f4", 255: "f8"}
_NEW_KINDS = {65530: "i1", 65529: "i2", 65528: "i4", 65527: "f4", 65526: "f8"}
_LONG_TEXT = 32768  # strL: kept apart from the rows
_MOST = {"i1": 100, "i2": 32740, "i4": 2147483620, "f4": float.fromhex("0x1.fffffep126"),
         "f8": float.fromhex("0x1.fffffffffffffp1022")}  # fmt: skip
_EPOCH = np.datetime64("1960-01-01", "D")
_FARTHEST = 3_000_000  # days


class _Layout(NamedTuple):
    """Where what is in a file: one entry per column.

    Args:
        kinds: a NumPy type, or the width of a text in bytes; None for a text that is kept apart.
        label_sets: which labels a column has, by name.
        widths: of each column in bytes.
    """

    order: str
    encoding: str
    rows: int
    names: tuple[str, ...]
    kinds: tuple[str | int | None, ...]
    formats: tuple[str, ...]
    label_sets: tuple[str, ...]
    widths: tuple[int, ...]
    data: int
    labels: Mapping[str, Mapping[int, str]]


class StataTable(Table):
    """A .dta file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with report_damage(path, "a Stata file"), open(path, "rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            self._layout = found = _parse(path, content)
        check_names(path, found.names)
        if not found.names or not found.rows:
            raise DataError(f"{path} has no rows.", remedy="Give a file with at least one row.")
        if found.data + found.rows * sum(found.widths) > len(content):
            raise damage_error(path, "a Stata file", EOFError())
        self.names, self._row_count = found.names, found.rows
        long = [name for name, kind in zip(found.names, found.kinds, strict=True) if kind is None]
        self.unsupported = dict.fromkeys(long, "long text (strL)")
        self.dialect = Dialect(format="stata")

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        found = self._layout
        with report_damage(self.path, "a Stata file"):
            rows = np.memmap(self.path, _record(found), "r", offset=found.data, shape=(found.rows,))
            for first in range(0, found.rows, _ROWS):
                part = rows[first : first + _ROWS]
                cells = [self._cells(part, name) for name in columns]
                done = min(first + _ROWS, found.rows) / found.rows
                yield pa.RecordBatch.from_arrays(cells, names=list(columns)), done

    def _cells(self, rows: np.ndarray, name: str) -> pa.Array:
        found, at = self._layout, self.names.index(name)
        kind, written = found.kinds[at], found.formats[at].lstrip("%-")
        stored = np.ascontiguousarray(rows[f"f{at}"])
        if not isinstance(kind, str):
            return pa.array([_text(cell, found.encoding) for cell in stored.tolist()], pa.string())
        values = stored.astype(stored.dtype.newbyteorder("="))
        is_missing = ~(values <= _MOST[kind])  # and so is NaN
        if labels := found.labels.get(found.label_sets[at]):
            return _words(values, is_missing, labels)
        if re.match(r"t[dcC]|d", written):
            return _dates(values, is_missing, is_time=written.startswith(("tc", "tC")))
        return pa.array(values, mask=is_missing)


def _record(found: _Layout) -> np.dtype:
    """The type of a row: its fields are called f0, f1, ..."""
    fields = []
    for at, (kind, width) in enumerate(zip(found.kinds, found.widths, strict=True)):
        fields.append((f"f{at}", found.order + kind if isinstance(kind, str) else f"S{width}"))
    return np.dtype(fields)


def _text(cell: bytes, encoding: str) -> str | None:
    return cell.partition(b"\0")[0].decode(encoding, "replace").strip() or None


def _words(values: np.ndarray, is_missing: np.ndarray, labels: Mapping[int, str]) -> pa.Array:
    """Each number as its label, or as it is written where it has none."""
    is_missing = is_missing | ~np.isfinite(values)
    known, places = np.unique(np.where(is_missing, 0, values), return_inverse=True)
    said = [
        labels.get(value, f"{value:.15g}") if value == int(value) else f"{value:.15g}"
        for value in known.tolist()
    ]
    return pa.array(np.array(said, object)[places], pa.string(), mask=is_missing)


def _dates(values: np.ndarray, is_missing: np.ndarray, *, is_time: bool) -> pa.Array:
    days = values.astype(np.float64) / (86_400_000 if is_time else 1)
    is_missing = is_missing | ~(np.abs(days) < _FARTHEST)
    held = np.where(is_missing, 0, values).astype(np.float64)
    unit = "s" if is_time else "D"
    since = np.floor(held / (1000 if is_time else 1)).astype(np.int64)
    texts = np.datetime_as_string(_EPOCH.astype(f"M8[{unit}]") + since.astype(f"m8[{unit}]"))
    return pa.array(np.char.replace(texts, "T", " ").astype(object), pa.string(), mask=is_missing)


class _Cursor:
    """Reads a file from its start, and never beyond its end."""

    def __init__(self, content: memoryview, at: int = 0, order: str = "<") -> None:
        self.content, self.at, self.order = content, at, order

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self.content) - self.at:
            raise EOFError
        self.at += count
        return bytes(self.content[self.at - count : self.at])

    def number(self, kind: str) -> int:
        return int(struct.unpack(self.order + kind, self.take(struct.calcsize(kind)))[0])

    def numbers(self, kind: str, count: int) -> list[int]:
        return [
            int(value) for value in np.frombuffer(self.take(count * struct.calcsize(kind)), self.order + kind)
        ]

    def texts(self, width: int, count: int, encoding: str) -> tuple[str, ...]:
        whole = self.take(width * count)
        parts = (whole[at * width : (at + 1) * width] for at in range(count))
        return tuple(_text(part, encoding) or "" for part in parts)

    def expect(self, tag: str) -> None:
        if self.take(len(tag)) != tag.encode():
            raise ValueError(f"no {tag}")


def _parse(path: Path, content: memoryview) -> _Layout:
    return _parse_new(path, content) if bytes(content[:1]) == b"<" else _parse_old(path, content)


def _parse_old(path: Path, content: memoryview) -> _Layout:
    """Formats 113 to 115: everything in a fixed order."""
    version, order = content[0], "><"[content[1] - 1]
    cursor, encoding = _Cursor(content, 4, order), "latin-1"
    count, rows = cursor.number("h"), cursor.number("i")
    check_width(path, count)
    cursor.take(81 + 18)
    kinds = [_KINDS.get(code, code) for code in cursor.take(count)]
    names = cursor.texts(33, count, encoding)
    cursor.take(2 * (count + 1))
    formats = cursor.texts(12 if version == 113 else 49, count, encoding)
    label_sets = cursor.texts(33, count, encoding)
    cursor.take(81 * count)
    while True:  # notes and the like
        kind, size = cursor.take(1), cursor.number("i")
        if kind == b"\0" and not size:
            break
        cursor.take(size)
    data, widths = cursor.at, tuple(_width(kind) for kind in kinds)
    cursor.take(rows * sum(widths))
    labels = dict(_label_set(cursor, 33, encoding) for _ in iter(lambda: cursor.at < len(content), False))
    return _Layout(order, encoding, rows, names, tuple(kinds), formats, label_sets, widths, data, labels)


def _parse_new(path: Path, content: memoryview) -> _Layout:
    """Formats 117 to 119: marked sections, and a map of where each begins."""
    cursor = _Cursor(content)
    cursor.expect("<stata_dta><header><release>")
    version = int(cursor.take(3))
    if version not in (117, 118, 119):
        raise DataError(
            f"{path} is a Stata file of format {version}, and those of 113 to 119 are read.",
            remedy="Save it as CSV: in Stata, export delimited using NEW.csv.",
        )
    cursor.expect("</release><byteorder>")
    order = {b"MSF": ">", b"LSF": "<"}[cursor.take(3)]
    cursor.order, encoding, is_old = order, "latin-1" if version == 117 else "utf-8", version == 117
    cursor.expect("</byteorder><K>")
    count = cursor.number("I" if version == 119 else "H")
    check_width(path, count)
    cursor.expect("</K><N>")
    rows = cursor.number("I" if is_old else "Q")
    cursor.expect("</N><label>")
    cursor.take(cursor.number("B" if is_old else "H"))
    cursor.expect("</label><timestamp>")
    cursor.take(cursor.number("B"))
    cursor.expect("</timestamp></header><map>")
    places = cursor.numbers("Q", 14)

    def section(at: int, tag: str) -> _Cursor:
        found = _Cursor(content, places[at], order)
        found.expect(f"<{tag}>")
        return found

    name = 33 if is_old else 129
    kinds = [_new_kind(code) for code in section(2, "variable_types").numbers("H", count)]
    names = section(3, "varnames").texts(name, count, encoding)
    formats = section(5, "formats").texts(49 if is_old else 57, count, encoding)
    label_sets = section(6, "value_label_names").texts(name, count, encoding)
    data, labels = section(9, "data").at, {}
    cursor = section(11, "value_labels")
    while cursor.take(5) == b"<lbl>":
        named, found = _label_set(cursor, name, encoding)
        labels[named] = found
        cursor.expect("</lbl>")
    widths = tuple(_width(kind) for kind in kinds)
    return _Layout(order, encoding, rows, names, tuple(kinds), formats, label_sets, widths, data, labels)


def _new_kind(code: int) -> str | int | None:
    if code == _LONG_TEXT:
        return None
    if code in _NEW_KINDS:
        return _NEW_KINDS[code]
    if not 1 <= code <= 2045:
        raise ValueError(f"no type {code}")
    return code


def _width(kind: str | int | None) -> int:
    """Bytes of a cell; a text that is kept apart has 8 to say where."""
    return int(kind[1:]) if isinstance(kind, str) else 8 if kind is None else kind


def _label_set(cursor: _Cursor, name: int, encoding: str) -> tuple[str, dict[int, str]]:
    cursor.number("i")
    (named,) = cursor.texts(name, 1, encoding)
    cursor.take(3)
    count, size = cursor.number("i"), cursor.number("i")
    starts, values = cursor.numbers("i", count), cursor.numbers("i", count)
    text = cursor.take(size)
    if any(not 0 <= start < max(size, 1) for start in starts):
        raise ValueError("a label begins outside its text")
    said = ((value, _text(text[start:], encoding)) for value, start in zip(values, starts, strict=True))
    return named, {value: word for value, word in said if word}
