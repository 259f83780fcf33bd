"""From a table to a folder: what is charged, released, written, and resumed."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import (
    BudgetExceeded,
    CannotMeet,
    DataError,
    DomainError,
    IntegrityError,
    InvalidArgument,
)
from reticent.core.keys import Keys, Stream
from reticent.data.domain import Domain, Label, Number
from reticent.data.files import open_table
from reticent.ledger.ledger import Ledger
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.runs import folder as folders
from reticent.runs.fit import fit, resume
from reticent.runs.lifecycle import FinishedRun
from reticent.runs.origin import mark_as_own
from reticent.runs.predict import Predictor
from reticent.runs.problem import checked_delta, default_delta
from reticent.runs.request import Request
from reticent.training import loop
from reticent.training.plan_json import from_json

ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two numbers, a word, and a class that they decide but for some noise. Nobody changes it."""
    rng = np.random.default_rng(0)
    lines = ["height,weight,town,tall,score"]
    for _ in range(ROWS):
        height, weight, town = rng.uniform(150, 200), rng.uniform(40, 120), "ab"[rng.integers(2)]
        tall = "yes" if height + 3 * rng.normal() + 5 * (town == "a") > 177 else "no"
        lines.append(f"{height:.1f},{weight:.1f},{town},{tall},{0.5 * height + rng.normal():.2f}")
    path = tmp_path_factory.mktemp("table") / "people.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("domain") / "people.toml"
    Domain(
        columns={
            "height": Number(bounds=(140.0, 210.0)),
            "weight": Number(bounds=(30.0, 130.0)),
            "tall": Label(values=("no", "yes")),
        },
        target="tall",
    ).write(path)
    return path


def ordered(table: Path, **changes: Any) -> Request:
    return replace(Request(source=str(table), target="tall", epsilon=4.0, model="linear"), **changes)


@pytest.fixture(scope="module")
def prepared(table: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run that was told nothing about its table, to look at."""
    return fit(ordered(table), tmp_path_factory.mktemp("prepared") / "run", keys=Keys.seeded(0))


@pytest.fixture(scope="module")
def declared(table: Path, domain: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run that was told everything about its table, to look at."""
    order = ordered(table, domain=str(domain), prepare="public")
    return fit(order, tmp_path_factory.mktemp("declared") / "run", keys=Keys.seeded(6))


def test_a_table_becomes_a_model_that_keeps_its_promise(prepared: FinishedRun) -> None:
    record = prepared.record
    assert record.result.metrics["accuracy"] > 0.85
    assert record.result.scores is not None
    assert record.result.scores.label == "unreleased estimate on held-out rows"
    event = record.event
    assert tight(event, record.request.delta).upper <= record.result.guarantee.epsilon <= 4.0
    assert isinstance(event, events.Composed)  # preparation, and training
    assert record.request.delta == default_delta(ROWS) == 1e-5
    names = sorted(path.name for path in prepared.folder.iterdir())
    assert names == ["domain.toml", "model.safetensors", "private", "run.json"]
    assert Domain.read(prepared.folder / "domain.toml").not_public() == []
    assert list(record.result.guarantee.assumptions) == [
        "the number of records, 3000, is public",
        *Keys.seeded(0).assumptions,
        "the names of the columns are public",
        "the format of the file is public: "
        'CSV, separated by comma, with a header, quoted by ", utf-8, 5 columns; '
        "every quote is closed in the record that opens it",
        "the classes of the target 'tall' are public: 'no', 'yes'",
    ]


def test_the_history_says_what_it_is_and_leaves_nothing_out(prepared: FinishedRun) -> None:
    record = prepared.record
    history, plan = record.result.history, from_json(record.recipe.settings["plan"])
    label = record.to_json()["history"]["label"]
    assert label.startswith("unreleased estimates on held-out rows")
    assert "preparation included" in label
    assert len(history) > 5
    for moment in history:
        steps = round(moment.epoch * plan.sampler.examples / plan.sampler.batch_size)
        assert moment.epsilon is not None
        assert record.preparation is not None
        assert moment.epsilon > plan.epsilon_after(steps)  # which is that of training alone
        assert moment.epsilon > record.preparation.epsilon
    assert history[-1].epsilon == pytest.approx(record.result.guarantee.epsilon, rel=1e-3)


def test_a_declared_domain_costs_nothing_and_refuses_nothing(declared: FinishedRun) -> None:
    assert declared.record.preparation is None
    assert declared.record.result.metrics["accuracy"] > 0.8


def test_what_is_not_declared_is_refused_where_only_public_values_may_be_used(
    table: Path, tmp_path: Path
) -> None:
    with pytest.raises(DomainError, match="Nothing is declared about the 5 columns"):
        fit(ordered(table, prepare="public"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("method", "model"),
    [
        ("gd", "linear"),
        ("sgd", "mlp"),
        ("output", "linear"),
        ("objective", "linear"),
        ("exponential", "auto"),
        ("descent", "auto"),
    ],
)
@pytest.mark.thorough
def test_other_methods_and_models(table: Path, domain: Path, tmp_path: Path, method: str, model: Any) -> None:
    order = ordered(table, domain=str(domain), method=method, model=model)
    assert fit(order, tmp_path / "run", keys=Keys.seeded(2)).record.result.metrics["accuracy"] > 0.75


@pytest.mark.parametrize("target", ["tall", "score"])
@pytest.mark.parametrize("method", ["sgd", "objective"])
def test_cells_that_nobody_expected_do_not_stop_a_run_that_was_paid_for(
    table: Path, tmp_path: Path, target: str, method: str
) -> None:
    header, *lines = table.read_text().splitlines()
    cells = (("height", "unknown"), ("tall", "maybe"), ("tall", ""), ("score", "n/k"), ("score", ""))
    for kind, (column, cell) in enumerate(cells):
        at = header.split(",").index(column)
        for row in range(10 + kind, ROWS, ROWS // 4):  # some of them are held out, and some are not
            before = lines[row].split(",")
            lines[row] = ",".join([*before[:at], cell, *before[at + 1 :]])
    path = tmp_path / "people.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    result = fit(
        ordered(path, target=target, method=method), tmp_path / "run", keys=Keys.seeded(5)
    ).record.result
    assert result.problem is not None
    if target == "tall":
        assert result.problem.bounds is None
        assert result.metrics["accuracy"] > 0.8
    else:
        assert result.problem.bounds is not None
        assert result.metrics["R2"] > 0.36


def test_a_convex_fit_and_its_preparation_share_one_budget(table: Path, tmp_path: Path) -> None:
    order = ordered(table, method="objective", epsilon=3.0)
    record = fit(order, tmp_path / "run", keys=Keys.seeded(3)).record
    event = record.event
    assert isinstance(event, events.Composed)
    assert 2.9 < tight(event, record.request.delta).upper <= record.result.guarantee.epsilon <= 3.0
    assert record.recipe.settings["epsilon"] > 0.9 * 3.0


@pytest.mark.parametrize("method", ["output", "objective", "descent"])
@pytest.mark.parametrize("change", [{"epsilon": 8.0}, {"adjacency": Adjacency.REPLACE}])
def test_a_convex_fit_that_would_cost_more_than_was_paid_draws_no_noise(
    table: Path, domain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, change: Any
) -> None:
    """The planted bug: the fit is asked for something else than was priced."""
    from reticent import convex

    honest = convex.fit
    monkeypatch.setattr(convex, "fit", lambda *data, **given: honest(*data, **given | change))
    keys = Keys.seeded(8)
    with pytest.raises(AssertionError, match=r"priced at 4\.0"):
        fit(ordered(table, domain=str(domain), method=method), tmp_path / "run", keys=keys)
    keys.take(Stream.NOISE)  # nobody has taken it


def test_a_convex_method_is_for_linear_models(table: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="fits linear models"):
        fit(ordered(table, method="objective", model="mlp"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_predictions_come_from_the_folder_alone(declared: FinishedRun, tmp_path: Path) -> None:
    shutil.copytree(declared.folder, tmp_path / "run")
    new = tmp_path / "new.csv"
    new.write_text("weight,height\n70,195\n70,152\n")
    rows = list(Predictor(tmp_path / "run").table(open_table(new)))
    assert [row["prediction"] for row in rows] == ["yes", "no"]
    assert sum(rows[0][f"probability of {name}"] for name in ("no", "yes")) == pytest.approx(1, abs=1e-5)


def test_the_ledger_is_charged_first_never_twice_and_with_everything(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "clinic.ledger")
    with Ledger.create(path) as ledger:
        ledger.limit("people", epsilon=5.0, delta=1e-5)
    order = ordered(table, ledger=path, dataset="people", epsilon=3.0)
    with monkeypatch.context() as patch:
        _stop_after(patch, 1)
        with pytest.raises(DataError, match=r"Interrupted after \d+ of 200 steps") as error:
            fit(order, tmp_path / "run", keys=Keys.seeded(4))
    assert folders.WHOLE_PLAN in error.value.remedy
    with pytest.raises(DataError, match=r"not finished.*the whole plan, because"):
        Predictor(tmp_path / "run")
    done = resume(tmp_path / "run", keys=Keys.seeded(4))
    resume(tmp_path / "run")  # a finished run stays as it is
    with Ledger.open(path) as ledger:
        assert ledger.account("people").charges == 2  # preparation, and the rest when it has found something
        assert ledger.for_dataset("people").guarantee().epsilon == pytest.approx(
            done.record.result.guarantee.epsilon, rel=1e-3
        )
    with pytest.raises(BudgetExceeded):
        fit(replace(order, epsilon=4.5), tmp_path / "other", keys=Keys.seeded(5))


def _stop_after(patch: pytest.MonkeyPatch, calls: int) -> None:
    compiled = loop._compiled

    def interrupting(*args):
        many, seen = compiled(*args), []

        def call(*given):
            seen.append(1)
            if len(seen) > calls:
                raise KeyboardInterrupt
            return many(*given)

        return call

    patch.setattr(loop, "_compiled", interrupting)


def test_a_resumed_seeded_run_equals_an_uninterrupted_one(
    table: Path, domain: Path, declared: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ordered(table, domain=str(domain), prepare="public")
    with monkeypatch.context() as patch:
        _stop_after(patch, 2)
        with pytest.raises(DataError, match="--resume"):
            fit(order, tmp_path / "part", keys=Keys.seeded(6))
    rest = resume(tmp_path / "part", keys=Keys.seeded(6))
    assert rest.record.result.model.digest == declared.record.result.model.digest


def test_what_preparation_rested_on_is_said_though_others_went_on_with_the_run(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*args: Any, **options: Any) -> None:
        raise DataError("The lights went out.", remedy="Wait.")

    with monkeypatch.context() as patch:
        patch.setattr("reticent.runs.methods.descent.train", stopped)  # prepared, and no step taken
        with pytest.raises(DataError, match="lights"):
            fit(ordered(table), tmp_path / "run", keys=Keys.seeded(6))
    assert (tmp_path / "run" / "domain.toml").exists()
    done = resume(tmp_path / "run", keys=Keys.from_os())
    assert set(Keys.seeded(6).assumptions) <= set(done.record.result.guarantee.assumptions)


def test_a_run_whose_plan_or_table_changed_is_not_gone_on_with(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, record = tmp_path / "people.csv", tmp_path / "run" / "run.json"
    shutil.copy(table, path)
    with monkeypatch.context() as patch:
        _stop_after(patch, 0)
        with pytest.raises(DataError, match="Interrupted"):
            fit(ordered(path), tmp_path / "run", keys=Keys.seeded(0))
    priced, text = record.read_text(), path.read_text()
    changed = json.loads(priced)
    changed["recipe"]["plan"]["noise_multiplier"] /= 2
    record.write_text(json.dumps(changed))
    mark = (tmp_path / "run" / "private" / "origin.json").read_bytes()
    with pytest.raises(DataError, match="was not made by you"):
        resume(tmp_path / "run", keys=Keys.seeded(0))
    mark_as_own(tmp_path / "run", folders.read_record(tmp_path / "run"))
    with pytest.raises(IntegrityError, match="not what the run was priced for"):
        resume(tmp_path / "run", keys=Keys.seeded(0))
    record.write_text(priced)
    (tmp_path / "run" / "private" / "origin.json").write_bytes(mark)
    path.write_text(text.replace("yes", "no", 1))
    with pytest.raises(IntegrityError, match="not what the run was priced for"):
        resume(tmp_path / "run", keys=Keys.seeded(0))
    path.write_text(text)
    assert resume(tmp_path / "run", keys=Keys.seeded(0)).record.table is None


def test_a_strangers_folder_is_checked(declared: FinishedRun, tmp_path: Path) -> None:
    folder = shutil.copytree(declared.folder, tmp_path / "run")
    model = (folder / folders.MODEL).read_bytes()
    for at in (0, 9, len(model) // 2, len(model) - 1):
        (folder / folders.MODEL).write_bytes(model[:at] + bytes([model[at] ^ 1]) + model[at + 1 :])
        with pytest.raises(IntegrityError, match="changed or damaged"):
            Predictor(folder)
    (folder / folders.MODEL).write_bytes(model)
    whole = json.loads((folder / folders.RUN).read_text())
    for change in (
        {"problem": {}},
        {"model": {"name": "os.system", "digest": ""}},
        {"problem": {**whole["problem"], "shape": [3]}},
        {"state": "imagined"},
        {"version": 99},
    ):
        (folder / folders.RUN).write_text(json.dumps({**whole, **change}))
        with pytest.raises(IntegrityError):
            Predictor(folder)
    (folder / folders.RUN).write_text("{")
    with pytest.raises(IntegrityError, match="damaged"):
        Predictor(folder)
    with pytest.raises(DataError, match="holds no run"):
        Predictor(tmp_path)


def test_bad_orders_are_refused_before_anything_is_charged(table: Path, tmp_path: Path) -> None:
    for changes, said in (
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1e6}, "protects nobody"),
        ({"test": 1.0}, "not a share of the rows"),
        ({"method": "magic"}, "method"),
        ({"ledger": "file"}, "go together"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            ordered(table, **changes)
    for changes, error, said in (
        ({"delta": 1e-3}, InvalidArgument, "promises nothing for 3000 rows"),
        ({"target": "tal"}, DataError, "no column 'tal'"),
        ({"target": None}, InvalidArgument, "Which column"),
        ({"source": "nowhere.csv"}, DataError, "no file"),
    ):
        with pytest.raises(error, match=said):
            fit(ordered(table, **changes), tmp_path / "run")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()
    with pytest.raises(DataError, match="exists already"):
        fit(ordered(table), tmp_path / "run")


def test_tables_that_cannot_be_learned_from_say_so(tmp_path: Path) -> None:
    few = tmp_path / "few.csv"
    few.write_text("x,y\n" + "1,a\n2,b\n" * 20)
    with pytest.raises(CannotMeet, match=r"rows are too few.*--prepare assume-public"):
        fit(Request(source=str(few), target="y", epsilon=1.0), tmp_path / "run")
    one = tmp_path / "one.csv"
    one.write_text("x,y\n" + "".join(f"{n},same\n" for n in range(2000)))
    with pytest.raises(InvalidArgument, match="fewer than two values"):
        fit(Request(source=str(one), target="y", epsilon=8.0), tmp_path / "run2", keys=Keys.seeded(0))
    found = Request(source=str(one), target="y", epsilon=8.0, classes="private")
    with pytest.raises(DataError, match="fewer than two classes"):
        fit(found, tmp_path / "run2", keys=Keys.seeded(0))


def test_deltas() -> None:
    assert [default_delta(rows) for rows in (9, 10, 32_561, 10**6)] == [1e-2, 1e-2, 1e-6, 1e-7]
    assert checked_delta(1e-7, 1000) == 1e-7
