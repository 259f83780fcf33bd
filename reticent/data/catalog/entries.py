"""The table of named datasets, read from `entries.toml` beside this file."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from reticent.data.catalog.entry import Entry, File, Form, Rows


@cache
def by_name() -> dict[str, Entry]:
    """Every dataset of the catalog by its name, in the order of the table."""
    table = resources.files("reticent.data.catalog").joinpath("entries.toml").read_text(encoding="utf-8")
    return {name: _entry(name, row) for name, row in tomllib.loads(table).items()}


def _entry(name: str, row: dict[str, Any]) -> Entry:
    forms = tuple(_form(form) for form in row.pop("forms"))
    return Entry(name=name, shape=tuple(row.pop("shape", ())), forms=forms, **row)


def _form(row: dict[str, Any]) -> Form:
    mirrors = row.get("mirrors", [])
    files = tuple(_file(file, mirrors) for file in row.get("files", []))
    return Form(reader=row["reader"], rows=Rows(*row["rows"]), files=files)


def _file(row: dict[str, Any], mirrors: list[str]) -> File:
    urls = [row["url"]] if "url" in row else [f"{mirror}/{row['name']}" for mirror in mirrors]
    return File(name=row["name"], size=row["size"], sha256=row["sha256"], urls=tuple(urls))
