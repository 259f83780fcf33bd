"""Options that several commands take, each declared once: the same words mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# A finished run, as an argument.
RunFolder = Annotated[Path, typer.Argument(help="The folder that train wrote.", show_default=False)]
OptionalRunFolder = Annotated[
    Path | None, typer.Argument(help="The folder that train wrote.", show_default=False)
]

# How a text file is read.
Delimiter = Annotated[
    str | None, typer.Option(help="One character, or 'tab'. Default: detected.", show_default=False)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line names the columns.", show_default="detected"
    ),
]
Encoding = Annotated[
    str | None, typer.Option(help="Encoding of a text file. Default: detected.", show_default=False)
]

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="How a text file is written: 'CSV, separated by semicolon, with a header, decimal comma, "
        "utf-8'. Default: detected, and taken as public.",
        show_default=False,
    ),
]

# What is learned, and what is public about the data.
Target = Annotated[str | None, typer.Option(help="The column to predict.", show_default=False)]
Model = Annotated[str, typer.Option(help="auto, linear, mlp, cnn or scattering.")]
DomainFile = Annotated[
    Path | None, typer.Option(help="A file that says what is public about the table.", show_default=False)
]
Prepare = Annotated[
    str, typer.Option(help="What the domain leaves open: find it privately, or refuse (public).")
]
HeldOut = Annotated[float, typer.Option(help="The share of rows to hold out for testing.")]

# What may be spent, and where it is charged.
Epsilon = Annotated[float | None, typer.Option(help="The total privacy budget.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="Below 1 / rows.", show_default="a tenth of 1 / rows, or less")
]
LedgerFile = Annotated[
    Path | None, typer.Option(help="Charge this ledger before training.", show_default=False)
]
DatasetName = Annotated[
    str | None, typer.Option(help="The dataset's name in the ledger.", show_default=False)
]

# Where results go.
NewFolder = Annotated[
    Path | None, typer.Option("-o", "--output", help="A new folder for the run.", show_default=False)
]
OutputFile = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write to this file, not to stdout.", show_default=False)
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")]
Resume = Annotated[Path | None, typer.Option(help="Resume the run in this folder.", show_default=False)]
