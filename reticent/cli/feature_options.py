"""The options that have a public model make features of texts or of images."""

from __future__ import annotations

from typing import Annotated

import typer

Features = Annotated[
    str | None,
    typer.Option(help="An ONNX file: a public model of texts or images.", show_default=False),
]
Text = Annotated[
    str | None, typer.Option(help="The column of texts; without --features its words.", show_default=False)
]
Images = Annotated[str | None, typer.Option(help="The column of paths of images.", show_default=False)]
Pixels = Annotated[str, typer.Option(help="How the model takes images: imagenet, unit, centred or bytes.")]
Overlap = Annotated[
    bool,
    typer.Option("--overlap-is-public", help="Records among the public ones are public, and no error."),
]
