"""A domain as a TOML file.

    version = 1
    format = "CSV, separated by comma, with a header, utf-8"
    target = "income"
    missing_markers = ["", "?"]
    ignore_case = true              # YES is read as yes

    [columns.age]
    kind = "integer"                # number | integer | date | category | label | features | ignored
    bounds = [17, 90]
    missing = false
    looked_up = ["bounds", "missing"]  # not yet public: confirm or pay for it

    [columns.income]
    kind = "label"
    values = ["<=50K", ">50K"]

To declare a value public, remove it from `looked_up`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from reticent.core.errors import DomainError, suggest
from reticent.data.dates import day_number, day_of, parse_day
from reticent.data.kinds import KINDS, Column, Featured, Ignored, Integer, Number, quote

VERSION = 1
LARGEST = 1 << 23  # characters: some 80,000 columns
NOT_PUBLIC = "not yet public: confirm or pay for it"

_KEYS = ("version", "format", "target", "missing_markers", "ignore_case", "columns")
_DEEPEST = 4  # parts of a key: columns.age.bounds has three, and the reader takes the square of their number
_LARGEST_NUMBER = 10**4000  # Python writes no number of more than 4300 digits
_TEXTS = re.compile(  # and comments; each alternative ends, so that no character is looked at twice
    r'"{3}(?:[^"\\]|\\.?|"(?!""))*+(?:"{3,5}|\Z)'
    r"|'{3}(?:[^']|'(?!''))*+(?:'{3,5}|\Z)"
    r'|"(?:[^"\\\n]|\\[^\n]?)*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_DEEP_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{_DEEPEST}}}")
_WHAT = {str: "text in quotes", bool: "true or false", list: "a list in [ ]", dict: "a table"}


class DomainFile(NamedTuple):
    """What a TOML document says."""

    columns: dict[str, Column]
    target: str | None
    missing_markers: tuple[str, ...] | None
    format: str | None
    ignore_case: bool


def parse(text: str, *, source: str) -> DomainFile:
    """What a TOML document says about a table.

    Raises:
        DomainError: no TOML, an unknown key or a value of the wrong type, with file, column and key.
    """
    document = _document(text, source)
    _refuse_unknown(document, _KEYS, where=source)
    if document.get("version") != VERSION or isinstance(document["version"], bool):
        raise DomainError(
            f"{source}, key 'version': {quote(document.get('version'))} is not a version of a domain file "
            "that can be read here.",
            remedy=f"Write version = {VERSION}.",
        )
    target = _value_of_type(document, "target", str, where=source)
    markers = _texts(document, "missing_markers", where=source)
    columns = _value_of_type(document, "columns", dict, where=source) or {}
    read = {name: _column(entry, source, name) for name, entry in columns.items()}
    written = _value_of_type(document, "format", str, where=source)
    ignore_case = bool(_value_of_type(document, "ignore_case", bool, where=source))
    return DomainFile(read, target, markers, written, ignore_case)


def _document(text: str, source: str) -> dict[str, Any]:
    """What a TOML document holds that a stranger may have written.

    Raises:
        DomainError: it is not valid, is larger than a domain can be, has a key of many parts, or a whole
            number of more than 4000 digits.
    """
    if len(text) > LARGEST:
        raise DomainError(
            f"{source} is not a domain: it has more than {LARGEST:,} characters.",
            remedy="Name a domain file.",
        )
    if _DEEP_KEY.search(_TEXTS.sub("a", text)):
        raise DomainError(
            f"{source} is not a domain: a key in it has more than {_DEEPEST} parts.",
            remedy="Write each column as [columns.NAME]; a name with dots goes in quotes.",
        )
    try:
        document = tomllib.loads(text)
        _require_plain_numbers(document)
    except tomllib.TOMLDecodeError as error:
        said = str(error).rstrip(".")
    except RecursionError:
        said = "nested too deep"
    except ValueError:  # of more digits than Python reads, or ours
        said = "a whole number in it has more than 4000 digits"
    else:
        return document
    raise DomainError(f"{source} is not valid TOML: {said}.", remedy="Correct that line.")


def _require_plain_numbers(document: dict[str, Any]) -> None:
    """
    Raises:
        ValueError: a whole number has more than 4000 digits, as those in base 16 may.
    """
    waiting: list[Any] = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, int) and abs(value) > _LARGEST_NUMBER:
            raise ValueError("too large")


def render(
    columns: Mapping[str, Column],
    target: str | None,
    markers: tuple[str, ...],
    written: str | None = None,
    *,
    ignore_case: bool = False,
) -> str:
    """The TOML document that `parse` reads back to the same things."""
    import tomlkit

    document = tomlkit.document()
    document.add(
        tomlkit.comment("What is public about this table. Cells are read against it, never the reverse.")
    )
    document["version"] = VERSION
    if written is not None:
        document["format"] = written
    if target is not None:
        document["target"] = target
    document["missing_markers"] = list(markers)
    if ignore_case:
        document["ignore_case"] = True
    tables = tomlkit.table(is_super_table=True)
    for name, column in columns.items():
        tables[name] = _table(column)
    document["columns"] = tables
    return tomlkit.dumps(document)


def _table(column: Column):
    import tomlkit

    table = tomlkit.table()
    table["kind"] = "date" if _is_date(column) else column.kind
    for field in fields(column):
        value = getattr(column, field.name)
        if value is None or field.name in ("looked_up", "date"):
            continue
        if isinstance(column, Ignored) and not value:
            continue
        if getattr(column, "buckets", None) is not None and field.name in ("values", "other"):
            continue  # they follow from the number of buckets
        if field.name in ("lenient", "whole", "ordered", "parts") and not value:
            continue
        if _is_date(column) and field.name in ("bounds", "typical"):
            value = [day_of(bound) for bound in value] if field.name == "bounds" else day_of(value)
        elif field.name == "bounds":
            value = [int(bound) if isinstance(column, Integer) else float(bound) for bound in value]
        table[field.name] = _array(value) if isinstance(value, list | tuple) else value
    marks = sorted(getattr(column, "looked_up", ()))
    if marks:
        table["looked_up"] = tomlkit.item(marks).comment(NOT_PUBLIC)
    return table


def _array(values: Sequence[Any]):
    """All in one: tomlkit takes the square of their number to append them one by one."""
    import tomlkit
    from tomlkit.items import Array, Item, Trivia, Whitespace

    parts: list[Item] = [part for value in values for part in (tomlkit.item(value), Whitespace(", "))]
    return Array(parts[:-1], Trivia())


def _column(entry: Any, source: str, name: str) -> Column:
    where = f"{source}, column {quote(name)}"
    if not isinstance(entry, dict):
        raise DomainError(f"{where}: not a table.", remedy=f"Start it with [columns.{name!r}].")
    kind = _value_of_type(entry, "kind", str, where=where)
    if kind == "date":
        return _date_column(entry, where=where)
    if kind not in KINDS:
        said = "is missing" if kind is None else f"{quote(kind)} is not a kind of column"
        raise DomainError(f"{where}, key 'kind': {said}.", remedy=suggest(kind or "", [*KINDS, "date"]))
    found = _fields(entry, KINDS[kind], where=where)
    if kind == Featured.kind and (absent := {"model", "digest", "width"} - set(found)):
        raise DomainError(
            f"{where}: {', '.join(sorted(absent))} of the features are missing.",
            remedy="Leave the column out, and name the model with --features.",
        )
    return KINDS[kind](**found)


def _fields(entry: Mapping[str, Any], made: type[Column], *, where: str) -> dict[str, Any]:
    keys = [field.name for field in fields(made) if field.name != "date"]
    _refuse_unknown(entry, ["kind", *keys], where=where)
    return {key: _READERS[key](entry, key, where=where) for key in keys if key in entry}


def _date_column(entry: Mapping[str, Any], *, where: str) -> Column:
    """A column of dates: its days become the numbers that stand for them."""
    values = _fields(entry, Number, where=where)
    at = f"{where}, key 'bounds'"
    if "bounds" in values:
        values["bounds"] = tuple(day_number(parse_day(day, where=at)) for day in values["bounds"])
    if "typical" in values:
        values["typical"] = day_number(parse_day(values["typical"], where=f"{where}, key 'typical'"))
    return Number(**values, date=True)


def _is_date(column: Column) -> bool:
    return isinstance(column, Number) and column.date


def _value_of_type(entry: Mapping[str, Any], key: str, wanted: type, *, where: str) -> Any:
    value = entry.get(key)
    if value is not None and not isinstance(value, wanted):
        raise DomainError(
            f"{where}, key '{key}': {quote(value)} is not {_WHAT[wanted]}.", remedy="Correct it."
        )
    return value


def _flag(entry: Mapping[str, Any], key: str, *, where: str) -> bool:
    return _value_of_type(entry, key, bool, where=where)


def _text(entry: Mapping[str, Any], key: str, *, where: str) -> str:
    return _value_of_type(entry, key, str, where=where)


def _texts(entry: Mapping[str, Any], key: str, *, where: str) -> tuple[str, ...] | None:
    values = _value_of_type(entry, key, list, where=where)
    for value in values or ():
        if not isinstance(value, str):
            raise DomainError(
                f"{where}, key '{key}': {quote(value)} is not text.",
                remedy=f'Write it in quotes: "{value}".'
                if isinstance(value, (int, float))
                else "Write words.",
            )
    return None if values is None else tuple(values)


def _marks(entry: Mapping[str, Any], key: str, *, where: str) -> frozenset[str]:
    return frozenset(_texts(entry, key, where=where) or ())


def _pair(entry: Mapping[str, Any], key: str, *, where: str) -> tuple[Any, ...]:
    return tuple(_value_of_type(entry, key, list, where=where))  # the column itself checks that it is a pair


def _number(entry: Mapping[str, Any], key: str, *, where: str) -> Any:
    return entry[key]  # the column itself checks that it is one


_READERS = {
    "bounds": _pair,
    "values": _texts,
    "other": _flag,
    "missing": _flag,
    "lenient": _flag,
    "whole": _flag,
    "ordered": _flag,
    "parts": _texts,
    "typical": _number,
    "prior": _pair,
    "looked_up": _marks,
    "reason": _text,
    "model": _text,
    "digest": _text,
    "width": _number,
    "buckets": _number,
}


def _refuse_unknown(entry: Mapping[str, Any], known: list[str] | tuple[str, ...], *, where: str) -> None:
    for key in entry:
        if key not in known:
            raise DomainError(f"{where}: the key {quote(key)} is not known.", remedy=suggest(key, known))
