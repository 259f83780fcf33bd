"""Numbers and dates as people write them: each cell is read on its own, and as another derivation does."""

from __future__ import annotations

import datetime
import math
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.data.arrow_cells import Reading, as_numbers, unreadable_cells
from reticent.data.dates import day_number, day_of
from reticent.data.files.cell_signs import detect_signs

POINT, COMMA, GROUPS = Reading(), Reading(decimal=","), Reading(decimal=",", thousands=".")
READINGS = [POINT, COMMA, GROUPS, Reading(has_truth=True), Reading(is_date=True)]


def read(cells: list[str], reading: Reading) -> list[float]:
    """The numbers of cells, NaN for what is not one."""
    column, present = pa.array(cells, pa.string()), np.zeros(len(cells), bool)
    unreadable = unreadable_cells(column, present, reading)
    return np.where(unreadable, np.nan, as_numbers(column, unreadable, reading)).tolist()


@pytest.mark.parametrize(
    ("cell", "reading", "number"),
    [
        ("41,896.15", POINT, 41896.15),
        ("41 896", POINT, 41896),
        ("41\u00a0896.5", POINT, 41896.5),
        ("41'896", POINT, 41896),
        ("1,234,567", POINT, 1234567),
        ("$41,896.15", POINT, 41896.15),
        ("-$5", POINT, -5),
        ("$-5", POINT, -5),
        ("USD 5", POINT, 5),
        ("5 EUR", POINT, 5),
        ("12.5%", POINT, 12.5),
        ("12.5 %", POINT, 12.5),
        ("1,23", POINT, math.nan),
        ("0,123", POINT, math.nan),
        ("1,2345", POINT, math.nan),
        ("1.234,56", POINT, math.nan),
        ("1,234 567", POINT, math.nan),
        ("ICD 10", POINT, math.nan),
        ("5 apples", POINT, math.nan),
        ("$", POINT, math.nan),
        ("%", POINT, math.nan),
        ("true", POINT, math.nan),
        ("True", Reading(has_truth=True), 1),
        ("false", Reading(has_truth=True), 0),
        ("1,5", COMMA, 1.5),
        ("1.234,56", COMMA, 1234.56),
        ("1.234.567", COMMA, 1234567),
        ("€ 1.234,56", COMMA, 1234.56),
        ("41 896,15", COMMA, 41896.15),
        ("12,5 %", COMMA, 12.5),
        ("41.896", COMMA, 41.896),
        ("41.896", GROUPS, 41896),
        ("41.89", GROUPS, 41.89),
        ("0.896", GROUPS, 0.896),
    ],
)
def test_a_number_is_read_as_it_is_meant(cell: str, reading: Reading, number: float) -> None:
    assert read([cell], reading) == pytest.approx([number], nan_ok=True)


@given(
    st.integers(-(10**11), 10**11),
    st.sampled_from(["", "$", "€ ", "USD "]),
    st.sampled_from(["", "%", " EUR"]),
)
@settings(deadline=None, max_examples=40)
def test_what_python_writes_with_groups_is_read_back(cents: int, before: str, after: str) -> None:
    written = f"{cents / 100:,.2f}"  # with commas between groups, and a point
    european = written.translate(str.maketrans(",.", ".,"))
    for cell, reading in ((written, POINT), (european, COMMA), (european, GROUPS)):
        sign, digits = ("-", cell[1:]) if cell.startswith("-") else ("", cell)
        assert read([f"{sign}{before}{digits}{after}"], reading) == [cents / 100]


CELLS = st.one_of(
    st.text(alphabet="0123456789.,-+ $%€eE'/:TZabtrueinf\u00a0", max_size=14),
    st.sampled_from(
        ["1.234", "1,234", "$5", "12%", "41 896", "2024-01-31", "01/02/2024", "true", "x", "1e5"]
    ),
)


@given(st.lists(CELLS, max_size=8), st.sampled_from(READINGS))
@settings(deadline=None, max_examples=80)
def test_no_cell_changes_how_another_is_read(cells: list[str], reading: Reading) -> None:
    alone = [read([cell], reading)[0] for cell in cells]
    np.testing.assert_array_equal(read(cells, reading), alone)


@given(st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)), st.booleans())
@settings(deadline=None, max_examples=40)
def test_dates_are_those_of_the_calendar(moment: datetime.datetime, day_first: bool) -> None:
    reading = Reading(is_date=True, day_first=day_first)
    moment = moment.replace(microsecond=0)
    day, year = moment.date(), f"{moment.year:04d}"
    slashes = f"{day.day}/{day.month}/{year}" if day_first else f"{day.month}/{day.day}/{year}"
    whole = float((day - datetime.date(2000, 1, 1)).days)
    forms = [day.isoformat(), f"{day.day:02d}.{day.month:02d}.{year}", slashes]
    assert read(forms, reading) == [whole] * 3
    time = moment.time()
    exact = whole + (time.hour * 3600 + time.minute * 60 + time.second) / 86400
    timed = [f"{forms[0]}T{time}Z", f"{forms[0]} {time}", f"{forms[1]} {time}", f"{forms[0]}T{time}+00:00"]
    assert read(timed, reading) == pytest.approx([exact] * 4, abs=1e-9)
    assert read([f"{forms[0]} {time}+06:00"], reading) == pytest.approx([exact - 0.25], abs=1e-9)
    assert day_of(day_number(day)) == day


@pytest.mark.parametrize(
    "cell",
    [
        *["2024-02-30", "2023-02-29", "31/31/2024", "0000-01-01", "2024-13-01", "2024-01-00"],
        *["2024-01-31 25:00", "20240131", "2024-1", "tomorrow", "", "2024-01-31x", "12:00", "1/2/24"],
    ],
)
def test_what_is_no_day_is_not_a_date(cell: str) -> None:
    for day_first in (False, True):
        assert np.isnan(read([cell], Reading(is_date=True, day_first=day_first))).all()


@pytest.mark.parametrize(
    ("cells", "delimiter", "decimal", "thousands", "is_in_doubt"),
    [
        ({"1,5": 9, "2.5": 1}, ";", ",", "", False),
        ({"41,896.15": 1, "12,000": 9}, "\t", ".", "", False),
        ({"41.896": 9, "1,5": 1}, ";", ",", ".", False),
        ({"41.896": 9, "1,5": 9, "2.5": 9}, ";", ".", "", False),
        ({"$1,234": 9}, ",", ".", "", False),
        ({"€ 1.234,56": 9}, ",", ",", "", False),
        ({"€ 1.234,56": 1, "7": 30}, ",", ".", "", False),
        ({"1.234.567": 9}, ";", ",", "", False),
        ({"41.896": 9}, ";", ".", "", True),
        ({"41.896": 9}, ",", ".", "", True),
        ({"41,896": 9}, ";", ",", "", True),
        ({"41,896": 900, "1,234.5": 1}, ";", ",", "", True),
        ({"0.123": 9}, ",", ".", "", False),
        ({"31.01.2024": 9, "7": 9, "a.b,c": 9}, ";", ".", "", False),
    ],
)
def test_most_cells_tell_the_decimal_sign(cells, delimiter, decimal, thousands, is_in_doubt) -> None:
    found = detect_signs(Counter(cells), delimiter)
    assert (found.decimal, found.thousands, found.is_decimal_in_doubt) == (decimal, thousands, is_in_doubt)


@pytest.mark.parametrize(
    ("cells", "day_first", "is_in_doubt"),
    [
        ({"31/01/2024": 2, "01/31/2024": 1}, True, False),
        ({"31/01/2024": 1, "01/31/2024": 2, "05/05/2024": 9}, False, False),
        ({"01/02/2024": 9}, False, True),
        ({"2024-01-31": 9, "31.01.2024": 9}, False, False),
    ],
)
def test_most_dates_tell_whether_the_day_comes_first(cells, day_first: bool, is_in_doubt: bool) -> None:
    found = detect_signs(Counter(cells), ",")
    assert (found.day_first, found.is_day_in_doubt) == (day_first, is_in_doubt)
