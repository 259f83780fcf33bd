"""From a table to a generator in a folder: what is charged, written, sampled, and resumed."""

from __future__ import annotations

import csv
import json
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
    IntegrityError,
    InvalidArgument,
    ReticentError,
)
from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Integer, Label, Number
from reticent.ledger.ledger import Ledger
from reticent.runs import payment
from reticent.synthetic import pricing
from reticent.synthetic.generators import Generator
from reticent.synthetic.pipeline import make, resume
from reticent.synthetic.quality.evaluation import evaluate
from reticent.synthetic.request import SynthRequest

ROWS = 3000


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("patients")
    chance = np.random.default_rng(0)
    lines = ["name;age;smoker;level;ill"]
    for number in range(ROWS):
        age, smoker = int(chance.integers(20, 90)), bool(chance.random() < 0.3)
        level = f"{chance.normal(5 + smoker, 1):.2f}".replace(".", ",") if chance.random() > 0.1 else ""
        ill = chance.random() < 0.1 + 0.5 * smoker
        lines.append(f"p{number};{age};{'yes' if smoker else 'no'};{level};{'yes' if ill else 'no'}")
    (folder / "patients.csv").write_text("\n".join(lines) + "\n")
    Domain(
        columns={
            "age": Integer(bounds=(18, 99)),
            "smoker": Category(values=("no", "yes")),
            "level": Number(bounds=(0.0, 10.0), missing=True),
            "ill": Label(values=("no", "yes")),
        },
        target="ill",
    ).write(folder / "patients.toml")
    return folder


def ordered(files: Path, **changes: Any) -> SynthRequest:
    first = SynthRequest(
        source=str(files / "patients.csv"),
        epsilon=3.0,
        domain=str(files / "patients.toml"),
        ignore=("name",),
        test=0.2,
    )
    return replace(first, **changes)


@pytest.fixture(scope="module")
def made(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "generator"
    make(ordered(files), folder, keys=Keys.seeded(0))
    return folder


def test_the_promise_is_kept_and_charged_once(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=3.2, delta=1e-5)
    order = ordered(files, ledger=str(path), dataset="patients")
    done = make(order, tmp_path / "g", keys=Keys.seeded(0))
    event = done.record.event
    assert tight(event, done.record.request.delta).upper <= done.record.result.guarantee.epsilon <= 3.0
    with Ledger.open(path) as ledger:
        assert ledger.account("patients").charges == 1
    said = [f"the number of records, {ROWS}, is public", *Keys.seeded(0).assumptions]
    assert (
        list(done.record.result.guarantee.assumptions)[:-1] == said
    )  # nothing about which rows are held out
    with pytest.raises(BudgetExceeded):
        make(order, tmp_path / "h")
    assert not (tmp_path / "h").exists()


def test_what_is_made_looks_like_the_original(made: Path, tmp_path: Path) -> None:
    generator = Generator(made)
    generator.write(tmp_path / "s.csv", 500, seed=1)
    with open(tmp_path / "s.csv", newline="") as file:
        rows = list(csv.DictReader(file, delimiter=";"))
    assert list(rows[0]) == ["age", "smoker", "level", "ill"]  # the names are left out, the order stays
    assert len(rows) == 500
    assert all(18 <= int(row["age"]) <= 99 for row in rows)
    levels = [row["level"] for row in rows]
    assert "" in levels
    assert all("," in level and "." not in level for level in levels if level)
    ill = {
        word: np.mean([row["ill"] == "yes" for row in rows if row["smoker"] == word])
        for word in ("yes", "no")
    }
    assert ill["yes"] - ill["no"] > 0.25  # 0.5 in the original
    card = json.loads((tmp_path / "s.csv.card.json").read_text())
    assert "differential privacy" in card["sentence"]


def test_more_rows_cost_nothing_and_differ(made: Path) -> None:
    before = {path.name: path.read_bytes() for path in made.iterdir() if path.is_file()}
    generator = Generator(made)
    first, second = generator.sample(100), generator.sample(100)
    assert first != second
    assert generator.sample(50, seed=3) == generator.sample(50, seed=3)
    assert set(generator.sample(40, given={"ill": "yes"})["ill"]) == {"yes"}
    assert {path.name: path.read_bytes() for path in made.iterdir() if path.is_file()} == before
    with pytest.raises(InvalidArgument, match="illness"):
        generator.sample(1, given={"illness": "yes"})
    with pytest.raises(InvalidArgument, match="maybe"):
        generator.sample(1, given={"ill": "maybe"})


def test_no_row_of_the_original_is_in_the_folder(made: Path, files: Path) -> None:
    content = b"".join(path.read_bytes() for path in made.rglob("*") if path.is_file())
    lines = (files / "patients.csv").read_bytes().splitlines()[1:]
    assert not any(line in content for line in lines)
    assert b"p17" not in content


def test_quality_is_judged_by_rows_that_were_kept_away(made: Path) -> None:
    found = evaluate(Generator(made))
    assert "unreleased" in found["label"]
    assert found["self-test"]["has_passed"]
    assert found["distances to held-out rows"]["single_mean"] < 0.1
    assert abs(found["membership by density"]["auc"]["value"] - 0.5) < 0.06
    learned = {fact["trained_on"]: fact for name, fact in found.items() if name.startswith("learned")}
    synthetic, real = (learned[what]["scores"][0]["accuracy"] for what in ("synthetic", "real"))
    assert synthetic > real - 0.05


def test_without_held_out_rows_nothing_is_judged(files: Path, tmp_path: Path) -> None:
    make(ordered(files, test=0.0, method="mst"), tmp_path / "g", keys=Keys.seeded(0))
    assert not (tmp_path / "g" / "private" / "split.json").exists()
    with pytest.raises(DataError, match="--evaluate"):
        evaluate(Generator(tmp_path / "g"))


@pytest.mark.parametrize("stopped", ["charge", "fit"])
def test_a_stopped_run_goes_on_and_pays_nothing_twice(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    path = tmp_path / "our.ledger"
    with Ledger.create(path) as ledger:
        ledger.limit("patients", epsilon=9.0, delta=1e-5)
    order = ordered(files, ledger=str(path), dataset="patients", domain=None, epsilon=6.0)

    charge = payment.charge

    def dies(*given: Any, **named: Any) -> None:
        if stopped == "charge":  # it is in the ledger, and the folder does not say so yet
            charge(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(payment if stopped == "charge" else pricing.table_model, stopped, dies)
        with pytest.raises(KeyboardInterrupt):
            make(order, tmp_path / "g", keys=Keys.seeded(0))
    found = (tmp_path / "g" / "domain.toml").read_bytes() if stopped == "fit" else None
    done = resume(tmp_path / "g")
    assert done.record.state == "finished"
    # What was found came from the seed, though whoever went on with it had another.
    is_seeded = set(Keys.seeded(0).assumptions) < set(done.record.result.guarantee.assumptions)
    assert is_seeded == (stopped == "fit")
    if found is not None:  # what was found privately is not found a second time
        assert (tmp_path / "g" / "domain.toml").read_bytes() == found
    with Ledger.open(path) as ledger:
        assert ledger.account("patients").charges == 2  # preparation, and the rest; nothing twice
    assert resume(tmp_path / "g").record == done.record


def test_a_changed_table_or_model_is_refused(files: Path, made: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in filter(Path.is_file, made.iterdir()):
        (copy / path.name).write_bytes(path.read_bytes())
    content = bytearray((copy / "generator.model").read_bytes())
    content[len(content) // 2] ^= 1
    (copy / "generator.model").write_bytes(content)
    with pytest.raises(IntegrityError):
        Generator(copy)


def test_nothing_declared_is_found_and_paid(files: Path, tmp_path: Path) -> None:
    done = make(ordered(files, domain=None, target="ill", epsilon=6.0), tmp_path / "g", keys=Keys.seeded(0))
    assert done.record.preparation is not None
    assert done.record.preparation.epsilon < 1
    event = done.record.event
    assert tight(event, done.record.request.delta).upper <= 6.0
    generator = Generator(tmp_path / "g")
    assert set(generator.sample(200)) >= {"age", "smoker", "ill"}
    # What was drawn costs no more than the claim that was charged for it.
    epsilon, delta = done.record.recipe.settings["share"]
    assert tight(generator.model.plan.event, delta).upper <= epsilon * (1 + 1e-6)


def test_what_is_drawn_is_what_was_charged(made: Path) -> None:
    generator = Generator(made)
    assert generator.model.plan.event == generator.record.event


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"epsilon": 0.0005}, CannotMeet, "epsilon"),
        ({"epsilon": -1.0}, InvalidArgument, "epsilon"),
        ({"epsilon": 1e9}, InvalidArgument, "protects nobody"),
        ({"method": "gan"}, InvalidArgument, "not for a table"),
        ({"method": "magic"}, InvalidArgument, "magic"),
        ({"target": "nobody"}, DataError, "nobody"),
        ({"ignore": ("nothing",)}, DataError, "nothing"),
        ({"target": "ill", "ignore": ("ill",)}, InvalidArgument, "left out"),
        ({"domain": None, "prepare": "public"}, DataError, "Nothing is declared"),
        ({"source": "none.csv"}, ReticentError, "none.csv"),
        ({"ledger": "x"}, InvalidArgument, "--dataset"),
        ({"test": 1.5}, InvalidArgument, "test"),
    ],
)
def test_bad_orders_cost_nothing(
    files: Path, tmp_path: Path, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make(ordered(files, **changes), tmp_path / "g")
    assert not (tmp_path / "g").exists()


def test_ten_rows_are_too_few(files: Path, tmp_path: Path) -> None:
    lines = (files / "patients.csv").read_text().splitlines()[:11]
    (tmp_path / "few.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="10 rows"):
        make(ordered(files, source=str(tmp_path / "few.csv")), tmp_path / "g")


def test_images_become_a_generator_too(tmp_path: Path) -> None:
    order = SynthRequest(source="digits", epsilon=8.0)
    make(order, tmp_path / "g", keys=Keys.seeded(0))
    generator = Generator(tmp_path / "g")
    generator.write(tmp_path / "digits.npz", 30, seed=0)
    with np.load(tmp_path / "digits.npz") as found:
        assert len(found["y"]) == 30
        assert len(found["x"]) == 30
    with pytest.raises(InvalidArgument, match="images"):
        generator.sample(3)
