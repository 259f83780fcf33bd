"""`reticent sample`: text from a run that learned to continue text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths

EPILOG = 'Example:  reticent sample runs/plays --prompt "KING:" --characters 200'


def run(
    folder: Annotated[Path, typer.Argument(help="What train wrote.", show_default=False)],
    prompt: Annotated[
        str, typer.Option(help="The text to continue.", show_default="the end of a line")
    ] = "\n",
    characters: Annotated[int, typer.Option(help="How many to write.", min=1)] = 300,
    temperature: Annotated[float, typer.Option(help="0 for the likeliest text, 1 for a fair sample.")] = 0.8,
    seed: Annotated[int | None, typer.Option(help="For the same text each time.", show_default=False)] = None,
    as_json: output.AsJson = False,
) -> None:
    """Continue a text, with a run of --task next-character.

    The guarantee of the run covers whatever is made of its model: samples cost
    nothing.
    """
    paths.require_folder(folder)
    from reticent.core.printable import printable
    from reticent.runs.continuation import continue_text
    from reticent.runs.predict import Predictor

    text = continue_text(Predictor(folder), prompt, characters=characters, temperature=temperature, seed=seed)
    if as_json:
        output.print_json({"prompt": prompt, "text": text})
    else:
        for line in (prompt + text).split("\n"):
            output.print_line(printable(line))
