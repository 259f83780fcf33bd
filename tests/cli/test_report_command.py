"""`reticent report`: what people look at first. README's `make demo` tests the demonstration itself."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from reticent.cli.app import app
from reticent.core.errors import DataError
from reticent.ledger.ledger import Ledger
from reticent.runs import private_part


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that a ledger was charged for, with attacks without shadow models and a small audit beside it."""
    folder = tmp_path_factory.mktemp("shown") / "demo"
    folder.mkdir()
    with Ledger.create(folder / "demo.ledger") as ledger:
        ledger.limit("digits", epsilon=12.0, delta=1e-5)
    run, charge = folder / "run", ("--ledger", folder / "demo.ledger", "--dataset", "digits")
    for words in (
        ("train", "digits", "--epsilon", 6, "--delta", 1e-5, *charge, "-o", run),
        ("attack", run, "--shadows", 0),
        ("audit", run, "--canaries", 100, "--confidence", 0.9999),
        ("report", run, "-o", folder / "report.html"),
    ):
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
    return folder


def test_numbers_of_the_report_are_those_of_the_run(reticent, shown: Path, tmp_path: Path) -> None:
    goal = tmp_path / "page.html"
    code, out, err = reticent("report", shown / "run", "-o", goal, "--json")
    assert code == 0, err
    facts = json.loads(out)["facts"]
    record = json.loads((shown / "run" / "run.json").read_text())
    attack = json.loads((shown / "run" / "private" / "attacks" / "attack.json").read_text())
    audit = json.loads((shown / "run" / "private" / "audit.json").read_text())
    values = {value["name"]: value["value"] for value in facts["headline"]}
    assert values["epsilon"] == record["guarantee"]["epsilon"]
    private = json.loads((shown / "run" / "private" / "unreleased.json").read_text())
    assert values["accuracy"] == private["metrics"]["accuracy"]
    rates = attack["attacks"][attack["strongest"]]["tpr_at_fpr"]
    decisive = next(rate["true_positive_rate"]["value"] for rate in rates if rate["is_resolved"])
    assert values["members found by the strongest attack"] == decisive
    printed = {value["name"]: value["shown"] for value in facts["headline"]}
    assert any(f"at most {printed['best possible guess']} of the time" in line for line in facts["lead"])
    assert values["epsilon shown by the audit"] == audit["verdict"]["bound"]
    assert json.loads(goal.with_suffix(".json").read_text()) == facts
    charts = {chart["id"] for section in facts["sections"] for chart in section["charts"]}
    assert {"spent", "learned", "reliability", "roc", "claim"} <= charts
    assert "parts" not in charts  # nothing was found first: training had all of the budget
    assert "demo.ledger" in goal.read_text()


def test_results_of_attack_and_audit_are_kept_private_and_not_exported(
    reticent, shown: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(shown / "run", run)
    kept = [run / "private" / name for name in ("audit.json", "attacks/attack.json", "attacks/roc.svg")]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in kept)
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in {path.parent for path in kept})
    assert reticent("export", run, "-o", tmp_path / "release")[0] == 0
    assert {path.name for path in tmp_path.joinpath("release").rglob("*")} == {
        *("MODEL_CARD.md", "model.safetensors", "run.json"),
        *(("domain.toml",) if (run / "domain.toml").exists() else ()),
    }
    old = json.loads(kept[1].read_text())
    code, _, err = reticent("attack", run, "--attacks", "threshold", "--shadows", 0)
    assert (code, f"Wrote attack.json, roc.svg to {kept[1].parent}" in err) == (0, True), err
    assert list(json.loads(kept[1].read_text())["attacks"]) == ["threshold"]
    assert json.loads((run / "private" / "attacks-1" / "attack.json").read_text()) == old
    code, _, err = reticent("attack", run, "--attacks", "threshold", "--shadows", 0, "-o", run / "mine")
    assert code == 0, err
    assert {stat.S_IMODE(path.stat().st_mode) for path in (run / "mine").iterdir()} == {0o600}


def test_results_are_printed_where_they_cannot_be_kept(reticent, shown: Path, tmp_path: Path) -> None:
    shutil.copytree(shown / "run", run := tmp_path / "run")
    shutil.rmtree(run / "private" / "attacks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_part, "make_place", _refuse)
        code, out, err = reticent("attack", run, "--attacks", "threshold", "--shadows", 0)
    assert (code, "threshold" in out) == (0, True)
    assert "warning: The results are not kept. Cannot make it." in err
    assert not (run / "private" / "attacks").exists()


def _refuse(folder: Path, name: str) -> Path:
    raise DataError("Cannot make it.", remedy="Make room.")


def test_the_private_part_is_read_before_what_lies_beside_it(reticent, shown: Path, tmp_path: Path) -> None:
    shutil.copytree(shown / "run", run := tmp_path / "run")
    (run / "audit.json").write_text("{}")
    for words in (("report", run, "--json"), ("compare", run, shown / "run", "--json")):
        code, out, err = reticent(*words)
        assert code == 0, err
        assert json.loads(out)
    (run / "private" / "audit.json").rename(run / "audit.json")  # the place of earlier versions
    code, out, err = reticent("report", run, "--json")
    assert (code, "epsilon shown by the audit" in out) == (0, True), err


def test_a_terminal_gets_the_same_facts(reticent, shown: Path, tmp_path: Path) -> None:
    code, out, err = reticent("report", shown / "run", "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "What the promise means" in out
    assert "Wrote" in err
    facts = json.loads((tmp_path / "page.json").read_text())
    for value in facts["headline"]:
        assert value["shown"] in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "nowhere"), "no run"),
        (("report", "RUN", "-o", "no/such/folder/page.html"), "no folder"),
        (("report", "RUN", "-o", "page.json"), "page.html"),
        (("report", "FILE"), "is a file, not the folder of a run"),
        (("report", "RUN", "--audit", "nowhere.json"), "nowhere.json"),
        (("demo", "-o", "RUN"), "exists already"),
        (("demo", "--data", "nothing", "-o", "new"), "nothing"),
    ],
)
def test_mistakes_are_one_line(
    reticent, shown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    named = {"RUN": shown / "run", "FILE": shown / "report.html"}
    code, out, err = reticent(*(named.get(word, word) for word in words))
    assert code == 1
    assert said in err
    assert not out


@pytest.mark.parametrize("victim", ["patients.csv", "page.json"])
def test_a_report_replaces_reports_and_nothing_else(
    reticent, shown: Path, tmp_path: Path, victim: str
) -> None:
    (tmp_path / victim).write_text("age,ill\n30,no\n")
    goal = (tmp_path / victim).with_suffix(".csv" if victim == "patients.csv" else ".html")
    code, out, err = reticent("report", shown / "run", "-o", goal)
    assert (code, out) == (1, "")
    assert f"{tmp_path / victim} exists already" in err
    assert [path.name for path in tmp_path.iterdir()] == [victim]
    assert (tmp_path / victim).read_text() == "age,ill\n30,no\n"


def test_the_record_of_a_run_is_no_place_for_a_report(reticent, shown: Path) -> None:
    record = (shown / "run" / "run.json").read_bytes()
    assert reticent("report", shown / "run", "-o", shown / "run" / "run.html")[0] == 1
    assert (shown / "run" / "run.json").read_bytes() == record


def test_a_report_may_be_written_again(reticent, shown: Path, tmp_path: Path) -> None:
    for words in ((), ("-o", tmp_path / "page.html")):
        for _ in range(2):
            code, _, err = reticent("report", shown / "run", *words)
            assert code == 0, err
    for name in ("report.html", "report.json"):
        assert stat.S_IMODE((shown / "run" / name).stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / name.replace("report", "page")).stat().st_mode) & 0o044
