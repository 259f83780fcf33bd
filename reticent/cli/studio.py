"""`reticent studio`: the same engine in a browser, on this machine alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output

EPILOG = "Example:  reticent studio ."


def run(
    folder: Annotated[Path, typer.Argument(help="The folder with tables, runs and ledgers.")] = Path("."),
    port: Annotated[int, typer.Option(help="A port of this machine; 0 for any.", min=0, max=65535)] = 0,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser, if there is one.")] = True,
    as_json: output.AsJson = False,
) -> None:
    r"""Plan, train, look at runs and budgets, and learn, in a browser.

    A web server for this machine alone: it listens on 127.0.0.1, its address
    holds a random secret, and its pages load nothing from elsewhere. Every
    button shows the command that it runs. Ctrl-C ends it; a training that
    runs then keeps its state and can be resumed.

    Needs the extra: pip install 'reticent\[studio]'.
    """
    from reticent.studio.serve import open_in_browser, serve

    def on_start(address: str) -> None:
        if as_json:
            output.print_json({"address": address, "folder": str(folder.resolve())})
        else:
            output.print_line(address)
            output.note(
                f"The studio looks into {folder.resolve()}. Keep its address to yourself; Ctrl-C stops it."
            )
        typer.get_text_stream("stdout").flush()
        if opens:
            open_in_browser(address)

    with suppress(KeyboardInterrupt):  # how it is meant to end
        serve(folder, port=port, on_start=on_start)
