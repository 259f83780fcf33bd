"""What is exported is what the guarantee covers, and it is of use; nothing else is in the folder."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest

from reticent.core.errors import DataError
from reticent.data.files import open_table
from reticent.runs.export import export
from reticent.runs.folder import read_record
from reticent.runs.predict import Predictor
from reticent.runs.record import PRIVATE_FIELDS

ALLOWED = {
    *("version", "kind", "state", "number", "request", "records", "rows", "recipe", "event", "versions"),
    *("assumptions", "model", "guarantee", "sentence", "seconds", "problem", "preparation"),
}


def test_what_no_guarantee_covers_lies_in_the_private_part(home: Path) -> None:
    run = home / "run"
    assert not set(json.loads((run / "run.json").read_text())) & set(PRIVATE_FIELDS)
    assert stat.S_IMODE((run / "private").stat().st_mode) == 0o700
    names = {path.name for path in (run / "private").iterdir()}
    assert names == {"split.json", "origin.json", "unreleased.json", "fingerprint.json"}
    assert all(stat.S_IMODE((run / "private" / name).stat().st_mode) == 0o600 for name in names)
    assert "accuracy" in read_record(run).result.metrics


def test_a_folder_without_its_private_part_has_no_scores(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "private")
    assert read_record(tmp_path / "run").result.metrics == {}


def test_the_private_part_of_another_run_is_not_taken_for_its_own(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "run", tmp_path / "run")
    kept = tmp_path / "run" / "private" / "unreleased.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "number": "another"}))
    assert read_record(tmp_path / "run").result.metrics == {}


def test_a_release_has_what_is_covered_and_nothing_else(home: Path, tmp_path: Path) -> None:
    release = tmp_path / "release"
    released = export(home / "run", release)
    names = {path.name for path in release.iterdir()}
    assert names == {"MODEL_CARD.md", "domain.toml", "model.safetensors", "run.json"}
    said = json.loads((release / "run.json").read_text())
    assert set(said) <= ALLOWED
    whole = "".join(path.read_text(errors="replace") for path in release.iterdir())
    assert "somewhere-in-the-clinic" not in whole
    private = json.loads((home / "run" / "private" / "unreleased.json").read_text())
    for number in private["metrics"].values():
        assert not isinstance(number, float) or str(number) not in whole
    assert str(json.loads((home / "run" / "private" / "split.json").read_text())["seed"]) not in whole
    assert str(released.result.guarantee) in (release / "MODEL_CARD.md").read_text()


def test_a_release_predicts_as_the_run_does(home: Path, tmp_path: Path) -> None:
    export(home / "run", tmp_path / "release")
    table = open_table(home / "t.csv")
    ours, theirs = (list(Predictor(folder).table(table)) for folder in (home / "run", tmp_path / "release"))
    assert ours == theirs


def test_a_release_is_not_written_over_anything(home: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(DataError, match="exists already"):
        export(home / "run", tmp_path / "taken")
