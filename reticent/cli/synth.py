"""`reticent synth`: a private generator, and a table or image set that anyone may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import options, output, preconditions, train
from reticent.core.errors import DataError, InvalidArgument

if TYPE_CHECKING:
    from reticent.runs.lifecycle import FinishedRun
    from reticent.synthetic.generators import Generator

EPILOG = "Example:  reticent synth patients.csv --epsilon 1 --rows 10000 -o synthetic.csv"

# Options that are fields of a request as they are typed.
_AS_TYPED = ("source", "epsilon", "delta", "method", "target", "prepare", "dataset", "user", "rows_per_user")
_HELD_OUT = 0.2  # of the rows, with --evaluate


Source = Annotated[str | None, typer.Argument(help="A table, or images of the catalog.", show_default=False)]
Epsilon = Annotated[float | None, typer.Option(help="The total privacy budget.", show_default=False)]
Delta = Annotated[
    float | None, typer.Option(help="Below 1 / rows.", show_default="a tenth of 1 / rows, or less")
]
HowMany = Annotated[
    int | None, typer.Option(help="How many to make.", show_default="as many as were learned from")
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="The synthetic table (.npz for images).", show_default=False),
]
Folder = Annotated[
    Path | None, typer.Option(help="A new folder for the generator.", show_default="beside the output")
]
From = Annotated[
    Path | None,
    typer.Option("--from", help="Sample from the generator in this folder: free.", show_default=False),
]
How = Annotated[str, typer.Option(help="auto; mst or aim (tables), embedding or gan (images).")]
Target = Annotated[str | None, typer.Option(help="The column that matters most.", show_default=False)]
DomainFile = Annotated[Path | None, typer.Option(help="What is public about the table.", show_default=False)]
Evaluate = Annotated[
    bool, typer.Option("--evaluate", help="Hold out a fifth of the rows, and evaluate on them.")
]


def run(
    context: typer.Context,
    source: Source = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rows: HowMany = None,
    write: Output = None,
    generator: Folder = None,
    take_from: From = None,
    method: How = "auto",
    target: Target = None,
    ignore: options.Ignore = None,
    missing: options.Missing = None,
    bounds: options.Bounds = None,
    domain: DomainFile = None,
    prepare: options.Prepare = "private",
    evaluate: Evaluate = False,
    ledger: train.LedgerFile = None,
    dataset: train.DatasetName = None,
    user: options.User = None,
    rows_per_user: options.RowsPerUser = None,
    resume: train.Resume = None,
    data: options.MovedData = None,
    written: options.Format = None,
    delimiter: options.Delimiter = None,
    header: options.Header = None,
    encoding: options.Encoding = None,
    query: options.Query = None,
    sheet: options.TableName = None,
    as_json: output.AsJson = False,
) -> None:
    """Make synthetic data that anyone may use.

    Counts of a few columns at a time get noise, a model is made of them, and
    rows are drawn from the model: the same columns, nobody's record. The
    generator is kept in a folder, from which --from draws more at no cost.
    """
    from reticent.synthetic.generators import Generator

    _refuse_beside(context, resume, take_from)
    _check_output(write)
    _check_rows(rows)
    if take_from is None:
        wanted = {
            **{name: context.params[name] for name in _AS_TYPED},
            "ignore": options.names_of(ignore),
            "missing": tuple(missing or ()),
            "bounds": options.bounds_of(bounds),
            "domain": str(domain) if domain else None,
            "test": _HELD_OUT if evaluate else 0.0,
            "ledger": ledger or None,
            "layout": train.layout_of(written, delimiter, header, encoding, query, sheet),
        }
        take_from = _make_or_resume(wanted, resume, write, generator, data).folder
    found = Generator(take_from)
    count = rows if rows is not None else found.record.rows
    with _explain_interrupts(take_from):
        if write is not None:
            _sample(found, write, count)
        judged = _evaluate(found, data) if evaluate else None
    if as_json:
        output.print_json(
            {
                "folder": str(take_from),
                "output": None if write is None else str(write),
                **found.card(count),
                **({} if judged is None else {"quality": judged}),
            }
        )
        return
    _print(found, count, write, judged)


def _sample(found: Generator, write: Path, count: int) -> None:
    with output.watch("sampling") as on_progress:
        found.write(write, count)
        on_progress(1.0)
    _draw(found, write)


_SAMPLED = ("rows", "write", "evaluate", "data", "as_json")  # about rows, not about the generator


def _refuse_beside(context: typer.Context, resume: Path | None, take_from: Path | None) -> None:
    if take_from is not None:
        what = "samples from a generator as it is"
        preconditions.refuse_beside(context, "--from", what=what, allowed={"take_from", *_SAMPLED})
    elif resume is not None:
        train.refuse_beside_resume(context, *_SAMPLED)


def _make_or_resume(
    wanted: dict[str, Any],
    resume: Path | None,
    write: Path | None,
    generator: Path | None,
    data: str | None,
) -> FinishedRun:
    from reticent.core.observer import Observer
    from reticent.synthetic.pipeline import make
    from reticent.synthetic.pipeline import resume as go_on
    from reticent.synthetic.request import SynthRequest

    observer = Observer(say=output.note, warn=output.warn, watch=output.watch)
    if resume is not None:
        return go_on(resume, observer=observer, data=data)
    preconditions.refuse_without_resume(data)
    if wanted["source"] is None or wanted["epsilon"] is None or (write is None and generator is None):
        raise InvalidArgument(
            "Synthetic data need a table, an epsilon and a place to go.",
            remedy="Pass all three: reticent synth TABLE --epsilon 1 -o FILE; or sample: --from FOLDER.",
        )
    folder = generator if generator is not None else write.with_name(f"{write.stem}.generator")  # type: ignore[union-attr]
    preconditions.check_source(wanted["source"])
    preconditions.warn_of_large_epsilon(wanted["epsilon"])
    with preconditions.said_if_nothing_was_charged(folder):
        return make(SynthRequest(**wanted), folder, observer=observer)


@contextmanager
def _explain_interrupts(folder: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        output.warn(f"Stopped; the generator is finished. {_how_to_sample(folder)}")
        raise


def _how_to_sample(folder: Path) -> str:
    return f"Rows at no cost: reticent synth --from {folder} --rows N -o FILE"


def _draw(found: Generator, write: Path) -> None:
    """A sheet of samples for each class, where they are pictures."""
    if not found.is_images or len(found.images.shape) < 2:
        return
    from reticent.report.figures.samples import save_sample_sheet

    rows = [found.images.sample(10, given=label)[0] for label in range(found.images.classes)]
    path = write.with_suffix(".png")
    save_sample_sheet(path, {found.request.method: rows})
    output.note(f"Wrote a sheet of samples to {path}.")


def _check_output(write: Path | None) -> None:
    if write is None:
        return
    if write.exists():
        raise DataError(f"{write} exists already.", remedy="Choose another name.")
    if not write.parent.is_dir():
        raise DataError(f"There is no folder {write.parent}.", remedy="Make it first.")


def _check_rows(rows: int | None) -> None:
    """Refuses a number of rows that cannot be written, before anything is paid."""
    if rows is not None and rows < 1:
        raise InvalidArgument(
            f"--rows {rows} leaves nothing to write.",
            remedy="Pass 1 or more; for the generator alone, --generator FOLDER without --rows and -o.",
        )


def _evaluate(found: Generator, data: str | None) -> dict[str, Any]:
    from reticent.runs import folder as folders
    from reticent.synthetic.quality.evaluation import evaluate

    output.note("evaluating against held-out rows")
    quality = evaluate(found, data=data, observer=output.observer())
    outcome = replace(found.record.result, quality=quality)
    found.record = replace(found.record, outcome=outcome)
    folders.write_record(found.folder, found.record)
    return quality


def _print(found: Generator, count: int, write: Path | None, judged: dict[str, Any] | None) -> None:
    from reticent.cli.show import print_card

    print_card(found.folder, found.record)
    if write is not None:
        output.note(f"Wrote {count:,} rows to {write}, and a card beside it.")
        if differs := found.card(count)["differs from the original's file"]:
            output.note(f"Not written as the original: {'; '.join(differs)}.")
        output.note(f"More at no cost: reticent synth --from {found.folder} --rows N -o FILE")
    else:
        output.note(f"No rows were written. {_how_to_sample(found.folder)}")
    if judged is not None:
        _print_quality(judged)


def _describe_scores(one: dict[str, Any]) -> str:
    said = f"accuracy {one['accuracy']:.3f}"
    return said if one["auroc"] is None else f"{said}, AUROC {one['auroc']:.3f}"


def _print_quality(judged: dict[str, Any]) -> None:
    rows = []
    for name, fact in judged.items():
        if name == "label":
            continue
        if fact["kind"] == "usefulness":
            rows += [(name, one["classifier"], _describe_scores(one)) for one in fact["scores"]]
        elif fact["kind"] == "distances":
            found = f"one column {fact['single_mean']:.3f}, two {fact['pair_mean']:.3f}"
            rows.append((name, "total variation", found))
        elif fact["kind"] == "membership":
            rows.append((name, "AUC (guessing gives 0.5)", f"{fact['auc']['value']:.3f}"))
        elif fact["kind"] == "self-test":
            rows.append((name, "samples against their model", "passed" if fact["has_passed"] else "FAILED"))
        elif fact["kind"] == "measured fit":
            outcome = "passed" if fact["has_passed"] else "FAILED"
            rows.append((name, "model against what was measured", outcome))
    output.print_line()
    output.print_table("Quality", {"what": "left", "how": "left", "found": "left"}, rows)
    output.print_text(judged["label"].capitalize() + ".")
