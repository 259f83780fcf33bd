"""What a dry run expects of a model is what was measured."""

from __future__ import annotations

import re
from pathlib import Path

from reticent.runs.forecast import EXPECTED, Expected, forecast

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "strangers.md"


def test_what_is_expected_is_what_the_page_measured() -> None:
    section = PAGE.read_text().partition("## What to expect")[2]
    rows = re.findall(r"^\| ([\d,]+) \| (-?[\d.]+) \| (-?[\d.]+) \| \d+ \|$", section, re.MULTILINE)
    measured = [Expected(float(a.replace(",", "")), float(low), float(high)) for a, low, high in rows]
    assert list(EXPECTED) == measured


def test_more_rows_per_column_are_another_class() -> None:
    few, many = (forecast(rows=rows, columns=10, epsilon=1.0) for rows in (200, 200_000))
    assert f"between {abs(EXPECTED[0].low):.2f} below" in few
    assert few != many
