"""The full record of a run: everything needed to check it or to repeat it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from reticent.core.errors import ReticentError
from reticent.mechanisms import events
from reticent.report.facts.facts import Section, Value, ValueKind, setting
from reticent.runs import folder as folders
from reticent.runs.origin import is_own
from reticent.runs.record import Requested, RunRecord

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
    "sampling",
    "noise",
    "bands",
    "buffers",
)
_DEFAULTS = {
    "method": "auto",
    "model": "auto",
    "prepare": "private",
    "test": 0.2,
    "noise": "independent",
    "sampling": "poisson",
}


def sections(folder: Path, record: RunRecord) -> list[Section]:
    return [_assumptions(record), _record(folder, record)]


def _assumptions(record: RunRecord) -> Section:
    said = record.result.guarantee.assumptions
    values = [
        Value(name=f"assumption {place}", value=line, kind=ValueKind.ASSUMPTION, shown=line)
        for place, line in enumerate(said, 1)
    ]
    return Section(
        id="assumptions",
        title="What the promise assumes",
        text=("The proof is about the program as it was run. These are outside it:",)
        if values
        else ("Nothing beyond the proof was assumed.",),
        values=tuple(values),
    )


def _record(folder: Path, record: RunRecord) -> Section:
    code = [
        ("Commands to repeat it", repeat_commands(record, folder)),
        ("The event: what was released", _format_json(events.to_json(record.event))),
    ]
    code.append(("The recipe", _format_json(record.recipe.to_json())))
    if (domain := folders.domain_text(folder)) is not None:
        code.append(("The domain: what is public about the table", domain))
    if is_own(folder, record) and (entries := _ledger(record.request)):
        code.append(("Ledger entries", entries))
    code.append(("The whole record", _format_json(record.to_json())))
    versions = [setting(f"version of {name}", str(value)) for name, value in record.versions.items()]
    digest = setting("digest of the model", record.result.model.digest[:32], note="sha256, first half")
    return Section(
        id="record",
        title="The full record",
        text=(f"Run number {record.number}, in {folder}.",),
        values=(*versions, digest, setting("parameters", str(record.result.model.name))),
        code=tuple(code),
    )


def repeat_commands(record: RunRecord, folder: Path) -> str:
    """The commands that repeat a run, attack it and audit it; fresh noise is drawn, so numbers differ."""
    asked = record.request.to_json()
    words = ["reticent", "train", record.request.source]
    for name in _OPTIONS:
        value = asked.get(name)
        if value is not None and value != _DEFAULTS.get(name):
            words += [f"--{name}", f"{value:g}" if isinstance(value, float) else str(value)]
    for name, weight in (asked.get("class_weights") or {}).items():
        words += ["--class-weight", f"{name}={weight:g}"]
    layout = record.request.layout
    if "delimiter" in layout:
        words += ["--delimiter", "tab" if layout["delimiter"] == "\t" else layout["delimiter"]]
    if "header" in layout:
        words.append("--header" if layout["header"] else "--no-header")
    if "encoding" in layout:
        words += ["--encoding", layout["encoding"]]
    for name in ("query", "table"):
        if name in layout:
            words += [f"--{name}", str(layout[name])]
    goal = f"{folder.name}-again"
    lines = [
        shlex.join([*words, "-o", goal]),
        shlex.join(["reticent", "attack", goal]),
        shlex.join(["reticent", "audit", goal]),
        shlex.join(["reticent", "report", goal]),
    ]
    return "\n".join(lines)


def _ledger(request: Requested) -> str:
    if not request.ledger:
        return ""
    from reticent.ledger.ledger import Ledger

    try:
        with Ledger.open(request.ledger) as ledger:
            entries = ledger.entries(request.dataset)
    except ReticentError as error:
        return f"The ledger cannot be read: {error.happened}"
    return "\n".join(json.dumps(entry.to_json()) for entry in entries)


def _format_json(value: Any) -> str:
    return json.dumps(value, indent=2)
