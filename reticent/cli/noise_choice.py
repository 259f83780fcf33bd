"""The options that choose the noise of a run."""

from __future__ import annotations

from typing import Annotated

import typer

NoiseOption = Annotated[
    str,
    typer.Option(
        "--noise", help="How noise is correlated: independent, banded, toeplitz, blt, tree or auto."
    ),
]
BandsOption = Annotated[
    int | None,
    typer.Option(
        "--bands",
        help="Bands of banded noise; random batches come from as many parts of the data.",
        show_default=False,
    ),
]
BuffersOption = Annotated[int | None, typer.Option("--buffers", help="Of blt noise.", show_default=False)]
