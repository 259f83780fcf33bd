"""Small runs of `train` in one of several processes, or in one with as many devices; writes what came out.

python library_runs.py ADDRESS PROCESSES PROCESS DEVICES FOLDER
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reticent import distributed

ADDRESS, PROCESSES, PROCESS, DEVICES = sys.argv[1], *map(int, sys.argv[2:5])
FOLDER = Path(sys.argv[5])
if __name__ == "__main__":
    distributed.start(ADDRESS, processes=PROCESSES, process=PROCESS, patience=60, devices=DEVICES)

import jax  # noqa: E402 - the processes are joined before it is used
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

from reticent.core.errors import ProcessLost, ReticentError  # noqa: E402
from reticent.core.keys import Keys  # noqa: E402
from reticent.data.dataset import Dataset  # noqa: E402
from reticent.data.sampling import Poisson  # noqa: E402
from reticent.distributed import collectives  # noqa: E402
from reticent.mechanisms.adjacency import Adjacency  # noqa: E402
from reticent.training.checkpoint import Checkpoints  # noqa: E402
from reticent.training.clipping import flat  # noqa: E402
from reticent.training.devices import feeding  # noqa: E402
from reticent.training.execution import Execution  # noqa: E402
from reticent.training.loop import Run, train  # noqa: E402
from reticent.training.places import Places, in_order  # noqa: E402
from reticent.training.plan import Plan  # noqa: E402

Arrays = dict[str, Any]

ROWS, USERS, WIDTH = 37, 20, 8
ADAM = optax.adam(0.05)
LEFT_BY = {1: "left by one process", 2: "left by two processes"}


def as_they_come(plan: Plan, units: int, key: jax.Array) -> Places:
    """Records in the order they come, as several processes have them; one alone lays them by chance."""
    return in_order(units)


if __name__ == "__main__":
    feeding.places_for = as_they_come


def loss(params: Any, example: Any) -> jax.Array:
    return -jax.nn.log_softmax(jnp.tanh(example["x"] @ params["w"]) + params["b"])[example["y"]]


def with_dropout(params: Any, example: Any, key: jax.Array) -> jax.Array:
    return loss(params, {**example, "x": example["x"] * jax.random.bernoulli(key, 0.8, (WIDTH,))})


def start() -> Any:
    return {
        "w": np.linspace(-1, 1, WIDTH * 3, dtype=np.float32).reshape(WIDTH, 3),
        "b": np.zeros(3, np.float32),
    }


def all_rows() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return {"x": x, "y": chance.integers(0, 3, ROWS).astype(np.int32)}


def own(cut: int = ROWS // 2) -> slice:
    """The rows of this process, where the first has those before `cut`: as two devices divide them."""
    return slice(None) if PROCESSES == 1 else (slice(0, cut), slice(cut, None))[PROCESS]


def rows(cut: int = ROWS // 2) -> dict[str, np.ndarray]:
    return {key: column[own(cut)] for key, column in all_rows().items()}


def plan(**changes: Any) -> Plan:
    values = {
        "sampler": Poisson(examples=ROWS, batch_size=12),
        "clipping": flat(0.5),
        "noise_multiplier": 1.0,
        "steps": 20,
        "delta": 1e-3,
        "adjacency": Adjacency.ADD_OR_REMOVE,
    }
    return Plan(**{**values, **changes})


def run(data: Any = None, recipe: Plan | None = None, **options: Any) -> Run:
    options = {"optimizer": ADAM, "keys": Keys.seeded(3), **options}
    of_example = options.pop("of_example", loss)
    return train(of_example, start(), rows() if data is None else data, recipe or plan(), **options)


def params_of(done: Run) -> Arrays:
    return {name: np.asarray(leaf) for name, leaf in collectives.copy_to_host(done.params).items()}


class Counted:
    """A budget that counts how often it is charged."""

    charges = 0

    def charge(self, *_: Any, **__: Any) -> None:
        self.charges += 1


def plain() -> Arrays:
    budget, held_out = Counted(), {key: column[::-1] for key, column in rows().items()}
    done = run(evaluate={key: column.copy() for key, column in held_out.items()}, budget=budget)
    said = {"epsilon": done.guarantee.epsilon, "held out": done.history[-1].held_out["loss"]}
    return params_of(done) | said | {"charges": budget.charges}


def with_uneven_shards() -> Arrays:
    return params_of(run(rows(cut=5)))


def _of_users(owners: np.ndarray, **options: Any) -> Run:
    data = Dataset(arrays=rows(), users=owners[own()])
    sampler = Poisson(examples=USERS, batch_size=8)
    return run(data, plan(sampler=sampler, unit="user", rows_per_user=3), **options)


def divided_for_users() -> Arrays:
    """Of whom one process has ten, and the other the ten whose names come after them."""
    first, second = np.arange(ROWS // 2) % 10, 10 + np.arange(ROWS - ROWS // 2) % 10
    done = _of_users(
        np.concatenate([first, second]),
        execution=Execution(divide_params=True),
        checkpoints=Checkpoints(path=FOLDER / f"{PROCESSES}.divided", stamp="s"),
        of_example=with_dropout,
    )
    parts = [part.data.shape[0] for part in done.params["w"].addressable_shards]
    return params_of(done) | {"parts": np.array(parts)}


def rows_on_disk_in_one_process() -> Arrays:
    """Those of the first are few enough to be loaded; those of the second alone would not be."""
    data = {}
    for key, column in rows(cut=5).items():
        path = FOLDER / f"{key} of {PROCESS} of {PROCESSES}.npy"
        np.save(path, column)
        data[key] = np.load(path, mmap_mode="r")
    room = 3 * 36 * plan().sampler.capacity  # bytes of one step, as three windows of it take them
    return params_of(run(data, execution=Execution(buffer=(4 if PROCESS == 0 else 1) * room)))


def with_a_secret_of_their_own() -> Arrays:
    done = run(keys=None)
    return params_of(done) | {"assumptions": np.array(done.guarantee.assumptions)}


def gone_on_with() -> Arrays:
    """One process leaves a run, and two resume it."""

    def stop(moment: Any) -> None:
        raise KeyboardInterrupt

    left, copy = FOLDER / LEFT_BY[1], FOLDER / "copy"
    if PROCESSES == 1:
        half = run(checkpoints=Checkpoints(path=left, stamp="s"), on_progress=stop)
        return {"left at": np.asarray(half.state.step)}
    if PROCESS == 0:
        shutil.copy(left, copy)
    done = run(checkpoints=Checkpoints(path=copy, stamp="s"))
    return params_of(done) | {"is complete": done.is_complete}


REFUSED: dict[str, Callable[[], Any]] = {
    "a user in both": lambda: _of_users(np.arange(ROWS) % USERS),
    "users of another kind": lambda: _of_users((np.arange(ROWS) % USERS).astype(float if PROCESS else int)),
    "users of several kinds": lambda: _of_users(np.array([*range(ROWS - 1), 1.0], object)),
    "no user for a row": lambda: _of_users(
        np.where(np.arange(ROWS) == ROWS - 1, np.nan, np.arange(ROWS) % USERS)
    ),
    "other names": lambda: run({"x" if PROCESS == 0 else "z": rows()["x"], "y": rows()["y"]}),
    "other kinds": lambda: run({**rows(), "x": rows()["x"].astype(np.float64 if PROCESS else np.float32)}),
    "other shapes": lambda: run({**rows(), "x": rows()["x"][:, PROCESS:]}),
    "other keys": lambda: run(keys=Keys.seeded(PROCESS)),
    "keys in one": lambda: run(keys=Keys.seeded(0) if PROCESS else None),
    "another plan": lambda: run(recipe=plan(noise_multiplier=1.0 + PROCESS)),
    "another model": lambda: run(optimizer=optax.adam(0.1) if PROCESS else optax.sgd(0.1)),
    "evaluation in one": lambda: run(evaluate=None if PROCESS else {k: v.copy() for k, v in rows().items()}),
    "checkpoints in one": lambda: run(
        checkpoints=None if PROCESS else Checkpoints(path=FOLDER / "no", stamp="s")
    ),
    "division in one": lambda: run(execution=Execution(divide_params=bool(PROCESS))),
    "a bad row to evaluate on": lambda: run(data := rows(), evaluate=data if PROCESS else None),
    "a mesh without the other": lambda: run(
        execution=Execution(mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), ("records",)))
    ),
    "a small batch": lambda: run(recipe=plan(sampler=Poisson(examples=ROWS, batch_size=1))),
    "too many rows": lambda: run({key: np.repeat(column, 3, axis=0) for key, column in rows().items()}),
}


def refused() -> Arrays:
    found = {}
    for name, attempt in REFUSED.items():
        try:
            attempt()
            found[name] = "nothing"
        except ReticentError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


class Planted(BaseException):
    """Nothing that anybody expects."""


def left_alone() -> Arrays:
    """Process 1 fails in the middle of a run with an error that nobody expected; its checkpoint is left."""

    def fail(moment: Any) -> None:
        if PROCESS == 1:
            raise Planted("planted")  # an Exception in a callback ends nothing

    try:
        run(on_progress=fail, checkpoints=Checkpoints(path=FOLDER / LEFT_BY[2], stamp="s"))
    except ProcessLost as error:
        np.savez(FOLDER / "left alone.npz", said=str(error))
        raise
    return {}


CASES = (plain, divided_for_users, gone_on_with)
ONLY_TOGETHER = (
    with_uneven_shards,
    rows_on_disk_in_one_process,
    with_a_secret_of_their_own,
    refused,
    left_alone,
)


def main() -> None:
    found: Arrays = {}
    cases = (*CASES, *ONLY_TOGETHER) if PROCESSES > 1 else CASES
    for case in cases:
        found |= {f"{case.__name__}: {name}": value for name, value in case().items()}
        np.savez(FOLDER / f"{PROCESS} of {PROCESSES}.npz", **found)
        Plan.epsilon_after = lambda *_, **__: 0.0  # the first case said what it costs


if __name__ == "__main__":
    main()
