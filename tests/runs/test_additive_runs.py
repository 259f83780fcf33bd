"""`--model additive` as a run: learned, explained, predicted with, stopped and resumed, attacked."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent import additive
from reticent.additive import AdditivePlan, sums
from reticent.additive.columns import Columns
from reticent.additive.targets import ClassTarget
from reticent.audit import from_run
from reticent.audit.additive import AdditiveAudit, audit_additive
from reticent.audit.arithmetic_additive import arithmetic_additive
from reticent.audit.from_run import audit_run, audit_run_arithmetic
from reticent.audit.verdict import Outcome
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.domain import Category, Domain, Integer, Label, Number
from reticent.data.encoding import encode, feature_names
from reticent.data.files import open_table
from reticent.mechanisms.whole import parts_of_one
from reticent.runs import Predictor, Request, fit, resume, shapes
from reticent.runs import folder as folders
from reticent.runs.attacks.recipes import shadow_recipe
from reticent.runs.learners import learner
from reticent.runs.methods import table as methods
from reticent.runs.problem import Problem, column_kinds, of_table
from reticent.runs.reopen import Again, open_again

_ROWS = 3000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A price that bends with the age, depends on a word and is missing sometimes; and a class of it."""
    folder, source = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    ages, words = source.integers(0, 100, _ROWS), source.integers(0, 3, _ROWS)
    size = source.uniform(0, 10, _ROWS)
    price = 100 * np.abs(ages - 50) / 50 + np.array([0, 40, 80])[words] + source.normal(0, 5, _ROWS)
    sizes = ["" if number % 10 == 0 else f"{wide:.2f}" for number, wide in enumerate(size)]
    classes = np.where(price > 90, "dear", "cheap")
    cells = zip(ages, sizes, words, classes, price, strict=True)
    lines = [f"{age},{wide},{'abc'[word]},{named},{cost:.2f}" for age, wide, word, named, cost in cells]
    (folder / "t.csv").write_text("age,size,word,class,price\n" + "\n".join(lines) + "\n")
    columns = {
        "age": Integer(bounds=(0, 99)),
        "size": Number(bounds=(0.0, 10.0), missing=True),
        "word": Category(values=("a", "b", "c"), other=True),
    }
    Domain(columns={**columns, "price": Number(bounds=(-20.0, 200.0))}, target="price").write(
        folder / "n.toml"
    )
    Domain(columns={**columns, "class": Label(values=("cheap", "dear"))}, target="class").write(
        folder / "c.toml"
    )
    return folder / "t.csv"


def _request(table: Path, target: str = "price", **more: object) -> Request:
    domain = table.with_name("n.toml" if target == "price" else "c.toml")
    options = {"source": str(table), "target": target, "epsilon": 2.0, "model": "additive", **more}
    return Request(**options, domain=str(domain))


@pytest.fixture(scope="module")
def run(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(_request(table), folder, keys=Keys.seeded(0))
    return folder


def test_a_number_that_bends_is_learned_within_its_budget(run: Path):
    record = folders.read_record(run)
    assert record.result.guarantee.epsilon <= 2
    assert record.recipe.method == "additive"
    assert record.result.metrics["R2"] > 0.85
    assert Predictor(run).record.result.model.name == "additive"


@pytest.fixture(scope="module")
def run_of_classes(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit(_request(table, "class"), folder, keys=Keys.seeded(0))
    return folder


def test_classes_are_learned(table: Path, run_of_classes: Path):
    assert folders.read_record(run_of_classes).result.metrics["auroc"] > 0.9
    rows = list(Predictor(run_of_classes).table(open_table(table)))
    assert rows[0]["prediction"] in ("cheap", "dear")


def test_the_model_in_jax_predicts_what_was_fitted(table: Path, run: Path):
    predictor, domain = Predictor(run), Domain.read(table.with_name("n.toml"))
    x = np.asarray(encode(open_table(table), domain)["x"])
    params = {name: np.asarray(part) for name, part in predictor.params.items()}
    model = additive.AdditiveModel(columns=Columns(column_kinds(domain)), **params)
    wanted = np.clip(model.scores(x)[:, 0] * 110 + 90, -20, 200)
    assert np.allclose(predictor.scores(x)[:, 0], wanted, rtol=1e-4, atol=1e-2)


def test_kinds_of_columns_are_those_of_the_encoded_features(table: Path):
    domain = Domain.read(table.with_name("n.toml"))
    assert column_kinds(domain) == (-1, -2, 4)
    assert Columns(column_kinds(domain)).features == len(feature_names(domain))
    assert of_table(domain, 7, 100).columns == (-1, -2, 4)


def test_shapes_are_named_and_in_the_units_of_the_table(run: Path):
    age, size, word = shapes(run)
    assert [age.name, size.name, word.name] == ["age", "size", "word"]
    assert (age.edges[0], age.edges[-1]) == (0, 99)
    middle = np.searchsorted(age.edges, 50) - 1
    assert age.values[0, 0] - age.values[middle, 0] == pytest.approx(90, abs=25)
    assert np.ptp(size.values) < 15
    assert size.missing is not None
    by_word = {
        name: float(value[0]) for group, value in zip(word.words, word.values, strict=True) for name in group
    }
    assert by_word["c"] - by_word["a"] == pytest.approx(80, abs=15)
    assert set(age.to_json()) == {"name", "edges", "words", "values", "deviations", "missing"}


def test_a_model_that_has_its_name_is_not_drawn_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        # Between the model and the record.
        patch.setattr(importlib.import_module("reticent.runs.fit"), "score", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(_request(table), folder)
    model = (folder / folders.MODEL).read_bytes()
    monkeypatch.setattr(additive, "fit", stop)
    assert resume(folder).record.result.guarantee.epsilon <= 2
    assert (folder / folders.MODEL).read_bytes() == model


def test_a_run_that_was_stopped_while_it_learned_is_resumed_at_its_price(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("reticent.additive.sums"), "release_pass", stop)
        with pytest.raises(KeyboardInterrupt):
            fit(_request(table), folder)
    assert not (folder / folders.MODEL).exists()  # nothing was released
    priced = folders.read_record(folder).event
    record = resume(folder).record
    assert record.event == priced
    assert record.result.metrics["R2"] > 0.85


def test_shadow_models_are_trained_like_the_run(run_of_classes: Path):
    again = open_again(run_of_classes)
    recipe, is_stepwise = shadow_recipe(again)
    assert not is_stepwise
    x, y = again.train_on["x"][:500], again.train_on["y"][:500]
    params = recipe(jax.random.key(0), x, y, np.arange(500) % 2 == 0)
    assert jnp.isfinite(params["curve"]).all()


def test_one_word_is_enough_to_ask_for_it(table: Path):
    for asked in ({"model": "additive"}, {"model": "auto", "method": "additive"}):
        request = _request(table, **asked)
        assert (request.method, request.model) == ("additive", "additive")
    with pytest.raises(InvalidArgument, match="cannot be trained with the method 'sgd'"):
        _request(table, method="sgd")
    with pytest.raises(InvalidArgument, match="cannot be trained with the method 'additive'"):
        _request(table, model="mlp", method="additive")


def test_images_have_no_curves():
    with pytest.raises(InvalidArgument, match="is for tables"):
        learner("additive", Problem(rows=100, shape=(28, 28), classes=("0", "1")))


def test_other_models_have_no_shapes(table: Path, tmp_path: Path):
    fit(_request(table, model="linear", method="output", target="class"), tmp_path / "run")
    with pytest.raises(DataError, match="has no curves"):
        shapes(tmp_path / "run")


@pytest.fixture(scope="module")
def audited(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Again:
    """A finished run of three columns and two classes, opened again."""
    folder = tmp_path_factory.mktemp("audited") / "run"
    fit(_request(table, "class"), folder, keys=Keys.seeded(0))
    return open_again(folder)


def test_an_audit_contradicts_too_little_noise_and_nothing_else(
    audited: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A right fit is contradicted with probability 0.001, by confidence."""
    found = audit_run(audited, confidence=0.999, keys=Keys.seeded(1))
    assert isinstance(found, AdditiveAudit)
    assert found.verdict.outcome is Outcome.CONSISTENT, str(found.verdict)
    assert found.verdict.claim < 2.0
    apart = found.scores[found.included].mean() - found.scores[~found.included].mean()
    assert apart > 0
    enough = parts_of_one
    monkeypatch.setattr(sums, "parts_of_one", lambda deviation, fine: enough(deviation / 5, fine=fine))
    worse = audit_run(audited, confidence=0.999, keys=Keys.seeded(1))
    assert worse.verdict.outcome is Outcome.CONTRADICTED, str(worse.verdict)


def test_an_audit_by_user_contradicts_rows_that_all_count_whole(
    audited: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries are users with four rows: a fit that forgets whose they are lets each count four times."""
    found = from_run._additive(audited)
    assert found is not None
    plan, rows = found
    by_user = rows._replace(users=np.arange(len(rows.x)) // 4, rows_per_user=4)

    def audited_again() -> AdditiveAudit:
        return audit_additive(by_user, plan, delta=1e-4, confidence=0.999, keys=Keys.seeded(2))

    right = audited_again()
    assert right.verdict.outcome is Outcome.CONSISTENT, str(right.verdict)
    assert "one user with up to 4 rows" in str(right.promise)
    assert arithmetic_additive(by_user, plan).outcome is Outcome.CONSISTENT
    monkeypatch.setattr(sums, "rows_of_own_user", np.ones_like)
    assert audited_again().verdict.outcome is Outcome.CONTRADICTED
    assert arithmetic_additive(by_user, plan).outcome is Outcome.CONTRADICTED


@pytest.mark.parametrize(("release", "least"), [("each_pass", 5.0), ("second_count", 40.0)])
def test_an_audit_goes_the_way_of_a_fit(
    audited: Again, monkeypatch: pytest.MonkeyPatch, release: str, least: float
) -> None:
    """The price stays, and the fit asks one release for too little noise."""
    claim = methods.read(audited.record.recipe).event
    noise = getattr(AdditivePlan, release).fget
    monkeypatch.setattr(AdditivePlan, "event", property(lambda plan: claim))
    monkeypatch.setattr(AdditivePlan, release, property(lambda plan: noise(plan) / least))
    worse = audit_run(audited, confidence=0.999, keys=Keys.seeded(1))
    assert worse.verdict.outcome is Outcome.CONTRADICTED, str(worse.verdict)


def test_an_audit_of_the_arithmetic_notices_a_row_that_adds_more_than_it_may(
    audited: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = audit_run_arithmetic(audited)
    assert found.outcome is Outcome.CONSISTENT, str(found)
    residuals = ClassTarget.residuals

    def longer(self: ClassTarget, *args: Any) -> tuple[np.ndarray, np.ndarray]:
        kept, is_inside = residuals(self, *args)
        return 3 * kept, is_inside

    monkeypatch.setattr(ClassTarget, "residuals", longer)
    monkeypatch.setattr(sums, "require_bounded", lambda parts: None)
    assert audit_run_arithmetic(audited).outcome is Outcome.CONTRADICTED
