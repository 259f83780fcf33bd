"""`reticent export`: the parts of a run that may be published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from reticent.cli import options, output, paths
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.runs.portable import PortableForm

EPILOG = "Example:  reticent export runs/patients -o release"


def run(
    folder: options.RunFolder,
    write: Annotated[
        Path | None, typer.Option("-o", "--output", help="A new folder for the release.", show_default=False)
    ] = None,
    forms: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help="For programs without reticent: onnx or sklearn. May be repeated.",
            show_default="reticent's own",
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Write the publishable parts of a run to a folder.

    That is the model or generator, the domain, the guarantee and a model
    card. Scores on held-out rows, votes, seeds, and the folders of your files
    stay behind: no guarantee covers them.

    --format onnx adds model.onnx, from encoded features to predictions.
    --format sklearn adds an estimator in one Python file, with its arrays.
    In both, encoding.json says how rows become features. No file is a pickle.
    """
    if write is None:
        raise InvalidArgument("Where to?", remedy="Name a new folder: -o release.")
    from reticent.runs.export import export

    paths.require_folder(folder)
    paths.require_new_folder(write)
    record = export(folder, write, forms=_forms(forms or []))
    names = sorted(path.name for path in write.iterdir())
    if as_json:
        output.print_json({"folder": str(write), "files": names, "sentence": str(record.result.guarantee)})
        return
    output.note(f"Wrote {', '.join(names)} to {write}.")
    output.print_text(str(record.result.guarantee))


def _forms(names: list[str]) -> list[PortableForm]:
    from reticent.core import checks

    for name in names:
        checks.one_of(("onnx", "sklearn"), format=name)
    return cast("list[PortableForm]", names)
