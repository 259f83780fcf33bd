"""A run on the result of a query: the guarantee says the query, and new rows are selected by it too."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import ReticentError
from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.predict import Predictor
from reticent.runs.request import Request
from reticent.runs.source import Source

QUERY = "select age, seen, sick from visits where age < 90"


def write_visits(path: Path, rows: int) -> Path:
    """Half of those above fifty are sick; some are too old for the query."""
    chance = np.random.default_rng(rows)
    ages = chance.integers(20, 95, rows)
    cells = [(int(age), f"2024-{age % 12 + 1:02d}-15", "yes" if age > 50 else "no") for age in ages]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table visits (age int, seen text, sick text)")
        database.execute("create table other (a int)")
        database.executemany("insert into visits values (?, ?, ?)", cells)
    return path


def test_the_query_of_a_request_chooses_its_rows(tmp_path: Path) -> None:
    source = str(write_visits(tmp_path / "visits.db", 200))
    found = Source(Request(source=source, target="sick", epsilon=1.0, layout={"query": QUERY}))
    assert found.table is not None
    assert found.table.names == ("age", "seen", "sick")
    assert 100 < found.rows < 200
    with pytest.raises(ReticentError, match="has 2 tables: other, visits"):
        Source(Request(source=source, target="sick", epsilon=1.0))


@pytest.mark.thorough
def test_a_run_says_its_query_and_predicts_by_it(tmp_path: Path) -> None:
    source = str(write_visits(tmp_path / "visits.db", 2000))
    request = Request(source=source, target="sick", epsilon=4.0, layout={"query": QUERY})
    done = fit(request, tmp_path / "run", keys=Keys.seeded(0))
    assert done.record.result.guarantee is not None
    sentence = str(done.record.result.guarantee)
    assert f"each row of its result comes from one record: {QUERY}" in sentence
    predictor = Predictor(tmp_path / "run")
    new = predictor.open(write_visits(tmp_path / "new.db", 50))
    said = [row["prediction"] for row in predictor.table(new)]
    assert len(said) == new.row_count < 50
    (tmp_path / "new.csv").write_text("seen,age\n2024-01-15,30\n2024-01-15,80\n")
    table = predictor.open(tmp_path / "new.csv")
    assert [row["prediction"] for row in predictor.table(table)] == ["no", "yes"]
