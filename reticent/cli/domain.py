"""`reticent domain FILE`: a first domain for a table, to be read and confirmed by a person."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import options, output
from reticent.core.errors import DataError

if TYPE_CHECKING:
    from reticent.data.domain import Domain
    from reticent.data.files import Table

EPILOG = "Example:  reticent domain patients.csv --target readmitted -o patients.toml"


def run(
    file: Annotated[
        str,
        typer.Argument(
            help="A table: CSV, JSON lines, Parquet, NPZ, libsvm, Excel, SQLite, DuckDB, postgresql://...",
            show_default=False,
        ),
    ],
    target: options.Target = None,
    write: options.OutputFile = None,
    force: options.Force = False,
    written: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    sheet: options.TableName = None,
    as_json: output.AsJson = False,
) -> None:
    """Draft a domain file, which says what is public about a table.

    It lists the columns, their bounds and their values. The draft takes them
    from the data, which may reveal something about a person, so each is
    marked "not yet public". Read the file, replace every value by one that
    you would publish anyway, and remove the marks.
    """
    if write is not None and write.exists() and not force:
        raise DataError(
            f"{write} exists already and may hold values that somebody confirmed.",
            remedy="Choose another name, or replace it with --force.",
        )
    from reticent.cli.train import layout_of
    from reticent.core.postgres import without_password
    from reticent.data.drafting import draft
    from reticent.data.files import open_table

    layout = layout_of(written, delimiter, header, encoding, query, sheet)
    file = without_password(file)
    table = open_table(file, **layout, expected=[target] if target else [])
    output.note(f"{file}: {table.dialect.describe()}, {len(table.names)} columns")
    if table.doubt is not None:
        output.warn(table.doubt)
    with output.watch("scanning") as on_progress:
        domain = draft(table, target, on_progress=on_progress)
    if write is not None:
        domain.write(write)
        output.note(f"Wrote {write}.")
    if as_json:
        output.print_json(_draft_to_json(table, domain))
    elif write is None:
        output.print_line(domain.to_toml().removesuffix("\n"))
    _advise(domain)


def _advise(domain: Domain) -> None:
    """Says what a person has to do next: which columns were ignored, how many values to confirm."""
    for name, column in domain.columns.items():
        reason = getattr(column, "reason", "")
        if reason:
            output.note(f"Ignored {name}: {reason}")
    pending = domain.not_public()
    if pending:
        output.note(
            f"{len(pending)} values were looked up in the data and are not yet public: "
            "confirm each by removing its looked_up mark, or pay for it."
        )


def _draft_to_json(table: Table, domain: Domain) -> dict[str, Any]:
    import tomllib

    return {
        "file": table.label,
        "dialect": asdict(table.dialect),
        "domain": tomllib.loads(domain.to_toml()),
        "not_public": domain.not_public(),
    }
