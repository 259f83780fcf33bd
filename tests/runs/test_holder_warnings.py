"""What spoils a model is said to the holder of the rows, before anything is paid, and to nobody else."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data.domain import Category, Column, Domain, Ignored, Label, Number
from reticent.data.files import open_table
from reticent.runs.fit import fit
from reticent.runs.holder_warnings import holder_warnings
from reticent.runs.request import Request
from reticent.synthetic import pipeline
from reticent.synthetic.generators import Generator
from reticent.synthetic.request import SynthRequest

ROWS = 400

Cell = Callable[[int, np.random.Generator], object]


def said_about(tmp_path: Path, column: Cell, *, name: str = "c", target: Cell | None = None) -> list[str]:
    """The warnings about a table of an honest column, one that is in question, and a target."""
    random = np.random.default_rng(0)
    path = tmp_path / "t.csv"
    lines = []
    for row in range(ROWS):
        label = "yes" if random.random() < 0.5 else "no"
        goal = label if target is None else target(row, random)
        lines.append(f"{random.normal(40, 10):.1f},{column(row, random)},{goal}")
    path.write_text("\n".join([f"age,{name},y", *lines]) + "\n")
    return holder_warnings(open_table(path), None, target="y")


HONEST: dict[str, Cell] = {
    "numbers": lambda row, random: round(random.normal(0, 5), 2),
    "negative numbers": lambda row, random: random.integers(-50, 50),
    "ages up to 99": lambda row, random: random.integers(0, 100),
    "whole numbers over a wide range": lambda row, random: random.integers(10**6, 10**9),
    "words": lambda row, random: random.choice(["a", "b", "c"]),
    "a few unknown": lambda row, random: "unknown" if random.random() < 0.05 else "b",
}


@pytest.mark.parametrize("kind", HONEST)
def test_nothing_is_said_about_an_honest_column(tmp_path: Path, kind: str) -> None:
    assert not said_about(tmp_path, HONEST[kind])


@pytest.mark.parametrize(
    ("value", "usual"), [(-999, (0, 100)), (-1, (0, 30)), (9999, (0, 100)), (-99, (150, 200))]
)
def test_a_mark_for_missing_cells_is_named(tmp_path: Path, value: int, usual: tuple[int, int]) -> None:
    (said,) = said_about(
        tmp_path, lambda row, random: value if random.random() < 0.05 else random.integers(*usual)
    )
    assert f"are {value}, and no other is near" in said
    assert f"--missing {value}" in said
    assert said.startswith("For you only")


@pytest.mark.parametrize(
    ("name", "cell"),
    [("c", lambda row, _: 1000 + row), ("customer_id", lambda row, _: (row * 7919 + 13) * 1000)],
)
def test_an_identifier_is_named(tmp_path: Path, name: str, cell: Cell) -> None:
    (said,) = said_about(tmp_path, cell, name=name)
    assert f"'{name}' is a whole number that no two rows share" in said
    assert "--user" in said


def test_a_column_that_is_still_to_be_found_is_looked_at(tmp_path: Path) -> None:
    """As in a run without a domain file: only the target is declared."""
    (tmp_path / "t.csv").write_text("pid,y\n" + "".join(f"{7000 + n},{n % 2}\n" for n in range(300)))
    columns = {"pid": Ignored(looked_up=frozenset({"kind"})), "y": Label(values=("0", "1"))}
    declared = Domain(columns=columns, target="y")
    (line,) = holder_warnings(open_table(tmp_path / "t.csv"), declared, target="y")
    assert "'pid' is a whole number that no two rows share" in line


def test_a_column_that_its_name_leaves_out_is_not_spoken_of(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "visit_id,age,y\n" + "".join(f"{n},{n % 70},{n % 2}\n" for n in range(300))
    )
    columns = {name: Ignored(looked_up=frozenset({"kind"})) for name in ("visit_id", "age")}
    declared = Domain(columns={**columns, "y": Label(values=("0", "1"))}, target="y")
    assert not holder_warnings(open_table(tmp_path / "t.csv"), declared, target="y")


def said_of_declared(tmp_path: Path, *, ignore_case: bool = False, **columns: Column) -> list[str]:
    """The warnings about ages from 0 to 99 and three classes in equal parts."""
    lines = [f"{row % 100},{['no', 'YES', 'maybe'][row % 3]}" for row in range(300)]
    (tmp_path / "t.csv").write_text("\n".join(["age,y", *lines]) + "\n")
    honest: dict[str, Column] = {
        "age": Number(bounds=(0.0, 120.0)),
        "y": Label(values=("no", "YES", "maybe"), lenient=True),
    }
    declared = Domain(columns={**honest, **columns}, target="y", ignore_case=ignore_case)
    return holder_warnings(open_table(tmp_path / "t.csv"), declared, target="y")


def test_classes_that_the_table_does_not_have_are_named(tmp_path: Path) -> None:
    """A slip of the pen left out every other row, and accuracy was 100%."""
    assert not said_of_declared(tmp_path)
    others, absent = said_of_declared(tmp_path, y=Label(values=("no", "yes", "maybe"), lenient=True))
    assert "33% of the cells of 'y' are none of its classes, most of them 'YES'" in others
    assert "None of 300 rows of 'y' has the class 'yes'" in absent
    any_case = Label(values=("no", "yes", "maybe"), lenient=True)
    assert not said_of_declared(tmp_path, y=any_case, ignore_case=True)
    marked = Label(values=("no", "yes"), lenient=True, looked_up=frozenset({"values"}))
    assert not said_of_declared(tmp_path, y=marked)  # they will be found


def test_bounds_that_most_numbers_lie_outside_are_named(tmp_path: Path) -> None:
    (said,) = said_of_declared(tmp_path, age=Number(bounds=(0.0, 12.0)))
    assert "87% of the cells of 'age' lie outside its bounds, 0 to 12" in said
    assert not said_of_declared(tmp_path, age=Number(bounds=(0.0, 96.0)))


def test_a_column_that_is_mostly_unknown_is_named(tmp_path: Path) -> None:
    (said,) = said_about(tmp_path, lambda row, random: "Unknown" if random.random() < 0.6 else "b")
    assert "of the cells of 'c' say 'Unknown'" in said


@pytest.mark.parametrize(
    ("cell", "target"),
    [
        (lambda row, _: "ill" if row % 3 else "well", lambda row, _: "yes" if row % 3 else "no"),
        (lambda row, _: row % 3 + (10 if row % 5 else 0), lambda row, _: "yes" if row % 5 else "no"),
        (lambda row, _: 2.5 * ((row * 37) % 101) + 1, lambda row, _: (row * 37) % 101 + 0.5),
        (lambda row, _: -math.log(1.5 + (row * 37) % 101), lambda row, _: (row * 37) % 101),
    ],
)
def test_a_column_that_holds_the_answer_is_named(tmp_path: Path, cell: Cell, target: Cell) -> None:
    said = said_about(tmp_path, cell, target=target)
    assert any("'c' alone determines 'y'" in line and "--ignore c" in line for line in said)


def test_a_column_that_nearly_tells_is_not_accused(tmp_path: Path) -> None:
    assert not said_about(
        tmp_path,
        lambda row, _: "ill" if row % 3 or row == 30 else "well",
        target=lambda row, _: "yes" if row % 3 else "no",
    )


def _table(tmp_path: Path) -> Path:
    random = np.random.default_rng(1)
    path = tmp_path / "t.csv"
    lines = [
        f"{row},{-999 if row % 10 == 0 else random.normal(5, 1):.2f},{'ab'[row % 2]}" for row in range(ROWS)
    ]
    path.write_text("\n".join(["id,x,y", *lines]) + "\n")
    columns = {
        "id": Ignored(),
        "x": Number(bounds=(0.0, 10.0)),
        "y": Label(values=("a", "b")),
    }
    Domain(columns=columns, target="y").write(path.with_suffix(".toml"))
    return path


def test_they_are_said_before_it_is_paid_and_stay_in_the_private_part(tmp_path: Path) -> None:
    path, said = _table(tmp_path), []
    request = Request(
        source=str(path), epsilon=4.0, target="y", domain=str(path.with_suffix(".toml")), method="output"
    )
    fit(request, tmp_path / "run", keys=Keys.seeded(0), observer=Observer(warn=said.append))
    (line,) = [line for line in said if line.startswith("For you only")]
    assert "'x'" in line  # and nothing about the column that is ignored
    kept = tmp_path / "run" / "private" / "warnings.json"
    assert json.loads(kept.read_text())["warnings"] == [line]
    assert kept.stat().st_mode & 0o077 == 0
    for public in (tmp_path / "run").glob("*"):
        assert not public.is_file() or b"For you only" not in public.read_bytes()


def test_a_card_of_synthetic_rows_does_not_have_them(tmp_path: Path) -> None:
    path = _table(tmp_path)
    domain = Domain.read(path.with_suffix(".toml"))
    columns = {**domain.columns, "y": Category(values=("a", "b"))}
    Domain(columns=columns).write(path.with_suffix(".toml"))
    request = SynthRequest(
        source=str(path), epsilon=20.0, domain=str(path.with_suffix(".toml")), method="mst", ignore=("id",)
    )
    said: list[str] = []
    pipeline.make(request, tmp_path / "g", keys=Keys.seeded(0), observer=Observer(warn=said.append))
    assert any("-999" in line for line in said)
    assert "For you only" not in json.dumps(Generator(tmp_path / "g").card(10))
