"""`reticent sweep`: noise, accuracy and leakage over epsilon, for each accounting method."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from reticent.cli import options, output, preconditions
from reticent.core.errors import InvalidArgument

if TYPE_CHECKING:
    from reticent.report.facts.facts import Facts
    from reticent.runs.sweep import Cell

EPILOG = "Example:  reticent sweep digits --epsilons 1,100 --accounting basic,tight --model linear -o sweep"


def run(
    source: Annotated[str, typer.Argument(help="A table, or the name of a dataset.", show_default=False)],
    write: Annotated[
        Path, typer.Option("-o", "--output", help="A folder; a sweep in it is resumed.", show_default=False)
    ],
    epsilons: Annotated[
        str, typer.Option(help="Privacy budgets, separated by commas.")
    ] = "0.1,1,10,100,1000",
    accounting: Annotated[
        str, typer.Option(help="Accounting methods, loosest first.")
    ] = "basic,advanced,zcdp,rdp,tight",
    model: Annotated[str, typer.Option(help="linear, mlp, or both.")] = "linear,mlp",
    attacks: Annotated[str, typer.Option(help="threshold, shadow, or both.")] = "threshold,shadow",
    target: options.Target = None,
    domain: options.DomainFile = None,
    delta: Annotated[float, typer.Option(help="The delta of every guarantee.")] = 1e-5,
    rows: Annotated[
        int, typer.Option(help="The most rows to use, at least 100; half of them train each model.")
    ] = 4000,
    seeds: Annotated[int, typer.Option(help="Models per cell: an even number, at least 8.")] = 8,
    as_json: output.AsJson = False,
) -> None:
    """Sweep over epsilon and accounting: noise, accuracy, leakage.

    For each accounting method and each epsilon: the noise it requires, the
    accuracy that is left, and what attacks find, beside the bound on what
    any attack can find. An interrupted sweep is resumed. Nothing is charged:
    use it on public data, or on data that you hold.
    """
    from reticent.distributed.collectives import is_first
    from reticent.distributed.consensus import by_first
    from reticent.report.facts.sweep import sweep_facts
    from reticent.runs.sweep import SweepRequest, sweep

    preconditions.check_source(source)
    request = SweepRequest(
        source=source,
        target=target,
        domain=str(domain) if domain else None,
        epsilons=tuple(_parse_numbers(epsilons)),
        accounting=tuple(_split_words(accounting)),
        models=tuple(_split_words(model)),
        attacks=tuple(_split_words(attacks)),
        delta=delta,
        rows=rows,
        seeds=seeds,
    )
    cells = sweep(request, write, observer=output.observer())
    known = sweep_facts(request, cells)
    by_first(lambda: _write(write, known, cells))
    if not is_first():  # every process has the same results, and one prints them
        return
    if as_json:
        output.print_json({"folder": str(write), "cells": [cell.to_json() for cell in cells]})
        return
    from rich.console import Console

    from reticent.report.render.terminal import print_facts

    print_facts(known, Console())
    output.note(f"Wrote report.html, sweep.csv and pictures to {write}.")


def _write(folder: Path, known: Facts, cells: list[Cell]) -> None:
    from reticent.core.files import write_whole
    from reticent.report.facts.facts import Chart
    from reticent.report.figures.curves import save_chart
    from reticent.report.render.html import page
    from reticent.runs.sweep import as_rows

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


def _split_words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _parse_numbers(text: str) -> list[float]:
    try:
        return [float(word) for word in _split_words(text)]
    except ValueError:
        raise InvalidArgument(
            f"'{text}' is not a list of numbers.", remedy="Separate them by commas: 0.1,1,10."
        ) from None
