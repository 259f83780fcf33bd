"""`reticent demo`: the whole story in a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output
from reticent.core.errors import DataError

EPILOG = "Example:  reticent demo -o demo"


def run(
    data: Annotated[str, typer.Option(help="A dataset of the catalog (reticent datasets list).")] = "digits",
    epsilon: Annotated[float, typer.Option(help="What the private model may spend.")] = 3.0,
    write: Annotated[Path, typer.Option("-o", "--output", help="A new folder for everything.")] = Path(
        "reticent-demo"
    ),
    as_json: output.AsJson = False,
) -> None:
    """Train with and without privacy, attack both, and write a report.

    The same network twice on the same rows. Both are attacked by models
    trained as they were; the private one is audited, charged to a ledger,
    and reported on. Everything is left in a folder, to look at.
    """
    if write.exists() and (not write.is_dir() or any(write.iterdir())):
        raise DataError(f"{write} exists already.", remedy="Choose another folder: -o FOLDER.")
    from reticent.cli.demonstration import Shown, demonstrate
    from reticent.core.observer import Onlooker

    onlooker = Onlooker(say=output.note, warn=output.warn, watch=output.watch)
    model = "mlp" if data == "digits" else "auto"
    found = demonstrate(write, source=data, model=model, epsilon=epsilon, onlooker=onlooker)
    if as_json:
        rows = [dict(zip(("model", *Shown.HEADINGS[1:]), row, strict=True)) for row in found.rows]
        output.print_json({"report": str(found.report), "seconds": found.seconds, "models": rows})
        return
    headings = {name: "left" if place == 0 else "right" for place, name in enumerate(Shown.HEADINGS)}
    output.print_table(f"The same network on {data}, twice", headings, list(found.rows))
    print()
    output.print_text(
        "A coin has an AUC of 50%. With privacy no attack, known or not, can do better than the claimed "
        "epsilon allows, and the audit tried to contradict that."
    )
    output.print_text(f"The report: {found.report} ({found.seconds:.0f} s in all)")
