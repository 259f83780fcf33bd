"""`reticent report`: one page on what was trained, what is promised and what attacks found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import options, output, paths
from reticent.core.errors import DataError

EPILOG = "Example:  reticent report runs/patients -o patients.html"


def run(
    folder: options.RunFolder,
    write: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="The HTML file to write.", show_default="report.html in the run's folder"
        ),
    ] = None,
    attacks: Annotated[
        Path | None,
        typer.Option(
            help="The folder that attack -o wrote.", show_default="private/attacks in the run's folder"
        ),
    ] = None,
    audit: Annotated[
        Path | None,
        typer.Option(
            help="The file that audit -o wrote.", show_default="private/audit.json in the run's folder"
        ),
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Write a report on a run, for the person who has to sign for it.

    One HTML file that needs no network: the promise in plain words first,
    then the evidence, then the full record. The same facts are written to
    report.json beside it. Numbers from held-out rows and attacks are
    unreleased: the report is for whoever holds the data.
    """
    from reticent.core.files import write_whole
    from reticent.report.from_run import collect_facts
    from reticent.report.render.html import page
    from reticent.report.render.terminal import print_facts

    page_file = folder / "report.html" if write is None else write
    paths.require_folder(folder)
    if write is not None:
        paths.require_place(page_file)
    _require_replaceable(page_file)
    facts = collect_facts(folder, attacks=attacks, audit=audit)
    content = facts.to_json()
    machine = (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    is_private = write is None  # in the folder of the run, where nothing says that others should read it
    write_whole(page_file, page(facts).encode(), is_private=is_private)
    write_whole(page_file.with_suffix(".json"), machine, is_private=is_private)
    if as_json:
        output.print_json({"page": str(page_file), "facts": content})
        return
    from rich.console import Console

    print_facts(facts, Console())
    output.note(f"Wrote {page_file} and {page_file.with_suffix('.json').name}.")


def _require_replaceable(page_file: Path) -> None:
    """Refuses to replace a file that is not a report, be it the page or the facts beside it."""
    from reticent.report.from_run import is_report

    facts = page_file.with_suffix(".json")
    if facts == page_file:
        raise DataError(
            f"{page_file} cannot be the page: the facts have that name.",
            remedy=f"Name it {page_file.with_suffix('.html')}; both are written.",
        )
    for path in (page_file, facts):
        if path.exists() and not is_report(path):
            raise DataError(
                f"{path} exists already and is not a report.",
                remedy=f"Choose another -o: the page and a {facts.suffix} beside it are written.",
            )
