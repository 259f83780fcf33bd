"""The options by which a command line names the noise of a run."""

from __future__ import annotations

from typing import Annotated

import typer

NoiseOption = Annotated[
    str,
    typer.Option("--noise", help="independent, banded, toeplitz, blt, tree or auto: what a step takes back."),
]
BandsOption = Annotated[
    int | None,
    typer.Option(
        "--bands",
        help="Of banded noise; random batches are drawn from as many parts.",
        show_default=False,
    ),
]
BuffersOption = Annotated[int | None, typer.Option("--buffers", help="Of blt noise.", show_default=False)]
