"""Parts of attacks on runs: cells in words, sets that can be drawn, rows that are nobody's copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.data.domain import Category, Domain, Integer, Label, Number
from reticent.data.encoding import encode
from reticent.data.files import open_table
from reticent.runs.attacks.defences import _split_sides
from reticent.runs.attacks.pool import Pool
from reticent.runs.attacks.property import Property, _set_size
from reticent.runs.attacks.recipes import has_shadows, shadow_recipe
from reticent.runs.attacks.view import _fit_decoder, cells
from reticent.runs.methods.table import METHODS
from reticent.runs.record import RecipeRecord

WOMEN = Property(column="sex", value="Female")


def test_a_row_of_features_is_told_as_the_cells_it_came_from(tmp_path: Path) -> None:
    domain = Domain(
        columns={
            "age": Integer(bounds=(17, 90)),
            "wage": Number(bounds=(0, 40), missing=True),
            "job": Category(values=("cook", "clerk"), other=True, missing=True),
            "ill": Label(values=("no", "yes")),
        },
        target="ill",
    )
    table = tmp_path / "t.csv"
    table.write_text("age,wage,job,ill\n33,12.5,clerk,no\n90,,cook,yes\n17,0,poet,no\n50,40,?,no\n")
    rows = encode(open_table(table), domain)["x"]
    assert [tuple(cells(domain, row).values()) for row in rows] == [
        ("33", "12.5", "clerk"),
        ("90", "(missing)", "cook"),
        ("17", "0", "(other)"),
        ("50", "40", "(missing)"),
    ]


def recorded(method: str, **settings: Any) -> RecipeRecord:
    return RecipeRecord(method=method, in_words="", settings=settings)


def test_a_method_says_itself_whether_it_has_shadow_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained_by(name: str, rows_per_user: int | None = None) -> Any:
        request = SimpleNamespace(rows_per_user=rows_per_user)
        return SimpleNamespace(record=SimpleNamespace(recipe=recorded(name), request=request))

    without = {name for name in METHODS if not has_shadows(trained_by(name))}
    assert without == {"pate", "federated", "prototype", "least_squares"}
    assert has_shadows(trained_by("sgd", 1))
    assert not has_shadows(trained_by("sgd", 3))
    monkeypatch.setitem(METHODS, "mine", replace(METHODS["pate"], has_shadows=True))
    assert has_shadows(trained_by("mine"))
    with pytest.raises(IntegrityError, match="this version can follow"):
        has_shadows(trained_by("theirs"))


def test_a_run_without_shadow_models_says_which_have_some() -> None:
    settings = {"teachers": 9, "noise_multiplier": 3.0, "delta": 1e-5, "model": "linear"}
    again: Any = SimpleNamespace(record=SimpleNamespace(recipe=recorded("pate", **settings)), learner=None)
    with pytest.raises(
        InvalidArgument, match="trained with sgd, gd, output, objective, exponential, descent"
    ):
        shadow_recipe(again)


def test_training_sets_leave_room_for_every_random_half() -> None:
    in_group = np.arange(1000) < 300
    size = _set_size(WOMEN, in_group, 0.3, 0.65)
    assert 0.65 * size < 0.7 * 150
    assert 0.7 * size < 0.7 * 350
    assert size > 100


@pytest.mark.parametrize(("rows", "low", "high"), [(10, 0.01, 0.5), (990, 0.2, 0.99), (100, 0.0, 1.0)])
def test_too_few_rows_for_a_property_are_counted(rows: int, low: float, high: float) -> None:
    in_group = np.arange(1000) < rows
    if rows == 100:
        in_group = in_group[:110]
    with pytest.raises(DataError, match=f"{rows} of {len(in_group)} held-out rows have 'sex = Female'"):
        _set_size(WOMEN, in_group, low, high)


def test_equal_shares_are_nothing_to_tell() -> None:
    with pytest.raises(InvalidArgument, match="are too close"):
        _set_size(WOMEN, np.arange(1000) < 300, 0.3, 0.305)


def test_an_outsider_who_is_the_copy_of_a_member_is_left_out() -> None:
    x = np.arange(120, dtype=np.float32)[:, None]
    x[60:70] = x[:10]
    is_member = np.arange(120) < 60
    nobody = {"x": x[:0], "y": np.zeros(0, int)}
    pool = Pool({"x": x, "y": np.zeros(120, int)}, nobody, is_member, np.arange(60), np.arange(60))
    members, outsiders = _split_sides(pool)
    assert len(members["y"]) == 60
    np.testing.assert_array_equal(outsiders["x"], x[70:])
    x[60:] = x[:60]
    with pytest.raises(DataError, match="All but 0 of 60 held-out rows are copies"):
        _split_sides(pool)


def test_features_are_drawn_as_the_pictures_they_came_from() -> None:
    random = np.random.default_rng(0)
    pictures = random.random((400, 4, 4))
    features = pictures.reshape(400, 16) @ random.normal(size=(16, 30)) + 1
    draw = _fit_decoder(features[:300], pictures[:300])
    assert np.abs(draw(features[300:]) - pictures[300:]).mean() < 0.03
