"""PATE as a run: what is charged, asked, kept, and resumed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import CannotMeet, DataError, Inconclusive, IntegrityError, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Integer, Label, Number
from reticent.ledger.ledger import Ledger
from reticent.mechanisms import events
from reticent.pate.partition import shard_capacity
from reticent.runs.fit import fit, resume
from reticent.runs.folder import read_record
from reticent.runs.methods import pate
from reticent.runs.predict import Predictor
from reticent.runs.reopen import open_again
from reticent.runs.request import Request
from reticent.runs.source import Source

ROWS = 3000


def people(rows: int, seed: int, *, columns: tuple[str, ...] = ("height", "weight", "town", "tall")) -> str:
    chance = np.random.default_rng(seed)
    lines = [",".join(columns)]
    for _ in range(rows):
        height, weight, town = chance.uniform(150, 200), chance.uniform(40, 120), "ab"[chance.integers(2)]
        tall = "yes" if height + chance.normal() > 175 else "no"
        cells = {"height": f"{height:.1f}", "weight": f"{weight:.1f}", "town": town, "tall": tall}
        lines.append(",".join(cells[name] for name in columns))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("people")
    (folder / "private.csv").write_text(people(ROWS, 0))
    (folder / "public.csv").write_text(people(400, 1, columns=("town", "weight", "height")))
    (folder / "other.csv").write_text(people(400, 1, columns=("town", "weight")))
    return folder


def ordered(files: Path, **changes: Any) -> Request:
    first = Request(
        source=str(files / "private.csv"),
        target="tall",
        epsilon=4.0,
        method="pate",
        public=str(files / "public.csv"),
        teachers=40,
    )
    return replace(first, **changes)


@pytest.fixture(scope="module")
def finished(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(ordered(files), folder, keys=Keys.seeded(0))
    return folder


def test_a_student_learns_and_the_promise_is_kept(finished: Path) -> None:
    record = json.loads((finished / "run.json").read_text())
    assert read_record(finished).result.metrics["accuracy"] > 0.85
    event = events.from_json(record["event"])
    assert isinstance(event, events.Composed)  # preparation, and one Gaussian for all answers
    assert tight(event, record["request"]["delta"]).upper <= record["guarantee"]["epsilon"] <= 4.0
    assert "the public rows are public" in record["sentence"]
    assert "real-valued" not in record["sentence"]  # whole numbers on a grid


def test_shards_follow_from_public_numbers_and_not_from_who_was_held_out(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Coins of rows decide how many are trained on: a secret number, on which rounding used to depend."""
    made, real = [], pate.partition

    def watched(*words: Any, **more: Any) -> Any:
        made.append(real(*words, **more))
        raise KeyboardInterrupt

    monkeypatch.setattr(pate, "partition", watched)
    for seed in range(3):
        with pytest.raises(KeyboardInterrupt):
            fit(ordered(files), tmp_path / str(seed), keys=Keys.seeded(seed))
    assert len({len(shards.shard_of) for shards in made}) > 1
    assert {shards.indices.shape for shards in made} == {(40, shard_capacity(ROWS * 8 // 10, 40))}


@pytest.mark.parametrize("tall", [0, 1])
def test_no_label_stops_a_run_that_is_paid(tmp_path: Path, files: Path, tall: int) -> None:
    lines = people(400, 3, columns=("height", "weight", "town")).splitlines()
    told = [f"{line},{'yes' if row < tall else 'no'}" for row, line in enumerate(lines[1:])]
    (tmp_path / "alike.csv").write_text("\n".join([f"{lines[0]},tall", *told, ""]))
    domain = declared(tmp_path / "alike.toml", tall=Label(values=("no", "yes")))
    order = ordered(files, source=str(tmp_path / "alike.csv"), domain=domain, teachers=3)
    done = fit(order, tmp_path / "run", keys=Keys.seeded(tall))
    assert done.record.state == "finished"


def test_what_is_private_is_marked(finished: Path) -> None:
    seen = json.loads((finished / "private" / "unreleased.json").read_text())["unreleased"]
    assert "not to be published" in seen["label"]
    assert sum(seen["agreement"]) == 400
    assert seen["epsilon of the answers with their votes in view"] > 0


def test_answers_cost_no_more_than_was_paid(finished: Path) -> None:
    record = json.loads((finished / "run.json").read_text())
    paid = record["recipe"]["noise_multiplier"]
    answers = json.loads((finished / "private" / "answers.json").read_text())
    from reticent.pate.asking import choose_settings

    recipe = pate._read_recipe(record["recipe"])
    chosen = choose_settings(40, 2, 400, recipe._epsilon, recipe.delta)
    checks = 0.0 if chosen.sigma_check is None else answers["asked"] / chosen.sigma_check**2
    assert checks + 2 * len(answers["rows"]) / chosen.sigma_vote**2 <= paid**-2
    assert len(answers["rows"]) > 5


def test_teachers_are_held_to_what_was_paid(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever noise is chosen: quieter answers than planned are fewer, and never cost more."""
    tellers, real = [], pate.Teller

    def watched(*words: Any) -> Any:
        tellers.append(real(*words))
        return tellers[-1]

    quiet = pate.choose_settings
    monkeypatch.setattr(pate, "Teller", watched)
    monkeypatch.setattr(
        pate,
        "choose_settings",
        lambda *given: replace(quiet(*given), sigma_vote=quiet(*given).sigma_vote / 2),
    )
    done = fit(ordered(files), tmp_path / "run", keys=Keys.seeded(0))
    paid = done.record.recipe.settings["noise_multiplier"]
    (teller,) = tellers
    spent = teller.asked * teller.allowance.check + teller.answered * 2 / teller.aggregator.sigma**2
    assert 0 < spent <= paid**-2


def test_new_rows_are_predicted(finished: Path, files: Path) -> None:
    from reticent.data.files import open_table

    said = [row["prediction"] for row in Predictor(finished).table(open_table(files / "public.csv"))]
    assert set(said) == {"yes", "no"}


def test_a_stopped_run_goes_on_with_the_answers_it_bought(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("people", epsilon=9.0, delta=1e-5)
    order = ordered(files, ledger=str(path), dataset="people")

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pate, "fit_student", dies)
        with pytest.raises(KeyboardInterrupt):
            fit(order, tmp_path / "run", keys=Keys.seeded(0))
    bought = (tmp_path / "run" / "private" / "answers.json").read_bytes()
    with monkeypatch.context() as patched:  # nobody is taught or asked again
        patched.setattr(pate, "teach", dies)
        patched.setattr(pate, "Teller", dies)
        done = resume(tmp_path / "run", keys=Keys.seeded(1))
    assert done.record.result.metrics["accuracy"] > 0.8
    assert (tmp_path / "run" / "private" / "answers.json").read_bytes() == bought
    with Ledger.open(path) as ledger:
        assert ledger.account("people").charges == 2  # preparation, and the rest


def test_a_run_stopped_before_its_answers_has_released_none(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pate, "teach", dies)
        with pytest.raises(KeyboardInterrupt):
            fit(ordered(files), tmp_path / "run", keys=Keys.seeded(0))
    assert not (tmp_path / "run" / "private" / "answers.json").exists()
    assert resume(tmp_path / "run", keys=Keys.seeded(1)).record.state == "finished"


def test_answers_of_another_run_are_refused(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pate, "fit_student", dies)
        with pytest.raises(KeyboardInterrupt):
            fit(ordered(files), tmp_path / "run", keys=Keys.seeded(0))
    path = tmp_path / "run" / "private" / "answers.json"
    value = json.loads(path.read_text())
    unknown = {**value, "labels": [9 for _ in value["labels"]]}
    for damage in ("{", '{"stamp": "x"}', json.dumps(unknown)):
        path.write_text(damage)
        with pytest.raises(IntegrityError, match="answers"):
            resume(tmp_path / "run", keys=Keys.seeded(1))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"teachers": 400}, CannotMeet, "teachers for 2400 rows have 6.0 each"),
        ({"teachers": 1}, InvalidArgument, "teachers"),
        ({"public": None}, InvalidArgument, "--public"),
        ({"method": "sgd"}, InvalidArgument, "--method pate"),
        ({"public": "other.csv"}, DataError, "lacks 1 columns.*height"),
        ({"public": "none.csv"}, DataError, "none.csv"),
    ],
)
def test_bad_orders_cost_nothing(
    files: Path, tmp_path: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    if str(changes.get("public") or "").endswith(".csv"):
        changes = {"public": str(files / changes["public"])}
    with pytest.raises(error, match=words):
        fit(ordered(files, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def about_a_number(files: Path, tmp_path: Path) -> Request:
    """PATE for a target that is a number, and a ledger that has room for it."""
    table = tmp_path / "numbers.csv"
    table.write_text(people(ROWS, 0, columns=("height", "weight", "town")))
    with Ledger.create(tmp_path / "our.ledger") as ledger:
        ledger.limit("people", epsilon=9.0, delta=1e-5)
    return ordered(
        files, source=str(table), target="height", ledger=str(tmp_path / "our.ledger"), dataset="people"
    )


def charges(order: Request) -> int:
    with Ledger.open(str(order.ledger)) as ledger:
        return ledger.account("people").charges


def declared(path: Path, **columns: Any) -> str:
    known = {
        "height": Number(bounds=(100.0, 250.0)),
        "weight": Number(bounds=(0.0, 200.0)),
        "town": Category(values=("a", "b")),
        **columns,
    }
    label = next((name for name, column in known.items() if isinstance(column, Label)), None)
    Domain(columns=known, target=label).write(path)
    return str(path)


@pytest.mark.parametrize(
    "town", [Category(values=("a", "b")), Category()], ids=["all public", "words to find"]
)
def test_a_number_that_is_declared_is_refused_before_anybody_pays(
    about_a_number: Request, tmp_path: Path, town: Category
) -> None:
    order = replace(about_a_number, domain=declared(tmp_path / "numbers.toml", town=town))
    with pytest.raises(InvalidArgument, match="'pate' is for classes, and this target is a number"):
        fit(order, tmp_path / "run")
    assert charges(order) == 0
    assert not (tmp_path / "run").exists()


def test_a_number_that_only_preparation_finds_ends_the_run_for_good(
    about_a_number: Request, tmp_path: Path
) -> None:
    with pytest.raises(Inconclusive, match="the target was found to be a number") as refused:
        fit(replace(about_a_number, classes="private"), tmp_path / "run", keys=Keys.seeded(0))
    assert "--resume" not in str(refused.value)
    assert "not charged again" not in str(refused.value)
    assert "stays spent" in str(refused.value)
    with pytest.raises(DataError, match=r"has failed.*found to be a number"):
        resume(tmp_path / "run", keys=Keys.seeded(0))
    assert charges(about_a_number) == 1


def test_teachers_who_agree_on_nothing_are_not_asked_again(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent(pate.Teller):
        def answer(self, *given: Any, **named: Any) -> pate.Answers:
            nobody = np.zeros(0, np.int64)
            return pate.Answers(questions=pate.Questions(rows=nobody), labels=nobody, asked=7, counts=None)

    monkeypatch.setattr(pate, "Teller", Silent)
    with pytest.raises(Inconclusive, match="None of 7 questions was answered") as refused:
        fit(ordered(files), tmp_path / "run", keys=Keys.seeded(0))
    assert "--resume" not in str(refused.value)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (Number(bounds=(0.0, 300.0)), "number"),
        (Integer(bounds=(0, 300)), "number"),
        (Number(), "number"),
        (Number(bounds=(0.0, 300.0), looked_up=frozenset({"bounds"})), "number"),
        (Category(), "classes"),
        (Category(values=("a", "b")), "classes"),
    ],
    ids=str,
)
def test_what_is_predicted_is_known_before_paying_where_it_is_declared(
    about_a_number: Request, tmp_path: Path, column: Any, kind: str | None
) -> None:
    path = declared(tmp_path / "numbers.toml", height=column)
    assert Source(replace(about_a_number, domain=path)).target_kind == kind
    assert Source(about_a_number).target_kind == "number"
    assert Source(replace(about_a_number, classes="private")).target_kind is None


def test_datasets_of_the_catalog_know_what_is_predicted() -> None:
    assert Source(Request(source="digits", epsilon=1.0)).target_kind == "classes"


def test_a_table_is_no_pool_for_images(tmp_path: Path, files: Path) -> None:
    order = Request(source="digits", epsilon=2.0, method="pate", public=str(files / "public.csv"))
    with pytest.raises(InvalidArgument, match="held-out"):
        fit(order, tmp_path / "run")


def test_held_out_rows_can_stand_in_for_public_ones(tmp_path: Path) -> None:
    order = Request(source="digits", epsilon=6.0, method="pate", public="held-out", teachers=25)
    done = fit(order, tmp_path / "run", keys=Keys.seeded(0))
    held_out = open_again(tmp_path / "run").held_out["y"]
    assert 26 <= len(held_out) <= 46  # a tenth of those held out; the others were the pool
    assert done.record.result.metrics["accuracy"] > 0.3
