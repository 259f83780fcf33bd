"""`reticent export`: what of a run may leave the house."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import options, output, paths
from reticent.core.errors import InvalidArgument

EPILOG = "Example:  reticent export runs/patients -o release"


def run(
    folder: options.RunFolder,
    write: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new folder for the release.", show_default=False)
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Write what of a run may be published into a folder.

    That is the model or generator, the domain, the guarantee and a model
    card. Scores on held-out rows, votes, seeds, and the folders of your files
    stay behind: no guarantee covers them.
    """
    if write is None:
        raise InvalidArgument("Where to?", remedy="Name a new folder: -o release.")
    from reticent.runs.export import export

    paths.require_folder(folder)
    paths.require_new_folder(write)
    record = export(folder, write)
    names = sorted(path.name for path in write.iterdir())
    if as_json:
        output.print_json({"folder": str(write), "files": names, "sentence": str(record.result.guarantee)})
        return
    output.note(f"Wrote {', '.join(names)} to {write}.")
    output.print_text(str(record.result.guarantee))
