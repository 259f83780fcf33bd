"""Least squares in one release: what a row adds is at most 1 long, and the rest is solved from the sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.runs.fit import fit
from reticent.runs.learners import learner
from reticent.runs.method import Inputs, Terms
from reticent.runs.methods import table
from reticent.runs.methods.least_squares import LeastSquares, minus_what_a_row_adds
from reticent.runs.problem import Problem
from reticent.runs.request import Request
from reticent.training.checkpoint import Checkpoints

RNG = np.random.default_rng(0)
CLASSES = Problem(rows=600, shape=(3,), classes=("a", "b", "c"))
NUMBER = Problem(rows=600, shape=(3,), bounds=(-2.0, 6.0))
X = RNG.normal(size=(600, 3)).astype(np.float32)
X /= np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("problem", [CLASSES, NUMBER])
def test_a_row_adds_a_vector_of_length_one_at_most(problem):
    loss = jax.grad(minus_what_a_row_adds(problem))
    params = {"squares": np.zeros((4, 4), np.float32), "products": np.zeros((4, problem.outputs), np.float32)}
    targets = [-1, 0, 2] if problem is CLASSES else [np.nan, 2.0, 6.0, 1e30, np.inf]
    for length in (0.0, 0.5, 1.0, 1.001, 7.0, 1e30):
        row = X[0] * np.float32(length)
        for target in targets:
            y = np.int32(target) if problem is CLASSES else np.float32(target)
            added = loss(params, {"x": row, "y": y})
            total = sum(float((np.asarray(leaf, np.float64) ** 2).sum()) for leaf in added.values())
            has_none = y == -1 or np.isnan(y)
            # A length whose square is no float32 makes NaN: the step takes that row for zeros.
            assert (total <= 1 + 1e-6 and (total == 0) == has_none) or (length == 1e30 and np.isnan(total))
    full = loss(params, {"x": X[0], "y": np.int32(1) if problem is CLASSES else np.float32(6.0)})
    assert sum(float((np.asarray(leaf) ** 2).sum()) for leaf in full.values()) == pytest.approx(1, abs=1e-5)


def sums_and_weights(
    problem: Problem, rows: np.ndarray, y: np.ndarray, epsilon: float, folder: Path, monkeypatch: Any
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """What a run releases, as sums, and what it makes of them; with the same noise each time."""
    seen: list[np.ndarray] = []
    usual = LeastSquares.weights

    def noting(self: Any, squares: np.ndarray, products: np.ndarray, problem: Problem) -> Any:
        seen.extend(each * self.plan.sampler.batch_size for each in (squares, products))
        return usual(self, squares, products, problem)

    monkeypatch.setattr(LeastSquares, "weights", noting)
    terms = Terms(rows=600, records=600, model="linear", epsilon=epsilon, delta=1e-5, beside=None)
    inputs = Inputs(
        learner=learner("linear", problem),
        problem=problem,
        train_on={"x": rows, "y": y},
        held_out=None,  # type: ignore[arg-type]  # nothing is looked at on the way
        keys=Keys.seeded(3),
        checkpoints=Checkpoints(path=folder / "checkpoint", stamp=str(len(list(folder.iterdir())))),
    )
    params = table.price("least_squares", terms).follow(inputs).params
    (folder / "checkpoint").unlink(missing_ok=True)
    monkeypatch.setattr(LeastSquares, "weights", usual)
    return seen, params


def test_no_record_moves_the_sums_by_more_than_its_length(tmp_path, monkeypatch):
    y = RNG.integers(0, 3, 600).astype(np.int32)
    released = []
    for strange in (None, np.nan, np.inf, 3e38, 1e-30):
        rows = X.copy()
        rows[7] = X[7] if strange is None else strange
        label = np.where(np.arange(600) == 7, -1 if strange is None else 2, y).astype(np.int32)
        sums, params = sums_and_weights(CLASSES, rows, label, 1.0, tmp_path, monkeypatch)
        assert all(np.isfinite(each).all() for each in params.values())
        released.append(np.concatenate([np.ravel(each) for each in sums]))
    apart = [float(np.linalg.norm(each - released[0])) for each in released[1:]]
    assert max(apart) <= 1.001  # sums in float32
    assert apart[-1] > 0  # a row that is nearly nothing still has its mark and the intercept


def test_with_little_noise_it_is_ordinary_least_squares(tmp_path, monkeypatch):
    y = (2 + 3 * X @ [1.0, -0.5, 0.2] + RNG.normal(0, 0.1, 600)).astype(np.float32)
    _, found = sums_and_weights(NUMBER, X, y, 25.0, tmp_path, monkeypatch)
    wanted, *_ = np.linalg.lstsq(np.column_stack([X, np.ones(600)]), (y - 2) / 4, rcond=None)
    np.testing.assert_allclose(np.append(found["w"], found["b"]), wanted, atol=0.02)


def test_a_run_of_a_table(tmp_path: Path):
    rows = RNG.normal(size=(3000, 2))
    y = (rows @ [1.0, -1.0] + 0.3 * RNG.normal(size=3000) > 0).astype(int)
    source = tmp_path / "t.csv"
    lines = [f"{a:.3f},{b:.3f},{'ny'[kind]}" for (a, b), kind in zip(rows, y, strict=True)]
    source.write_text("a,b,kind\n" + "\n".join(lines) + "\n")
    words: dict[str, Any] = {"target": "kind", "epsilon": 2.0, "classes": ("n", "y")}
    words |= {"method": "least_squares", "bounds": {"a": (-3.0, 3.0), "b": (-3.0, 3.0)}}
    done = fit(Request(source=str(source), **words), tmp_path / "run", keys=Keys.seeded(1))
    spent = tight(done.record.event, done.record.request.delta, Adjacency.ADD_OR_REMOVE).upper
    assert 1.9 < spent <= 2.0
    assert done.record.result.metrics["accuracy"] > 0.9
    with pytest.raises(InvalidArgument, match="makes linear models"):
        fit(Request(source=str(source), model="mlp", **words), tmp_path / "other")
