"""`reticent predict`: new rows through a finished run."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli import feature_options, options, output, paths, train
from reticent.core.errors import DataError
from reticent.core.printable import printable

if TYPE_CHECKING:
    from reticent.data.encoding import OddCells

EPILOG = "Example:  reticent predict runs/patients new.csv -o predictions.csv"


def run(
    folder: Annotated[Path, typer.Argument(help="What train wrote.", show_default=False)],
    file: Annotated[
        str,
        typer.Argument(
            help="A table with the same columns: a file, postgresql://..., or images.", show_default=False
        ),
    ],
    write: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write here instead of on stdout.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file if it exists.")] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="With two classes: predict the second at this probability or above.", show_default="0.5"
        ),
    ] = None,
    features: feature_options.Features = None,
    written: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    sheet: options.TableName = None,
    as_json: output.AsJson = False,
) -> None:
    """Predict the target of new rows: one line each, in their order.

    Predictions of people who were not trained on cost nothing. A file is
    read as the one trained on was, where that gives the same columns. What a
    threshold does to precision and recall: reticent show RUN --thresholds.
    """
    from reticent.core.files import write_whole
    from reticent.core.postgres import without_password
    from reticent.data.encoding import OddCells
    from reticent.runs.predict import Predictor

    if write is not None and write.exists() and not force:
        raise DataError(f"{write} exists already.", remedy="Choose another name, or replace it with --force.")
    if write is not None:
        paths.require_place(write)
    paths.require_folder(folder)
    predictor, odd = Predictor(folder), OddCells()
    table = predictor.open(
        without_password(file),
        train.layout_of(written, delimiter, header, encoding, query, sheet),
        features=features,
    )
    if table.doubt is not None:
        output.warn(table.doubt)
    rows = list(predictor.table(table, odd, threshold=threshold))
    if threshold is not None:
        output.note(
            f"'{predictor.problem.classes[1]}' is predicted at a probability of {threshold:g} or more."
        )
    _warn_of(odd, table.dialect.decimal)
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


_COUNTED_AS = {
    "missing": "missing",
    "not a number": "not like 1234{decimal}5, so not read as a number but as missing",
    "outside the bounds": "beyond the bounds in the run's domain, and read as the nearest bound",
    "another word": "not among the words in the run's domain, and read as one of the others",
}


def _warn_of(odd: OddCells, decimal: str) -> None:
    """One line per kind of cell that is not as in training: its author may have meant something."""
    for what, counted_as in _COUNTED_AS.items():
        found = {name: count for (name, kind), count in odd.items() if kind == what}
        if found:
            columns = ", ".join(f"{name} ({count:,})" for name, count in found.items())
            cells = "1 cell is" if sum(found.values()) == 1 else f"{sum(found.values()):,} cells are"
            output.warn(f"{cells} {counted_as.format(decimal=decimal)}: {columns}.")
