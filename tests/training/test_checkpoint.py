"""Runs that survive: whatever stops one, what is on disk is a whole checkpoint or says why not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

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
    options = {"optimizer": optax.adam(0.1), "keys": Keys.seeded(0), "output": "mean", **options}
    return train(loss, {"w": jnp.zeros(WIDTH)}, data, recipe, checkpoints=checkpoints, **options)


def kept(folder: Path, stamp: str = "ours") -> Checkpoints:
    return Checkpoints(path=folder / "checkpoint", stamp=stamp, seconds=0)


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


@pytest.mark.parametrize("calls", [0, 1, 3, 5])
def test_a_resumed_seeded_run_equals_an_uninterrupted_one_bit_for_bit(
    calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run()
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


def test_a_resumed_run_is_not_charged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget = _Spy()
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        run(kept(tmp_path), budget=budget)
    run(kept(tmp_path), budget=budget)
    run(kept(tmp_path), budget=budget)  # and a complete one takes no step at all
    assert budget.charges == 1


def test_damage_at_any_byte_is_refused(tmp_path: Path) -> None:
    checkpoints = kept(tmp_path)
    like = run(checkpoints).state
    whole = checkpoints.path.read_bytes()
    for at in range(len(whole)):
        checkpoints.path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(IntegrityError, match="damaged"):
            checkpoints.load(like)
    for cut in range(len(whole)):
        checkpoints.path.write_bytes(whole[:cut])
        with pytest.raises(IntegrityError, match="damaged"):
            checkpoints.load(like)


def test_a_checkpoint_of_another_run_or_model_is_refused(tmp_path: Path) -> None:
    ours = kept(tmp_path)
    state = run(ours).state
    with pytest.raises(IntegrityError, match="another plan, domain or version"):
        kept(tmp_path, "theirs").load(state)
    other = TrainState(state.step, {"w": jnp.zeros(9)}, state.opt_state, state.max_norm, state.average)
    with pytest.raises(IntegrityError, match="other parameters"):
        ours.load(other)


@pytest.mark.parametrize("change", [{"noise_multiplier": 10.0}, {"steps": 60}, {"delta": 1e-7}])
def test_a_checkpoint_of_another_plan_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """A finished run with little noise must not be taken for one with much."""
    run(kept(tmp_path))
    with pytest.raises(IntegrityError, match="another plan, domain or version"):
        run(kept(tmp_path), recipe=replace(PLAN, **change))


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


def test_no_key_is_saved(tmp_path: Path) -> None:
    """Only the leaves of the state: step, parameters, optimizer, norm, average."""
    from safetensors.numpy import load

    checkpoints = kept(tmp_path)
    state = run(checkpoints).state
    named = load(checkpoints.path.read_bytes().partition(b"\n")[2])
    assert len(named) == len(jax.tree.leaves(state))
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


_WRITER = """
import sys
from pathlib import Path
import numpy as np
from reticent.training.checkpoint import Checkpoints
from reticent.training.step import TrainState
kept = Checkpoints(path=Path(sys.argv[1]), stamp="ours", seconds=0)
step = 0
while True:
    step += 1
    leaf = np.full(200_000, step, np.float32)
    kept.save(TrainState(np.int32(step), leaf, leaf, np.float32(step), leaf))
    print(step, flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    path = tmp_path / "checkpoint"
    leaf = jnp.zeros(200_000)
    like = TrainState(jnp.int32(0), leaf, leaf, jnp.float32(0), leaf)
    for _ in range(5):  # each process is killed once, at a moment of its own
        with subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()  # it is writing now
            time.sleep(float(rng.uniform(0, 0.05)))
            child.send_signal(signal.SIGKILL)
            told = [int(line) for line in child.stdout.read().split()]
        state = Checkpoints(path=path, stamp="ours").load(like)
        assert state is not None
        assert {int(np.asarray(state.step)), *np.unique(state.params).astype(int).tolist()} == {
            int(state.step)
        }
        assert int(state.step) >= max(told, default=0)


def test_a_run_rests_on_what_its_steps_before_a_restart_rested_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A seed that somebody may know is not forgotten by going on without it."""
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        run(kept(tmp_path))
    rest = run(kept(tmp_path), keys=Keys.from_os())
    assert rest.is_complete
    assert set(Keys.seeded(0).assumptions) <= set(rest.guarantee.assumptions)
