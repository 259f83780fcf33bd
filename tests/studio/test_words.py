"""What pages say, against what it is taken from: command lines, estimates, lessons."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from reticent.core.errors import ReticentError
from reticent.data.domain import Domain
from reticent.data.files import Table
from reticent.studio import columns, planning, teaching
from reticent.studio.commands import command_for, prepare
from reticent.studio.estimates import MEASURED
from reticent.studio.pages.lessons import LESSONS
from reticent.studio.pages.train import train_page
from reticent.studio.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "-rf.csv").write_text("age,a=b,sick\n39,1,no\n50,2,yes\n")
    return Workspace(tmp_path)


def fields(**changes: Any) -> dict[str, str]:
    said = {"source": "-rf.csv", "target": "sick", "epsilon": "1", "output": "runs/-x", "known": "declared"}
    columns_of = changes.pop("columns", {})
    return {**said, "classes": "no,yes", **changes, "columns": json.dumps(columns_of)}


def number(low: str, high: str) -> dict[str, str]:
    return {"kind": "number", "low": low, "high": high}


def test_no_word_of_a_page_becomes_an_option(workspace: Workspace):
    said = fields(target="--json", columns={"a=b": number("0", "9"), "-q": number("0", "1")})
    words = command_for("train", said, workspace).words
    assert words[:3] == ("train", "./-rf.csv", "--target=--json")
    assert words[-2:] == ("--output", "runs/-x")
    from reticent.cli.options import bounds_of

    given = [words[place + 1] for place, word in enumerate(words) if word == "--bounds"]
    given += [word.removeprefix("--bounds=") for word in words if word.startswith("--bounds=")]
    assert bounds_of(given) == {"a=b": (0.0, 9.0), "-q": (0.0, 1.0)}


def test_a_name_that_leads_outside_names_nothing(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
):
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.csv").write_text("a\n")
    (workspace.folder / "link").symlink_to(outside)
    for name in ("link", "link/secret.csv", "..", ".", str(outside), "../" + outside.name, "a\0b"):
        with pytest.raises(ReticentError, match="nothing called"):
            workspace.find(name)
    assert workspace.tables() == ["-rf.csv"]
    for name in ("link/new", "../new", "/new", "a//b", "-rf.csv", "a\\b", "a\nb"):
        with pytest.raises(ReticentError):
            workspace.new(name)
    with pytest.raises(ReticentError, match="extension"):
        workspace.new_table("page.html")
    assert workspace.new_table("../../x.csv").relative_to(workspace.folder) == Path("tables/x.csv")


def test_what_options_cannot_say_goes_into_a_file(workspace: Workspace):
    said = fields(columns={"age": number("0", "120"), "a=b": {"kind": "words", "values": "1, 2"}})
    words = command_for("train", said, workspace).words
    assert "--bounds" not in words
    prepare("train", said, workspace)
    domain = Domain.read(workspace.folder / words[words.index("--domain") + 1])
    assert domain.columns["age"].bounds == (0.0, 120.0)  # pyright: ignore[reportAttributeAccessIssue]
    assert domain.columns["a=b"].values == ("1", "2")  # pyright: ignore[reportAttributeAccessIssue]
    assert domain.not_public() == ["sick.kind"]  # the target's classes are an option
    with pytest.raises(ReticentError, match="already"):
        prepare("train", said, workspace)


@pytest.mark.parametrize(
    "wrong",
    [
        {"source": "../secret.csv"},
        {"source": "postgresql://x@y/z"},
        {"output": "../run"},
        {"output": "runs/../../run"},
        {"output": ".hidden/run"},
        {"columns": {"age": number("9", "1")}},
        {"columns": {"age": number("nan", "1")}},
        {"columns": {"age": {"kind": "words", "values": " "}}},
        {"columns": ["age"]},
        {"target": "x" * 3000},
    ],
    ids=str,
)
def test_a_form_that_leads_outside_or_says_nonsense_is_refused(workspace: Workspace, wrong: dict[str, Any]):
    with pytest.raises(ReticentError):
        command_for("train", fields(**wrong), workspace)


def test_a_price_looks_at_no_cell(workspace: Workspace, monkeypatch: pytest.MonkeyPatch):
    reading = Table.batches

    def refuse(table: Table, names: Any = None) -> Any:
        assert names == table.names[:1], "more than the number of rows was looked at"
        return reading(table, names)

    rows = "".join(f"{age},{age % 7},{'zebra' if age % 3 else 'no'}\n" for age in range(4000))
    (workspace.folder / "t.csv").write_text(f"age,week,sick\n{rows}")
    monkeypatch.setattr(Table, "batches", refuse)
    said = fields(source="t.csv", known="public", epsilon="1", delta="1e-6", method="objective")
    for known, task in (("private", "auto"), ("declared", "auto"), ("public", "regress")):
        assert columns.price({**said, "known": known, "task": task}, workspace)["records"] == 4000
    bounds = json.dumps({"age": number("0", "5000")})
    assert columns.price({**said, "known": "private", "columns": bounds}, workspace)["preparation"]
    assert "zebra" not in train_page("t.csv", workspace, folder="")
    found = columns.price(said, workspace)
    assert found["records"] == 4000
    assert 0.99 < float(found["epsilon"]) <= 1
    assert 0 < float(found["preparation"]) <= 0.1001
    assert len(found["found"]) == 4
    declared = {"age": number("0", "5000"), "week": number("0", "7")}
    assert columns.price({**said, "columns": json.dumps(declared)}, workspace)["preparation"] is None


def test_estimates_are_those_of_the_documentation():
    for each in MEASURED:
        text = (ROOT / each.page).read_text()
        for _, score in each.points:
            assert re.search(rf"\| {score:.2f} ±", text), (each.name, score)
        assert re.search(
            rf"^{each.command.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE
        )


def test_a_lesson_names_what_there_is():
    for lesson in LESSONS:
        origin = dict(lesson.origin[1:])
        assert {"theorem", "function", "command", "page"} <= origin.keys(), lesson.id
        assert lesson.origin[0][0].startswith("lecture"), lesson.id
        for name in re.findall(r"reticent\.[\w.]+", origin["function"]):
            module, _, last = name.rpartition(".")
            assert hasattr(importlib.import_module(module), last), name
        for page in re.findall(r"docs/[\w/]+\.md", origin["page"]):
            assert (ROOT / page).is_file(), page
        assert shlex.split(origin["command"])[0] == "reticent"


def test_lessons_compute_with_the_functions_that_they_name():
    from reticent.accounting.theorems import composition

    found = teaching.compose({"epsilon": "0.1", "times": "500"})
    assert found["x"][-1] == 500
    assert found["lines"]["basic"][-1] == pytest.approx(50.0)
    assert found["lines"]["optimal"][-1] == composition.optimal(0.1, 0.0, 500, 1e-5)
    assert found["lines"]["optimal"][-1] < found["lines"]["advanced, sharper"][-1]
    assert teaching.gaussian({"multiplier": "1"})["shown"] == "4.378"
    assert teaching.vote({"gamma": "0.05", "answers": "1"})["one"] == "0.1000"
    assert 20 < teaching.descend({"epsilon": "1", "steps": "30"})["multiplier"] < 21
    with pytest.raises(ReticentError):
        teaching.compose({"epsilon": "0.1", "times": "1e9"})


@pytest.mark.parametrize(
    ("sampling", "noise"),
    [("poisson", "independent"), ("poisson", "banded"), ("full", "tree"), ("shuffled", "independent")],
)
def test_what_a_plan_says_to_type_gives_the_same_plan(reticent_line, sampling: str, noise: str):
    words = {"rows": "2000", "batch": "100", "epochs": "5", "multiplier": "4", "delta": "1e-5"}
    words |= {"sampling": sampling, "noise": noise, "bands": "4"}
    found = planning.price(words)
    given: dict[str, Any] = {}
    exec(found["python"], given)
    assert given["plan"].noise_multiplier == pytest.approx(4, rel=2e-3)
    assert reticent_line(found["command"])["guarantee"]["epsilon"] == pytest.approx(found["epsilon"])


@pytest.fixture
def reticent_line(capsys: pytest.CaptureFixture[str]):
    """Runs a command line, and reads the JSON that it prints."""
    from reticent.cli.app import main

    def run(line: str) -> Any:
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main([*shlex.split(line)[1:], "--json"])
        return json.loads(capsys.readouterr().out)

    return run


def test_what_it_would_take_is_enough_and_hardly_more():
    words = {
        "rows": "60000",
        "batch": "256",
        "epochs": "20",
        "multiplier": "1.1",
        "delta": "1e-6",
        "target": "1",
    }
    for what, too_little in (("multiplier", 0.99), ("epochs", 1.02), ("rows", 0.99)):
        value = planning.take({**words, "what": what})["value"]
        assert planning.price({**words, what: str(value)})["epsilon"] <= 1, what
        less = value * too_little if what != "rows" else int(value * too_little)
        assert planning.price({**words, what: str(less)})["epsilon"] > 1, what
    banded = {**words, "noise": "banded", "bands": "4", "what": "rows"}
    assert planning.take(banded)["shown"] == "not possible"


def test_without_the_extra_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    from reticent.studio.serve import serve

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ReticentError, match=r"pip install 'reticent\[studio\]'"):
        serve(tmp_path)
