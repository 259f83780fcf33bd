"""Prices are computed anew in these tests, which plant bugs in what computes them."""

from __future__ import annotations

import pytest

from reticent.accounting import tight_epsilon


@pytest.fixture(autouse=True)
def _no_price_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bracket_event", "_upper_bound"):
        monkeypatch.setattr(tight_epsilon, name, getattr(tight_epsilon, name).__wrapped__)
