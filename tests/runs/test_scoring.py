"""Scores on held-out rows: against the targets of the table, and beside what no model is needed for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import metrics as oracle

from reticent.core.keys import Keys
from reticent.core.observer import NOBODY
from reticent.data.domain import Domain, Label, Number
from reticent.data.held_out import Split
from reticent.distributed import collectives
from reticent.runs import arrays, spill
from reticent.runs.fit import fit
from reticent.runs.held_out_scores import HeldOutScores
from reticent.runs.problem import Problem
from reticent.runs.request import Request
from reticent.runs.scoring import score, softmax, warnings_about
from reticent.runs.source import Source
from reticent.runs.unclipped import HeldOutNumbers, Unclipped

ROWS = 600


@pytest.fixture(scope="module")
def incomes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target of which a tenth lies far beyond the bounds that will be declared."""
    rng = np.random.default_rng(3)
    age = rng.uniform(20, 90, ROWS)
    income = 100 * age + np.where(rng.random(ROWS) < 0.1, 1e6, 0.0)
    lines = ["age,income", *(f"{a:.2f},{i:.2f}" for a, i in zip(age, income, strict=True))]
    path = tmp_path_factory.mktemp("incomes") / "incomes.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


DOMAIN = Domain(
    columns={"age": Number(bounds=(30.0, 80.0)), "income": Number(bounds=(0.0, 10_000.0))}, target="income"
)


def test_a_number_is_scored_against_the_table_and_not_against_its_clipped_self(
    incomes: Path, tmp_path: Path
) -> None:
    DOMAIN.write(tmp_path / "d.toml")
    request = Request(source=str(incomes), epsilon=20.0, domain=str(tmp_path / "d.toml"), method="objective")
    result = fit(request, tmp_path / "run", keys=Keys.seeded(1)).record.result
    found = result.metrics
    assert found["root mean squared error"] > 100_000  # a tenth of the rows is a million off
    assert found["R2"] < 0.2
    assert found["root mean squared error"] ** 2 == pytest.approx(
        (1 - found["R2"]) * found["root mean squared error of the mean"] ** 2
    )
    assert result.scores is not None
    assert result.scores.details is not None
    assert 0.05 < result.scores.details.outside["income"] < 0.2
    assert 0.15 < result.scores.details.outside["age"] < 0.45
    assert "of the held-out values of 'income' lie outside the bounds 0 to 10000" in result.warnings[0]
    hidden = json.loads((tmp_path / "run" / "private" / "unreleased.json").read_text())
    assert hidden["metrics"]["details"]["outside"]["income"] > 0.05
    assert "outside" not in (tmp_path / "run" / "run.json").read_text()


def test_targets_go_with_their_rows_in_memory_and_on_disk(
    incomes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DOMAIN.write(tmp_path / "d.toml")
    request = Request(source=str(incomes), target="income", epsilon=1.0, domain=str(tmp_path / "d.toml"))
    found = []
    for is_large in (False, True):
        monkeypatch.setattr(spill, "is_too_large", lambda *_, is_large=is_large: is_large)
        source = Source(request)
        source.split = Split(share=0.3, seed=7)
        divided = arrays.divided_by(source, source.public_domain, NOBODY, scratch=tmp_path)
        assert divided.are_inputs == is_large
        assert set(divided.train_on) == set(divided.held_out) == {"x", "y"}
        targets = divided.numbers.targets
        assert targets is not None
        assert np.array_equal(np.clip(targets, 0.0, 10_000.0).astype(np.float32), divided.held_out["y"])
        assert targets.max() > 1e6
        found.append((sorted(targets), divided.numbers.outside, divided.numbers.present))
    assert found[0] == found[1]


class Fixed:
    """A learner that says what it is given."""

    def scores(self, params: Any, x: Any) -> Any:
        return x


def scored(problem: Problem, scores: np.ndarray, targets: np.ndarray, **more: Any) -> HeldOutScores:
    test = {"x": np.asarray(scores, np.float32), "y": targets}
    return score(Fixed(), None, problem, test, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_of_classes_agree_with_those_of_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(classes)
    targets = rng.integers(0, classes, 400)
    logits = rng.normal(size=(400, classes)) + 1.5 * np.eye(classes)[targets]
    names = tuple("abcd"[:classes])
    found = scored(Problem(rows=9, shape=(3,), classes=names), logits, targets)
    guesses, shares = logits.argmax(axis=1), softmax(logits)
    assert found.details is not None
    assert found.values["accuracy"] == pytest.approx(oracle.accuracy_score(targets, guesses))
    assert found.values["balanced accuracy"] == pytest.approx(
        oracle.balanced_accuracy_score(targets, guesses)
    )
    assert np.allclose(found.details.confusion, oracle.confusion_matrix(targets, guesses) / 400)
    expected = [np.mean(guesses[targets == at] == at) for at in range(classes)]
    assert found.details.recalls == pytest.approx(expected)
    if classes == 2:
        assert found.values["auroc"] == pytest.approx(oracle.roc_auc_score(targets, shares[:, 1]), abs=1e-4)
        for point in found.details.thresholds:
            chosen = shares[:, 1] >= point.threshold
            assert point.recall == pytest.approx(oracle.recall_score(targets, chosen), abs=0.01)
            assert point.precision == pytest.approx(oracle.precision_score(targets, chosen), abs=0.01)
    else:
        expected = oracle.roc_auc_score(targets, shares, multi_class="ovr")
        assert found.values["auroc, mean over the classes"] == pytest.approx(expected, abs=1e-4)
        assert found.details.thresholds == ()


def test_a_model_that_is_worse_than_a_constant_is_said_to_be() -> None:
    problem, targets = Problem(rows=9, shape=(3,), bounds=(0.0, 9.0)), np.arange(10.0)
    (warning,) = warnings_about(scored(problem, np.tile([[7.0]], (10, 1)), targets), problem, "cost")
    assert "predicts worse than their mean does" in warning
    assert warnings_about(scored(problem, targets[:, None], targets), problem, "cost") == ()


def test_a_confident_model_that_is_wrong_is_not_calibrated() -> None:
    problem = Problem(rows=9, shape=(3,), classes=("a", "b"))
    targets = np.arange(1000) % 2
    boasting = scored(problem, np.tile([0.0, 20.0], (1000, 1)), targets)
    honest = scored(problem, np.zeros((1000, 2)), targets)
    assert boasting.values["expected calibration error"] == pytest.approx(0.5, abs=1e-3)
    assert honest.values["expected calibration error"] == pytest.approx(0.0, abs=1e-3)


def test_a_rare_class_that_is_never_predicted_is_named() -> None:
    problem = Problem(rows=9, shape=(3,), classes=("healthy", "ill"))
    targets = (np.arange(1000) < 20).astype(int)
    found = scored(problem, np.tile([2.0, 0.0], (1000, 1)), targets)
    assert found.values["accuracy"] == found.values["accuracy of the most frequent class"] == 0.98
    assert found.values["balanced accuracy"] == 0.5
    (warning,) = warnings_about(found, problem, "state")
    assert "never predicts 'ill' (2.00% of the held-out rows)" in warning
    right = np.where(targets[:, None] == [0, 1], 2.0, 0.0)
    assert warnings_about(scored(problem, right, targets), problem, "state") == ()


@pytest.mark.parametrize("target", [1e308, -1e308, 5e-324, 0.0])
def test_numbers_as_large_as_a_float_can_be_have_finite_errors(target: float) -> None:
    problem = Problem(rows=9, shape=(3,), bounds=(0.0, 1.0))
    targets = np.array([target, 0.0, target])
    numbers = HeldOutNumbers(targets, {}, {})
    found = scored(problem, np.zeros((3, 1)), np.zeros(3, np.float32), numbers=numbers)
    assert found.values["mean absolute error"] == pytest.approx(abs(target) * (2 / 3), rel=1e-6)
    assert math.isfinite(found.values["root mean squared error"])


def test_scores_are_read_as_they_are_written_and_nothing_else_is() -> None:
    problem = Problem(rows=9, shape=(3,), classes=("a", "b"))
    found = scored(problem, np.eye(2)[[0, 1, 1]], np.array([0, 1, 0]))
    said = json.loads(json.dumps(found.to_json()))
    assert HeldOutScores.from_json(said) == found
    points = said["details"]["reliability"]
    for change in (
        {"confusion": [[1.0, 2]]},
        {"confusion": [[1.0, "inf"], [0, 0]]},
        {"outside": 3},
        {"outside": {"age": "nan"}},
        {"other": 1},
        {"reliability": [[1, 2, 3]]},
        {"reliability": [{**points[0], "share": 1e300}]},
    ):
        with pytest.raises((TypeError, ValueError)):
            HeldOutScores.from_json({**said, "details": {**said["details"], **change}})


def test_a_domain_of_labels_has_no_targets_to_clip() -> None:
    domain = Domain(columns={"a": Number(bounds=(0.0, 1.0)), "b": Label(values=("x", "y"))}, target="b")
    assert Unclipped(domain, Split(share=0.5, seed=1), first=0).take_targets() is None


def test_what_several_processes_saw_is_one_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process had all rows beyond the bounds, and this one none."""
    problem = Problem(rows=9, shape=(3,), bounds=(0.0, 1.0))
    rng = np.random.default_rng(0)
    predictions, targets = (
        rng.random((40, 1)).astype(np.float32),
        np.append(rng.random(20), rng.random(20) + 5),
    )
    counts = [[{"y": 0}, {"y": 20}], [{"y": 20}, {"y": 20}]]
    theirs = iter((predictions[20:], targets[20:]))
    monkeypatch.setattr(collectives, "gather_rows", lambda rows: np.concatenate([rows, next(theirs)]))
    monkeypatch.setattr(collectives, "gather_json", lambda own: [own, counts[1]])
    numbers = HeldOutNumbers(targets[:20], *counts[0])
    shared = scored(problem, predictions[:20], np.zeros(20, np.float32), numbers=numbers)
    monkeypatch.undo()
    alone = scored(
        problem, predictions, np.zeros(40, np.float32), numbers=HeldOutNumbers(targets, {"y": 20}, {"y": 40})
    )
    assert shared == alone
    assert alone.details is not None
    assert alone.details.outside == {"y": 0.5}
    expected = oracle.mean_absolute_error(targets, predictions[:, 0])
    assert alone.values["mean absolute error"] == pytest.approx(expected, rel=1e-5)
    assert alone.values["R2"] == pytest.approx(oracle.r2_score(targets, predictions[:, 0]), rel=1e-5)
