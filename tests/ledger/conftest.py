"""A ledger with one dataset, and a way to pay for something small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reticent.ledger.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clinic.ledger"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    """An open ledger in which 'patients' may spend (3, 1e-6)."""
    with Ledger.create(path) as made:
        made.limit("patients", epsilon=3.0, delta=1e-6)
        yield made
