"""`reticent show`: the card of a run: guarantee, data, method, accuracy, cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli import output, paths

if TYPE_CHECKING:
    from reticent.runs.record import HistoryPoint, Outcome, RunRecord

EPILOG = "Example:  reticent show runs/patients"


def run(
    folder: Annotated[Path, typer.Argument(help="What train wrote.", show_default=False)],
    as_json: output.AsJson = False,
) -> None:
    """Show what a run is, what it promises, and how good it is.

    The sentence at the end may be published with the model. The scores
    above it may not: no noise is on them.
    """
    from reticent.runs.folder import read_record

    paths.require_folder(folder)
    record = read_record(folder)
    if as_json:
        output.print_json(record.to_json())
    else:
        print_card(folder, record)


def print_card(folder: Path, record: RunRecord) -> None:
    """Prints what a run is, what it promises, and how good it is."""
    from reticent.runs.folder import rows_in_words, stopped_in_words

    request, recipe = record.request, record.recipe
    rows = [("data", f"{request.source}, {rows_in_words(record)} trained on")]
    if request.target:
        rows.append(("target", request.target))
    rows.append(("method", f"{recipe.method}: {recipe.in_words}"))
    rows += _spent(record)
    if record.state == "failed":
        rows.append(("state", f"failed for good: {record.failure}"))
    elif record.outcome is None:
        goes_on = f"reticent {record.command} --resume {folder}"
        rows.append(("state", f"{record.state}, not finished. Go on: {goes_on}"))
        if said := stopped_in_words(record):
            rows.append(("promise", said))
    else:
        rows += _results(record.outcome)
    output.print_table(str(folder), {"": "left", " ": "left"}, rows)
    if record.outcome is not None:
        _draw(record.outcome.history)
        output.print_line()
        output.print_text(str(record.outcome.guarantee))


def _spent(record: RunRecord) -> list[tuple[str, str]]:
    """Where the budget went."""
    request, preparation = record.request, record.preparation
    rows = [("budget", f"epsilon {request.epsilon:g}, delta {request.delta:g}")]
    if preparation is not None:
        rows.append(
            (
                "preparation",
                f"found bounds, words and classes for epsilon {preparation.epsilon:.3g} of it",
            )
        )
    if request.ledger:
        rows.append(("ledger", f"charged to '{request.dataset}' in {request.ledger}"))
    return rows


def _draw(history: Sequence[HistoryPoint]) -> None:
    """How the model learned, if there is more than a moment of it."""
    from reticent.report.render.console import draw_curve

    scored = [(one.epoch, one.held_out["accuracy"]) for one in history if "accuracy" in one.held_out]
    if len(scored) > 2:
        epochs, accuracy = zip(*scored, strict=True)
        output.print_line()
        label = "accuracy on held-out rows, unreleased"
        output.print_line(draw_curve(epochs, accuracy, x_name="epochs", y_name=label, height=5))


def _results(outcome: Outcome) -> list[tuple[str, str]]:
    name, time = outcome.model.name, ("time", f"{outcome.seconds:.0f} s")
    if outcome.problem is None:
        made = " x ".join(map(str, outcome.model.shape or ()))
        return [("model", f"{name}: {made} columns"), time]
    problem, scores = outcome.problem, outcome.scores
    what = f"{len(problem.classes)} classes" if problem.classes else "a number"
    features = " x ".join(map(str, problem.shape))
    rows = [("model", f"{name}: {features} features, {what}")]
    if scores is not None:
        rows += [(score, f"{value:.4f}") for score, value in scores.values.items()]
        covered = ": not covered by the guarantee" if scores.values else ""
        rows.append(("", f"({scores.label}{covered})"))
    return [*rows, time]
