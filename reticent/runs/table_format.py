"""How the table of a run is written: what a synthetic table needs to look like its original."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reticent.data.files import Table
from reticent.runs.json_values import or_none, text, texts

_START = 16  # bytes


@dataclass(frozen=True, kw_only=True)
class TableFormat:
    """How a table is written, for the synthetic one that is to look like it. Nothing about its cells.

    Args:
        decimal, thousands: the signs in its numbers.
        quote: the sign around cells, if there is one.
        has_quoted_names: it stands around the names of columns, and so, one may expect, around all words.
        format: csv, or what else the file is.
    """

    names: tuple[str, ...]
    delimiter: str | None
    header: bool | None
    decimal: str
    thousands: str = ""
    quote: str | None = None
    has_quoted_names: bool = False
    encoding: str | None = None
    compression: str | None = None
    format: str = "csv"

    @classmethod
    def of_table(cls, table: Table) -> TableFormat:
        found = table.dialect
        return cls(
            names=tuple(table.names),
            delimiter=found.delimiter,
            header=found.has_header,
            decimal=found.decimal,
            thousands=found.thousands,
            quote=found.quote,
            has_quoted_names=_begins_with(table, found.quote) if found.has_header else False,
            encoding=found.encoding,
            compression=found.compression,
            format=found.format,
        )

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableFormat:
        """The format that a record keeps; each field is checked."""
        header = value["header"]
        if header is not None and not isinstance(header, bool):
            raise TypeError(f"{header!r} is not true, false or null")
        delimiter, quote = or_none(text, value["delimiter"]), or_none(text, value.get("quote"))
        for sign in (delimiter, quote):
            if sign is not None and (len(sign) != 1 or sign in "\r\n"):
                raise ValueError(f"{sign!r} does not stand between or around cells")
        return cls(
            names=texts(value["names"]),
            delimiter=delimiter,
            header=header,
            decimal=text(value["decimal"]),
            thousands=text(value.get("thousands", "")),
            quote=quote,
            has_quoted_names=value.get("has_quoted_names", False) is True,
            encoding=or_none(text, value.get("encoding")),
            compression=or_none(text, value.get("compression")),
            format=text(value.get("format", "csv")),
        )


def _begins_with(table: Table, sign: str | None) -> bool:
    """Whether a plain text file begins with this sign: its header is public, and nothing else is read."""
    found = table.dialect
    if sign is None or found.compression or found.title_lines:
        return False
    try:
        with open(table.path, "rb") as file:
            start = file.read(_START).decode(found.encoding or "utf-8", errors="ignore")
    except (OSError, LookupError):
        return False
    return start.lstrip("\ufeff ").startswith(sign)
