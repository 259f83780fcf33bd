"""`reticent domain`: TOML or JSON on stdout, remarks on stderr, one line for a mistake."""

from __future__ import annotations

import json

import pytest

from reticent.data.domain import Domain


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("age;work;sick\n39;state;no\n50;private;yes\n38;;no\n61;state;no\n")
    return path


def test_a_draft_is_a_domain_on_stdout_and_remarks_on_stderr(reticent, table) -> None:
    code, out, err = reticent("domain", table, "--target", "sick")
    assert code == 0
    domain = Domain.from_toml(out)
    assert domain.target == "sick"
    assert len(domain.not_public()) == 8
    assert "separated by semicolon, with a header" in err
    assert "8 values were looked up in the data and are not yet public" in err


def test_json_holds_the_domain_the_dialect_and_what_is_not_public(reticent, table) -> None:
    code, out, _ = reticent("domain", table, "--json")
    assert code == 0
    said = json.loads(out)
    assert said["dialect"]["delimiter"] == ";"
    assert said["domain"]["columns"]["age"]["bounds"] == [38, 61]
    assert "age.bounds" in said["not_public"]


def test_a_file_is_written_and_never_replaced_unasked(reticent, table, tmp_path) -> None:
    goal = tmp_path / "patients.toml"
    assert reticent("domain", table, "-o", goal)[:2] == (0, "")
    assert Domain.read(goal).columns.keys() == {"age", "work", "sick"}
    goal.write_text("confirmed")
    code, _, err = reticent("domain", table, "-o", goal)
    assert code == 1
    assert "exists already" in err
    assert goal.read_text() == "confirmed"
    assert reticent("domain", table, "-o", goal, "--force")[0] == 0
    assert goal.read_text() != "confirmed"


def test_what_is_detected_can_be_overruled(reticent, table) -> None:
    _, out, _ = reticent("domain", table, "--no-header", "--delimiter", ";", "--encoding", "latin-1")
    assert list(Domain.from_toml(out).columns) == ["column_1", "column_2", "column_3"]
    tabbed = table.with_name("t.tsv")
    tabbed.write_text("a\tb\n1\t2\n")
    assert list(Domain.from_toml(reticent("domain", tabbed, "--delimiter", "tab")[1]).columns) == ["a", "b"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--target", "sck"], "has no column 'sck'. Did you mean 'sick'?"),
        (["--delimiter", "xx"], "not one plain character"),
        (["--encoding", "klingon"], "is not known"),
        (["-o", "nowhere/at/all.toml"], "Cannot write nowhere/at/all.toml"),
    ],
)
def test_a_mistake_costs_one_line_and_exit_code_1(reticent, table, words, complaint) -> None:
    code, out, err = reticent("domain", table, *words)
    assert code == 1
    assert out == ""
    error = err.strip().splitlines()[-1]
    assert error.startswith("error: ")
    assert complaint in error


def test_a_bad_table_leaves_no_file_behind(reticent, table, tmp_path) -> None:
    table.write_text("a,b\n1,2\n3\n")
    code, out, err = reticent("domain", table, "-o", tmp_path / "new.toml")
    assert (code, out) == (1, "")
    assert "patients.csv, line 3 has 1 cells where there are 2 columns" in err
    assert not (tmp_path / "new.toml").exists()


def test_help_shows_an_example(reticent) -> None:
    code, out, _ = reticent("domain", "--help")
    assert code == 0
    assert "reticent domain patients.csv --target readmitted" in out


def test_a_long_scan_reports_its_progress(reticent, table, monkeypatch) -> None:
    moved: list[float] = []

    class Bar:
        def __enter__(self):
            return moved.append

        def __exit__(self, *_):
            return None

    monkeypatch.setattr("reticent.cli.output.progress", lambda description, total, unit: Bar())
    assert reticent("domain", table)[0] == 0
    assert sum(moved) == pytest.approx(100)
