"""What to do about a cell that is not a number: the likeliest reason, by how it is written."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from reticent.data.arrow_cells import Reading, unreadable_cells

_UNIT = re.compile(r"[+-]?[\d.,]*\d\s?[^\d\s.,][^\d]{0,9}", re.ASCII)


def advise_on_number(cell: object, reading: Reading, written: str) -> str:
    """What to change so that a cell is read as a number.

    Args:
        written: how the file is written, in the words that `--format` takes.

    >>> advise_on_number("1.234,56", Reading(), "CSV, separated by semicolon, utf-8")
    "It has a decimal comma: pass --format 'CSV, separated by semicolon, utf-8, decimal comma'."
    """
    usual = "Correct the cell, or list it in missing_markers."
    if not isinstance(cell, str):
        return usual
    other = Reading(decimal="," if reading.decimal == "." else ".", day_first=reading.day_first)
    if _reads(cell, other):
        if reading.decimal == ".":
            return f"It has a decimal comma: pass --format '{written}, decimal comma'."
        plain = written.replace(", decimal comma", "").replace(", thousands point", "")
        return f"It has a decimal point: pass --format '{plain}'."
    if _reads(cell, reading._replace(is_date=True)):
        return 'It is a date: declare kind = "date".'
    if re.fullmatch(r"[\d.,' ]+", cell, re.ASCII) and len(re.findall(r"[.,' ]", cell)) > 1:
        return "Thousands separators stand between groups of three digits: correct the cell."
    if _UNIT.fullmatch(cell):
        return "Remove the unit: only currencies and percent signs are dropped."
    return usual


def _reads(cell: str, reading: Reading) -> bool:
    return not unreadable_cells(pa.array([cell], pa.string()), np.zeros(1, bool), reading)[0]
