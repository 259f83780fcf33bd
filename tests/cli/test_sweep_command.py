"""`reticent sweep`: noise, accuracy and leakage over epsilon, resumed and drawn."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from reticent.core.errors import IntegrityError
from reticent.runs.sweep import Cell, SweepRequest, sweep

SMALL = ("--epsilons", "2", "--accounting", "tight", "--model", "linear", "--rows", 300)


def test_a_sweep_is_measured_drawn_and_gone_on_with(
    reticent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sweep"
    code, out, err = reticent("sweep", "digits", *SMALL, "-o", folder, "--json")
    assert code == 0, err
    cells = [Cell(**{**cell, "epsilon": float(cell["epsilon"])}) for cell in json.loads(out)["cells"]]
    accuracy = {(cell.accounting, cell.epsilon): cell.accuracy or 0.0 for cell in cells}
    assert accuracy["none", float("inf")] > accuracy["tight", 2.0] > 0.1  # of ten digits
    for cell in cells:
        for found in (cell.leakage or {}).values():
            assert found["advantage"]["low"] <= cell.bound
    with open(folder / "sweep.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(cells) == 2
    names = {path.name for path in folder.iterdir()}
    assert {"report.html", "report.json", "utility-linear.svg", "leakage-linear.svg"} <= names
    text = (folder / "report.html").read_text()
    assert "promises nothing" in text  # the words of caution

    def measured_again(*_: object) -> None:
        raise AssertionError("a cell that was done is measured again")

    monkeypatch.setattr("reticent.runs.sweep._Bench", measured_again)
    again = reticent("sweep", "digits", *SMALL, "-o", folder)
    assert again[0] == 0, again[2]
    assert "below the bound" in " ".join(again[1].split())


def test_noise_is_what_each_accounting_demands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def untrained(self: object, model: str, accounting: str, epsilon: float, noise: float, _: None) -> Cell:
        return Cell(model=model, accounting=accounting, epsilon=epsilon, delta=1e-5, noise_multiplier=noise)

    monkeypatch.setattr("reticent.runs.sweep.train_shadows", lambda *_, **__: None)
    monkeypatch.setattr("reticent.runs.sweep._Bench._cell", untrained)
    ways = ("basic", "advanced", "rdp", "tight")
    request = SweepRequest(source="digits", epsilons=(2.0,), accounting=ways, models=("linear",), rows=300)
    cells = sweep(request, tmp_path / "sweep")
    noise = {cell.accounting: cell.noise_multiplier or 0.0 for cell in cells}
    assert noise["basic"] > 3 * noise["tight"] > 0.0 == noise["none"]  # what tighter accounting buys
    assert noise["basic"] > noise["advanced"] > noise["rdp"] > noise["tight"]


def test_of_several_processes_only_the_first_writes_and_speaks(
    reticent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "sweep"
    folder.mkdir()
    cells = [
        Cell(model="linear", accounting=how, epsilon=at, delta=1e-5, noise_multiplier=2.0, accuracy=0.5)
        for how, at in (("none", float("inf")), ("basic", 2.0), ("tight", 2.0))
    ]
    monkeypatch.setattr("reticent.runs.sweep.sweep", lambda request, folder, observer: cells)
    monkeypatch.setattr("jax.process_index", lambda: 1)
    assert reticent("sweep", "digits", *SMALL, "-o", folder) == (0, "", "")
    assert list(folder.iterdir()) == []
    monkeypatch.setattr("jax.process_index", lambda: 0)
    code, out, _ = reticent("sweep", "digits", *SMALL, "-o", folder)
    assert code == 0
    assert out
    assert {"report.html", "report.json", "sweep.csv"} <= {path.name for path in folder.iterdir()}


def test_what_could_not_be_run_says_how_and_leaves_nothing_in_the_way(reticent, tmp_path: Path) -> None:
    table, folder = tmp_path / "t.csv", tmp_path / "sweep"
    table.write_text("x,y\n" + "".join(f"{n % 10},{'yes' if n % 10 > 4 else 'no'}\n" for n in range(400)))
    words = ("sweep", table, "--target", "y", "-o", folder)
    drafted = tmp_path / "t.toml"
    assert reticent("domain", table, "--target", "y", "-o", drafted)[0] == 0
    for more in ((), ("--domain", drafted)):  # nothing is declared, or nothing by a person
        code, _, err = reticent(*words, *more)
        assert code == 1
        assert "--prepare" not in err
        assert f"reticent domain {table} -o FILE" in err
        assert not folder.exists()


def test_an_order_of_which_nothing_was_measured_is_in_nobodys_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    requests = (SweepRequest(source="digits", epsilons=(1.0,), rows=rows) for rows in (200, 300))
    monkeypatch.setattr("reticent.runs.sweep._Bench.measure", stop)
    for request in requests:
        with pytest.raises(KeyboardInterrupt):
            sweep(request, tmp_path / "sweep")


def test_another_sweep_and_a_damaged_cell_are_refused(tmp_path: Path) -> None:
    request = SweepRequest(source="digits", epsilons=(1.0,), accounting=("tight",), models=("linear",))
    (tmp_path / "sweep-order.json").write_text("{}")
    (tmp_path / "cells").mkdir()
    (tmp_path / "cells" / "linear-none-inf.json").write_text("{}")
    with pytest.raises(IntegrityError, match="something else"):
        sweep(request, tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("digits", "--epsilons", "one"), "list of numbers"),
        (("digits", "--epsilons", "-1"), "epsilon"),
        (("digits", "--epsilons", ""), "epsilon"),
        (("digits", "--accounting", "guess"), "guess"),
        (("digits", "--model", "cnn"), "cnn"),
        (("digits", "--attacks", "magic"), "magic"),
        (("digits", "--seeds", "9"), "even"),
        (("digits", "--seeds", "2"), "Pass --seeds 8 or more"),
        (("digits", "--rows", "5"), "Pass --rows 100 or more"),
        (("nothing.csv",), "nothing.csv"),
    ],
)
def test_mistakes_are_one_line(reticent, tmp_path: Path, words: tuple, said: str) -> None:
    code, out, err = reticent("sweep", *words, "-o", tmp_path / "sweep")
    assert code == 1
    assert said in err
    assert not out
