"""Who is told how a run goes, how often, and what their answer or their failure does to it."""

from __future__ import annotations

import json
import math
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.errors import InvalidArgument, Unavailable
from reticent.core.keys import Keys
from reticent.training.evaluation import Moment
from reticent.training.reporting import Pace

ROWS, STEPS = 40, 12
PLAN = rt.Plan.for_budget(epsilon=2, delta=1e-3, examples=ROWS, batch_size=10, steps=STEPS, max_norm=1.0)
NOW = Moment(step=3, epoch=0.5, epsilon=0.7, held_out={"loss": 0.25}, unreleased={})


def loss(params: Any, example: Any) -> Any:
    return jnp.square(params["w"] - example["x"])


def run(**options: Any) -> rt.training.Run:
    given = {"optimizer": optax.sgd(0.1), "keys": Keys.seeded(5), "evaluate": _column(7), **options}
    return rt.train(loss, {"w": jnp.float32(0)}, _column(ROWS), PLAN, **given)


def _column(rows: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(rows).normal(size=rows).astype(np.float32)}


@pytest.fixture(scope="module")
def usual() -> rt.training.Run:
    return run(progress_every=5)


def test_the_history_has_a_moment_every_so_many_steps_and_one_at_the_end(usual: rt.training.Run) -> None:
    assert [moment.step for moment in usual.history] == [5, 10, 12]
    assert run().history[-1].epsilon == usual.history[-1].epsilon
    assert np.array_equal(run().params["w"], usual.params["w"])


def test_time_decides_where_time_is_asked_for() -> None:
    assert len(run(progress_every=timedelta(microseconds=1)).history) > 3
    assert [moment.step for moment in run(progress_every=timedelta(hours=1)).history] == [STEPS]
    for wrong in (0, -1, 2.5, timedelta(0)):
        with pytest.raises(InvalidArgument, match="progress_every"):
            run(progress_every=wrong)


def test_calls_are_cut_at_reports_and_never_overlap() -> None:
    pace, start, calls = Pace(PLAN, 5, at_once=4), 0, []
    while len(call := pace.call_from(start)):
        calls.append((call.start, call.stop, pace.is_due(call)))
        start = call.stop
    assert calls == [(0, 4, False), (4, 5, True), (5, 9, False), (9, 10, True), (10, 12, True)]


@pytest.mark.parametrize("how", ["returned", "raised"])
def test_a_callback_stops_a_run_which_keeps_the_guarantee_of_the_whole_plan(
    how: str, usual: rt.training.Run
) -> None:
    def stop(moment: Moment) -> Any:
        if moment.step < 10:
            return None
        if how == "raised":
            raise rt.Stop("no gain since step 5")
        return rt.Stop("no gain since step 5")

    done = run(progress_every=5, on_progress=[lambda moment: True, stop])
    assert not done.is_complete
    assert (int(done.state.step), done.stopped_by) == (10, "no gain since step 5")
    assert done.guarantee.epsilon == usual.guarantee.epsilon
    assert "stopped by no gain" in repr(done)


def test_a_callback_that_fails_costs_no_run(usual: rt.training.Run) -> None:
    seen: list[int] = []

    def broken(moment: Moment) -> None:
        seen.append(moment.step)
        raise KeyError("accuracy")

    with pytest.warns(RuntimeWarning, match="broken raised KeyError after step 5.*the run continues"):
        done = run(progress_every=5, on_progress=[broken, lambda moment: seen.append(-moment.step)])
    assert done.is_complete
    assert seen == [5, -5, -10, -12]
    assert np.array_equal(done.params["w"], usual.params["w"])
    with pytest.raises(InvalidArgument, match="must be a function of a Moment"):
        run(on_progress=3)


def test_history_continues_after_a_resume_and_lies_apart_from_what_is_released(
    usual: rt.training.Run, tmp_path: Path
) -> None:
    path = tmp_path / "state"
    half = run(checkpoints=path, progress_every=5, on_progress=lambda moment: rt.Stop)
    assert [moment.step for moment in half.history] == [5]
    whole = run(checkpoints=path, progress_every=5)
    assert whole.history == usual.history
    beside = tmp_path / "state.unreleased.json"
    assert beside.stat().st_mode & 0o077 == 0
    assert "unreleased" in beside.read_text()
    assert b"held_out" not in path.read_bytes()


def test_json_lines_say_what_is_unreleased(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    for moment in (NOW, NOW._replace(step=6, epsilon=math.inf)):
        rt.callbacks.json_lines(log)(moment)
    first, second = map(json.loads, log.read_text().splitlines())
    assert first == {"step": 3, "epoch": 0.5, "epsilon": 0.7, "unreleased/held-out loss": 0.25}
    assert second["epsilon"] is None
    assert log.stat().st_mode & 0o077 == 0


def test_a_callback_whose_package_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(rt.callbacks, "import_module", absent)
    for make, name in ((rt.callbacks.mlflow, "mlflow"), (rt.callbacks.wandb, "wandb")):
        with pytest.raises(Unavailable, match=f"pip install {name}"):
            make()
    with pytest.raises(Unavailable, match="pip install tensorboardX"):
        rt.callbacks.tensorboard("logs")


@pytest.mark.thorough
def test_tensorboard_has_the_figures(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    rt.callbacks.tensorboard(tmp_path)(NOW)
    (events,) = tmp_path.iterdir()
    until = time.monotonic() + 20  # a thread of its own writes
    while b"unreleased/held-out" not in events.read_bytes() and time.monotonic() < until:
        time.sleep(0.2)
    assert b"unreleased/held-out" in events.read_bytes()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_mlflow_has_the_figures(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    with mlflow.start_run() as active:
        rt.callbacks.mlflow()(NOW)
    found = mlflow.get_run(active.info.run_id).data.metrics
    assert found == {"epoch": 0.5, "epsilon": 0.7, "unreleased/held-out loss": 0.25}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_weights_and_biases_has_the_figures_and_stays_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.chdir(tmp_path)
    rt.callbacks.wandb()(NOW)
    run = wandb.run
    assert run.settings.mode == "offline"
    assert run.summary["unreleased/held-out loss"] == 0.25
    run.finish()
