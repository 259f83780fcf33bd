"""The pictures of attacks: that they show what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from leaky_models import normal_scores

from reticent.core.errors import InvalidArgument
from reticent.report.figures.attacks import GapPoint, save_gap, save_roc

POINTS = [GapPoint("a", 0.0, 0.5), GapPoint("b", 0.1, 0.6), GapPoint("c", 0.3, 0.8)]


@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_curves_are_drawn_into_one_file(tmp_path: Path, ending: str):
    scores = {"weak": normal_scores(300, 300, 0.5, seed=0), "strong": normal_scores(300, 300, 2.0, seed=0)}
    save_roc(tmp_path / f"roc{ending}", scores, title="attacks")
    assert [file.name for file in tmp_path.iterdir()] == [f"roc{ending}"]


def test_curves_are_on_logarithmic_axes_over_the_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr("reticent.report.figures.attacks.save", lambda figure, path: drawn.append(figure))
    save_roc(tmp_path / "roc.svg", {"strong": normal_scores(300, 2000, 2.0, seed=0)}, title="attacks")
    (axes,) = drawn[0].axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["no signal (95%)", "strong"]


def test_the_correlation_is_written_into_the_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn = []
    monkeypatch.setattr("reticent.report.figures.attacks.save", lambda figure, path: drawn.append(figure))
    save_gap(tmp_path / "gap.svg", POINTS, title="Overfitting", success="AUC")
    assert drawn[0].axes[0].get_title() == "Overfitting (correlation 1.00)"


def test_nothing_to_draw_is_said(tmp_path: Path):
    with pytest.raises(InvalidArgument, match="no attack to draw"):
        save_roc(tmp_path / "roc.svg", {}, title="attacks")
    with pytest.raises(InvalidArgument, match="2 models show no correlation"):
        save_gap(tmp_path / "gap.svg", POINTS[:2], title="Overfitting", success="AUC")
    with pytest.raises(InvalidArgument, match="does not have the extension of a picture"):
        save_gap(tmp_path / "gap.txt", POINTS, title="Overfitting", success="AUC")
