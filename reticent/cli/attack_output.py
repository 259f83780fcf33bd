"""What an attack tells: a table and sentences on the terminal, numbers and pictures in a folder."""

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


class Told(NamedTuple):
    """What one kind of attack found.

    Args:
        key: under which `found` stands in the JSON; empty for membership, which stands at its top.
        headings: of the table, and how each column is aligned.
        pictures: by file name, what draws it into a path.
    """

    key: str
    found: dict[str, Any]
    title: str
    headings: dict[str, str]
    rows: list[tuple[str, ...]]
    words: list[str]
    pictures: dict[str, Callable[[Path], None]]

    @property
    def as_json(self) -> dict[str, Any]:
        known = {**self.found, "in_words": self.words}
        return {self.key: known} if self.key else known


def tell(told: Sequence[Told], write: Path | None, *, as_json: bool) -> None:
    """Writes the folder first, if there is to be one, and then speaks."""
    found = {key: value for one in told for key, value in one.as_json.items()}
    if write is not None:
        pictures = {name: draw for one in told for name, draw in one.pictures.items()}
        _write(write, found, pictures)
        output.note(f"Wrote {', '.join(['attack.json', *pictures])} to {write}.")
    if as_json:
        output.print_json(found)
        return
    for number, one in enumerate(told):
        if number:
            print()
        output.print_table(one.title, one.headings, one.rows)
        print()
        for line in one.words:
            output.print_text(line)


def require_new(folder: Path | None) -> None:
    """Refuses a folder with something in it, before anything is computed for it."""
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists already.", remedy="Choose another folder.")


def _write(folder: Path, found: dict[str, Any], pictures: dict[str, Callable[[Path], None]]) -> None:
    """All of it, or nothing: the folder gets its name when everything is in it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            for name, draw in pictures.items():
                draw(partial / name)
            (partial / "attack.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            partial.chmod(0o755)
            os.replace(partial, folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise DataError(
            f"The results could not be written to {folder}: {error.strerror}.",
            remedy="Choose a new folder in a place that you may write to.",
        ) from None


def interval(value: dict[str, float]) -> str:
    return f"{100 * value['value']:.1f}% ({100 * value['low']:.1f}-{100 * value['high']:.1f})"
