"""`reticent audit`: an honest attempt to contradict a claimed epsilon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, places
from reticent.core.errors import InvalidArgument

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
    """
    from reticent.audit.of_run import audit_like
    from reticent.report.attack_facts import not_audited
    from reticent.runs.again import reopened
    from reticent.runs.onlooker import Onlooker
    from reticent.training.checkpoint import write_whole

    chosen = folder or train_like
    if chosen is None or (folder and train_like):
        raise InvalidArgument(
            "Audit one run.", remedy="Pass its folder once: reticent audit RUN, or --train-like RUN."
        )
    if canaries != "auto" and not canaries.isdecimal():
        raise InvalidArgument(f"--canaries {canaries} is no number.", remedy="Write a whole number, or auto.")
    count = None if canaries == "auto" else int(canaries)
    if count == 0:
        raise InvalidArgument(
            "--canaries 0 leaves nobody to guess.", remedy="Write a whole number from 1 on, or auto."
        )
    places.require_folder(chosen)
    if write is not None:
        places.require_new(write)
    onlooker = Onlooker(say=output.note, warn=output.warn, watch=output.watch)
    again = reopened(chosen, onlooker=onlooker)
    found = audit_like(again, canaries=count, confidence=confidence)
    if write is not None:
        write_whole(write, (json.dumps(found.to_json(), indent=2, allow_nan=False) + "\n").encode())
        output.note(f"Wrote {write}.")
    if as_json:
        output.print_json(found.to_json())
    else:
        output.print_text(" ".join([str(found.verdict), *not_audited(again.record)]))
        rows = [(each.threat, each.kind.value, f"{each.epsilon:.2f}", each.method) for each in found.evidence]
        headings = {"who looks": "left", "kind": "left", "epsilon": "right", "method": "left"}
        print()
        output.print_table("Evidence", headings, rows)
    raise typer.Exit(found.verdict.exit_code)
