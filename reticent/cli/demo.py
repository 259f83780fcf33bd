"""`reticent demo`: the whole story in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths

EPILOG = "Example:  reticent demo -o demo"


def run(
    data: Annotated[str, typer.Option(help="The name of a dataset (reticent datasets list).")] = "digits",
    epsilon: Annotated[float, typer.Option(help="The privacy budget of the private model.")] = 3.0,
    write: Annotated[Path, typer.Option("-o", "--output", help="A new folder for everything.")] = Path(
        "reticent-demo"
    ),
    as_json: output.AsJson = False,
) -> None:
    """Train with and without privacy, attack both, and write a report.

    The same network is trained twice on the same rows. Both are attacked by
    shadow models; the private one is charged to a ledger, audited, and
    reported on. Everything is left in a folder.
    """
    paths.require_new_folder(write)
    from reticent.cli.demonstration import Demonstration, demonstrate

    model = "mlp" if data == "digits" else "auto"
    found = demonstrate(write, source=data, model=model, epsilon=epsilon, observer=output.observer())
    if as_json:
        rows = [dict(zip(("model", *Demonstration.HEADINGS[1:]), row, strict=True)) for row in found.rows]
        output.print_json({"report": str(found.report), "seconds": found.seconds, "models": rows})
        return
    headings = {name: "left" if place == 0 else "right" for place, name in enumerate(Demonstration.HEADINGS)}
    output.print_table(f"The same network on {data}, twice", headings, list(found.rows))
    output.print_line()
    output.print_text(
        "Guessing gives an AUC of 50%. With privacy no attack, known or unknown, can do better than the "
        "claimed epsilon allows, and the audit tried to contradict that claim."
    )
    output.print_text(f"The report: {found.report} ({found.seconds:.0f} s in all)")
