"""A domain as a TOML file.

    version = 1
    format = "CSV, separated by comma, with a header, utf-8"
    target = "income"
    missing_markers = ["", "?"]

    [columns.age]
    kind = "integer"                # number | integer | category | label | ignored
    bounds = [17, 90]
    missing = false
    looked_up = ["bounds", "missing"]  # not yet public: confirm or pay for it

    [columns.income]
    kind = "label"
    values = ["<=50K", ">50K"]

To declare a value public, remove it from `looked_up`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from reticent.core.errors import DomainError, suggest
from reticent.data.kinds import KINDS, Column, Ignored, Integer, quote

VERSION = 1
NOT_PUBLIC = "not yet public: confirm or pay for it"

_KEYS = ("version", "format", "target", "missing_markers", "columns")
_WHAT = {str: "text in quotes", bool: "true or false", list: "a list in [ ]", dict: "a table"}


class DomainFile(NamedTuple):
    """What a TOML document says."""

    columns: dict[str, Column]
    target: str | None
    missing_markers: tuple[str, ...] | None
    format: str | None


def parse(text: str, *, source: str) -> DomainFile:
    """The columns, the target, the missing markers and the format of a TOML document.

    Raises:
        DomainError: no TOML, an unknown key or a value of the wrong type, with file, column and key.
    """
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise DomainError(
            f"{source} is not valid TOML: {str(error).rstrip('.') or 'nested too deep'}.",
            remedy="Correct that line.",
        ) from None
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
    return DomainFile(read, target, markers, _value_of_type(document, "format", str, where=source))


def render(
    columns: Mapping[str, Column], target: str | None, markers: tuple[str, ...], written: str | None = None
) -> str:
    """The TOML document that `parse` reads back to the same four things."""
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
    tables = tomlkit.table(is_super_table=True)
    for name, column in columns.items():
        tables[name] = _table(column)
    document["columns"] = tables
    return tomlkit.dumps(document)


def _table(column: Column):
    import tomlkit

    table = tomlkit.table()
    table["kind"] = column.kind
    for field in fields(column):
        value = getattr(column, field.name)
        if value is None or field.name == "looked_up" or (isinstance(column, Ignored) and not value):
            continue
        if field.name in ("lenient", "whole") and not value:
            continue
        if field.name == "bounds":
            value = [int(bound) if isinstance(column, Integer) else float(bound) for bound in value]
        table[field.name] = list(value) if isinstance(value, tuple) else value
    marks = sorted(getattr(column, "looked_up", ()))
    if marks:
        table["looked_up"] = tomlkit.item(marks).comment(NOT_PUBLIC)
    return table


def _column(entry: Any, source: str, name: str) -> Column:
    where = f"{source}, column {quote(name)}"
    if not isinstance(entry, dict):
        raise DomainError(f"{where}: not a table.", remedy=f"Start it with [columns.{name!r}].")
    kind = _value_of_type(entry, "kind", str, where=where)
    if kind not in KINDS:
        said = "is missing" if kind is None else f"{quote(kind)} is not a kind of column"
        raise DomainError(f"{where}, key 'kind': {said}.", remedy=suggest(kind or "", KINDS))
    made = KINDS[kind]
    keys = [field.name for field in fields(made)]
    _refuse_unknown(entry, ["kind", *keys], where=where)
    values = {key: _READERS[key](entry, key, where=where) for key in keys if key in entry}
    return made(**values)


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


_READERS = {
    "bounds": _pair,
    "values": _texts,
    "other": _flag,
    "missing": _flag,
    "lenient": _flag,
    "whole": _flag,
    "looked_up": _marks,
    "reason": _text,
}


def _refuse_unknown(entry: Mapping[str, Any], known: list[str] | tuple[str, ...], *, where: str) -> None:
    for key in entry:
        if key not in known:
            raise DomainError(f"{where}: the key {quote(key)} is not known.", remedy=suggest(key, known))
