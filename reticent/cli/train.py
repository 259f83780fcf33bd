"""`reticent train`: from a table to a private model in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import feature_options, options, output, preconditions
from reticent.cli.dry_run import print_dry_run
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.runs.lifecycle import FinishedRun
    from reticent.runs.record import RunRecord

EPILOG = "Example:  reticent train patients.csv --target readmitted --epsilon 1 -o runs/patients"


Method = Annotated[
    str,
    typer.Option(
        help="auto, sgd, gd, prototype, least_squares, output, objective, exponential, descent, additive "
        "or pate."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="auto, linear, fourier, additive or mlp; of images scattering, patches, cnn or wide_resnet."
    ),
]
Target = Annotated[str | None, typer.Option(help="The column to predict.", show_default=False)]
Epsilon = Annotated[float | None, typer.Option(help="The total privacy budget.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="Below 1 / rows.", show_default="a tenth of 1 / rows, or less")
]
Folder = Annotated[
    Path | None, typer.Option("-o", "--output", help="A new folder for the run.", show_default=False)
]
DomainFile = Annotated[Path | None, typer.Option(help="What is public about the table.", show_default=False)]
LedgerFile = Annotated[
    str | None, typer.Option(help="Charge this ledger first: FILE or postgresql://...", show_default=False)
]
DatasetName = Annotated[
    str | None, typer.Option(help="The dataset's name in the ledger.", show_default=False)
]
Coordinator = Annotated[
    str | None, typer.Option(help="HOST:PORT of process 0, to train in several.", show_default=False)
]
Processes = Annotated[int | None, typer.Option(help="How many processes there are.", show_default=False)]
Process = Annotated[int | None, typer.Option(help="Which one this is, from 0.", show_default=False)]
Resume = Annotated[Path | None, typer.Option(help="Resume the run in this folder.", show_default=False)]

TrainSource = Annotated[
    str | None,
    typer.Argument(
        help="A table, a folder of images, or a dataset (reticent datasets list).", show_default=False
    ),
]
PublicRows = Annotated[
    str | None,
    typer.Option(
        help="For pate: unlabelled rows, or held-out. For --features: public records for whitening.",
        show_default=False,
    ),
]
Teachers = Annotated[
    int | None, typer.Option(help="For pate: how many.", show_default="a hundredth of the rows")
]
HeldOutShare = Annotated[
    float, typer.Option(help="The share of rows held out; 0 trains on all of them, without a score.")
]
ClassWeight = Annotated[
    list[str] | None,
    typer.Option(help="CLASS=WEIGHT: how much its rows count; may be repeated.", show_default="1 each"),
]
SamplingName = Annotated[
    str,
    typer.Option("--sampling", help="For sgd: poisson, or allocation, which takes each row once per epoch."),
]
NoiseName = Annotated[
    str, typer.Option("--noise", help="For sgd and gd: independent, banded, toeplitz, blt, tree or auto.")
]
Bands = Annotated[int | None, typer.Option(help="Of banded noise: the number of bands.", show_default=False)]
Buffers = Annotated[int | None, typer.Option(help="Of blt noise.", show_default=False)]
Start = Annotated[
    str | None,
    typer.Option("--from", help="Public weights to start from (reticent pretrain).", show_default=False),
]
Learn = Annotated[str, typer.Option(help="Which public weights are trained: dense, all, biases or lora.")]
Views = Annotated[
    int | None,
    typer.Option(help="Of cnn and wide_resnet: augmented copies per image, averaged.", show_default="auto"),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what it would cost; charge nothing, write nothing.")
]

# Options that are fields of a request as they are typed.
_AS_TYPED = (
    *("source", "target", "epsilon", "delta", "method", "model", "prepare", "task", "test", "dataset"),
    *("public", "teachers", "user", "rows_per_user", "sampling", "noise", "bands", "buffers"),
    *("features", "text", "images", "pixels", "overlap_is_public"),
    *("start", "learn", "views"),
)


def run(
    context: typer.Context,
    source: TrainSource = None,
    target: Target = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    write: Folder = None,
    method: Method = "auto",
    model: Model = "auto",
    domain: DomainFile = None,
    prepare: options.Prepare = "private",
    task: options.Task = "auto",
    classes: options.Classes = None,
    bounds: options.Bounds = None,
    buckets: options.Buckets = None,
    ignore: options.Ignore = None,
    missing: options.Missing = None,
    test: HeldOutShare = 0.2,
    ledger: LedgerFile = None,
    dataset: DatasetName = None,
    public: PublicRows = None,
    teachers: Teachers = None,
    user: options.User = None,
    rows_per_user: options.RowsPerUser = None,
    resume: Resume = None,
    data: options.MovedData = None,
    class_weight: ClassWeight = None,
    sampling: SamplingName = "poisson",
    noise: NoiseName = "independent",
    bands: Bands = None,
    buffers: Buffers = None,
    features: feature_options.Features = None,
    text: feature_options.Text = None,
    images: feature_options.Images = None,
    pixels: feature_options.Pixels = "imagenet",
    overlap_is_public: feature_options.Overlap = False,
    start: Start = None,
    learn: Learn = "dense",
    views: Views = None,
    dry_run: DryRun = False,
    coordinator: Coordinator = None,
    processes: Processes = None,
    process: Process = None,
    written: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    sheet: options.TableName = None,
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
    wanted = _wanted(context.params)
    if dry_run:
        print_dry_run(wanted, as_json=as_json)
        return
    done = trained(resume, write, **wanted, is_silent=bool(process), data=data)
    if not process:
        show(done, as_json=as_json)


def _wanted(typed: dict[str, Any]) -> dict[str, Any]:
    """The fields of the request that was typed."""
    return {
        **{name: typed[name] for name in _AS_TYPED},
        "domain": str(typed["domain"]) if typed["domain"] else None,
        "classes": options.classes_of(typed["classes"]),
        "bounds": options.bounds_of(typed["bounds"]),
        "buckets": options.buckets_of(typed["buckets"]),
        "ignore": options.names_of(typed["ignore"]),
        "missing": tuple(typed["missing"] or ()),
        "class_weights": class_weights_of(typed["class_weight"]),
        "ledger": typed["ledger"] or None,
        "layout": layout_of(
            *(typed[name] for name in ("written", "delimiter", "header", "encoding", "query", "sheet"))
        ),
    }


def class_weights_of(typed: list[str] | None) -> dict[str, float]:
    """
    Raises:
        InvalidArgument: one of them is not CLASS=WEIGHT.
    """
    found = {}
    for each in typed or ():
        name, sign, weight = each.rpartition("=")
        try:
            found[name] = float(weight)
        except ValueError:
            sign = ""
        if not sign or not name:
            raise InvalidArgument(
                f"'{each}' is not a class and its weight.", remedy="Write --class-weight yes=5."
            )
    return found


def refuse_beside_resume(context: typer.Context, *allowed: str) -> None:
    """A run resumes as it was requested: another epsilon beside --resume would have no effect."""
    preconditions.refuse_beside(
        context,
        "--resume",
        what="resumes a run as it was requested",
        allowed={"resume", "data", "as_json", "coordinator", "processes", "process", *allowed},
    )


def join(coordinator: str | None, processes: int | None, process: int | None) -> None:
    """Joins the other processes, if there are any."""
    given = [coordinator, processes, process]
    if all(value is None for value in given):
        return
    if coordinator is None or processes is None or process is None:
        raise InvalidArgument(
            "Several processes need three options, and not all were given.",
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
    data = wanted.pop("data", None)
    if resume is not None:
        return go_on(resume, observer=observer, data=data)
    preconditions.refuse_without_resume(data)
    if wanted["source"] is None or wanted["epsilon"] is None or write is None:
        raise InvalidArgument(
            "Training needs a table, an epsilon and a folder.",
            remedy="Pass all three: reticent train TABLE --target COLUMN --epsilon 1 -o FOLDER",
        )
    preconditions.check_source(wanted["source"])
    preconditions.warn_of_large_epsilon(wanted["epsilon"])
    with preconditions.said_if_nothing_was_charged(write):
        return fit(Request(**wanted), write, observer=observer)


def layout_of(
    written: str | None,
    delimiter: str | None,
    header: bool | None,
    encoding: str | None,
    query: str | None = None,
    table: str | None = None,
) -> dict[str, Any]:
    """The arguments of `open_table` that were typed: a whole format, or parts of it."""
    whole = {}
    if written is not None:
        from reticent.data.files.dialect import DeclaredFormat

        whole = DeclaredFormat.parse(written).layout
    named = {"tab": "\t", "\\t": "\t", "blanks": " ", "blank": " ", "space": " "}
    separator = None if delimiter is None else named.get(delimiter, delimiter)
    given = {"delimiter": separator, "header": header, "encoding": encoding, "query": query, "table": table}
    return {**whole, **{key: value for key, value in given.items() if value is not None}}


def show(done: FinishedRun, *, as_json: bool) -> None:
    """Prints what a run is, and draws what was seen on the way, for whoever holds the data."""
    from reticent.cli.show import print_card

    _draw_agreement(done)
    if as_json:
        output.print_json({"folder": str(done.folder), **_brief(done.record)})
    else:
        print_card(done.folder, done.record)
        output.note(
            f"Next: reticent predict {done.folder} NEW.csv; reticent show {done.folder}; "
            f"reticent attack {done.folder}; reticent report {done.folder}."
        )


def _draw_agreement(done: FinishedRun) -> None:
    """Draws how often the teachers of PATE agree: private, like the votes it is made of."""
    from reticent.report.figures.curves import save_agreement

    unreleased = done.record.result.unreleased
    if unreleased is not None and "agreement" in unreleased:
        path = done.folder / "votes-unreleased.svg"
        save_agreement(path, unreleased["agreement"])
        output.note(f"A chart of how often the teachers agree is in {path}: for you, not for publication.")


def _brief(record: RunRecord) -> dict[str, Any]:
    whole = record.to_json()
    kept = ("guarantee", "metrics", "model", "problem", "seconds", "event", "warnings")
    return {key: whole[key] for key in kept if key in whole}
