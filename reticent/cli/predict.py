"""`reticent predict`: new rows through a finished run."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths
from reticent.core.errors import DataError
from reticent.core.printable import printable

EPILOG = "Example:  reticent predict runs/patients new.csv -o predictions.csv"


def run(
    folder: Annotated[Path, typer.Argument(help="What train wrote.", show_default=False)],
    file: Annotated[Path, typer.Argument(help="A table with the same columns.", show_default=False)],
    write: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write here instead of on stdout.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")] = False,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header", help="Whether the first line names the columns.", show_default="detected"
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Predict the target of new rows: one line each, in their order.

    Predictions of people who were not trained on cost nothing.
    """
    from reticent.core.files import write_whole
    from reticent.data.files import open_table
    from reticent.runs.predict import Predictor

    if write is not None and write.exists() and not force:
        raise DataError(f"{write} exists already.", remedy="Choose another name, or replace it with --force.")
    if write is not None:
        paths.require_place(write)
    paths.require_folder(folder)
    predictor, forgiven = Predictor(folder), Counter[str]()
    table = open_table(file, header=header, expected=predictor.columns)
    rows = list(predictor.table(table, forgiven))
    _warn_of(forgiven, table.dialect.decimal)
    if as_json:
        output.print_json(rows)
        return
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else ["prediction"])
    writer.writeheader()
    writer.writerows(rows)
    if write is None:
        sys.stdout.write(printable(text.getvalue()) if sys.stdout.isatty() else text.getvalue())
    else:
        write_whole(write, text.getvalue().encode())
        output.note(f"Wrote {len(rows)} predictions to {write}.")


def _warn_of(unreadable: Counter[str], decimal: str) -> None:
    """One line about cells that were forgiven, for whoever wrote them meant something."""
    total = sum(unreadable.values())
    if total:
        what = "cell is no number, and counts" if total == 1 else "cells are no numbers, and count"
        columns = ", ".join(f"{name} ({count})" for name, count in unreadable.items())
        output.warn(f"{total:,} {what} as missing: {columns}. Write numbers like 1234{decimal}5.")
