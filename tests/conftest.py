"""Fixtures that every test can ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from reticent.data.catalog import Rows, Splits

# The first example of a test may wait for a compiler, and the machine may be busy: no limit each.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[1].parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """The folder of a full-size dataset, or a skip that says which one is missing.

    shared_data("adult") / "adult.data.gz"
    """
    named = os.environ.get("RETICENT_DATA")
    roots = [Path(named)] if named else []
    roots.append(_BESIDE_THE_REPOSITORY)

    def folder_of(name: str) -> Path:
        for root in roots:
            if (root / name).is_dir():
                return root / name
        pytest.skip(f"needs the full-size dataset '{name}' in RETICENT_DATA or ../shared/data")

    return folder_of


@pytest.fixture
def load_files(tmp_path: Path) -> Callable[[str, str, Mapping[str, bytes], Rows], Splits]:
    """Loads a named dataset from files that a test made up, as if it had as many rows as they hold.

    load_files("names", "lines", {"names.txt": b"emma"}, Rows(1))
    """
    from reticent.data import catalog
    from reticent.data.catalog import readers

    def load_files(name: str, reader: str, files: Mapping[str, bytes], rows: Rows) -> Splits:
        for file, body in files.items():
            (tmp_path / file).write_bytes(body)
        form = catalog.Form(reader=reader, rows=rows)
        entry = replace(catalog.describe(name), forms=(form,))
        paths = {file: tmp_path / file for file in files}
        return readers.read(entry, catalog.Location(source="cache", folder=tmp_path, form=form, paths=paths))

    return load_files
