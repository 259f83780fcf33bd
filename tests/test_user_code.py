"""Correct code of a user has no error for a type checker, and wrong code has one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

CORRECT = """
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pyarrow as pa

import reticent as rt
from reticent.accounting import guarantee
from reticent.sklearn import PrivateLogisticRegression, SharedBudget


def loss(params: dict[str, jax.Array], example: Mapping[str, jax.Array]) -> jax.Array:
    return jnp.sum((example["x"] @ params["w"] - example["y"]) ** 2)


class Source:
    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"x": np.zeros(3), "y": number}


def stop(moment: rt.training.Moment) -> rt.Stop | None:
    return rt.Stop("enough") if moment.epsilon > 1 else None


plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=10_000, batch_size=100, epochs=2, max_norm=1.0)
params = {"w": jnp.zeros(3)}
frame = pd.DataFrame({"x": [1.0], "y": [2.0]})
arrays = {"x": np.zeros((10, 3)), "y": np.zeros(10)}
adam = optax.adam(1e-3)
for data in (rt.Dataset(arrays), rt.Dataset(frame), rt.Dataset(Source(), names=["x", "y"])):
    rt.train(loss, params, data, plan, optimizer=adam)
rt.train(loss, params, frame, plan, optimizer=adam)
rt.train(loss, params, Source(), plan, optimizer=adam, on_progress=stop, progress_every=10)
table = pa.table({"x": [1.0]})
rt.train(loss, params, table, plan, optimizer=adam, evaluate=arrays, checkpoints=Path("state"))
run = rt.train(loss, params, arrays, plan, optimizer=adam, execution=rt.Execution(microbatch=8))
epsilon: float = run.guarantee.epsilon
accuracy: float = run.history[-1].held_out["loss"]
step = rt.mechanisms.PoissonSampled(rate=0.01, event=rt.mechanisms.Gaussian(noise_multiplier=1.0))
print(guarantee(rt.mechanisms.Repeated(event=step, times=10), delta=1e-5), rt.tight(step, delta=1e-5))
with rt.Ledger.open("clinic.ledger") as ledger:
    rt.train(loss, params, arrays, plan, optimizer=adam, budget=ledger.for_dataset("patients"))
budget = SharedBudget(epsilon=2.0, delta=1e-5)
model = PrivateLogisticRegression(epsilon=1.0, norm=1.0, classes=[0, 1], budget=budget)
print(model.fit(arrays["x"], arrays["y"]).score(arrays["x"], arrays["y"]))
"""

WRONG = """
import jax.numpy as jnp
import optax

import reticent as rt

plan = rt.Plan.for_budget(epsilon="three", delta=1e-5, examples=100, steps=2, max_norm=1.0)
rt.train(lambda w, row: w, jnp.zeros(3), iter([1]), plan, optimizer=optax.sgd(1.0))
rt.no_such_name
"""


def complaints(text: str, folder: Path) -> list[tuple[int, str]]:
    (folder / "user.py").write_text(text, encoding="utf-8")
    settings: dict[str, Any] = {"venvPath": str(Path(sys.prefix).parent), "venv": Path(sys.prefix).name}
    (folder / "pyrightconfig.json").write_text(json.dumps({**settings, "extraPaths": [str(ROOT)]}))
    words = [sys.executable, "-m", "pyright", "--outputjson", "--project", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [(one["range"]["start"]["line"], one["message"]) for one in found if one["severity"] == "error"]


@pytest.mark.thorough
def test_a_type_checker_has_nothing_to_say_about_correct_code_and_finds_what_is_wrong(tmp_path: Path):
    assert complaints(CORRECT, tmp_path) == []
    assert {line for line, _ in complaints(WRONG, tmp_path)} == {6, 7, 8}
