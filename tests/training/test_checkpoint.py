"""Runs that survive: whatever stops one, what is on disk is a whole checkpoint or says why not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.files import write_whole
from reticent.core.keys import Keys
from reticent.data.sampling import Poisson, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.training import loop
from reticent.training.checkpoint import Checkpoints, stamp_of
from reticent.training.clipping import flat
from reticent.training.loop import Run, train
from reticent.training.plan import AdaptiveNorm, Plan
from reticent.training.step import TrainState

ROWS, WIDTH = 64, 5
ADAM = optax.adam(0.1)
PLAN = Plan(
    sampler=Poisson(examples=ROWS, batch_size=8),
    clipping=flat(1.0),
    noise_multiplier=1.0,
    steps=48,
    delta=1e-3,
    adjacency=Adjacency.ADD_OR_REMOVE,
    adaptive=AdaptiveNorm(),
)


def loss(params, example):
    return 0.5 * jnp.sum((params["w"] - example["x"]) ** 2)


def run(checkpoints: Checkpoints | None = None, recipe: Plan = PLAN, **options) -> Run:
    data = {"x": np.random.default_rng(0).normal(1, 0.1, (ROWS, WIDTH)).astype(np.float32)}
    options = {"optimizer": ADAM, "keys": Keys.seeded(0), "output": "mean", **options}
    return train(loss, {"w": jnp.zeros(WIDTH)}, data, recipe, checkpoints=checkpoints, **options)


def kept(folder: Path, stamp: str = "ours") -> Checkpoints:
    return Checkpoints(path=folder / "checkpoint", stamp=stamp, seconds=0)


class Finished(NamedTuple):
    """A run that nobody stopped, and the folder with its last checkpoint."""

    run: Run
    folder: Path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    folder = tmp_path_factory.mktemp("finished")
    return Finished(run(kept(folder)), folder)


@pytest.fixture
def copied(finished: Finished, tmp_path: Path) -> Path:
    """A folder with the checkpoint of a finished run, to do anything to."""
    return Path(shutil.copytree(finished.folder, tmp_path / "copy"))


def stop_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Presses Ctrl-C, as it were, after so many compiled calls."""
    compiled = loop._compiled

    def interrupting(*args):
        many, seen = compiled(*args), []

        def call(*given):
            seen.append(1)
            if len(seen) > calls:
                raise KeyboardInterrupt
            return many(*given)

        return call

    monkeypatch.setattr(loop, "_compiled", interrupting)


@pytest.mark.parametrize("calls", [1, *(pytest.param(calls, marks=pytest.mark.thorough) for calls in (0, 5))])
def test_a_resumed_seeded_run_equals_an_uninterrupted_one_bit_for_bit(
    calls: int, finished: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = finished.run
    with monkeypatch.context() as patch:
        stop_after(patch, calls)
        part = run(kept(tmp_path))
    assert (part.is_complete, int(part.state.step)) == (False, 8 * calls)
    rest = run(kept(tmp_path))
    assert rest.is_complete
    for found, wanted in zip(jax.tree.leaves(rest.state), jax.tree.leaves(whole.state), strict=True):
        assert np.array_equal(found, wanted)
    assert rest.guarantee == whole.guarantee


class _Spy:
    def __init__(self) -> None:
        self.charges = 0

    def charge(self, event, *, adjacency, purpose, unit) -> None:
        self.charges += 1


def test_a_resumed_run_is_not_charged_again_and_rests_on_what_its_first_steps_rested_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed that somebody may know is not forgotten by going on without it."""
    budget = _Spy()
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        run(kept(tmp_path), budget=budget)
    rest = run(kept(tmp_path), budget=budget, keys=Keys.from_os())
    assert rest.is_complete
    assert set(Keys.seeded(0).assumptions) <= set(rest.guarantee.assumptions)
    run(kept(tmp_path), budget=budget)  # and a complete one takes no step at all
    assert budget.charges == 1


def test_damage_at_any_byte_is_refused(finished: Finished, copied: Path) -> None:
    checkpoints, like = kept(copied), finished.run.state
    whole = checkpoints.path.read_bytes()
    for at in range(len(whole)):
        checkpoints.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(IntegrityError, match="damaged"):
            checkpoints.load(like)
    for cut in range(len(whole)):
        checkpoints.path.write_bytes(whole[:cut])
        with pytest.raises(IntegrityError, match="damaged"):
            checkpoints.load(like)


def test_a_checkpoint_of_another_run_or_model_is_refused(finished: Finished) -> None:
    ours, theirs = (kept(finished.folder, stamp) for stamp in ("ours", "theirs"))
    for checkpoints in (ours, theirs):
        checkpoints.belong_to(loop._told(PLAN))
    state = finished.run.state
    assert ours.load(state) is not None
    with pytest.raises(IntegrityError, match="another plan, domain or version"):
        theirs.load(state)
    other = TrainState(state.step, {"w": jnp.zeros(9)}, state.opt_state, state.max_norm, state.average)
    with pytest.raises(IntegrityError, match="other parameters"):
        ours.load(other)


@pytest.mark.parametrize("change", [{"noise_multiplier": 10.0}, {"steps": 60}, {"delta": 1e-7}])
def test_a_checkpoint_of_another_plan_is_refused(copied: Path, change: dict[str, Any]) -> None:
    """A finished run with little noise must not be taken for one with much."""
    with pytest.raises(IntegrityError, match="another plan, domain or version"):
        run(kept(copied), recipe=replace(PLAN, **change))


def test_shuffled_rows_go_on_in_their_order_with_other_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record is paid for once an epoch: the rest of a begun one must not be drawn anew."""
    records = 300
    plan = replace(
        PLAN,
        sampler=Shuffled(examples=records, batch_size=4),
        noise_multiplier=1e-3,
        steps=75,
        adjacency=Adjacency.ZERO_OUT,
        adaptive=None,
    )

    def counted(checkpoints: Checkpoints, seed: int) -> Run:
        return train(
            lambda params, example: -params["w"][example["number"]],
            {"w": jnp.zeros(records)},
            {"number": np.arange(records)},
            plan,
            optimizer=optax.sgd(4.0),
            checkpoints=checkpoints,
            keys=Keys.seeded(seed),
        )

    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert int(counted(kept(tmp_path), 0).state.step) == 64
    times = np.asarray(counted(kept(tmp_path), 1).params["w"])
    assert np.allclose(times, 1, atol=0.1)
    other = np.asarray(counted(Checkpoints(path=tmp_path / "other", stamp="another"), 0).state.params["w"])
    assert np.allclose(other, 1, atol=0.1)


def test_nobody_is_told_of_steps_that_a_crash_would_draw_anew(tmp_path: Path) -> None:
    seen: list[int] = []

    def dies(moment: Any) -> None:
        seen.append(moment.step)
        if len(seen) == 3:
            raise SystemExit

    rare = Checkpoints(path=tmp_path / "checkpoint", stamp="ours", seconds=1e9)
    with pytest.raises(SystemExit):
        run(rare, on_progress=dies)
    run(rare, keys=Keys.seeded(1), on_progress=lambda moment: seen.append(moment.step))
    assert len(set(seen)) == len(seen)
    assert seen == sorted(seen)


def test_a_budget_that_only_another_process_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def charge(self, *given: Any, **terms: Any) -> None:
            raise AssertionError("charged, though the first process pays")

    monkeypatch.setattr(loop.collectives, "broadcast_json", lambda value: False if value is True else value)
    with pytest.raises(InvalidArgument, match="the first one, which pays for all, was not"):
        run(budget=Refusing())


def test_no_key_is_saved(finished: Finished) -> None:
    """Only the leaves of the state: step, parameters, optimizer, norm, average."""
    from safetensors.numpy import load

    named = load(kept(finished.folder).path.read_bytes().partition(b"\n")[2])
    assert len(named) == len(jax.tree.leaves(finished.run.state))
    assert not [name for name in named if "key" in name]


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_stamps_tell_parts_apart() -> None:
    assert stamp_of({"a": 1, "b": 2}) == stamp_of({"b": 2, "a": 1})
    assert stamp_of({"a": 1}) != stamp_of({"a": 2})


KILLS = 8
_WRITER = """
import os, random, shutil, signal, sys, time
from pathlib import Path
import numpy as np
from reticent.training.checkpoint import Checkpoints
from reticent.training.step import TrainState
folder, kills, chance = Path(sys.argv[1]), int(sys.argv[2]), random.Random(7)

def write(told):
    kept, step = Checkpoints(path=folder / "checkpoint", stamp="ours", seconds=0), 0
    while True:
        step += 1
        leaf = np.full(200_000, step, np.float32)
        kept.save(TrainState(np.int32(step), leaf, leaf, np.float32(step), leaf))
        os.write(told, b"%d " % step)

for kill in range(kills):
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        write(told)
    os.close(told)
    first = os.read(heard, 1)  # it is writing now
    time.sleep(chance.uniform(0, 0.05))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    with os.fdopen(heard, "rb") as rest:
        print((first + rest.read()).decode())
    shutil.copy(folder / "checkpoint", folder / f"left by {kill}")
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """Each of several children of a process that writes nothing is killed once, at a moment of its own."""
    leaf = jnp.zeros(200_000)
    like = TrainState(jnp.int32(0), leaf, leaf, jnp.float32(0), leaf)
    command = [sys.executable, "-c", _WRITER, str(tmp_path), str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    told = [[int(step) for step in line.split()] for line in done.stdout.splitlines()]
    assert len(told) == KILLS
    for kill, steps in enumerate(told):
        state = Checkpoints(path=tmp_path / f"left by {kill}", stamp="ours").load(like)
        assert state is not None
        assert {int(np.asarray(state.step)), *np.unique(state.params).astype(int).tolist()} == {
            int(state.step)
        }
        assert int(state.step) >= max(steps)
