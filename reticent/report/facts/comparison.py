"""Runs side by side: what was asked for, what it costs, how good each is, and what attacks found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reticent.core.postgres import name_of_place
from reticent.report.facts import attacks as attack_facts
from reticent.report.facts import results
from reticent.report.facts.facts import bound_from_above
from reticent.report.facts.scores import score_lines
from reticent.runs import folder as folders
from reticent.runs.private_part import ATTACK, AUDIT
from reticent.runs.record import RunRecord


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run of a comparison.

    Args:
        facts: by name, as they are printed; unfinished runs have fewer.
        values: the same facts for machines.
    """

    folder: Path
    facts: dict[str, str]
    values: dict[str, Any]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"folder": str(self.folder), **self.values, "warnings": list(self.warnings)}


def compare_runs(folder_names: Sequence[Path]) -> list[ComparedRun]:
    """Reads runs, finished or not, with the attacks and audits in their folders.

    Raises:
        DataError: a folder holds no run. IntegrityError: something in it is damaged.
    """
    return [_read_run(folder) for folder in folder_names]


def comparison_rows(runs: Sequence[ComparedRun]) -> list[tuple[str, ...]]:
    """One row per fact and one column per run; `-` where a run does not have it."""
    names = dict.fromkeys(name for run in runs for name in run.facts)
    return [(name, *(run.facts.get(name, "-") for run in runs)) for name in names]


def _read_run(folder: Path) -> ComparedRun:
    record = folders.read_record(folder)
    request, preparation = record.request, record.preparation
    facts = {
        "data": name_of_place(request.source),
        "rows": folders.rows_in_words(record),
        "target": request.target or "the class",
        "method": f"{record.recipe.method}: {record.recipe.in_words}",
        "epsilon asked for": f"{request.epsilon:g}",
        "delta": f"{request.delta:g}",
    }
    values: dict[str, Any] = {
        "request": request.to_json(),
        "method": record.recipe.method,
        "state": record.state,
        "preparation_epsilon": None if preparation is None else preparation.epsilon,
    }
    if record.recipe.why:
        facts["chosen"] = record.recipe.why
    if preparation is not None:
        facts["epsilon of the preparation"] = bound_from_above("", preparation.epsilon, digits=3).shown
    if record.outcome is None:
        return ComparedRun(folder=folder, facts=facts | {"state": record.state}, values=values, warnings=())
    result = record.outcome
    facts["model"] = result.model.name
    facts["epsilon promised"] = bound_from_above("", result.guarantee.epsilon).shown
    values |= {
        "model": result.model.name,
        "guarantee": result.guarantee.to_json(),
        "scores": dict(result.metrics),
        "seconds": result.seconds,
    }
    if result.scores is not None:
        for line in score_lines(result.scores):
            facts[line.name] = line.shown
    _add_attacks(folder, record, facts, values)
    facts["seconds"] = f"{result.seconds:.0f}"
    return ComparedRun(folder=folder, facts=facts, values=values, warnings=result.warnings)


def _add_attacks(folder: Path, record: RunRecord, facts: dict[str, str], values: dict[str, Any]) -> None:
    """What attacks and an audit found, where there were any."""
    if record.is_generator:
        return
    strongest = attack_facts.strongest_value(
        attack_facts.played_attacks(_read(folder, ATTACK, results.read_attacks))
    )
    if strongest is not None:
        facts[strongest.name] = strongest.shown
        values["strongest_attack"] = {
            "name": strongest.name,
            "value": strongest.value,
            "note": strongest.note,
        }
    audited = _read(folder, AUDIT, results.read_audit)
    if audited is not None:
        facts["audit"] = audited["verdict"]["outcome"]
        values["audit"] = {"outcome": facts["audit"], "epsilon_at_least": audited["verdict"]["bound"]}


def _read(
    folder: Path, name: str, read: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """Reads and checks what an attack or an audit wrote; None if there is no such file."""
    found = results.find(folder, name)
    return None if found is None else results.check(*found, read)
