"""`reticent train` in two processes: each reads its part of a table, and together they are one process."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import joined_processes as joined
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import table_runs
from safetensors.numpy import load_file

from reticent.core.errors import DataError
from reticent.data.domain import Category, Domain, Label, Number
from reticent.ledger.ledger import Ledger
from reticent.runs.reopen import open_again
from reticent.training.devices import feeding
from reticent.training.places import in_order

ROWS, EPSILON = 600, 4.0
LIMIT = 300  # seconds
FOLDER = ["domain.toml", "model.safetensors", "private", "run.json"]


class Place:
    """A folder with tables, of which each machine has some of its own, and a ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.domain = folder / "t.toml"
        self.csv, self.parquet, self.bad = (folder / name for name in ("t.csv", "t.parquet", "bad.csv"))
        chance = random.Random(0)
        x = [chance.uniform(0, 10) for _ in range(ROWS)]
        y = ["yes" if value + chance.random() > 5.5 else "no" for value in x]
        towns = [chance.choice("ab") for _ in range(ROWS)]
        lines = [f"{value:.2f},{town},{answer}\n" for value, town, answer in zip(x, towns, y, strict=True)]
        self.csv.write_text("x,town,y\n" + "".join(lines))
        self.bad.write_text("x,town,y\n" + "".join([*lines[:-1], "many,a,no\n"]))
        table = pa.table({"x": x, "town": towns, "y": y})
        pq.write_table(table, self.parquet, row_group_size=100)
        self.declared(bound=10.0).write(self.domain)
        for process in ("0", "1"):  # what machines of their own might have
            own = folder / process
            own.mkdir()
            self.declared(bound=10.0 + int(process)).write(own / "own.toml")
            other = "x,city,y\n" if process == "1" else "x,town,y\n"
            (own / "columns.csv").write_text(other + "".join(lines))
            (own / "content.csv").write_text("x,town,y\n" + "".join(lines[int(process) :]))
            if process == "0":
                (own / "missing.csv").write_text(self.csv.read_text())

    def declared(self, bound: float) -> Domain:
        columns = {
            "x": Number(bounds=(0.0, bound)),
            "town": Category(values=("a", "b")),
            "y": Label(values=("no", "yes")),
        }
        return Domain(columns=columns, target="y")

    def job(self, name: str, *, limit: float = 1.01 * EPSILON, **order: Any) -> dict[str, Any]:
        """An order for a new folder, charged to a dataset of the folder's name, in a ledger of its own."""
        with Ledger.create(self.ledger(name)) as ledger:
            ledger.limit(name, epsilon=limit, delta=1e-3)
        order = {"source": str(self.csv), "domain": str(self.domain), "method": "gd", **order}
        order |= {"target": "y", "epsilon": EPSILON, "ledger": str(self.ledger(name)), "dataset": name}
        return {"folder": str(self.folder / name), "order": order}

    def ledger(self, name: str) -> Path:
        """One for each dataset: the same rows have one budget in a ledger."""
        return self.folder / f"{name}.ledger"

    def charges(self, name: str) -> int:
        with Ledger.open(self.ledger(name)) as ledger:
            ledger.verify()
            return ledger.account(name).charges

    def model(self, name: str) -> dict[str, np.ndarray]:
        return load_file(self.folder / name / "model.safetensors")


SHARED = {"parquet": {"method": "sgd"}, "private": {"domain": None}}
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another epsilon": (
        {"in process": {"1": {"epsilon": 2.0}}},
        "InvalidArgument: Process 1 has a different request from process 0",
    ),
    "another domain": (
        {"order": {"domain": "own.toml"}},
        "InvalidArgument: Process 1 has a different domain from process 0",
    ),
    "other columns": (
        {"order": {"source": "columns.csv"}},
        "InvalidArgument: Process 1 has a different list of columns from process 0: "
        "x, city, y and x, town, y.",
    ),
    "another content": (
        {"order": {"source": "content.csv"}},
        "of the table from process 0",
    ),
    "no table in one": ({"order": {"source": "missing.csv"}}, "missing.csv"),
    "a bad row in one": ({"order": {"source": "bad.csv"}}, "many"),
    "a method for one": (
        {"order": {"method": "output"}},
        "InvalidArgument: Method 'output' needs all rows, and 2 processes share them.",
    ),
    "too little budget": ({"limit": 1.0}, "BudgetExceeded: "),
    "a folder that is there": ({"folder": "begun alone"}, "DataError: "),
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def alone(place: Place) -> dict[str, Any]:
    """The records of runs in this process, by name; one is stopped for two processes to resume."""
    found: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_runs.descent, "_plan", table_runs.few_steps)
        patch.setattr(table_runs.descent, "train", table_runs.descent.train)
        patch.setattr(feeding, "places_for", lambda plan, units, key: in_order(units))  # as several have them
        for name, order in SHARED.items():
            order = {**order, **({"source": str(place.parquet)} if name == "parquet" else {})}
            record = table_runs.follow(place.job(f"{name} alone", **order), [])
            found[name] = json.loads(json.dumps(record))
        with pytest.raises(DataError, match="Interrupted after 1 of 12 steps"):
            table_runs.follow({**place.job("begun alone"), "stops": True}, [])
    return found


@pytest.fixture(scope="module")
def both(place: Place, alone: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What each of two processes said of each job, by name."""
    jobs = {}
    for name, order in SHARED.items():
        jobs[name] = place.job(
            name, **{**order, **({"source": str(place.parquet)} if name == "parquet" else {})}
        )
    jobs["on disk"] = place.job("on disk") | {"stays on disk": True}
    jobs["begun alone"] = {"folder": str(place.folder / "begun alone"), "resumes": True}
    jobs["finished already"] = {"folder": str(place.folder / "private"), "resumes": True}
    for name, (change, _) in REFUSED.items():
        order = change.get("order", {})
        if order.get("source") == "bad.csv":
            order = {"source": str(place.bad)}
        job = place.job(name, **order, **({"limit": 1.0} if "limit" in change else {}))
        jobs[name] = job | {"in process": change.get("in process", {})}
        if "folder" in change:
            jobs[name]["folder"] = str(place.folder / change["folder"])
    jobs["begun together"] = place.job("begun together") | {"stops": True}
    file = place.folder / "jobs.json"
    file.write_text(json.dumps(list(jobs.values())))
    address = joined.free_address()
    ended = joined.ended([joined.begun("table_runs.py", address, 2, at, file) for at in (0, 1)], within=LIMIT)
    assert [process.code for process in ended] == [0, 0], ended
    said = [[json.loads(line) for line in process.output.splitlines()] for process in ended]
    return {name: [words[at] for words in said] for at, name in enumerate(jobs)}


Both = dict[str, list[dict[str, Any]]]


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.thorough
def test_the_domain_the_split_and_the_model_are_those_of_one_process(
    place: Place, alone: dict[str, Any], both: Both, name: str
) -> None:
    record = both[name][0]["record"]
    for field in ("records", "rows", "recipe", "event", "preparation", "problem"):
        assert record[field] == alone[name][field], field
    splits = [
        (place.folder / folder / "private" / "split.json").read_bytes() for folder in (name, f"{name} alone")
    ]
    assert splits[0] == splits[1]
    ours, theirs = record["guarantee"], alone[name]["guarantee"]
    assert {**ours, "assumptions": theirs["assumptions"]} == theirs
    more = set(ours["assumptions"]) - set(theirs["assumptions"])
    assert sorted(line[:13] for line in more) == [
        "a record is r",
        "all processes",
        "the network b",
    ]
    domains = [(place.folder / folder / "domain.toml").read_bytes() for folder in (name, f"{name} alone")]
    assert domains[0] == domains[1]
    ours, theirs = place.model(name), place.model(f"{name} alone")
    assert ours.keys() == theirs.keys()
    for leaf, array in ours.items():
        assert np.allclose(array, theirs[leaf], rtol=1e-4, atol=1e-5)
    held_out = len(open_again(place.folder / name).held_out["y"])
    assert held_out == len(open_again(place.folder / f"{name} alone").held_out["y"])
    assert abs(held_out - ROWS / 5) < 60  # six deviations
    assert record["metrics"]["accuracy"] == pytest.approx(alone[name]["metrics"]["accuracy"], abs=0.02)
    assert record["metrics"]["accuracy"] > 0.85


@pytest.mark.parametrize("name", [*SHARED, "on disk", "begun alone"])
@pytest.mark.thorough
def test_it_is_paid_once_and_written_by_the_first(place: Place, both: Both, name: str) -> None:
    first, second = both[name]
    assert first["record"]["state"] == "finished"
    for field in ("number", "model", "guarantee", "metrics"):
        assert second["record"][field] == first["record"][field]
    # What is found privately is paid for first, and the rest when it was found.
    assert place.charges(name) == (2 if name == "private" else 1)
    assert sorted(path.name for path in (place.folder / name).iterdir()) == FOLDER


@pytest.mark.thorough
def test_runs_that_others_stopped_end_alike(
    place: Place, both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One begun by two processes and resumed by one, one the other way round, and one never stopped.

    The last one kept its rows on disk.
    """
    assert all("Interrupted after 1 of 12 steps" in said["error"] for said in both["begun together"])
    assert place.charges("begun together") == 1
    assert (place.folder / "begun together" / "checkpoint").exists()
    monkeypatch.setattr(table_runs.descent, "train", table_runs.descent.train)
    job = {"folder": str(place.folder / "begun together"), "resumes": True}
    assert table_runs.follow(job, [])["state"] == "finished"
    assert place.charges("begun together") == 1
    whole = place.model("on disk")
    for name in ("begun together", "begun alone"):
        for leaf, array in place.model(name).items():
            assert np.allclose(array, whole[leaf], rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_a_finished_run_is_returned_to_both(both: Both) -> None:
    first, second = (said["record"] for said in both["finished already"])
    assert first == second
    assert first["number"] == both["private"][0]["record"]["number"]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.thorough
def test_what_does_not_fit_is_refused_by_both_and_costs_nothing(place: Place, both: Both, name: str) -> None:
    for said in both[name]:
        assert REFUSED[name][1] in said["error"]
    assert place.charges(name) == 0
    assert not (place.folder / name).exists()


@pytest.mark.thorough
def test_the_command_line_joins_processes(place: Place) -> None:
    job = place.job("by words")["order"]
    words = ["train", place.csv, "--target", "y", "--epsilon", EPSILON, "--method", "gd", "--json"]
    words += ["--domain", place.domain, "--ledger", place.ledger(job["dataset"]), "--dataset", job["dataset"]]
    words += ["-o", place.folder / "by words", "--coordinator", joined.free_address(), "--processes", 2]
    both = [joined.commanded(*words, "--process", process) for process in (0, 1)]
    first, second = joined.ended(both, within=LIMIT)
    assert (first.code, second.code) == (0, 0), (first, second)
    said = json.loads(first.output)
    assert 0.9 * EPSILON < said["guarantee"]["epsilon"] <= EPSILON
    assert any("the network between the processes" in line for line in said["guarantee"]["assumptions"])
    assert second.output == ""
    assert place.charges("by words") == 1
    assert sorted(path.name for path in (place.folder / "by words").iterdir()) == FOLDER
