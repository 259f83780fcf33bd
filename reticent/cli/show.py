"""`reticent show`: the card of a run: guarantee, data, method, accuracy, cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from reticent.cli import output, paths

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
        output.print_json(record)
    else:
        print_card(folder, record)


def print_card(folder: Path, record: dict[str, Any]) -> None:
    from reticent.runs.folder import rows_in_words, stopped_in_words

    order, recipe = record["order"], record["recipe"]
    rows = [("data", f"{order['source']}, {rows_in_words(record)} trained on")]
    if order["target"]:
        rows.append(("target", order["target"]))
    rows.append(("method", f"{recipe['method']}: {recipe['in_words']}"))
    rows += _spent(record)
    if record["state"] == "failed":
        rows.append(("state", f"failed for good: {record['failure']}"))
    elif record["state"] != "finished":
        command = "synth" if record.get("kind") == "generator" else "train"
        goes_on = f"reticent {command} --resume {folder}"
        rows.append(("state", f"{record['state']}, not finished. Go on: {goes_on}"))
        if said := stopped_in_words(record):
            rows.append(("promise", said))
    else:
        rows += _results(record)
    output.print_table(str(folder), {"": "left", " ": "left"}, rows)
    if record["state"] == "finished":
        _draw(record["history"])
        print()
        output.print_text(record["sentence"])


def _spent(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Where the budget went."""
    order, preparation = record["order"], record["preparation"]
    rows = [("budget", f"epsilon {order['epsilon']:g}, delta {order['delta']:g}")]
    if preparation is not None:
        rows.append(
            (
                "preparation",
                f"found bounds, words and classes for epsilon {preparation['epsilon']:.3g} of it",
            )
        )
    if order["ledger"]:
        rows.append(("ledger", f"charged to '{order['dataset']}' in {order['ledger']}"))
    return rows


def _draw(history: dict[str, Any]) -> None:
    """How the model learned, if there is more than a moment of it."""
    from reticent.report.render.console import draw_curve

    moments = [moment for moment in history["moments"] if "accuracy" in moment["held_out"]]
    if len(moments) > 2:
        epochs, accuracy = zip(*((one["epoch"], one["held_out"]["accuracy"]) for one in moments), strict=True)
        print()
        label = "accuracy on held-out rows, unreleased"
        print(draw_curve(epochs, accuracy, x_name="epochs", y_name=label, height=5))


def _results(record: dict[str, Any]) -> list[tuple[str, str]]:
    problem, metrics = record["problem"], record["metrics"]
    if record.get("kind") == "generator":
        made = " x ".join(str(side) for side in problem["shape"])
        return [
            ("model", f"{record['model']['name']}: {made} columns"),
            ("time", f"{record['seconds']:.0f} s"),
        ]
    what = f"{len(problem['classes'])} classes" if problem["classes"] else "a number"
    features = " x ".join(str(side) for side in problem["shape"])
    rows = [("model", f"{record['model']['name']}: {features} features, {what}")]
    for name, value in metrics.items():
        if isinstance(value, float):
            rows.append((name, f"{value:.4f}"))
    count = f", {metrics['rows']:,} of them: not covered by the guarantee" if metrics["rows"] else ""
    rows.append(("", f"({metrics['label']}{count})"))
    rows.append(("time", f"{record['seconds']:.0f} s"))
    return rows
