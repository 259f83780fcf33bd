"""`--model auto`: which model it is, why, and what a run, its card and a dry run say about it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Label, Number
from reticent.distributed import collectives
from reticent.runs import folder as folders
from reticent.runs.dry_run import dry_run
from reticent.runs.export import export
from reticent.runs.fit import MODEL, fit
from reticent.runs.request import Request, request_of

_ROWS = 400


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Grades in an order that matter by how far they are from the middle one; and a table with a user."""
    folder, source = tmp_path_factory.mktemp("choice"), np.random.default_rng(0)
    grades = source.integers(0, 5, _ROWS)
    is_far = (np.abs(grades - 2) == 2) ^ (source.random(_ROWS) < 0.05)
    lines = [
        f"{'abcde'[grade]},{source.uniform():.2f},{'yes' if far else 'no'},{at % 50}"
        for at, (grade, far) in enumerate(zip(grades, is_far, strict=True))
    ]
    (folder / "t.csv").write_text("grade,size,far,who\n" + "\n".join(lines) + "\n")
    columns = {
        "grade": Category(values=tuple("abcde"), ordered=True, other=True, missing=True),
        "size": Number(bounds=(0.0, 1.0)),
        "far": Label(values=("no", "yes")),
    }
    Domain(columns=columns, target="far").write(folder / "t.toml")
    return folder / "t.csv"


def _request(table: Path, **more: Any) -> Request:
    return replace(
        Request(source=str(table), target="far", epsilon=8.0, domain=str(table.with_suffix(".toml"))), **more
    )


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(_request(table), folder, keys=Keys.seeded(0))
    return folder


def test_auto_is_additive_for_tables_and_the_record_says_why(table: Path, run: Path):
    record = folders.read_record(run)
    assert record.result.model.name == record.recipe.method == "additive"
    assert record.recipe.why.startswith("additive: columns may bend")
    assert json.loads((run / "run.json").read_text())["recipe"]["why"] == record.recipe.why
    planned = dry_run(_request(table))
    assert (planned.model, f"{planned.model}: {planned.why}") == ("additive", record.recipe.why)
    assert planned.to_json()["why"] == planned.why


def test_a_run_is_resumed_with_the_model_that_was_chosen(run: Path):
    record = folders.read_record(run)
    assert request_of(record).model == "additive"
    before = replace(
        record,
        request=replace(record.request, method="auto", options={**record.request.options, "model": "auto"}),
        recipe=replace(record.recipe, method="sgd"),
    )
    assert request_of(before).method == "sgd"  # of a version for which auto was always linear


def test_words_in_an_order_have_one_curve(run: Path):
    record = folders.read_record(run)
    assert record.result.problem is not None
    assert record.result.problem.columns == (-1, 2, -1)
    assert record.result.metrics["auroc"] > 0.85  # no line separates the ends from the middle


def test_the_card_of_an_export_says_why(run: Path, tmp_path: Path):
    export(run, tmp_path / "out")
    assert (
        "chosen by public rules: additive: columns may bend" in (tmp_path / "out/MODEL_CARD.md").read_text()
    )


@pytest.mark.parametrize(
    ("changes", "model", "why"),
    [
        ({"method": "sgd"}, "linear", "'sgd' does not train additive"),
        ({"user": "who", "rows_per_user": 8}, "additive", "columns may bend"),
    ],
)
def test_what_additive_models_cannot_do_is_left_to_linear_ones(
    table: Path, changes: dict[str, Any], model: str, why: str
):
    source = MODEL.open(_request(table, domain=None, prepare="assume-public", **changes))
    assert source.request.model == model
    assert why in source.why_model


def test_several_processes_train_a_linear_model(table: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("reticent.runs.model_choice.collectives.count", lambda: 2)
    assert collectives.count() == 2
    source = MODEL.open(_request(table))
    assert (source.request.model, source.why_model) == (
        "linear",
        "additive models are trained in one process",
    )


def test_very_many_columns_are_left_to_a_linear_model_and_refused_before_the_charge(tmp_path: Path):
    names = [f"c{at}" for at in range(6000)]
    lines = [",".join([*names, "y"]), *(",".join(["1"] * 6000 + [str(at % 2)]) for at in range(60))]
    (tmp_path / "wide.csv").write_text("\n".join(lines) + "\n")
    request = Request(source=str(tmp_path / "wide.csv"), target="y", epsilon=8.0)
    source = MODEL.open(request)
    assert (source.request.model, source.why_model) == ("linear", "6,000 columns are too many for curves")
    with pytest.raises(InvalidArgument, match="6000 columns and 1 outputs are too many"):
        MODEL.open(replace(request, model="additive"))
