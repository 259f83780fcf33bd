"""`reticent show`: the card of a run: guarantee, data, method, accuracy, cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.accounting.rounding import at_most
from reticent.cli import output, paths
from reticent.core.errors import DataError, InvalidArgument

if TYPE_CHECKING:
    from reticent.runs.record import HistoryPoint, RunRecord, RunResult

EPILOG = "Example:  reticent show runs/patients"

_LOOKED_AT = 3  # columns or words that a card names


def run(
    folder: Annotated[Path, typer.Argument(help="What train wrote.", show_default=False)],
    weights: Annotated[
        bool, typer.Option("--weights", help="List what a linear or additive model looks at.")
    ] = False,
    classes: Annotated[
        bool, typer.Option("--classes", help="Show recall by class, confusion and calibration (unreleased).")
    ] = False,
    thresholds: Annotated[
        bool,
        typer.Option("--thresholds", help="Show precision and recall by threshold, for two classes."),
    ] = False,
    as_json: output.AsJson = False,
) -> None:
    """Show what a run is, what it promises, and how good it is.

    The sentence at the end may be published with the model. The scores
    above it may not: no noise is on them. Weights are part of the model, and
    may be published with it.
    """
    if weights + classes + thresholds > 1:
        raise InvalidArgument(
            "--weights, --classes and --thresholds are different tables.", remedy="Ask for one of them."
        )
    from reticent.runs.folder import read_record

    paths.require_folder(folder)
    record = read_record(folder)
    if weights:
        _print_weights(folder, as_json=as_json)
    elif classes or thresholds:
        _print_class_tables(folder, record, only_thresholds=thresholds, as_json=as_json)
    elif as_json:
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
    if recipe.why:
        rows.append(("chosen", recipe.why))
    rows += _spending_rows(record)
    if record.state == "failed":
        rows.append(("state", f"failed for good: {record.failure}"))
    elif record.outcome is None:
        resume = f"reticent {record.command} --resume {folder}"
        rows.append(("state", f"{record.state}, not finished. Resume: {resume}"))
        if said := stopped_in_words(record):
            rows.append(("promise", said))
    else:
        rows += _results(record.outcome, request.target)
        rows += _looks_at(folder, record)
    output.print_table(str(folder), {"": "left", " ": "left"}, rows)
    if record.outcome is not None:
        _draw(record.outcome.history)
        output.print_line()
        output.print_text(str(record.outcome.guarantee))
        for warning in record.outcome.warnings:
            output.warn(warning)


def _looks_at(folder: Path, record: RunRecord) -> list[tuple[str, str]]:
    """The columns or words that move the score of a linear or additive model most: part of the model."""
    from reticent.core.errors import ReticentError
    from reticent.core.plain_numbers import plain_number

    assert record.outcome is not None
    if record.is_generator or record.outcome.model.name not in ("linear", "additive"):
        return []
    problem = record.outcome.problem

    def of_class(output: str) -> str:  # a number has one score: it needs no name
        return f" for {output}" if problem is not None and problem.bounds is None else ""

    try:
        if record.outcome.model.name == "additive":
            from reticent.report.facts.shapes import effects_of_columns

            said = [
                f"{each.column}{of_class(each.output)} ({plain_number(min(each.values), digits=3)} to "
                f"{plain_number(max(each.values), digits=3)}, noise up to "
                f"{plain_number(max(each.deviations), digits=2)})"
                for each in effects_of_columns(folder, record)[:_LOOKED_AT]
            ]
        else:
            from reticent.runs.predict import Predictor
            from reticent.runs.weights import labelled_weights, show_effect

            found = labelled_weights(Predictor(folder)).weights[:_LOOKED_AT]
            said = [f"{each.feature}{of_class(each.output)} ({show_effect(each)})" for each in found]
    except ReticentError:  # it has no names, or its file is gone: the rest of the card does not need it
        return []
    return [("looks at", f"{', '.join(said)}; more with --weights, and as pictures in the report")]


def _print_weights(folder: Path, *, as_json: bool) -> None:
    """Prints what each feature does to the score: all of them as JSON, else the largest."""
    from reticent.runs.predict import Predictor
    from reticent.runs.weights import HOW_TO_READ, LARGEST, labelled_weights, weight_rows

    predictor = Predictor(folder)
    if predictor.learner.name == "additive":
        _print_curves(folder, predictor.record, as_json=as_json)
        return
    found = labelled_weights(predictor)
    if as_json:
        output.print_json({"unit": found.unit, "weights": [each._asdict() for each in found.weights]})
        return
    headings = {"feature": "left", "moves": "left", "effect": "right", "noise": "right"}
    output.print_table(f"Effects {found.unit}", headings, weight_rows(found))
    if len(found.weights) > LARGEST:
        output.note(f"The largest {LARGEST} of {len(found.weights):,}; all of them with --json.")
    output.note(f"Effects: {HOW_TO_READ}.")


def _print_curves(folder: Path, record: RunRecord, *, as_json: bool) -> None:
    """Prints how far each column of an additive model moves the score; its curves as JSON."""
    from reticent.core.plain_numbers import plain_number
    from reticent.report.facts.shapes import effects_of_columns
    from reticent.runs.weights import LARGEST

    effects = effects_of_columns(folder, record)
    if as_json:
        output.print_json([effect._asdict() for effect in effects])
        return
    rows = [
        (
            effect.column,
            effect.output,
            plain_number(min(effect.values), digits=3),
            plain_number(max(effect.values), digits=3),
            plain_number(max(effect.deviations), digits=2),
        )
        for effect in effects[:LARGEST]
    ]
    headings = {"column": "left", "moves": "left", "from": "right", "to": "right", "noise, at most": "right"}
    output.print_table("What each column adds to the score", headings, rows)
    output.note("The curves are in the report (reticent report RUN), and in full with --json.")


def _print_class_tables(folder: Path, record: RunRecord, *, only_thresholds: bool, as_json: bool) -> None:
    """Prints what lies behind the accuracy of a run, for whoever holds the data."""
    from reticent.report.facts.scores import class_tables
    from reticent.runs.folder import require_finished

    result = require_finished(folder, record)
    details = None if result.scores is None else result.scores.details
    tables = class_tables(result)
    if only_thresholds:
        tables = [table for table in tables if table.headings[0] == "threshold"]
    if not tables or details is None:
        raise DataError(
            f"{folder} has no scores of {'two classes' if only_thresholds else 'classes'} on held-out rows.",
            remedy="They are kept in its private part, for runs that predict classes and hold rows out.",
        )
    if as_json:
        classes = list(result.problem.classes) if result.problem else []
        said = details.to_json()
        output.print_json(
            {"classes": classes, **({"thresholds": said["thresholds"]} if only_thresholds else said)}
        )
        return
    for table in tables:
        sides = {name: "left" if at == 0 else "right" for at, name in enumerate(table.headings)}
        output.print_table(table.title, sides, list(table.rows))


def _spending_rows(record: RunRecord) -> list[tuple[str, str]]:
    """Where the budget went."""
    request, preparation = record.request, record.preparation
    rows = [("budget", f"epsilon {request.epsilon:g}, delta {request.delta:g}")]
    if preparation is not None:
        rows.append(
            (
                "preparation",
                f"found bounds, words and classes for epsilon {at_most(preparation.epsilon)} of it",
            )
        )
    if request.ledger:
        is_first = len(record.charges) > 1 and record.state in ("preparing", "failed")
        what = "preparation alone is charged" if is_first else "charged"
        rows.append(("ledger", f"{what} to '{request.dataset}' in {request.ledger}"))
    return rows


def _draw(history: Sequence[HistoryPoint]) -> None:
    """Draws the score over the steps, if it was measured more than once."""
    from reticent.report.render.console import draw_curve

    scored = [(one.epoch, one.held_out["accuracy"]) for one in history if "accuracy" in one.held_out]
    if len(scored) > 2:
        epochs, accuracy = zip(*scored, strict=True)
        output.print_line()
        label = "accuracy on held-out rows, unreleased"
        output.print_line(draw_curve(epochs, accuracy, x_name="epochs", y_name=label, height=5))


def _results(outcome: RunResult, target: str | None) -> list[tuple[str, str]]:
    from reticent.report.facts.scores import outside_in_words, score_lines

    name, time = outcome.model.name, ("time", f"{outcome.seconds:.0f} s")
    if outcome.problem is None:
        made = " x ".join(map(str, outcome.model.shape or ()))
        return [("model", f"{name}: {made} columns"), time]
    problem, scores = outcome.problem, outcome.scores
    what = f"{len(problem.classes)} classes" if problem.classes else "a number"
    features = " x ".join(map(str, problem.shape))
    rows = [("model", f"{name}: {features} features, {what}")]
    if scores is not None:
        rows += [
            (line.name, f"{line.shown} ({line.note})" if line.note else line.shown)
            for line in score_lines(scores)
        ]
        rows += outside_in_words(scores.details, target)
        covered = ": not covered by the guarantee" if scores.values else ""
        rows.append(("", f"({scores.label}{covered})"))
    return [*rows, time]
