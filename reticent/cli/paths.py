"""Where a command reads a run and writes a file: problems are reported before anything is computed."""

from __future__ import annotations

import os
from pathlib import Path

from reticent.core.errors import DataError


def require_folder(run: Path) -> None:
    """Refuses a file where the folder of a run is asked for."""
    if run.is_file():
        raise DataError(
            f"{run} is a file, not the folder of a run.", remedy="Give the folder that train wrote (-o)."
        )


def require_place(file: Path) -> None:
    """Refuses a place where no file can be written; an existing file is fine."""
    if file.is_dir():
        raise DataError(f"Cannot write {file}: it is a folder.", remedy="Name a file in it.")
    if not file.parent.is_dir():
        raise DataError(
            f"Cannot write {file}: there is no folder {file.parent}.",
            remedy="Create it first, or choose another place.",
        )
    if not os.access(file.parent, os.W_OK | os.X_OK):
        raise DataError(
            f"Cannot write {file}: you may not write to the folder {file.parent}.",
            remedy="Choose another place.",
        )


def require_new_folder(folder: Path) -> None:
    """Refuses a folder with something in it, and a file in its place."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists already.", remedy="Choose another folder: -o FOLDER.")


def require_new(file: Path) -> None:
    """Refuses a place that is taken, or where no file can be written."""
    if file.exists():
        raise DataError(f"{file} exists already.", remedy="Choose another name.")
    require_place(file)
