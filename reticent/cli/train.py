"""`reticent train`: from a table to a private model in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import options, output, preconditions
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.runs.lifecycle import FinishedRun
    from reticent.runs.record import RunRecord

EPILOG = "Example:  reticent train patients.csv --target readmitted --epsilon 1 -o runs/patients"


Delimiter = Annotated[
    str | None, typer.Option(help="One character, or 'tab'. Default: detected.", show_default=False)
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line names the columns.", show_default="detected"
    ),
]
Encoding = Annotated[str | None, typer.Option(help="Of a text file. Default: detected.", show_default=False)]
Method = Annotated[str, typer.Option(help="auto, sgd, gd, output, objective, exponential, descent or pate.")]
Model = Annotated[str, typer.Option(help="auto, linear, mlp, cnn or scattering.")]
Target = Annotated[str | None, typer.Option(help="The column to predict.", show_default=False)]
Epsilon = Annotated[float | None, typer.Option(help="What may be spent in all.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="Below 1 / rows.", show_default="a tenth of 1 / rows, or less")
]
Folder = Annotated[
    Path | None, typer.Option("-o", "--output", help="A new folder for the run.", show_default=False)
]
DomainFile = Annotated[Path | None, typer.Option(help="What is public about the table.", show_default=False)]
Prepare = Annotated[
    str, typer.Option(help="What the domain leaves open: find it privately, or refuse (public).")
]
LedgerFile = Annotated[Path | None, typer.Option(help="Charge this ledger first.", show_default=False)]
DatasetName = Annotated[
    str | None, typer.Option(help="The dataset's name in the ledger.", show_default=False)
]
Coordinator = Annotated[
    str | None, typer.Option(help="HOST:PORT of process 0, to train in several.", show_default=False)
]
Processes = Annotated[int | None, typer.Option(help="How many processes there are.", show_default=False)]
Process = Annotated[int | None, typer.Option(help="Which one this is, from 0.", show_default=False)]
Resume = Annotated[Path | None, typer.Option(help="Go on with the run in this folder.", show_default=False)]


def run(
    context: typer.Context,
    source: Annotated[
        str | None,
        typer.Argument(
            help="A table, or the name of a dataset (reticent datasets list).", show_default=False
        ),
    ] = None,
    target: Target = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    write: Folder = None,
    method: Method = "auto",
    model: Model = "auto",
    domain: DomainFile = None,
    prepare: Prepare = "private",
    test: Annotated[float, typer.Option(help="The share of rows held out.")] = 0.2,
    ledger: LedgerFile = None,
    dataset: DatasetName = None,
    public: Annotated[
        str | None,
        typer.Option(help="For pate: a table of unlabelled rows, or held-out.", show_default=False),
    ] = None,
    teachers: Annotated[
        int | None, typer.Option(help="For pate: how many.", show_default="a hundredth of the rows")
    ] = None,
    resume: Resume = None,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    written: options.Format = None,
    delimiter: Delimiter = None,
    header: Header = None,
    encoding: Encoding = None,
    as_json: output.AsJson = False,
) -> None:
    """Train a model on a sensitive table, privately.

    What is not declared about the table is found privately, from a tenth of
    the budget. The whole cost is charged before any noise is drawn. The
    folder holds the model, its guarantee and how it was made.

    Several processes train one model together if each is started with the
    same words and a --process of its own. Each reads its part of the table;
    process 0 pays and has the folder.
    """
    if resume is not None:
        refuse_beside_resume(context)
    join(coordinator, processes, process)
    done = trained(
        resume,
        write,
        source=source,
        target=target,
        epsilon=epsilon,
        delta=delta,
        method=method,
        model=model,
        domain=str(domain) if domain else None,
        prepare=prepare,
        test=test,
        ledger=str(ledger) if ledger else None,
        dataset=dataset,
        layout=layout_of(written, delimiter, header, encoding),
        public=public,
        teachers=teachers,
        is_silent=bool(process),
    )
    if not process:
        show(done, as_json=as_json)


def refuse_beside_resume(context: typer.Context, *allowed: str) -> None:
    """A run goes on as it was ordered: who types another epsilon beside --resume would not get it."""
    preconditions.refuse_beside(
        context,
        "--resume",
        what="goes on with a run as it was ordered",
        allowed={"resume", "as_json", "coordinator", "processes", "process", *allowed},
    )


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Joins the other processes, if there are any."""
    given = [coordinator, processes, process]
    if all(value is None for value in given):
        return
    if coordinator is None or processes is None or process is None:
        raise InvalidArgument(
            "Processes find each other by three words, and not all were given.",
            remedy="Pass --coordinator HOST:PORT, --processes N and --process I, or none of them.",
        )
    from reticent import distributed

    output.note(f"process {process}: waiting for all {processes} processes at {coordinator}")
    distributed.start(coordinator, processes=processes, process=process)


def trained(resume: Path | None, write: Path | None, **wanted: Any) -> FinishedRun:
    """Follows a request of these fields into a new folder, or resumes a run."""
    from reticent.core.observer import NOBODY, Observer
    from reticent.runs.fit import fit
    from reticent.runs.fit import resume as go_on
    from reticent.runs.request import Request

    observer = Observer(say=output.note, warn=output.warn, watch=output.watch)
    if wanted.pop("is_silent", False):
        observer = NOBODY
    if resume is not None:
        return go_on(resume, observer=observer)
    if wanted["source"] is None or wanted["epsilon"] is None or write is None:
        raise InvalidArgument(
            "Training needs a table, an epsilon and a folder.",
            remedy="Say all three: reticent train TABLE --target COLUMN --epsilon 1 -o FOLDER",
        )
    preconditions.check_source(wanted["source"])
    with preconditions.said_if_nothing_was_charged(write):
        return fit(Request(**wanted), write, observer=observer)


def layout_of(
    written: str | None, delimiter: str | None, header: bool | None, encoding: str | None
) -> dict[str, Any]:
    """The arguments of `open_table` that were typed: a whole format, or parts of it."""
    whole = {}
    if written is not None:
        from reticent.data.files.dialect import DeclaredFormat

        whole = DeclaredFormat.parse(written).layout
    separator = "\t" if delimiter in ("tab", "\\t") else delimiter
    given = {"delimiter": separator, "header": header, "encoding": encoding}
    return {**whole, **{key: value for key, value in given.items() if value is not None}}


def show(done: FinishedRun, *, as_json: bool) -> None:
    """Prints what a run is, and draws what was seen on the way, for whoever holds the data."""
    from reticent.cli.show import print_card

    _draw_agreement(done)
    if as_json:
        output.print_json({"folder": str(done.folder), **_brief(done.record)})
    else:
        print_card(done.folder, done.record)


def _draw_agreement(done: FinishedRun) -> None:
    """Draws how often the teachers of PATE agree: private, like the votes it is made of."""
    from reticent.report.figures.votes import save_agreement

    unreleased = done.record.result.unreleased
    if unreleased is not None and "agreement" in unreleased:
        path = done.folder / "votes-unreleased.svg"
        save_agreement(path, unreleased["agreement"])
        output.note(f"A chart of how often the teachers agree is in {path}: for you, not for publication.")


def _brief(record: RunRecord) -> dict[str, Any]:
    whole = record.to_json()
    return {key: whole[key] for key in ("guarantee", "metrics", "model", "problem", "seconds", "event")}
