"""Fixtures that every test can ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

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
