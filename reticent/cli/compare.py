"""`reticent compare`: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths
from reticent.core.errors import InvalidArgument

EPILOG = "Example:  reticent compare runs/patients runs/others"


def run(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN...", help="Folders that train wrote.", show_default=False),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Compare runs: requests, epsilon, scores, attacks, warnings.

    Scores are unreleased, and each run has its own held-out rows. Attacks and
    audits are found in the folders of the runs.
    """
    if not folders or len(folders) < 2:
        raise InvalidArgument("A comparison needs two runs or more.", remedy="Name their folders.")
    if len({each.resolve() for each in folders}) < len(folders):
        raise InvalidArgument("A folder is named twice.", remedy="Name different runs.")
    from reticent.report.facts.comparison import compare_runs, comparison_rows

    for folder in folders:
        paths.require_folder(folder)
    runs = compare_runs(folders)
    if as_json:
        output.print_json([each.to_json() for each in runs])
        return
    headings = {"": "left"} | {_heading(each.folder, folders): "left" for each in runs}
    output.print_table("Runs side by side", headings, comparison_rows(runs))
    for each in runs:
        for warning in each.warnings:
            output.warn(f"{each.folder}: {warning}")
    output.note(
        "Scores are unreleased. Anyone who sees several runs on the same data learns from all of them: their "
        "costs add up, and a ledger counts them."
    )


def _heading(folder: Path, others: list[Path]) -> str:
    """The name of a folder, or its whole path where two have the same name."""
    is_only = [each.name for each in others].count(folder.name) == 1
    return folder.name if is_only else str(folder)
