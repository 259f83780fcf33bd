"""`reticent federate`: from a table with users to a folder like any other, and one line for a mistake."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import reticent as rt
from reticent.core.errors import IntegrityError, InvalidArgument
from reticent.runs.federated_tables import MeasuredTable, read_tables, write_tables
from reticent.runs.folder import read_record
from reticent.runs.methods import table
from reticent.runs.methods.federated import FederatedRecipe
from reticent.runs.request import Request
from reticent.training.local_training import TRUSTED_SERVER

USERS = 300
MEASURED = MeasuredTable(
    "poisoning", "Rules", "Of 100 clients, 20 lie.", ("rule", "accuracy under ALIE"), (("median", "0.66"),)
)

_DOMAIN = """version = 1
[columns.first]
kind = "number"
bounds = [0.0, 100.0]

[columns.second]
kind = "number"
bounds = [0.0, 100.0]

[columns.level]
kind = "category"
values = ["high", "low"]
"""


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of 300 people, 1 to 8 each."""
    folder, chance = tmp_path_factory.mktemp("visits"), np.random.default_rng(0)
    lines = ["person,first,second,level"]
    for person in range(USERS):
        for a, b in chance.uniform(0, 100, (1 + person % 8, 2)):
            lines.append(f"p{person},{a:.1f},{b:.1f},{'high' if a + b > 100 else 'low'}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    (folder / "visits.toml").write_text(_DOMAIN)
    return folder


def words(visits: Path, *more: Any) -> tuple[Any, ...]:
    return (
        *("federate", visits / "visits.csv", "--users", "person", "--rows-per-user", 6, "--target", "level"),
        *(
            "--epsilon",
            4,
            "--rounds",
            12,
            "--clients-per-round",
            60,
            "--local-epochs",
            2,
            "--model",
            "linear",
        ),
        *("--domain", visits / "visits.toml", *more),
    )


def test_a_run_of_many_clients_is_a_run_like_any_other(reticent, visits: Path, tmp_path: Path) -> None:
    folder, ledger = tmp_path / "run", tmp_path / "ledger.db"
    code, _, err = reticent("ledger", "init", ledger)
    assert code == 0, err
    limit = ("--epsilon", 5, "--delta", 1e-4, "--unit", "user")
    code, _, err = reticent("ledger", "limit", ledger, "visits", *limit)
    assert code == 0, err
    code, out, err = reticent(
        *words(visits, "--ledger", ledger, "--dataset", "visits", "-o", folder, "--json")
    )
    assert code == 0, err
    said = json.loads(out)["guarantee"]
    assert (said["unit"], said["rows_per_user"]) == ("user", 6)
    assert said["epsilon"] <= 4
    assert TRUSTED_SERVER in said["assumptions"]

    recipe = table.read(read_record(folder).recipe)
    assert isinstance(recipe, FederatedRecipe)
    assert (recipe.plan.steps, recipe.plan.unit, recipe.plan.rows_per_user) == (12, "user", 6)
    assert recipe.local.steps_for(6) == 2
    assert recipe.event == recipe.plan.event

    code, out, err = reticent("show", folder)
    assert code == 0, err
    assert "12 rounds with 60 clients, at most 2 local steps of each" in " ".join(out.split())
    code, out, err = reticent("predict", folder, visits / "visits.csv", "-o", tmp_path / "said.csv")
    assert code == 0, err
    code, out, err = reticent("federate", "--resume", folder)
    assert (code, "finished already" in err) == (0, True)
    code, out, err = reticent("attack", folder, "--shadows", 6, "--attacks", "lira")
    assert code == 1
    assert len(err.strip().splitlines()) == 1
    _every_other_command_works_on_it(reticent, folder, visits, ledger, tmp_path)


def _every_other_command_works_on_it(
    reticent: Any, folder: Path, visits: Path, ledger: Path, tmp_path: Path
) -> None:
    code, _, err = reticent("attack", folder, "--shadows", 0)
    assert code == 0, err
    write_tables(folder, [MEASURED])
    code, out, err = reticent("attack", folder, "--attacks", "updates", "--json")
    assert code == 0, err
    updates = json.loads(out)["updates"]
    seen = updates["auc"]["which rows a client has"]
    assert seen["one client"]["value"] > 0.6 > seen["a sum with noise"]["low"]
    assert set(updates["auc"]["whether half of them are of one class"]) == set(seen)
    (copies,) = updates["read"].values()  # this model has one layer: there is nothing to set a trap in
    assert list(copies) == list(seen)
    assert copies["one client"]["low"] > 40 > 20 > copies["a sum with noise"]["high"]
    code, _, err = reticent("report", folder, "-o", tmp_path / "report.html")
    assert code == 0, err
    page = (tmp_path / "report.html").read_text()
    for said in (
        "Rounds, and who takes part",
        "Who may see what",
        "epsilon per user",
        "Epsilon per user over the rounds",
        "In how many rounds a user is",
        "When clients lie",
        "accuracy under ALIE",
        "Attacks on updates",
        "the row of a client that has one",
    ):
        assert said in page
    code, out, err = reticent("ledger", "show", ledger, "--json")
    assert code == 0, err
    code, _, err = reticent("export", folder, "-o", tmp_path / "export")
    assert code == 0, err
    code, _, err = reticent(*words(visits, "-o", tmp_path / "other", "--rounds", 3))
    assert code == 0, err
    code, out, err = reticent("compare", folder, tmp_path / "other")
    assert code == 0, err
    assert "federated" in out


def test_a_dry_run_says_what_it_would_cost_and_writes_nothing(reticent, visits: Path) -> None:
    code, out, err = reticent(*words(visits, "--dry-run"))
    assert code == 0, err
    assert "12 rounds" in " ".join(out.split())


def test_mistakes_are_one_line(reticent, visits: Path, tmp_path: Path) -> None:
    source = visits / "visits.csv"
    for typed, said in {
        (source, "--target", "level", "--epsilon", 4): "names each row's user",
        (source, "--users", "nobody", "--target", "level", "--epsilon", 4): "nobody",
        (source, "--users", "person", "--target", "level", "--epsilon", 4, "--rounds", 0): "rounds",
        (source, "--users", "person", "--target", "level", "--epsilon", 4, "--local-rate", -1): "local_rate",
    }.items():
        code, out, err = reticent("federate", *typed, "-o", tmp_path / "run")
        assert (code, out) == (1, "")
        assert said in err
        assert len(err.strip().splitlines()) == 1
        assert not (tmp_path / "run").exists()


def test_rounds_go_with_the_federated_method_and_only_what_is_known_is_taken() -> None:
    with pytest.raises(InvalidArgument, match="are for the method 'federated'"):
        Request(source="digits", epsilon=1.0, federated={"rounds": 3})
    with pytest.raises(InvalidArgument, match="has no setting 'round'"):
        Request(
            source="t.csv",
            epsilon=1.0,
            method="federated",
            user="person",
            rows_per_user=3,
            federated={"round": 3},
        )


def test_tables_that_nobody_wrote_are_refused_and_none_are_no_tables(tmp_path: Path) -> None:
    assert read_tables(tmp_path) == ()
    write_tables(tmp_path, [MEASURED])
    assert read_tables(tmp_path) == (MEASURED,)
    place = tmp_path / "private" / "federated.json"
    assert place.stat().st_mode & 0o77 == 0
    for wrong in (
        "{",
        '{"tables": 3}',
        '{"tables": [{"kind": "gossip", "title": "", "text": "", "headings": ["a"], "rows": []}]}',
        '{"tables": [{"kind": "poisoning", "title": "", "text": "", "headings": ["a"], "rows": [[]]}]}',
        '{"tables": [{"kind": "poisoning", "title": "", "text": "", "headings": [7], "rows": []}]}',
    ):
        place.write_text(wrong)
        with pytest.raises(IntegrityError, match="tables about a federated run"):
            read_tables(tmp_path)
    with pytest.raises(InvalidArgument, match="not one that a report shows"):
        write_tables(tmp_path, [MEASURED._replace(rows=(("median",),))])


def test_clients_are_made_up_for_a_named_dataset_by_a_dirichlet_law(reticent, tmp_path: Path) -> None:
    typed = ("federate", "digits", "--clients", 40, "--dirichlet", 0.5, "--rows-per-user", 40, "--epsilon", 8)
    short = ("--rounds", 3, "--clients-per-round", 20, "--model", "linear")
    code, out, err = reticent(*typed, *short, "-o", tmp_path / "run", "--json")
    assert code == 0, err
    said = json.loads(out)["guarantee"]
    assert (said["unit"], said["rows_per_user"]) == ("user", 40)
    assert "the 40 clients are made up, from labels that are taken as public" in said["assumptions"]
    code, out, err = reticent("show", tmp_path / "run")
    assert code == 0, err
    code, out, err = reticent("report", tmp_path / "run", "-o", tmp_path / "report.html")
    assert code == 0, err


def test_made_up_clients_need_a_named_dataset_and_their_number(
    reticent, visits: Path, tmp_path: Path
) -> None:
    table = ("federate", visits / "visits.csv", "--target", "level", "--epsilon", 4)
    for typed, said in {
        (*table, "--clients", 40): "is a table",
        (*table, "--users", "person", "--dirichlet", 0.5): "their number is missing",
        (*table, "--users", "person", "--clients", 3): "not both",
        ("federate", "digits", "--epsilon", 4, "--clients", 20, "--dirichlet", -1): "dirichlet",
        ("federate", "digits", "--epsilon", 4): "make clients up",
    }.items():
        code, out, err = reticent(*typed, "-o", tmp_path / "run")
        assert (code, out) == (1, "")
        assert said in err
        assert len(err.strip().splitlines()) == 1


@pytest.mark.thorough
def test_a_run_that_is_killed_between_rounds_is_resumed_and_charged_once(
    reticent, visits: Path, tmp_path: Path
) -> None:
    folder, ledger = tmp_path / "run", rt.Ledger.create(str(tmp_path / "ledger.db"))
    ledger.limit("visits", epsilon=4.01, delta=1e-4, unit="user")
    typed = words(
        visits, "--rounds", 300, "--ledger", tmp_path / "ledger.db", "--dataset", "visits", "-o", folder
    )
    program = "import sys; from reticent.cli.app import main; sys.exit(main())"
    with subprocess.Popen([sys.executable, "-c", program, *map(str, typed)]) as running:
        checkpoint = folder / "checkpoint"
        end = time.monotonic() + 300
        while not checkpoint.exists() and running.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        assert running.poll() is None, "it is to be killed before it ends"
        running.send_signal(signal.SIGKILL)
    assert not (folder / "model.safetensors").exists()
    code, out, err = reticent("show", folder)
    assert "not finished" in out
    code, _, err = reticent("federate", "--resume", folder)
    assert code == 0, err
    assert (folder / "model.safetensors").exists()
    assert [entry.kind for entry in ledger.entries("visits")].count("charge") == 1
