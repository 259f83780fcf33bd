"""`reticent trust`: shows the files outside of a run's folder that it names, and allows opening them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths

EPILOG = "Example:  reticent trust runs/patients"


def run(
    folder: Annotated[Path, typer.Argument(help="A run that somebody else made.", show_default=False)],
    as_json: output.AsJson = False,
) -> None:
    """Allow somebody else's run to open the data that it names.

    Any run can be shown, reported on and predicted with. To resume, attack or
    audit it, files that it names are opened, and a stranger may have put any
    name there. Those of your own runs are trusted already.
    """
    from reticent.runs.folder import read_record
    from reticent.runs.origin import mark_as_own

    paths.require_folder(folder)
    record = read_record(folder)
    asked = record.request.to_json()
    names = {name: asked[name] for name in ("source", "domain", "public", "ledger") if asked.get(name)}
    mark_as_own(folder, record)
    if as_json:
        output.print_json({"folder": str(folder), "names": names})
        return
    output.print_table(f"{folder} may open", {"": "left", " ": "left"}, [*map(_row, names.items())])


def _row(named: tuple[str, object]) -> tuple[str, str]:
    return named[0], str(named[1])
