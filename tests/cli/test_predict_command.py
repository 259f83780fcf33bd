"""`reticent predict` and `show`: what cannot be read is said, and so is what a folder or a file is not."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.runs.fit import fit
from reticent.runs.request import Request


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a table whose numbers have decimal commas; preparation forgives cells that are none."""
    folder = tmp_path_factory.mktemp("predicting")
    rng = np.random.default_rng(0)
    rows = [f"{a:.1f};{b:.1f};{'yes' if a > b else 'no'}" for a, b in rng.uniform(0, 100, (900, 2))]
    (folder / "people.csv").write_text("\n".join(["first;second;y", *rows]).replace(".", ",") + "\n")
    fit(
        Request(source=str(folder / "people.csv"), target="y", epsilon=4.0),
        folder / "run",
        keys=Keys.seeded(0),
    )
    return folder / "run"


@pytest.fixture
def generator(run: Path, tmp_path: Path) -> Path:
    """A folder whose record says that it is one."""
    shutil.copytree(run, tmp_path / "generator")
    path = tmp_path / "generator" / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "kind": "generator"}))
    return path.parent


def test_cells_that_are_no_numbers_are_counted_on_stderr(reticent, run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("first;second\n4.000,50;1,0\nabc;xyz\n;2,5\n")
    code, out, err = reticent("predict", run, new)
    assert code == 0
    assert len(out.splitlines()) == 4
    assert err == (
        "warning: 3 cells are no numbers, and count as missing: first (2), second (1). "
        "Write numbers like 1234,5.\n"
    )
    code, out, err = reticent("predict", run, new, "--json")
    assert (len(json.loads(out)), err.count("\n")) == (3, 1)
    new.write_text("first;second\n4,5;1,0\n;2,5\n")
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
    path = generator / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "state": "paid"}))
    _, out, err = reticent("show", generator)
    assert "Go on: reticent synth --resume" in " ".join(out.split()), err
    code, _, err = reticent("report", generator)
    assert (code, f"reticent synth --resume {generator}" in err) == (1, True)


@pytest.mark.parametrize("command", ["predict", "show", "audit", "attack", "report"])
def test_a_file_is_said_to_be_no_folder_of_a_run(reticent, run: Path, command: str) -> None:
    file = run.parent / "people.csv"
    code, _, err = reticent(command, file, *([file] if command == "predict" else []))
    assert (code, f"{file} is a file, not the folder of a run" in err) == (1, True)
