"""`reticent audit`: an honest attempt to contradict a claimed epsilon."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import output, paths
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.audit import Arithmetic, Audit

EPILOG = "Example:  reticent audit runs/patients"


def run(
    folder: Annotated[
        Path | None, typer.Argument(help="A run: what train wrote.", show_default=False)
    ] = None,
    train_like: Annotated[
        Path | None, typer.Option(help="The same, by name: train like this run.", show_default=False)
    ] = None,
    canaries: Annotated[
        str, typer.Option(help="How many made-up records join by a coin; auto: from the plan.")
    ] = "auto",
    arithmetic: Annotated[
        bool, typer.Option("--arithmetic", help="Audit the arithmetic of one step instead, to the last bit.")
    ] = False,
    confidence: Annotated[float, typer.Option(help="With which a contradiction is right.")] = 0.95,
    write: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="A new JSON file for the numbers.", show_default=False),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Audit a run, by training like it once more with canaries.

    Made-up records join the training set by independent coins; whoever sees
    the noisy steps guesses which. Too many right guesses contradict the
    claimed epsilon: then the exit code is 1. The data are read again, and
    the result is for whoever holds them.

    With --arithmetic nothing is trained: one step is replayed for two
    neighbours, under records that cancel, overflow or are not numbers.
    """
    from reticent.audit.from_run import arithmetic_like, audit_like
    from reticent.core.observer import Onlooker
    from reticent.runs.reopen import reopened
    from reticent.training.checkpoint import write_whole

    chosen, count = _one_run(folder, train_like), _count(canaries, is_joined=not arithmetic)
    paths.require_folder(chosen)
    if write is not None:
        paths.require_new(write)
    onlooker = Onlooker(say=output.note, warn=output.warn, watch=output.watch)
    again = reopened(chosen, onlooker=onlooker)
    if arithmetic:
        bits = arithmetic_like(again, confidence=confidence)
        told, code, show = bits.to_json(), bits.exit_code, partial(_show_arithmetic, bits)
    else:
        found = audit_like(again, canaries=count, confidence=confidence)
        told, code, show = found.to_json(), found.verdict.exit_code, partial(_show, found, again.record)
    if write is not None:
        write_whole(write, (json.dumps(told, indent=2, allow_nan=False) + "\n").encode())
        output.note(f"Wrote {write}.")
    output.print_json(told) if as_json else show()
    raise typer.Exit(code)


def _one_run(folder: Path | None, train_like: Path | None) -> Path:
    chosen = folder or train_like
    if chosen is None or (folder and train_like):
        raise InvalidArgument(
            "Audit one run.", remedy="Pass its folder once: reticent audit RUN, or --train-like RUN."
        )
    return chosen


def _count(canaries: str, *, is_joined: bool) -> int | None:
    """How many canaries were asked for; None for as many as the plan needs."""
    if canaries == "auto":
        return None
    if not is_joined:
        raise InvalidArgument(
            "No canary joins the step that --arithmetic replays.",
            remedy="Leave out --canaries, or --arithmetic.",
        )
    if not canaries.isdecimal():
        raise InvalidArgument(f"--canaries {canaries} is no number.", remedy="Write a whole number, or auto.")
    if int(canaries) == 0:
        raise InvalidArgument(
            "--canaries 0 leaves nobody to guess.", remedy="Write a whole number from 1 on, or auto."
        )
    return int(canaries)


def _show(found: Audit, record: dict[str, Any]) -> None:
    from reticent.report.facts.attacks import not_audited

    output.print_text(" ".join([str(found.verdict), *not_audited(record)]))
    rows = [(each.threat, each.kind.value, f"{each.epsilon:.2f}", each.method) for each in found.evidence]
    print()
    headings = {"who looks": "left", "kind": "left", "epsilon": "right", "method": "left"}
    output.print_table("Evidence", headings, rows)


def _show_arithmetic(found: Arithmetic) -> None:
    output.print_text(found.sentence)
    rows = [(each.check, each.outcome.value, f"{each.what}.") for each in found.findings]
    print()
    output.print_table("Findings", {"look": "left", "outcome": "left", "what was seen": "left"}, rows)
