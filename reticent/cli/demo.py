"""`reticent demo`: the whole story in three steps."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths

EPILOG = "Example:  reticent demo -o demo"


def run(
    data: Annotated[str, typer.Option(help="Images with classes (reticent datasets list).")] = "digits",
    table: Annotated[
        bool, typer.Option("--table", help="A table of patients instead: train, attack, make synthetic rows.")
    ] = False,
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the private model.")] = 3.0,
    write: Annotated[Path, typer.Option("-o", "--output", help="A new folder for everything.")] = Path(
        "reticent-demo"
    ),
    open_report: Annotated[
        bool, typer.Option("--open", help="Open the report in a browser, if there is one.")
    ] = False,
    as_json: output.AsJson = False,
) -> None:
    """Show a model that leaks, a private one, and the proof.

    The same model is trained twice on the same rows, in which made-up records
    are planted. Without privacy it tells which of them it saw; with privacy it
    does not. The private one is charged to a ledger first, audited, and
    reported on. Everything is left in a folder.
    """
    paths.require_new_folder(write)
    if table:
        _show_table(write, epsilon, as_json=as_json)
    else:
        _show_images(write, data, epsilon, as_json=as_json)
    if open_report:
        open_in_browser(write / "report.html")


def _show_images(write: Path, data: str, epsilon: float, *, as_json: bool) -> None:
    from reticent.cli.demonstration import Demonstration, demonstrate

    found = demonstrate(write, source=data, epsilon=epsilon, observer=output.observer())
    if as_json:
        rows = [dict(zip(("model", *Demonstration.HEADINGS[1:]), row, strict=True)) for row in found.rows]
        output.print_json({"report": str(found.report), "seconds": found.seconds, "models": rows})
        return
    headings = {name: "left" if place == 0 else "right" for place, name in enumerate(Demonstration.HEADINGS)}
    output.print_table(f"The same model on {data}, twice", headings, list(found.rows))
    output.print_line()
    output.print_text(
        "Guessing gives an AUC of 50%. With privacy no attack, known or unknown, can do better than the "
        "claimed epsilon allows, and the audit tried to contradict that claim."
    )
    output.print_text(f"The report: {found.report} ({found.seconds:.0f} s in all)")


def _show_table(write: Path, epsilon: float, *, as_json: bool) -> None:
    from reticent.cli.table_demonstration import demonstrate_table

    found = demonstrate_table(write, epsilon=epsilon, observer=output.observer())
    if as_json:
        steps = [{"step": name, "result": said} for name, said in found.rows]
        output.print_json({"report": str(found.report), "seconds": found.seconds, "steps": steps})
        return
    output.print_table("A table of patients", {"step": "left", "result": "left"}, list(found.rows))
    output.print_line()
    output.print_text(f"The report: {found.report} ({found.seconds:.0f} s in all)")


def open_in_browser(page: Path) -> None:
    """Opens a file in the browser of whoever sits there; prints where it is if there is none."""
    import webbrowser

    has_display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if not (has_display and webbrowser.open(page.resolve().as_uri())):
        output.note(f"There is no browser to open {page} in.")
