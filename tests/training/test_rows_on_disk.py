"""Rows that stay on disk: the run of rows in memory to the last bit, and an end in words if a file breaks."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import disk_runs
import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument, KeyReuse
from reticent.core.keys import Keys, Stream
from reticent.data.dataset import Dataset
from reticent.data.sampling import Poisson
from reticent.training.checkpoint import Checkpoints
from reticent.training.devices import feeding
from reticent.training.execution import Execution
from reticent.training.plan import Plan

ROWS = disk_runs.ROWS


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return disk_runs.on_disk(tmp_path_factory.mktemp("rows"))


@pytest.fixture(scope="module", autouse=True)
def without_accounting() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan, "epsilon_after", lambda *_, **__: 0.0)
        patch.setattr(Plan, "guarantee", lambda *_, **__: 0.0)
        yield


@pytest.fixture(scope="module")
def in_memory(without_accounting: None) -> np.ndarray:
    """The model of rows in memory, by the sampler that is used unless another is named."""
    return np.asarray(disk_runs.run(disk_runs.rows()).params["w"])


class Streamed(NamedTuple):
    model: np.ndarray
    keys: Keys
    windows: list[int]  # how many steps each window had


@pytest.fixture(scope="module")
def streamed(without_accounting: None, mapped: dict[str, np.ndarray]) -> Streamed:
    """A run with the smallest buffer."""
    keys = Keys.seeded(3)
    with pytest.MonkeyPatch.context() as patch:
        windows = windows_of(patch)
        done = disk_runs.run(mapped, execution=Execution(buffer=disk_runs.a_step()), keys=keys)
    return Streamed(np.asarray(done.params["w"]), keys, windows)


def readers() -> list[str]:
    """The threads that read rows."""
    names = (thread.name for thread in threading.enumerate())
    return [name for name in names if name.startswith(("reticent-rows", "disk-rows"))]


def windows_of(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps each window has that is read from now on."""
    found, read = [], feeding._Streamed._window

    def noting(self: Any, steps: range) -> Any:
        found.append(len(steps))
        return read(self, steps)

    monkeypatch.setattr(feeding._Streamed, "_window", noting)
    return found


def test_the_model_is_that_of_rows_in_memory_with_one_step_in_the_buffer(
    in_memory: np.ndarray, streamed: Streamed
) -> None:
    assert np.array_equal(streamed.model, in_memory)
    assert streamed.windows == [1] * disk_runs.STEPS
    assert readers() == []


class Source:
    """Records by their numbers, and which thread asked."""

    def __init__(self) -> None:
        self.rows, self.threads = disk_runs.rows(), set[str]()

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, number: int) -> tuple[np.ndarray, np.int32]:
        self.threads.add(threading.current_thread().name)
        return self.rows["x"][number], self.rows["y"][number]


def test_records_of_a_source_are_read_ahead_and_give_the_same_model(
    in_memory: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, windows = Source(), windows_of(monkeypatch)
    data = Dataset(source, names=["x", "y"])
    source.threads.clear()
    done = disk_runs.run(data, execution=Execution(buffer=disk_runs.a_step()))
    assert np.array_equal(done.params["w"], in_memory)
    assert windows == [1] * disk_runs.STEPS
    assert {name.rpartition("_")[0] for name in source.threads} == {"", "reticent-rows"}  # "" looked once
    with pytest.raises(DataError, match="share their array"):
        disk_runs.run(data, evaluate=data.take(slice(0, 3)))


@pytest.mark.parametrize("sampler", disk_runs.SAMPLERS)
@pytest.mark.thorough
def test_the_model_is_that_of_rows_in_memory_with_several_steps_in_the_buffer(
    mapped: dict[str, np.ndarray], in_memory: np.ndarray, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, windows = disk_runs.plan(sampler), windows_of(monkeypatch)
    is_usual = sampler == "Poisson"
    wanted = in_memory if is_usual else np.asarray(disk_runs.run(disk_runs.rows(), recipe).params["w"])
    assert windows == []
    buffer = 3 * disk_runs.a_step(sampler) + 1
    assert buffer < ROWS * disk_runs.A_ROW
    found = disk_runs.run(mapped, recipe, execution=Execution(buffer=buffer)).params["w"]
    assert np.array_equal(found, wanted)
    assert sum(windows) == disk_runs.STEPS
    assert max(windows) == 3
    assert readers() == []


@pytest.mark.thorough
def test_two_devices_read_their_own_rows(tmp_path: Path) -> None:
    """And share the parameters."""
    command = [sys.executable, disk_runs.__file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "found.npz") as found:
        assert np.array_equal(found["on disk"], found["in memory"])
        alone = disk_runs.run(disk_runs.rows(), augment=disk_runs.shaken, views=2).params["w"]
        assert np.allclose(found["on disk"], alone, rtol=0, atol=2e-6)


def test_a_run_goes_on_from_its_checkpoint(
    mapped: dict[str, np.ndarray], in_memory: np.ndarray, tmp_path: Path
) -> None:
    def stop(moment: Any) -> None:
        raise KeyboardInterrupt

    options = {
        "execution": Execution(buffer=disk_runs.a_step()),
        "checkpoints": Checkpoints(path=tmp_path / "c", stamp="s"),
    }
    half = disk_runs.run(mapped, **options, on_progress=stop)
    assert 0 < int(half.state.step) < disk_runs.STEPS
    done = disk_runs.run(mapped, **options)
    assert np.array_equal(done.params["w"], in_memory)
    assert readers() == []


def test_few_rows_are_loaded(mapped: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    windows = windows_of(monkeypatch)
    disk_runs.run(mapped, disk_runs.plan(steps=1))
    assert windows == []


def test_rows_of_users_are_refused(mapped: dict[str, np.ndarray]) -> None:
    users = np.arange(ROWS) // 2
    sampler = Poisson(examples=-(-ROWS // 2), batch_size=20)
    recipe = replace(disk_runs.plan(), sampler=sampler, unit="user", rows_per_user=2)
    with pytest.raises(InvalidArgument, match=r"these belong to users\. Load them into memory first"):
        disk_runs.run(
            Dataset(arrays=mapped, users=users), recipe, execution=Execution(buffer=disk_runs.a_step())
        )


def test_a_buffer_without_room_for_a_step_is_refused_with_numbers(mapped: dict[str, np.ndarray]) -> None:
    least = disk_runs.a_step()
    with pytest.raises(InvalidArgument, match=f"take {least} bytes, and the buffer has {least - 1}"):
        disk_runs.run(mapped, execution=Execution(buffer=least - 1))
    assert readers() == []


@pytest.mark.parametrize("when", ["before", "in the middle"])
def test_a_file_that_is_cut_short_ends_the_run_in_words(tmp_path: Path, when: str) -> None:
    """In the middle, rows may have been read a moment before, and then the file has changed."""
    data = disk_runs.on_disk(tmp_path)

    def cut(_: Any = None) -> None:
        with open(tmp_path / "x.npy", "r+b") as file:
            file.truncate(200)

    if when == "before":
        cut()
    else:
        data["y"] = np.asarray(data["y"])  # in memory: beside rows on disk it may be
    said = r"ends before byte \d+: it was cut short"
    said = said if when == "before" else rf"({said}|was changed after it was opened)"
    with pytest.raises(DataError, match=rf"x\.npy {said}"):
        disk_runs.run(data, execution=Execution(buffer=disk_runs.a_step()), on_progress=cut)
    assert readers() == []


def test_an_interrupted_run_leaves_no_reader(mapped: dict[str, np.ndarray]) -> None:
    def fail(_: Any) -> None:
        raise SystemExit("planted")

    with pytest.raises(SystemExit, match="planted"):
        disk_runs.run(mapped, execution=Execution(buffer=disk_runs.a_step()), on_progress=fail)
    assert readers() == []


def test_no_key_is_taken_twice(streamed: Streamed) -> None:
    """The rows of later steps are drawn before the steps are taken, and each step once."""
    keys = streamed.keys
    for stream in (Stream.SAMPLING, Stream.NOISE, Stream.VIEWS, Stream.LOSS):
        for step in (0, disk_runs.STEPS - 1):
            with pytest.raises(KeyReuse, match="were taken before"):
                keys.take(stream, steps=range(step, step + 1))
        keys.take(stream, steps=range(disk_runs.STEPS, disk_runs.STEPS + 1))
