"""The folder that a studio looks into: its tables, runs and ledgers, and nothing outside it.

Names come back from pages as paths relative to the folder. A name that leads outside, through `..` or a link,
names nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reticent.core.errors import DataError, InvalidArgument

TABLES = (
    ".csv",
    ".tsv",
    ".txt",
    ".data",
    ".parquet",
    ".arrow",
    ".feather",
    ".jsonl",
    ".ndjson",
    ".xlsx",
    ".gz",
)
LEDGERS = (".ledger", ".sqlite", ".db")
UPLOADS = "tables"
_DEEPEST = 4  # folders below the first one
_MOST = 2_000  # names that are looked at
_RUN = "run.json"


@dataclass(frozen=True)
class Workspace:
    """One folder and what lies in it."""

    folder: Path

    def find(self, name: str) -> Path:
        """The path that a page named.

        Raises:
            DataError: there is nothing of this name inside the folder.
        """
        root = self.folder.resolve()
        path = root / name
        try:
            inside = path.resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise _missing(name) from None
        if inside != path or not inside.is_relative_to(root) or inside == root:
            raise _missing(name)
        return path

    def name(self, path: Path) -> str:
        """What a page calls this path."""
        return path.resolve().relative_to(self.folder.resolve()).as_posix()

    def new(self, name: str) -> Path:
        """A path inside the folder at which there is nothing yet.

        Raises:
            InvalidArgument: the name is not a plain one. DataError: there is something.
        """
        parts = name.split("/")
        is_plain = all(part and not part.startswith(".") and part.isprintable() for part in parts)
        if not is_plain or "\\" in name or len(name) > 200:
            raise InvalidArgument(
                f"'{name}' is not a plain name.", remedy="Use letters, digits, and / for a folder."
            )
        path = self.folder.resolve() / name
        if path.parent.resolve() != path.parent or path.exists() or path.is_symlink():
            raise DataError(f"There is something at {name} already.", remedy="Choose another name.")
        return path

    def runs(self) -> list[str]:
        """Folders with a run in them, the newest first."""
        found = [path.parent for path in self._walk() if path.name == _RUN]
        return [self.name(path) for path in sorted(found, key=_changed, reverse=True)]

    def tables(self) -> list[str]:
        """Files that may hold a table."""
        return sorted(
            self.name(path)
            for path in self._walk()
            if path.suffix.lower() in TABLES and not (path.parent / _RUN).exists()
        )

    def ledgers(self) -> list[str]:
        """Files that may hold a ledger."""
        return sorted(self.name(path) for path in self._walk() if path.suffix.lower() in LEDGERS)

    def new_table(self, name: str) -> Path:
        """A path for a table that was dropped on a page: in a folder that only its owner can open.

        Raises:
            InvalidArgument: the name is not that of a table. DataError: there is one already.
        """
        plain = name.replace("\\", "/").rpartition("/")[2]
        path = self.new(f"{UPLOADS}/{plain}")
        if path.suffix.lower() not in TABLES:
            raise InvalidArgument(
                f"'{plain}' does not have the extension of a table.", remedy=f"Known are {', '.join(TABLES)}."
            )
        path.parent.mkdir(mode=0o700, exist_ok=True)
        return path

    def domains(self) -> list[str]:
        """Files that may say what is public about a table, beside runs."""
        return sorted(
            self.name(path)
            for path in self._walk()
            if path.suffix.lower() == ".toml" and not (path.parent / _RUN).exists()
        )

    def _walk(self) -> Iterator[Path]:
        """Files below the folder, no deeper than a person would put them. Links are not followed."""
        seen = 0
        root = self.folder.resolve()
        for place, folders, files in os.walk(root):
            depth = len(Path(place).relative_to(root).parts)
            folders[:] = sorted(
                name for name in folders if not name.startswith((".", "private")) and depth < _DEEPEST
            )
            for name in sorted(files):
                seen += 1
                if seen > _MOST:
                    return
                path = Path(place) / name
                if not path.is_symlink():
                    yield path


def _changed(path: Path) -> float:
    try:
        return (path / _RUN).stat().st_mtime
    except OSError:
        return 0.0


def _missing(name: str) -> DataError:
    return DataError(
        f"There is nothing called '{name}' here.", remedy="Reload the page: it may have been moved."
    )
