"""A sheet of samples: a picture that is there, or an error and no file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reticent.core.errors import InvalidArgument
from reticent.report.figures.samples import save_sample_sheet


def test_every_class_has_a_row(tmp_path: Path) -> None:
    black, white = np.zeros((5, 8, 8), np.uint8), np.full((5, 8, 8), 255, np.uint8)
    save_sample_sheet(tmp_path / "sheet.png", {"one": [black, white], "other": [black / 255, white / 255]})
    picture = np.asarray(Image.open(tmp_path / "sheet.png").convert("L"), float)
    height = picture.shape[0]
    assert picture[: height // 2].mean() < picture[height // 2 :].mean()


@pytest.mark.parametrize("rows", [[np.zeros((5, 8))], [np.zeros((5, 8, 8)), np.zeros((4, 8, 8))]])
def test_what_is_no_sheet_is_refused_and_nothing_is_written(rows: list[np.ndarray], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        save_sample_sheet(tmp_path / "sheet.png", {"one": rows})
    with pytest.raises(InvalidArgument):
        save_sample_sheet(tmp_path / "sheet.txt", {"one": [np.zeros((5, 8, 8))]})
    assert not list(tmp_path.iterdir())
