"""Options that several commands take, each declared once: the same words mean the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.core.errors import InvalidArgument

# A finished run, as an argument.
RunFolder = Annotated[Path, typer.Argument(help="The folder that train wrote.", show_default=False)]
OptionalRunFolder = Annotated[
    Path | None, typer.Argument(help="The folder that train wrote.", show_default=False)
]

# How a text file is read.
Delimiter = Annotated[
    str | None,
    typer.Option(help="One character, 'tab' or 'blanks'. Default: detected.", show_default=False),
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

# What is read from a database or a workbook.
Query = Annotated[
    str | None,
    typer.Option(help="What to select from a database: one row per record.", show_default=False),
]
TableName = Annotated[
    str | None,
    typer.Option(
        "--table",
        help="The table of a database, or the sheet of a workbook. Default: the only one, the first.",
        show_default=False,
    ),
]

# What is learned, and what is public about the data.
Target = Annotated[str | None, typer.Option(help="The column to predict.", show_default=False)]
Model = Annotated[str, typer.Option(help="auto, linear, fourier, additive, mlp, cnn or scattering.")]
DomainFile = Annotated[
    Path | None, typer.Option(help="A file that says what is public about the table.", show_default=False)
]
Prepare = Annotated[
    str,
    typer.Option(
        help="What the domain leaves open: find it privately; refuse (public); or read it off the data and "
        "say so in the guarantee (assume-public)."
    ),
]
Task = Annotated[
    str, typer.Option(help="classify, regress, or auto: by what the target holds, which is then public.")
]
Classes = Annotated[
    str | None,
    typer.Option(
        help="The target's classes, as in no,yes; or private, to find them with a part of the budget.",
        show_default="those in the table, taken as public",
    ),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option(
        help="Public bounds of columns, as in age=0:120,income=0:500000. May be repeated.",
        show_default="found privately",
    ),
]
Buckets = Annotated[
    list[str] | None,
    typer.Option(
        help="For columns with very many words, as in city=64: a public hash sorts them into 64 buckets.",
        show_default="frequent words are found privately",
    ),
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(help="Columns to leave out, as in id,notes. May be repeated.", show_default=False),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help='A cell that means "not known", as in --missing -999. May be repeated.',
        show_default="an empty cell, ?, NA and the like",
    ),
]
HeldOut = Annotated[float, typer.Option(help="The share of rows to hold out for testing.")]

User = Annotated[
    str | None,
    typer.Option(
        help="A column that names users: protect all rows of a user, not one row.", show_default=False
    ),
]
RowsPerUser = Annotated[
    int | None,
    typer.Option(help="With --user: the most rows of one user to use, the first ones.", show_default=False),
]

# What may be spent, and where it is charged.
Epsilon = Annotated[float | None, typer.Option(help="The total privacy budget.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="Below 1 / rows.", show_default="a tenth of 1 / rows, or less")
]
LedgerFile = Annotated[
    str | None, typer.Option(help="Charge this ledger first: FILE or postgresql://...", show_default=False)
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
MovedData = Annotated[
    str | None,
    typer.Option(
        "--data", help="The table of the run, if it was moved.", show_default="where the run read it"
    ),
]
Resume = Annotated[Path | None, typer.Option(help="Resume the run in this folder.", show_default=False)]


def classes_of(text: str | None) -> tuple[str, ...] | str:
    """The classes that were typed, or how to find them."""
    if text is None or text in ("public", "private"):
        return text or "public"
    return tuple(word.strip() for word in text.split(","))


def names_of(typed: list[str] | None) -> tuple[str, ...]:
    """Names of columns.

    >>> names_of(["id, notes", "code"])
    ('id', 'notes', 'code')
    """
    return tuple(name.strip() for name in ",".join(typed or ()).split(",") if name.strip())


def buckets_of(typed: list[str] | None) -> dict[str, int]:
    """The number of buckets of each named column.

    >>> buckets_of(["city=64,firm=16"])
    {'city': 64, 'firm': 16}

    Raises:
        InvalidArgument: something is not NAME=COUNT.
    """
    found = {}
    for text in ",".join(typed or ()).split(","):
        name, _, count = text.rpartition("=")
        if text.strip() and not (name.strip() and count.strip().isdecimal()):
            raise InvalidArgument(
                f"--buckets {text!r} is not NAME=COUNT.", remedy="Write it like --buckets city=64."
            )
        if text.strip():
            found[name.strip()] = int(count)
    return found


def bounds_of(typed: list[str] | None) -> dict[str, tuple[float, float]]:
    """The bounds of each named column.

    >>> bounds_of(["age=0:120,income=0:5e5"])
    {'age': (0.0, 120.0), 'income': (0.0, 500000.0)}

    Raises:
        InvalidArgument: something is not NAME=LOW:HIGH.
    """
    found = {}
    for text in ",".join(typed or ()).split(","):
        if not text.strip():
            continue
        name, _, pair = text.rpartition("=")
        low, _, high = pair.partition(":")
        try:
            found[name.strip()] = (float(low), float(high))
        except ValueError:
            raise InvalidArgument(
                f"--bounds {text!r} is not NAME=LOW:HIGH.", remedy="Write it like --bounds age=0:120."
            ) from None
    return found
