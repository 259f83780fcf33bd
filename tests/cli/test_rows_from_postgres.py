"""A run on rows of a PostgreSQL database: trained, resumed, attacked and asked, and no password anywhere."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core import postgres as addresses
from reticent.core.errors import DataError, InvalidArgument, ReticentError, Unavailable
from reticent.data.files import open_table
from reticent.runs.reopen import open_again

sys.path.insert(0, str(Path(__file__).parents[1] / "ledger"))
from postgres_server import (  # pyright: ignore[reportMissingImports] - beside the tests of the ledger
    NoServer,
    Server,
)

QUERY = "select age, seen, smokes, sick from clinic.visits where age < 90 -- those that count"
SECRET = "s3cret-word"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A database of visits; the user `locked` may read them, with a password."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    try:
        made = Server()
    except NoServer as error:
        pytest.skip(str(error))
    chance = np.random.default_rng(0)
    ages = chance.integers(20, 95, 1500)
    rows = [
        (int(age), f"2024-{age % 12 + 1:02d}-15", bool(age % 3), "yes" if age > 50 else "no") for age in ages
    ]
    with psycopg.connect(made.address(), autocommit=True) as database:
        database.execute("create schema clinic; create table public.other (a int)")
        database.execute(
            "create table clinic.visits (age int, seen date, smokes bool, sick text, scan bytea)"
        )
        with database.cursor() as cursor:
            cursor.executemany("insert into clinic.visits values (%s, %s, %s, %s, 'x')", rows)
        database.execute(
            f"create role locked login password '{SECRET}'; grant usage on schema clinic to locked"
        )
        database.execute("grant select on clinic.visits to locked")
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(addresses, "_passwords", {})
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def test_the_same_rows_make_the_same_copy_which_goes_with_its_table(server: Server, tmp_path: Path) -> None:
    one = open_table(server.address(), query=QUERY)
    other = open_table(server.address(), query=QUERY.replace(" -- those that count", " order by sick, seen;"))
    assert one.names == ("age", "seen", "smokes", "sick")
    assert 1000 < one.row_count < 1500
    assert one.path.read_bytes() == other.path.read_bytes()
    assert one.path.stat().st_mode & 0o077 == 0
    (batch, *_) = one.batches(["seen", "smokes"])
    assert set(batch.batch.column(1).to_pylist()) == {"true", "false"}
    assert str(batch.batch.column(0)[0]).startswith("2024-")
    copy = one.path
    del one, batch
    assert not copy.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "has 2 tables: clinic.visits, public.other.*--table"),
        ({"table": "visit"}, r"no table 'visit'.*clinic.visits"),
        ({"table": "visits", "query": QUERY}, "not both"),
        ({"query": "select nothing from clinic.visits"}, 'column "nothing" does not exist'),
        ({"query": "select 1 as a where false"}, "has no rows"),
        ({"query": "select age / (age - 50) from clinic.visits"}, "fails on a cell"),
        ({"query": "select 1) as x; drop table public.other; select (1"}, "multiple commands"),
        ({"query": "delete from clinic.visits returning age"}, "refuses|change"),
    ],
)
def test_what_cannot_be_selected_is_said(server: Server, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ReticentError, match=said):
        open_table(server.address(), **options)
    assert open_table(server.address(), table="visits").row_count == 1500


def test_nobody_home_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        open_table(f"postgresql://ana@/clinic?host={tmp_path}")
    with pytest.raises(InvalidArgument, match="address of the table cannot be read"):
        open_table("postgresql://ana:a/b@db/clinic")
    with pytest.raises(DataError, match=r"mysql://\.\.\. is on a server"):
        open_table("mysql://ana:secret@db/clinic")


def test_a_run_needs_the_password_and_keeps_none(
    reticent, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, address = tmp_path / "run", server.address(user="locked")
    with_password = server.address(user=f"locked:{SECRET}")
    words = ("--query", QUERY, "--target", "sick", "--epsilon", 4, "--method", "output")
    code, _, err = reticent("train", address, *words, "-o", run)
    assert (code != 0, "Set PGPASSWORD" in err) == (True, True)
    code, out, err = reticent("train", with_password, *words, "-o", run)
    assert code == 0, err
    sentence = " ".join(out.split())
    assert (
        "the query and its 4 columns are public, and each row of its result comes from one record" in sentence
    )
    request = json.loads((run / "run.json").read_text())["request"]
    assert (request["source"], request["layout"]) == (address, {"query": QUERY})
    monkeypatch.setattr(addresses, "_passwords", {})  # as in another process
    assert "Set PGPASSWORD" in reticent("attack", run)[2]
    assert len(open_again(run, data=with_password).train_on["y"]) > 900
    monkeypatch.setattr(addresses, "_passwords", {})
    monkeypatch.setenv("PGPASSWORD", SECRET)
    code, predicted, err = reticent("predict", run, address)
    assert code == 0, err
    assert len(predicted.splitlines()) == open_table(address, query=QUERY).row_count + 1
    code, made, err = reticent(
        *("synth", address, "--query", "select age, sick from clinic.visits", "--epsilon", 4),
        *("--method", "mst", "-o", tmp_path / "new.csv"),
    )
    assert code == 0, err
    assert (tmp_path / "new.csv").read_text().startswith("age,sick\n")
    for text in (out, sentence, predicted, made, err):
        assert SECRET not in text
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) > 8
    assert not [path for path in left if SECRET.encode() in path.read_bytes()]
    gc.collect()  # a copy goes with its table; in a process of its own, at the end at the latest
    assert not list(tmp_path.glob("reticent-rows-*"))
