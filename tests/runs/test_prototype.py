"""The mean of each class: what a row adds is at most 1 long, and the sum is what is released."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms.adjacency import Adjacency
from reticent.runs.fit import fit
from reticent.runs.methods.prototype import _minus_what_a_row_adds
from reticent.runs.predict import Predictor
from reticent.runs.request import Request

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("length", [0.0, 0.5, 1.0, 1.001, 7.0])
def test_a_row_adds_a_vector_of_length_one_at_most(length):
    row = RNG.normal(size=4).astype(np.float32)
    row *= np.float32(length / np.linalg.norm(row))
    params = {"w": np.zeros((4, 3), np.float32), "b": np.zeros(3, np.float32)}
    for label in (-1, 0, 2):
        added = jax.grad(_minus_what_a_row_adds)(params, {"x": row, "y": np.int32(label)})
        square = sum(float((np.asarray(leaf, np.float64) ** 2).sum()) for leaf in added.values())
        assert square <= 1 + 1e-6
        assert (square == 0) == (label < 0)
        if label == 2:
            assert not np.asarray(added["w"])[:, :2].any()
    if length >= 1:
        assert square == pytest.approx(1, abs=1e-5)


def test_a_run_releases_the_means_and_nothing_else(tmp_path: Path):
    rows = RNG.normal(size=(4000, 3))
    label = (rows @ [1.0, -1.0, 0.5] + RNG.normal(size=4000) > 0).astype(int)
    table = tmp_path / "t.csv"
    lines = [
        ",".join(f"{cell:.3f}" for cell in row) + f",{'ny'[y]}" for row, y in zip(rows, label, strict=True)
    ]
    table.write_text("a,b,c,kind\n" + "\n".join(lines) + "\n")
    domain = tmp_path / "d.toml"
    columns = "".join(f'[columns.{name}]\nkind = "number"\nbounds = [-3, 3]\n' for name in "abc")
    domain.write_text(
        f'version = 1\ntarget = "kind"\n{columns}[columns.kind]\nkind = "label"\nvalues = ["n", "y"]\n'
    )
    words = {"epsilon": 2.0, "method": "prototype", "target": "kind", "test": 0.0}
    done = fit(Request(source=str(table), domain=str(domain), **words), tmp_path / "run", keys=Keys.seeded(1))
    spent = tight(done.record.event, done.record.request.delta, Adjacency.ADD_OR_REMOVE).upper
    assert 1.9 < spent <= 2.0
    params = Predictor(tmp_path / "run").params
    scaled = np.clip(rows.round(3), -3, 3) / 3 / np.sqrt(3)
    scaled /= np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1)
    means = np.stack([scaled[label == each].mean(axis=0) for each in (0, 1)], axis=1)
    np.testing.assert_allclose(np.asarray(params["w"]) / 3, means, atol=0.01)
    found = np.asarray(params["b"]) + 1.5 * (means**2).sum(axis=0)
    np.testing.assert_allclose(found, np.log([np.mean(label == 0), np.mean(label)]), atol=0.03)
    with pytest.raises(InvalidArgument, match="makes linear models"):
        fit(Request(source=str(table), domain=str(domain), model="mlp", **words), tmp_path / "other")
