"""The options for features of texts or images by a public model."""

from __future__ import annotations

from typing import Annotated

import typer

Features = Annotated[
    str | None,
    typer.Option(help="An ONNX file: a public model of texts or images.", show_default=False),
]
Text = Annotated[
    str | None,
    typer.Option(
        help="The column of texts; without --features, its words are the features.", show_default=False
    ),
]
Images = Annotated[str | None, typer.Option(help="The column of paths of images.", show_default=False)]
Pixels = Annotated[str, typer.Option(help="How the model takes images: imagenet, unit, centred or bytes.")]
Overlap = Annotated[
    bool,
    typer.Option(
        "--overlap-is-public", help="Accept private records that are also public ones: they are public."
    ),
]
