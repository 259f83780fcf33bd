"""`reticent report`: what was trained, what it promises, what attacks found, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths
from reticent.core.errors import DataError

EPILOG = "Example:  reticent report runs/patients -o patients.html"


def run(
    folder: Annotated[Path, typer.Argument(help="A run: what train wrote.", show_default=False)],
    write: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page.", show_default="report.html in the run's folder"),
    ] = None,
    attacks: Annotated[
        Path | None,
        typer.Option(help="What attack -o wrote.", show_default="attacks in the run's folder"),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(help="What audit -o wrote.", show_default="audit.json in the run's folder"),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Write a report on a run, for whoever has to sign for it.

    One HTML file that needs no network, with the promise in plain words
    first, then the evidence, then the full record; and the same facts as
    report.json beside it. Numbers on held-out rows and of attacks are
    unreleased: the report is for whoever holds the data.
    """
    from reticent.report.from_run import facts_of
    from reticent.report.render.html import page
    from reticent.report.render.terminal import print_facts
    from reticent.training.checkpoint import write_whole

    goal = folder / "report.html" if write is None else write
    paths.require_folder(folder)
    if write is not None:
        paths.require_place(goal)
    _require_ours(goal)
    facts = facts_of(folder, attacks=attacks, audit=audit)
    known = facts.to_json()
    write_whole(goal, page(facts).encode())
    write_whole(goal.with_suffix(".json"), (json.dumps(known, indent=2, allow_nan=False) + "\n").encode())
    if as_json:
        output.print_json({"page": str(goal), "facts": known})
        return
    from rich.console import Console

    print_facts(facts, Console())
    output.note(f"Wrote {goal} and {goal.with_suffix('.json').name}.")


def _require_ours(goal: Path) -> None:
    """Refuses to replace a file that is no report, be it the page or the facts beside it."""
    from reticent.report.from_run import is_report

    facts = goal.with_suffix(".json")
    if facts == goal:
        raise DataError(
            f"{goal} cannot be the page: the facts are written there.",
            remedy=f"Name it {goal.with_suffix('.html')}; both are written.",
        )
    for path in (goal, facts):
        if path.exists() and not is_report(path):
            raise DataError(
                f"{path} exists already, and is no report.",
                remedy=f"Choose another -o: the page and a {facts.suffix} beside it are written.",
            )
