"""`reticent pretrain`: weights from public images, learned without privacy, to start private runs from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reticent.cli import output, paths

EPILOG = "Example:  reticent pretrain cifar100 --model wide_resnet+patches -o public"


def run(
    source: Annotated[str, typer.Argument(help="A dataset of public images (reticent datasets list).")],
    write: Annotated[Path, typer.Option("-o", "--output", help="A new folder.", show_default=False)],
    model: Annotated[
        str, typer.Option(help="wide_resnet, patches, or wide_resnet+patches.")
    ] = "wide_resnet+patches",
    epochs: Annotated[int, typer.Option(help="Of the network.", min=1)] = 8,
    rows: Annotated[
        int | None, typer.Option(help="How many of the rows to take.", show_default="all", min=100)
    ] = None,
    as_json: output.AsJson = False,
) -> None:
    """Learn features from public images. This is NOT private.

    For data that everybody may see, and never for anybody's records: the
    weights may tell of every row. Private runs start from them: reticent
    train cifar10 --from FOLDER. Such a run records their digest, its
    guarantee says that they saw no private record, and private rows that are
    among the public ones are refused.
    """
    paths.require_new_folder(write)
    from reticent.pretraining.from_images import pretrain

    output.warn(f"Pre-training is not private: {source} has to be public.")
    made = pretrain(source, model=model, epochs=epochs, rows=rows, observer=output.observer())
    made.write(write)
    about = made.about
    if as_json:
        output.print_json(
            {
                "folder": str(write),
                "is_private": False,
                "model": made.name,
                "digest": made.digest,
                "dataset": about.dataset,
                "rows": about.rows,
                "features": made.width,
                "accuracy": about.accuracy,
            }
        )
        return
    output.print_line(f"{made.name}, not private, digest {made.digest[:16]}")
    if about.accuracy is not None:
        output.print_line(f"{about.accuracy:.1%} of the held-out public rows are classified correctly")
    output.note(f"Next: reticent train DATASET --epsilon 2 --from {write} -o RUN.")
