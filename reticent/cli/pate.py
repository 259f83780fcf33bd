"""`reticent pate`: a private model by voting teachers and a student who sees public rows only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import output, train
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.runs.fit import Finished

EPILOG = "Example:  reticent pate patients.csv --public open.csv --target readmitted --epsilon 2 -o runs/pate"


def run(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(help="A private table, or the name of a dataset.", show_default=False),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(
            help="A table of unlabelled public rows; or held-out: nine tenths of the test rows.",
            show_default=False,
        ),
    ] = None,
    target: train.Target = None,
    teachers: Annotated[
        int | None, typer.Option(help="How many.", show_default="a hundredth of the rows, at most 250")
    ] = None,
    epsilon: train.Epsilon = None,
    delta: train.Delta = None,
    write: train.Folder = None,
    model: train.Model = "auto",
    domain: train.DomainFile = None,
    prepare: train.Prepare = "private",
    test: Annotated[float, typer.Option(help="The share of rows held out.")] = 0.2,
    ledger: train.LedgerFile = None,
    dataset: train.DatasetName = None,
    resume: train.Resume = None,
    delimiter: train.Delimiter = None,
    header: train.Header = None,
    encoding: train.Encoding = None,
    as_json: output.AsJson = False,
) -> None:
    """Train by teachers who vote with noise on public rows.

    Every private row teaches one of many teachers. They vote on public rows,
    noise is added to the counts, and a student learns from the answers.
    The epsilon holds whatever the votes are, and may be published. How far
    the teachers agree is private: it is drawn for you alone.
    """
    if resume is not None:
        train.refuse_beside_resume(context)
    elif source is None or public is None or epsilon is None or write is None:
        raise InvalidArgument(
            "PATE needs a private table, a public one, an epsilon and a folder.",
            remedy="Say all: reticent pate TABLE --public PUBLIC --target COLUMN --epsilon 2 -o FOLDER",
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
        test=test,
        ledger=str(ledger) if ledger else None,
        dataset=dataset,
        layout=train.layout_of(delimiter, header, encoding),
        public=public,
        teachers=teachers,
    )
    _draw(done)
    train.show(done, as_json=as_json)


def _draw(done: Finished) -> None:
    """How often the teachers agree: private, like the votes it is made of."""
    from reticent.report.figures.votes import save_agreement

    seen: dict[str, Any] | None = done.record.get("unreleased")
    if seen is not None and "agreement" in seen:
        path = done.folder / "votes-unreleased.svg"
        save_agreement(path, seen["agreement"])
        output.note(f"How far the teachers agree is drawn in {path}: for you, not for publication.")
