"""`reticent predict` and `show`: what cannot be read is said, and so is what a folder or a file is not."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.data.domain import Domain, Label, Number
from reticent.runs.fit import fit
from reticent.runs.request import Request


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a table whose numbers have decimal commas; cells that are not numbers count as missing.

    Its bounds are declared: bounds that a run finds vary with the noise, and so would what is beyond them.
    """
    folder = tmp_path_factory.mktemp("predicting")
    rng = np.random.default_rng(0)
    rows = [f"{a:.1f};{b:.1f};{'yes' if a > b else 'no'}" for a, b in rng.uniform(0, 100, (900, 2))]
    (folder / "people.csv").write_text("\n".join(["first;second;y", *rows]).replace(".", ",") + "\n")
    columns = {name: Number(bounds=(0, 100), lenient=True, typical=50) for name in ("first", "second")}
    domain = Domain(columns={**columns, "y": Label(values=("no", "yes"))}, target="y")
    domain.write(folder / "people.toml")
    fit(
        Request(
            source=str(folder / "people.csv"), target="y", epsilon=4.0, domain=str(folder / "people.toml")
        ),
        folder / "run",
        keys=Keys.seeded(0),
    )
    return folder / "run"


@pytest.fixture
def generator(run: Path, tmp_path: Path) -> Path:
    """A folder whose record says that it is one, and unfinished: a finished record has to fit together."""
    shutil.copytree(run, tmp_path / "generator")
    path = tmp_path / "generator" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "generator", "state": "paid"}))
    return path.parent


def test_cells_that_are_not_numbers_are_counted_on_stderr(reticent, run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("first;second\n4.00,50;1,0\nabc;xyz\n1,0;2,5\n")
    code, out, err = reticent("predict", run, new)
    assert code == 0
    assert len(out.splitlines()) == 4
    assert err == (
        "warning: 3 cells are not like 1234,5, so not read as a number but as missing: "
        "first (2), second (1).\n"
    )
    code, out, err = reticent("predict", run, new, "--json")
    assert (len(json.loads(out)), err.count("\n")) == (3, 1)
    new.write_text("first;second\n4,5;1,0\n1,0;2,5\n")
    assert reticent("predict", run, new)[2] == ""


def test_a_place_that_cannot_be_written_is_named(reticent, run: Path, tmp_path: Path, monkeypatch) -> None:
    new = tmp_path / "new.csv"
    new.write_text("first;second\n4,5;1,0\n")
    code, _, err = reticent("predict", run, new, "-o", tmp_path / "no" / "p.csv")
    assert (code, f"there is no folder {tmp_path / 'no'}" in err) == (1, True)
    code, _, err = reticent("predict", run, new, "--force", "-o", tmp_path)
    assert (code, "it is a folder" in err) == (1, True)
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    code, _, err = reticent("predict", run, new, "-o", tmp_path / "p.csv")
    assert (code, f"may not write to the folder {tmp_path}" in err) == (1, True)


@pytest.mark.parametrize("command", ["predict", "audit", "attack"])
def test_a_generator_is_said_to_be_one(reticent, generator: Path, command: str) -> None:
    words = (generator, generator / "new.csv") if command == "predict" else (generator,)
    code, _, err = reticent(command, *words)
    assert (code, f"{generator} holds a generator" in err) == (1, True)
    assert f"reticent synth --from {generator}" in err


def test_an_unfinished_generator_goes_on_with_synth(reticent, generator: Path) -> None:
    _, out, err = reticent("show", generator)
    assert "Resume: reticent synth --resume" in " ".join(out.split()), err
    code, _, err = reticent("report", generator)
    assert (code, f"reticent synth --resume {generator}" in err) == (1, True)


@pytest.mark.parametrize("command", ["predict", "show", "audit", "attack", "report"])
def test_a_file_is_said_to_be_no_folder_of_a_run(reticent, run: Path, command: str) -> None:
    file = run.parent / "people.csv"
    code, _, err = reticent(command, file, *([file] if command == "predict" else []))
    assert (code, f"{file} is a file, not the folder of a run" in err) == (1, True)


def test_a_table_is_read_as_in_training_unless_it_is_written_otherwise(
    reticent, run: Path, tmp_path: Path
) -> None:
    rows = [(41.125, 7.5), (3.25, 78.125)]
    cells = [["41.125", "7.500"], ["3.25", "78.125"]]
    comma = "\n".join(["first;second", *(";".join(row).replace(".", ",") for row in cells)])
    forms = {
        "comma.csv": comma,
        "first.csv": "\n".join(comma.split("\n")[:2]),  # 41,125 alone would be anything
        "point.csv": "\n".join(["first,second", *(",".join(row) for row in cells)]),
        "blank.txt": "\n".join(["first  second", *("  ".join(row) for row in cells)]),
        "lines.jsonl": "\n".join(f'{{"second": {b}, "first": {a}}}' for a, b in rows),
    }
    found = {}
    for name, text in forms.items():
        (tmp_path / name).write_text(text + "\n")
        code, found[name], err = reticent("predict", run, tmp_path / name)
        assert (code, err) == (0, ""), name
    assert found["first.csv"].splitlines() == found["comma.csv"].splitlines()[:2]
    assert found["point.csv"] == found["blank.txt"] == found["lines.jsonl"] == found["comma.csv"]
    shutil.copytree(run, tmp_path / "western")
    domain = tmp_path / "western" / "domain.toml"
    domain.write_text(domain.read_text().replace("utf-8", "cp1252"))
    for encoding in ("utf-8", "cp1252"):  # the sign of the euro is not one byte in both
        (tmp_path / "euro.csv").write_text(
            comma.replace(";", " €;").replace("first €", "first") + "\n", encoding=encoding
        )
        code, out, err = reticent("predict", tmp_path / "western", tmp_path / "euro.csv")
        assert (code, err, out) == (0, "", found["comma.csv"]), encoding
    otherwise = ["--format", "CSV, separated by semicolon, with a header"]
    assert "not like 1234.5" in reticent("predict", run, tmp_path / "comma.csv", *otherwise)[2]


def test_a_query_chooses_the_rows_to_predict(reticent, run: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "new.db") as database:
        database.execute("create table new (first real, second real, day text)")
        database.executemany("insert into new values (?, ?, '2024-01-31')", [(41.5, 7.5), (3.25, 78.5)])
    database.close()
    code, out, err = reticent(
        "predict", run, tmp_path / "new.db", "--query", "select * from new where first > 4"
    )
    assert (code, len(out.splitlines()), err) == (0, 2, "")
    assert out.splitlines()[1].startswith("yes,")
