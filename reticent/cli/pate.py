"""`reticent pate`: a private model by voting teachers and a student who sees public rows only."""

from __future__ import annotations

from typing import Annotated

import typer

from reticent.cli import options, output, train
from reticent.core.errors import InvalidArgument

EPILOG = "Example:  reticent pate patients.csv --public open.csv --target readmitted --epsilon 2 -o runs/pate"

PrivateSource = Annotated[
    str | None, typer.Argument(help="A private table, or the name of a dataset.", show_default=False)
]
PublicTable = Annotated[
    str | None,
    typer.Option(
        help="A table of unlabelled public rows; or held-out, for nine tenths of the test rows.",
        show_default=False,
    ),
]
NumberOfTeachers = Annotated[
    int | None,
    typer.Option(help="The number of teachers.", show_default="a hundredth of the rows, at most 250"),
]


def run(
    context: typer.Context,
    source: PrivateSource = None,
    public: PublicTable = None,
    target: options.Target = None,
    teachers: NumberOfTeachers = None,
    epsilon: options.Epsilon = None,
    delta: options.Delta = None,
    write: options.NewFolder = None,
    model: options.Model = "auto",
    domain: options.DomainFile = None,
    prepare: options.Prepare = "private",
    classes: options.Classes = None,
    bounds: options.Bounds = None,
    ignore: options.Ignore = None,
    missing: options.Missing = None,
    test: options.HeldOut = 0.2,
    ledger: options.LedgerFile = None,
    dataset: options.DatasetName = None,
    user: options.User = None,
    rows_per_user: options.RowsPerUser = None,
    resume: options.Resume = None,
    data: options.MovedData = None,
    written: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    sheet: options.TableName = None,
    as_json: output.AsJson = False,
) -> None:
    """Train teachers who vote with noise on public rows.

    Each private row trains one of many teachers. They vote on public rows,
    noise is added to the counts, and a student learns from the answers.
    The epsilon holds whatever the votes are, and may be published. How often
    the teachers agree is private: the chart of it is for you alone.
    """
    if resume is not None:
        train.refuse_beside_resume(context)
    elif source is None or public is None or epsilon is None or write is None:
        raise InvalidArgument(
            "PATE needs a private table, a public one, an epsilon and a folder.",
            remedy="Pass all: reticent pate TABLE --public PUBLIC --target COLUMN --epsilon 2 -o FOLDER",
        )
    done = train.trained(
        resume,
        write,
        source=source,
        target=target,
        epsilon=epsilon,
        delta=delta,
        method="pate",
        model=model,
        domain=str(domain) if domain else None,
        prepare=prepare,
        classes=options.classes_of(classes),
        bounds=options.bounds_of(bounds),
        ignore=options.names_of(ignore),
        missing=tuple(missing or ()),
        test=test,
        ledger=ledger or None,
        dataset=dataset,
        layout=train.layout_of(written, delimiter, header, encoding, query, sheet),
        public=public,
        teachers=teachers,
        user=user,
        rows_per_user=rows_per_user,
        data=data,
    )
    train.show(done, as_json=as_json)
