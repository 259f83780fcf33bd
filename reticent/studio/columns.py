"""What is public about a table, what has to be paid for, and what that would cost.

A table is opened for the names of its columns and the number of its rows, which are public, and for nothing
else: no cell of it is shown before it is paid for. Prices are computed with stand-ins for what a run would
read off the target.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reticent.core.errors import InvalidArgument
from reticent.data import catalog
from reticent.data.domain import Domain
from reticent.data.files import open_table
from reticent.data.kinds import Category, Column, Ignored, Label, Number, identifiers_among
from reticent.report.facts.facts import bound_from_above
from reticent.studio.workspace import Workspace

FormFields = Mapping[str, str]
MOST_COLUMNS = 300  # on a page; a domain file has no such limit
_STAND_INS = ("a", "b")  # classes, where a run would read them off the table


@dataclass(frozen=True)
class PublicTable:
    """What is public about a table.

    Args:
        unsupported: columns that hold neither text nor numbers, and the type that they have instead.
        identifiers: columns that are identifiers by their names.
        format: how the file is written, in words.
    """

    source: str
    names: tuple[str, ...]
    rows: int
    unsupported: Mapping[str, str]
    identifiers: frozenset[str]
    format: str


def look_at(name: str, workspace: Workspace) -> PublicTable:
    """
    Raises:
        DataError: there is no such table, or it cannot be read.
    """
    table = open_table(str(workspace.find(name)))
    return PublicTable(
        source=name,
        names=table.names,
        rows=table.row_count,
        unsupported=table.unsupported,
        identifiers=frozenset(identifiers_among(table.names, None)),
        format=table.dialect.describe_format(),
    )


def declared_columns(fields: FormFields) -> dict[str, Column]:
    """The columns about which a form says something, by name.

    Raises:
        InvalidArgument: bounds are not two numbers, or there are no words.
    """
    try:
        said = json.loads(fields.get("columns") or "{}")
        return {str(name): column for name, each in said.items() if (column := _declared(str(name), each))}
    except (ValueError, AttributeError, TypeError):
        raise InvalidArgument("This is not a form of the studio.", remedy="Reload the page.") from None


def _declared(name: str, said: Mapping[str, str]) -> Column | None:
    match said.get("kind"):
        case "number":
            return Number(bounds=_bounds(name, said), missing=True, lenient=True)
        case "words":
            values = tuple(word.strip() for word in said.get("values", "").split(",") if word.strip())
            if not values:
                raise InvalidArgument(
                    f"The words of '{name}' are missing.", remedy="Write them, as in no,yes."
                )
            return Category(values=values, missing=True)
        case "out":
            return Ignored(reason="left out")
    return None


def _bounds(name: str, said: Mapping[str, str]) -> tuple[float, float]:
    try:
        low, high = float(said.get("low", "")), float(said.get("high", ""))
    except ValueError:
        raise InvalidArgument(
            f"The bounds of '{name}' are not two numbers.", remedy="Write both, or let them be found."
        ) from None
    if not low < high:
        raise InvalidArgument(
            f"The bounds of '{name}' are {low:g} and {high:g}.", remedy="Write the smaller one first."
        )
    return low, high


def needs_file(columns: Mapping[str, Column]) -> bool:
    """Whether options of a command cannot say it: bounds they can, words and columns left out they cannot."""
    return any(not isinstance(column, Number) or "," in name for name, column in columns.items())


def domain_of(fields: FormFields, workspace: Workspace) -> Domain | None:
    """What a form declares, beside the file that it names; None if it declares nothing."""
    columns = declared_columns(fields)
    known: dict[str, Column] = {}
    if file := fields.get("domain"):
        known = dict(Domain.read(workspace.find(file)).columns)
    elif columns:
        names = open_table(str(workspace.find(fields.get("source", "")))).names
        known = {name: Ignored(looked_up=frozenset({"kind"})) for name in names}
    columns.pop(fields.get("target", ""), None)
    return Domain(columns={**known, **columns}, ignore_case=True) if known else None


def price(fields: FormFields, workspace: Workspace) -> dict[str, Any]:
    """What a training would cost, part by part, and how it would go about it.

    Raises:
        ReticentError: what the run itself would refuse before it pays.
    """
    from reticent.runs.dry_run import dry_run
    from reticent.runs.request import Request

    source = fields.get("source", "")
    asked: dict[str, Any] = {
        "epsilon": _number(fields, "epsilon"),
        "delta": _number(fields, "delta") if fields.get("delta") else None,
        "method": fields.get("method") or "auto",
        "model": fields.get("model") or "auto",
    }
    if source in catalog.names():
        return _said(dry_run(Request(source=source, **asked)))
    asked |= {"source": str(workspace.find(source)), "target": fields.get("target") or None}
    asked["prepare"] = fields.get("prepare") or "private"
    if asked["target"] is None:
        raise InvalidArgument("No column is chosen to be predicted.", remedy="Tick one as the target.")
    with tempfile.TemporaryDirectory() as place:
        if asked["prepare"] == "private":
            file = Path(place) / "domain.toml"
            _with_target(fields, workspace).write(file)
            asked["domain"] = str(file)
            if fields.get("known") == "private" and fields.get("task") != "regress":
                asked["classes"] = "private"
        return _said(dry_run(Request(**asked)))


def _with_target(fields: FormFields, workspace: Workspace) -> Domain:
    """What is declared, with a stand-in for the target where a run would read that off the table."""
    target = fields["target"]
    known = domain_of(fields, workspace)
    if known is None:
        names = open_table(str(workspace.find(fields["source"]))).names
        known = Domain(columns={name: Ignored(looked_up=frozenset({"kind"})) for name in names})
    if fields.get("task") == "regress":
        column: Column = Number(bounds=(0.0, 1.0), lenient=True)
    elif fields.get("known") == "private":
        return known
    else:
        words = tuple(word.strip() for word in fields.get("classes", "").split(",") if word.strip())
        column = Label(
            values=words if fields.get("known") == "declared" and words else _STAND_INS, lenient=True
        )
    return replace(known, columns={**known.columns, target: column}, target=target)


def _said(found: Any) -> dict[str, Any]:
    """What a page shows of a dry run: nothing of it was read off a cell."""
    beforehand = None if found.preparation is None else found.preparation.epsilon
    return {
        "rows": found.rows,
        "records": found.records,
        "method": f"{found.method}: {found.in_words}",
        "model": f"{found.model}: {found.why}" if found.why else found.model,
        "epsilon": bound_from_above("", found.promise.epsilon).shown,
        "delta": f"{found.promise.delta:g}",
        "preparation": None if beforehand is None else bound_from_above("", beforehand, digits=3).shown,
        "found": list(found.found),
        "expected": found.expected,
    }


def _number(fields: FormFields, name: str) -> float:
    try:
        return float(fields.get(name, ""))
    except ValueError:
        raise InvalidArgument(
            f"{name.capitalize()} is not a number.", remedy="Write one, such as 1."
        ) from None
