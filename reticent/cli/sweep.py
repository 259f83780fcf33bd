"""`reticent sweep`: theory against practice, as a tool."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli import output, preconditions
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.report.facts.facts import Facts
    from reticent.runs.sweep import Cell

EPILOG = "Example:  reticent sweep digits --epsilons 1,100 --accounting basic,tight --model linear -o sweep"


def run(
    source: Annotated[str, typer.Argument(help="A dataset of the catalog, or a table.", show_default=False)],
    write: Annotated[
        Path, typer.Option("-o", "--output", help="A folder; a sweep in it goes on.", show_default=False)
    ],
    epsilons: Annotated[str, typer.Option(help="With commas between.")] = "0.1,1,10,100,1000",
    accounting: Annotated[
        str, typer.Option(help="How the noise is found, loosest first.")
    ] = "basic,advanced,zcdp,rdp,tight",
    model: Annotated[str, typer.Option(help="linear, mlp or both.")] = "linear,mlp",
    attacks: Annotated[str, typer.Option(help="threshold, shadow or both.")] = "threshold,shadow",
    target: Annotated[str | None, typer.Option(help="The column to predict.", show_default=False)] = None,
    domain: Annotated[
        Path | None, typer.Option(help="What is public about a table.", show_default=False)
    ] = None,
    delta: Annotated[float, typer.Option(help="Of every promise.")] = 1e-5,
    rows: Annotated[int, typer.Option(help="At most so many, 100 or more; half train a model.")] = 4000,
    seeds: Annotated[int, typer.Option(help="Models a cell: an even number, 8 or more.")] = 8,
    as_json: output.AsJson = False,
) -> None:
    """Sweep over epsilon and accounting: noise, accuracy, leakage.

    For each way of accounting and each epsilon: the noise it demands, the
    accuracy that is left, and what attacks find, beside the bound on what
    any attack can find. Goes on where it stopped. Nothing is charged: it is
    for public data, or for whoever holds them.
    """
    from reticent.core.observer import Onlooker
    from reticent.distributed.collectives import is_first
    from reticent.distributed.consensus import by_first
    from reticent.report.facts.sweep import facts
    from reticent.runs.sweep import SweepOrder, sweep

    preconditions.check_source(source)
    order = SweepOrder(
        source=source,
        target=target,
        domain=str(domain) if domain else None,
        epsilons=tuple(_numbers(epsilons)),
        accounting=tuple(_words(accounting)),
        models=tuple(_words(model)),
        attacks=tuple(_words(attacks)),
        delta=delta,
        rows=rows,
        seeds=seeds,
    )
    onlooker = Onlooker(say=output.note, warn=output.warn, watch=output.watch)
    cells = sweep(order, write, onlooker=onlooker)
    known = facts(order, cells)
    by_first(lambda: _write(write, known, cells))
    if not is_first():  # the others know the same, and it is said once
        return
    if as_json:
        output.print_json({"folder": str(write), "cells": [cell.to_json() for cell in cells]})
        return
    from rich.console import Console

    from reticent.report.render.terminal import print_facts

    print_facts(known, Console())
    output.note(f"Wrote report.html, sweep.csv and pictures to {write}.")


def _write(folder: Path, known: Facts, cells: list[Cell]) -> None:
    from reticent.report.facts.facts import Chart
    from reticent.report.figures.curves import save_chart
    from reticent.report.render.html import page
    from reticent.runs.sweep import as_rows
    from reticent.training.checkpoint import write_whole

    write_whole(folder / "report.html", page(known).encode())
    write_whole(folder / "report.json", (json.dumps(known.to_json(), indent=2) + "\n").encode())
    write_whole(folder / "sweep.csv", _csv(as_rows(cells)).encode())
    for section in known.sections:
        for chart in section.charts:
            if isinstance(chart, Chart):
                save_chart(folder / f"{chart.id}.svg", chart)


def _csv(rows: list[dict[str, object]]) -> str:
    buffer = io.StringIO(newline="")
    names = list(dict.fromkeys(key for row in rows for key in row))
    writer = csv.DictWriter(buffer, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in _words(text)]
    except ValueError:
        raise InvalidArgument(
            f"'{text}' is no list of numbers.", remedy="Write them with commas between: 0.1,1,10."
        ) from None
