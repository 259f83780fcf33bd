"""The full record of a run: everything needed to check it, or to do it again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from reticent.core.errors import ReticentError
from reticent.report.facts.facts import Kind, Section, Value, setting
from reticent.runs import folder as folders

_OPTIONS = (
    "target",
    "epsilon",
    "delta",
    "method",
    "model",
    "domain",
    "prepare",
    "test",
    "public",
    "teachers",
    "ledger",
    "dataset",
)
_DEFAULTS = {"method": "auto", "model": "auto", "prepare": "private", "test": 0.2}


def sections(folder: Path, record: dict[str, Any]) -> list[Section]:
    return [_assumptions(record), _record(folder, record)]


def _assumptions(record: dict[str, Any]) -> Section:
    said = record["guarantee"]["assumptions"]
    values = [
        Value(name=f"assumption {place}", value=line, kind=Kind.ASSUMPTION, shown=line)
        for place, line in enumerate(said, 1)
    ]
    return Section(
        id="assumptions",
        title="What the promise rests on",
        text=("The proof is about the program as it was run. These are outside it:",)
        if values
        else ("Nothing beyond the proof was assumed.",),
        values=tuple(values),
    )


def _record(folder: Path, record: dict[str, Any]) -> Section:
    code = [
        ("Commands to do it again", again(record, folder)),
        ("The event: what was released", _pretty(record["event"])),
    ]
    code.append(("The recipe", _pretty(record["recipe"])))
    path = folder / folders.DOMAIN
    if path.exists():
        code.append(("The domain: what is public about the table", path.read_text(encoding="utf-8")))
    if entries := _ledger(record["order"]):
        code.append(("Ledger entries", entries))
    code.append(("The whole record", _pretty(record)))
    versions = [setting(f"version of {name}", str(value)) for name, value in record["versions"].items()]
    digest = setting(
        "digest of the model", str(record["model"].get("digest", ""))[:32], note="sha256, first half"
    )
    return Section(
        id="record",
        title="The full record",
        text=(f"Run number {record['number']}, in {folder}.",),
        values=(*versions, digest, setting("parameters", str(record["model"]["name"]))),
        code=tuple(code),
    )


def again(record: dict[str, Any], folder: Path) -> str:
    """The commands that make such a run, attack and audit it: with other noise, so not the same numbers."""
    order = record["order"]
    words = ["reticent", "train", str(order["source"])]
    for name in _OPTIONS:
        value = order.get(name)
        if value is not None and value != _DEFAULTS.get(name):
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    layout = order.get("layout") or {}
    if "delimiter" in layout:
        words += ["--delimiter", "tab" if layout["delimiter"] == "\t" else layout["delimiter"]]
    if "header" in layout:
        words.append("--header" if layout["header"] else "--no-header")
    if "encoding" in layout:
        words += ["--encoding", layout["encoding"]]
    goal = f"{folder.name}-again"
    lines = [
        shlex.join([*words, "-o", goal]),
        shlex.join(["reticent", "attack", goal, "-o", f"{goal}/attacks"]),
        shlex.join(["reticent", "audit", goal, "-o", f"{goal}/audit.json"]),
        shlex.join(["reticent", "report", goal]),
    ]
    return "\n".join(lines)


def _ledger(order: dict[str, Any]) -> str:
    if not order["ledger"]:
        return ""
    from reticent.ledger.ledger import Ledger

    try:
        with Ledger.open(order["ledger"]) as ledger:
            entries = ledger.entries(order["dataset"])
    except ReticentError as error:
        return f"The ledger cannot be read now: {error.happened}"
    return "\n".join(json.dumps(entry.to_json()) for entry in entries)


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2)
