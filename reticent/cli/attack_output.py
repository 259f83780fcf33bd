"""How attacks are shown: a table and sentences on the terminal, numbers and pictures in a folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reticent.cli import output
from reticent.core.errors import DataError
from reticent.core.files import write_whole


class AttackOutput(NamedTuple):
    """What one kind of attack found, ready to be shown.

    Args:
        key: the key of `found` in the JSON; empty for membership, which is merged into the top level.
        headings: of the table, and how each column is aligned.
        sentences: what the table means.
        pictures: for each file name, the function that draws it to a path.
    """

    key: str
    found: dict[str, Any]
    title: str
    headings: dict[str, str]
    rows: list[tuple[str, ...]]
    sentences: list[str]
    pictures: dict[str, Callable[[Path], None]]

    def to_json(self) -> dict[str, Any]:
        content = {**self.found, "in_words": self.sentences}
        return {self.key: content} if self.key else content


def show_outputs(
    outputs: Sequence[AttackOutput], write: Path | None, *, run: Path | None, as_json: bool
) -> None:
    """Writes the numbers and pictures; then prints tables and sentences, or the JSON.

    Args:
        write: the folder that was asked for.
        run: else, the run whose private part takes them.
    """
    found = {key: value for one in outputs for key, value in one.to_json().items()}
    pictures = {name: draw for one in outputs for name, draw in one.pictures.items()}
    if write is not None:
        _write_folder(write, found, pictures)
    elif run is not None:
        from reticent.runs import private_part

        with output.kept_if_possible():
            _write_folder(private_part.make_place(run, private_part.ATTACKS), found, pictures)
    if as_json:
        output.print_json(found)
        return
    for number, one in enumerate(outputs):
        if number:
            output.print_line()
        output.print_table(one.title, one.headings, one.rows)
        output.print_line()
        for line in one.sentences:
            output.print_text(line)


def _write_folder(folder: Path, found: dict[str, Any], pictures: dict[str, Callable[[Path], None]]) -> None:
    """Writes all of it, or nothing: the folder gets its name when everything is in it.

    It is computed from the records, so only its owner can read it.
    """
    from reticent.runs.json_values import finite

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            for name, draw in pictures.items():
                draw(partial / name)
                (partial / name).chmod(0o600)
            write_whole(
                partial / "attack.json",
                (json.dumps(finite(found), indent=2, allow_nan=False) + "\n").encode(),
                is_private=True,
            )
            os.replace(partial, folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise DataError(
            f"Cannot write the results to {folder}: {error.strerror}.",
            remedy="Choose a folder in a place that you can write to.",
        ) from None
    output.note(f"Wrote {', '.join(['attack.json', *pictures])} to {folder}.")


def format_interval(value: dict[str, float]) -> str:
    """A share in percent, with its interval."""
    return f"{100 * value['value']:.1f}% ({100 * value['low']:.1f}-{100 * value['high']:.1f})"
