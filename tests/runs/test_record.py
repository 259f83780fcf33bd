"""The record of a run: what is written is what is read, and nothing else is."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reticent.accounting.guarantee import Guarantee
from reticent.core.errors import IntegrityError
from reticent.data.preparation.noise import PreparationNoise
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed
from reticent.runs.folder import RUN, read_record, write_record
from reticent.runs.held_out_scores import HeldOutScores
from reticent.runs.methods.convex import Convex
from reticent.runs.payment import preparation_cost
from reticent.runs.problem import Problem
from reticent.runs.record import (
    PRIVATE_FIELDS,
    VERSION,
    HistoryPoint,
    ModelFile,
    RecipeRecord,
    RunRecord,
    RunResult,
    as_requested,
)
from reticent.runs.request import Request, request_of
from reticent.runs.table_format import TableFormat
from reticent.synthetic.request import SynthRequest

REQUEST = Request(source="t.csv", target="y", epsilon=2.0, delta=1e-5, method="output")
NOISE = PreparationNoise(noise_multiplier=20.0, delta=1e-7)
RECIPE = Convex("output", 1.0, 1e-6)
PROMISE = Guarantee(epsilon=1.9, delta=1e-5, adjacency=Adjacency.ADD_OR_REMOVE, accountant="exact Gaussian")


def started(**changes: Any) -> RunRecord:
    first = RunRecord(
        kind="model",
        state="started",
        number="17",
        request=as_requested(REQUEST),
        records=100,
        rows=80,
        recipe=RecipeRecord(method="output", in_words=RECIPE.in_words, settings=RECIPE.to_json()),
        preparation=preparation_cost(NOISE, delta=1e-5),
        event=Composed(events=(NOISE.event, RECIPE.event)),
        versions={"reticent": "1"},
        table="digest",
    )
    return replace(first, **changes)


def model(**changes: Any) -> RunRecord:
    outcome = RunResult(
        model=ModelFile(name="linear", digest="abc"),
        guarantee=PROMISE,
        seconds=1.5,
        problem=Problem(rows=80, shape=(3,), classes=("no", "yes")),
        scores=HeldOutScores(label="unreleased", values={"accuracy": 0.9}),
        history=(HistoryPoint(epoch=1.0, epsilon=None, held_out={"accuracy": 0.8}),),
    )
    return started().preparing("the seed is secret").paid().finished(replace(outcome, **changes))


def generator() -> RunRecord:
    request = SynthRequest(source="t.csv", epsilon=2.0, delta=1e-5, ignore=("name",), method="mst")
    first = started(
        kind="generator",
        request=as_requested(request),
        recipe=RecipeRecord(method="mst", in_words="noisy counts", settings={"share": [1.0, 1e-6]}),
        written_as=TableFormat(names=("a", "b"), delimiter=";", header=True, decimal=","),
    )
    made = ModelFile(name="mst generator", digest="abc", shape=(2,))
    return first.paid().finished(RunResult(model=made, guarantee=PROMISE, seconds=2.0))


@pytest.mark.parametrize("record", [started(), started().preparing("a"), model(), generator()])
def test_what_is_written_is_what_is_read(tmp_path: Path, record: RunRecord) -> None:
    write_record(tmp_path, record)
    assert read_record(tmp_path).to_json() == record.to_json()
    write_record(tmp_path, read_record(tmp_path))
    assert read_record(tmp_path).to_json() == record.to_json()


def test_the_request_comes_back_as_it_was(tmp_path: Path) -> None:
    write_record(tmp_path, model())
    assert request_of(read_record(tmp_path)) == REQUEST


def test_a_generator_pretends_nothing_of_a_model() -> None:
    assert not generator().to_json().keys() & {"problem", "metrics", "history"}
    assert generator().command == "synth"


def test_no_guarantee_is_written_and_read_back(tmp_path: Path) -> None:
    """JSON has no infinity, and a run without a guarantee is a run all the same."""
    endless = replace(PROMISE, epsilon=math.inf)
    record = model(guarantee=endless, scores=HeldOutScores(label="unreleased", values={"error": math.nan}))
    write_record(tmp_path, record)
    json.loads((tmp_path / RUN).read_text(), parse_constant=lambda word: pytest.fail(word))
    found = read_record(tmp_path).result
    assert found.guarantee == endless
    assert found.scores is not None
    assert math.isnan(found.scores.values["error"])


def _as_version_3(record: RunRecord) -> dict[str, Any]:
    """As version 3 wrote it: orders, the number of rows scored, and generators with what only models have."""
    value = record.to_json()
    value |= {"version": 3, "order": value.pop("request"), "dialect": value.pop("written_as", None)}
    if record.is_generator:
        shape = value["model"].pop("shape")
        value["problem"] = {"rows": 80, "shape": shape, "classes": [], "bounds": None, "scale": 1.0}
        value["metrics"] = {"label": "not judged yet: --evaluate"}
        value["history"] = {"label": "", "moments": []}
    else:
        del value["kind"]
    value["metrics"] = {**value["metrics"], "rows": 19}
    return value


@pytest.mark.parametrize("record", [model(), generator()])
def test_folders_of_version_3_are_read(tmp_path: Path, record: RunRecord) -> None:
    (tmp_path / RUN).write_text(json.dumps(_as_version_3(record)))
    found = read_record(tmp_path)
    assert found.to_json() == record.to_json()
    assert "19" not in json.dumps(found.to_json()["model"])
    assert found.to_json()["version"] == VERSION


@pytest.mark.parametrize(
    "change",
    [
        {"number": 5},
        {"records": "many"},
        {"records": -1},
        {"rows": True},
        {"request": {}},
        {"request": {**as_requested(REQUEST).to_json(), "epsilon": "2"}},
        {"recipe": {"method": "sgd"}},
        {"preparation": {"epsilon": 1.0}},
        {"event": {"kind": "nothing known"}},
        {"versions": [1]},
        {"assumptions": "none"},
        {"kind": "oracle"},
        {"model": {"name": "linear"}},
        {"guarantee": {**PROMISE.to_json(), "epsilon": None}},
        {"guarantee": {**PROMISE.to_json(), "epsilon": "infinite"}},
        {"guarantee": {**PROMISE.to_json(), "adjacency": "next door"}},
        {"metrics": {"accuracy": 0.9}},
        {"history": {"moments": [{}]}},
        {"problem": {"rows": 80}},
        {"seconds": None},
    ],
)
def test_a_field_that_is_not_what_it_should_be_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / RUN).write_text(json.dumps({**model().to_json(), **change}))
    with pytest.raises(IntegrityError, match=r"run\.json is damaged\. Restore it from a copy"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    "missing", sorted(model().to_json().keys() - {"kind", "assumptions", "sentence", *PRIVATE_FIELDS})
)
def test_a_field_that_is_missing_is_refused(tmp_path: Path, missing: str) -> None:
    value = model().to_json()
    del value[missing]
    (tmp_path / RUN).write_text(json.dumps(value))
    with pytest.raises(IntegrityError, match=r"run\.json"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    "foreign", [[], {"version": 2}, {"version": VERSION}, {"version": 99, "state": "paid"}]
)
def test_what_nobody_or_another_version_wrote_is_said_to_be_so(tmp_path: Path, foreign: Any) -> None:
    (tmp_path / RUN).write_text(json.dumps(foreign))
    with pytest.raises(IntegrityError, match="not the record of a run that this version can read"):
        read_record(tmp_path)
