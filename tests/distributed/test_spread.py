"""Many models divided over devices and processes are the same models.

The number of devices is fixed when JAX starts, so this file is run as a program too: by one process with
eight devices, and by two processes with two devices each. What one device computes is computed here.
"""

from __future__ import annotations

import faulthandler
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.attacks.inference.property import infer_property
from reticent.attacks.shadows.outputs import Shadows
from reticent.attacks.shadows.pace import Sizes
from reticent.attacks.shadows.recipes import add_noise, plain_recipe
from reticent.attacks.shadows.training import Queries, train_shadows
from reticent.core.errors import DataError, InvalidArgument
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.distributed.spread import Spread
from reticent.models import linear
from reticent.pate.partition import partition
from reticent.pate.teachers import teach
from reticent.runs.sweep import SweepRequest, as_rows, sweep

Found = dict[str, np.ndarray]

MODEL = linear(6, 3)
MODELS = 10  # no multiple of 4 or 8
TEACHERS = 5


# What every program computes


def task() -> dict[str, np.ndarray]:
    source = np.random.default_rng(0)
    y = source.integers(3, size=80)
    x = (np.eye(3, 6)[y] + 0.5 * source.standard_normal((80, 6))).astype(np.float32)
    return {"x": x, "y": y.astype(np.int32)}


def shadow_models(**changes: Any) -> Shadows:
    recipe = plain_recipe(MODEL, optax.sgd(0.5), epochs=2, batch_size=20, set_size=40)
    queries = Queries(disturb=add_noise(0.3), copies=2)
    return train_shadows(recipe, MODEL.apply, task(), queries=queries, **changes)


def keys_of(models: int, impl: str = "threefry2x32") -> jax.Array:
    root = jax.random.key(0, impl=impl)
    return jax.vmap(lambda model: jax.random.fold_in(root, model))(jnp.arange(models))


def noisy_sums(keys: jax.Array, rows: jax.Array, x: jax.Array) -> Any:
    """Of (models, 3) rows and shared x: something random, and something that is not."""
    noise = jax.vmap(lambda key: jax.random.normal(key, (4,)))(keys)
    return {"noisy": noise + x.sum(), "sum": rows.sum(axis=1)}


def compute(folder: Path) -> Found:
    found: Found = {"devices": np.array(jax.device_count())}
    rows = np.arange(3 * MODELS, dtype=np.float64).reshape(MODELS, 3)  # JAX computes in float32
    found |= Spread().over(noisy_sums, shared=1)(keys_of(MODELS), rows, np.arange(5))
    used: list[int] = []
    with watched_devices(used):
        found |= shadows_and_teachers(folder)
    found["used"] = np.array(used)
    return found | inferred_property()


def shadows_and_teachers(folder: Path) -> Found:
    shadows = shadow_models(shadows=MODELS, chunk=MODELS, cache=folder / "shadows.npz")
    assert shadows.robustness is not None
    data = task()
    shards = partition(80, TEACHERS, seed=0)
    taught = teach(MODEL, shards, data["x"], data["y"], steps=10, batch_size=8)
    return {
        "logits": shadows.logits,
        "robustness": shadows.robustness,
        "fingerprint": np.array(shadows.fingerprint),
        "teachers": taught.params["w"],
        "votes": taught.vote(data["x"]),
    }


def means(key: jax.Array, x: jax.Array, y: jax.Array, mask: jax.Array) -> Any:
    noise = 0.01 * jax.random.normal(key, (6, 3))
    return {"w": x.T @ (jax.nn.one_hot(y, 3) * mask[:, None]) / 10 + noise}


def inferred_property() -> Found:
    data = task()
    told = infer_property(means, data, data["y"] == 0, set_size=10, models=20, held_out=20, chunk=6)
    return {"property": told.probability}


def swept(folder: Path) -> Found:
    request = SweepRequest(
        source="digits", rows=200, epsilons=(8.0,), accounting=("zcdp",), models=("linear",)
    )
    return {"sweep": np.array(json.dumps(as_rows(sweep(request, folder / "sweep"))))}


@contextmanager
def watched_devices(used: list[int]) -> Iterator[None]:
    """Notes how many devices held each array that comes back."""
    gathered = Spread.gather

    def noting(self: Spread, tree: Any) -> Any:
        used.extend(len(leaf.sharding.device_set) for leaf in jax.tree.leaves(tree))
        return gathered(self, tree)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spread, "gather", noting)
        yield


def where_models_live() -> Found:
    """Each device has its own models, and the program in which they are computed sends nothing."""
    spread = Spread()
    models = spread.room_for(MODELS)
    arguments = (*spread.place((keys_of(models), np.zeros((models, 3)))), spread.replicate(np.zeros(5)))
    program = jax.jit(spread.divide(noisy_sums, shared=1)).lower(*arguments).compile()
    shards = program(*arguments)["noisy"].addressable_shards
    sent = re.findall(
        r"all-reduce|all-gather|all-to-all|collective-permute", program.as_text() or "all-reduce"
    )
    return {
        "places": np.array([shard.device.id for shard in shards]),
        "models of a place": np.array([shard.data.shape[0] for shard in shards]),
        "sent": np.array(len(sent)),
    }


def disagree(folder: Path) -> Found:
    """What two processes do whose clocks run differently, that see other files, or of which one fails."""
    is_first = jax.process_index() == 0
    heard = collectives.gather_arrays(10 + jax.process_index())

    def fail() -> None:
        raise DataError("No room.", remedy="Make some.")

    with pytest.raises(DataError, match="No room" if is_first else "Process 0 stopped: No room"):
        by_first(fail)
    with pytest.raises(DataError, match="Not all processes see"):
        shadow_models(shadows=MODELS, cache=folder / ("shadows.npz" if is_first else "nothing.npz"))
    honest = time.perf_counter
    if not is_first:
        time.perf_counter = lambda: 1000 * honest()
    stopped = shadow_models(shadows=400, chunk=4, minutes=2)
    return {"heard": heard, "stopped": np.array(stopped.models)}


def main(folder: Path, port: str = "", process: str = "") -> None:
    faulthandler.dump_traceback_later(170, exit=True)  # processes that wait for each other say where
    if port:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    found = compute(folder) | where_models_live()
    if port:
        found |= swept(folder) | disagree(folder)
    np.savez(folder / f"found{process}.npz", allow_pickle=False, **found)


# Tests


def started(folder: Path, devices: int, *arguments: str) -> subprocess.Popen[str]:
    flags = re.sub(r"--xla_force_host_platform_device_count=\d+", "", os.environ.get("XLA_FLAGS", ""))
    return subprocess.Popen(
        [sys.executable, "-W", "error", __file__, str(folder), *arguments],
        env={**os.environ, "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={devices}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(processes: list[subprocess.Popen[str]]) -> None:
    try:
        for process in processes:
            said, _ = process.communicate(timeout=180)
            assert process.returncode == 0, said
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def read(path: Path) -> Found:
    with np.load(path) as file:
        return dict(file)


@pytest.fixture(scope="module")
def on_one(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("one")
    return compute(folder) | where_models_live() | swept(folder)


@pytest.fixture(scope="module")
def on_eight(tmp_path_factory: pytest.TempPathFactory) -> Found:
    folder = tmp_path_factory.mktemp("eight")
    finished([started(folder, 8)])
    return read(folder / "found.npz")


@pytest.fixture(scope="module")
def in_two_processes(tmp_path_factory: pytest.TempPathFactory) -> list[Found]:
    folder = tmp_path_factory.mktemp("processes")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    finished([started(folder, 2, port, process) for process in ("0", "1")])
    return [read(folder / f"found{process}.npz") for process in (0, 1)]


def assert_same_models(found: Found, alone: Found) -> None:
    for name in ("noisy", "sum", "logits", "robustness", "teachers", "property"):
        np.testing.assert_allclose(found[name], alone[name], atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(found["votes"], alone["votes"])
    assert found["fingerprint"] == alone["fingerprint"]
    if "sweep" not in found:
        return
    pairs = zip(json.loads(str(found["sweep"])), json.loads(str(alone["sweep"])), strict=True)
    for row, expected in pairs:
        assert row == pytest.approx(expected, abs=0.02)


def assert_all_devices_work(found: Found, devices: int, local: int) -> None:
    assert found["devices"] == devices
    assert set(found["used"]) == {devices}
    assert len(set(found["places"])) == local
    assert set(found["models of a place"]) == {-(-MODELS // devices)}
    assert found["sent"] == 0


@pytest.mark.thorough
def test_models_are_the_same_on_any_number_of_devices(on_one: Found, on_eight: Found) -> None:
    assert_same_models(on_eight, on_one)


@pytest.mark.thorough
def test_every_device_has_models_of_its_own_and_nothing_is_sent(on_one: Found, on_eight: Found) -> None:
    assert_all_devices_work(on_one, 1, 1)
    assert_all_devices_work(on_eight, 8, 8)


@pytest.mark.thorough
def test_two_processes_train_the_same_models_and_both_know_them(
    in_two_processes: list[Found], on_one: Found
) -> None:
    for found in in_two_processes:
        assert "sweep" in found
        assert_same_models(found, on_one)
        assert_all_devices_work(found, devices=4, local=2)
    assert not set(in_two_processes[0]["places"]) & set(in_two_processes[1]["places"])


@pytest.mark.thorough
def test_two_processes_agree_whatever_their_clocks_say(in_two_processes) -> None:
    first, second = in_two_processes
    assert list(first["heard"]) == list(second["heard"]) == [10, 11]
    assert first["stopped"] == second["stopped"] < 400


@pytest.mark.thorough
def test_no_two_models_draw_the_same(on_one: Found, on_eight: Found) -> None:
    for found in (on_one, on_eight):
        assert len(np.unique(found["noisy"])) == 4 * MODELS


def test_on_one_device_it_is_the_same_program() -> None:
    spread = Spread(None if jax.device_count() == 1 else jax.devices()[:1])
    found = spread.over(noisy_sums, shared=1)(keys_of(3), jnp.ones((3, 3)), jnp.arange(5))
    plain = jax.jit(noisy_sums)(keys_of(3), jnp.ones((3, 3)), jnp.arange(5))
    for name, value in plain.items():
        assert isinstance(found[name], np.ndarray)
        np.testing.assert_array_equal(found[name], value)
    if jax.device_count() == 1:
        assert spread.divide(noisy_sums, shared=1) is noisy_sums


def test_a_device_that_was_chosen_works_alone() -> None:
    with jax.default_device(jax.devices()[0]):
        assert Spread().count == 1
    with pytest.raises(InvalidArgument, match="No device"):
        Spread([])


def test_keys_that_repeat_noise_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="the same noise"):
        Spread().over(noisy_sums, shared=1)(keys_of(3, "rbg"), jnp.ones((3, 3)), jnp.arange(5))


@pytest.mark.parametrize(
    ("devices", "tried"), [(1, [2, 8, 16]), (2, [2, 16, 32]), (3, [6, 24, 48]), (8, [8, 64, 128])]
)
def test_chunks_are_whole_pairs_and_as_many_on_every_device(devices: int, tried: list[int]) -> None:
    sizes, found = Sizes("auto", devices=devices), []
    for seconds_each in (4.0, 3.0, 2.0):
        found.append(sizes.next())
        sizes.note(found[-1], seconds_each, compile_seconds=1.0, seconds_left=100.0)
    assert found == tried
    assert Sizes(5, devices=devices).next() == {1: 6, 2: 6, 3: 6, 8: 8}[devices]


def test_what_the_first_process_fails_at_is_raised() -> None:
    def fail() -> None:
        raise DataError("No room.", remedy="Make some.")

    with pytest.raises(DataError, match="No room"):
        by_first(fail)
    assert list(collectives.gather_arrays(2.5)) == [2.5]


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
