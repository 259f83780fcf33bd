"""The pictures: that they say what they show, and are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.report.figures.curves import save_accuracy_and_epsilon

EPOCHS, ACCURACY, EPSILON = [1.0, 2.0, 3.0], [0.8, 0.9, 0.95], [0.5, 0.7, 0.9]


def draw(path: Path) -> None:
    save_accuracy_and_epsilon(path, EPOCHS, ACCURACY, EPSILON, title="a run")


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
def test_a_run_is_drawn_into_one_file(tmp_path: Path, ending: str):
    draw(tmp_path / f"run{ending}")
    assert [file.name for file in tmp_path.iterdir()] == [f"run{ending}"]


def test_both_panels_name_what_they_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr("reticent.report.figures.curves.save", lambda figure, path: drawn.append(figure))
    draw(tmp_path / "run.svg")
    learned, spent = drawn[0].axes
    assert learned.get_ylabel() == "held-out accuracy, %"
    assert spent.get_ylabel() == "epsilon spent"
    assert learned.lines[0].get_ydata().tolist() == pytest.approx([80, 90, 95])
    assert spent.lines[0].get_ydata().tolist() == EPSILON


def test_an_ending_that_is_no_picture_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArgument, match="does not have the extension of a picture"):
        draw(tmp_path / "run.txt")


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(DataError, match="Cannot write"):
        draw(tmp_path / "nowhere" / "run.svg")
