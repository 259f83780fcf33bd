"""Small runs on as many devices as this process is told to have; what came out of each goes into one file.

    python device_runs.py DEVICES FOLDER CHECKPOINT

Every case is a function of nothing that returns named arrays. Their names are their functions'.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

DEVICES, FOLDER, CHECKPOINT = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
os.environ["XLA_FLAGS"] = (
    f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
)

import jax  # noqa: E402 - it reads the flags when it is imported
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax.sharding import Mesh  # noqa: E402

from reticent.core import whole_normals  # noqa: E402
from reticent.core.errors import ReticentError  # noqa: E402
from reticent.core.keys import Keys  # noqa: E402
from reticent.data.dataset import Dataset  # noqa: E402
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Sampler, Shuffled  # noqa: E402
from reticent.mechanisms.adjacency import Adjacency  # noqa: E402
from reticent.training import step as steps_module  # noqa: E402
from reticent.training.checkpoint import Checkpoints  # noqa: E402
from reticent.training.clipping import flat, per_layer  # noqa: E402
from reticent.training.devices import mesh  # noqa: E402
from reticent.training.execution import Execution  # noqa: E402
from reticent.training.loop import Run, train  # noqa: E402
from reticent.training.plan import AdaptiveNorm, Plan  # noqa: E402
from reticent.training.projection import onto_ball  # noqa: E402

Arrays = dict[str, Any]

ROWS, STEPS, MANY = 37, 6, 1 << 19  # rows that no number of devices divides; numbers of a large leaf
GENTLE, LARGE = 0.02, 3.0  # noise that hides nobody, and more than any gradient here
CASES: dict[str, Callable[[], Arrays]] = {}


def case(*devices: int) -> Callable[[Callable[[], Arrays]], Callable[[], Arrays]]:
    """A case that is worth its while on so many devices."""

    def noted(function: Callable[[], Arrays]) -> Callable[[], Arrays]:
        if DEVICES in devices:
            CASES[function.__name__] = function
        return function

    return noted


def loss(params: Any, example: Any) -> jax.Array:
    hidden = jnp.tanh(example["x"] @ params["first"] + params["bias"])
    return -jax.nn.log_softmax(hidden @ params["second"])[example["y"]]


def start() -> Any:
    """Leaves that 2, 4 and 8 devices divide, that only 2 and 4 do, and that none does."""
    chance = np.random.default_rng(1)
    shapes = {"first": (8, 4), "second": (4, 3), "bias": (1,)}
    return {name: chance.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def rows() -> dict[str, np.ndarray]:
    chance = np.random.default_rng(0)
    x = chance.normal(size=(ROWS, 8)).astype(np.float32)
    return {"x": x, "y": chance.integers(0, 3, ROWS).astype(np.int32)}


def plan(sampler: Sampler | None = None, **changes: Any) -> Plan:
    sampler = sampler or Poisson(examples=ROWS, batch_size=12)
    values = {
        "sampler": sampler,
        "clipping": flat(0.5),
        "noise_multiplier": 0.1,
        "steps": STEPS,
        "delta": 1e-3,
        "adjacency": Adjacency.REPLACE if isinstance(sampler, FixedSize) else sampler.adjacencies[0],
    }
    return Plan(**{**values, **changes})


def run(recipe: Plan | None = None, data: Any = None, **options: Any) -> Run:
    options = {"optimizer": optax.adam(0.05), "keys": Keys.seeded(3), **options}
    return train(loss, start(), rows() if data is None else data, recipe or plan(), **options)


def params_of(done: Run) -> Arrays:
    return {name: np.asarray(leaf) for name, leaf in done.params.items()}


@case(1, 2, 4, 8)
def a_plain_run_and_what_it_says() -> Arrays:
    held_out = {key: column[:10].copy() for key, column in rows().items()}
    done = run(plan(noise_multiplier=1.0), evaluate=held_out, unreleased=True)
    said = [moment._asdict() for moment in done.history]
    values = [list(moment["held_out"].values()) + list(moment["unreleased"].values()) for moment in said]
    return {
        **params_of(done),
        "history": np.array(values),
        "guarantee": np.array(json.dumps(done.guarantee.to_json(), sort_keys=True)),
    }


@case(1, 2)
def fixed_batches_in_blocks() -> Arrays:
    return params_of(run(plan(FixedSize(examples=ROWS, batch_size=11)), execution=Execution(microbatch=2)))


@case(1, 8)
def users_with_several_views_of_their_rows() -> Arrays:
    owners = np.random.default_rng(5).integers(0, 19, ROWS)
    data = Dataset(arrays=rows(), users=owners)
    users = len(np.unique(owners))
    recipe = plan(Poisson(examples=users, batch_size=8), unit="user", rows_per_user=3)
    return params_of(run(recipe, data, augment=_shaken, views=2))


def _shaken(key: jax.Array, example: Any) -> Any:
    return {**example, "x": example["x"] + 0.3 * jax.random.normal(key, example["x"].shape)}


@case(1, 4)
def a_norm_that_adapts_projection_and_the_mean() -> Arrays:
    recipe = plan(adaptive=AdaptiveNorm(noise_multiplier=1.0))
    done = run(recipe, project=onto_ball(1.0), output="mean")
    return {**params_of(done), "norm": np.asarray(done.state.max_norm)}


@case(1, 4)
def clipping_by_layers() -> Arrays:
    clipping = per_layer({"first": 0.4, "second": 0.3, "bias": 0.2})
    return params_of(run(plan(Shuffled(examples=ROWS, batch_size=10), clipping=clipping)))


@case(1, 2, 4, 8)
def divided_params() -> Arrays:
    done = run(execution=Execution(divide_params=True))
    return params_of(done) | {
        f"parts of {name}": np.array([part.data.shape[0] for part in leaf.addressable_shards])
        for name, leaf in (*done.params.items(), ("moment", done.state.opt_state[0].mu["first"]))
    }


@case(4)
def a_mesh_with_two_axes() -> Arrays:
    devices = Mesh(np.array(jax.devices()).reshape(2, 2), ("hosts", "records"))
    return params_of(run(execution=Execution(mesh=devices, divide_params=True)))


@case(8)
def a_mesh_of_some_devices() -> Arrays:
    some = Mesh(np.array(jax.devices()[:2:-1]), ("any",))
    assert some.size == 5
    return params_of(run(execution=Execution(mesh=some)))


class Remembered(NamedTuple):
    step: jax.Array
    updates: jax.Array  # (steps, rows)


def remembering() -> optax.GradientTransformation:
    """Stays where it is, and keeps every mean gradient that it is given."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        kept = state.updates.at[state.step].set(updates["w"])
        return jax.tree.map(jnp.zeros_like, updates), Remembered(state.step + 1, kept)

    return optax.GradientTransformation(
        lambda params: Remembered(jnp.int32(0), jnp.zeros((2 * STEPS, ROWS))), update
    )


@case(1, 2, 4, 8)
def who_is_in_each_batch() -> Arrays:
    """The gradient of a row is 1 at its own number: their sum says who was there."""
    samplers: tuple[Sampler, ...] = (
        Poisson(examples=ROWS, batch_size=12),
        FixedSize(examples=ROWS, batch_size=9),
        Shuffled(examples=ROWS, batch_size=10),
        FullBatch(examples=ROWS),
    )
    found = {}
    for sampler in samplers:
        done = train(
            lambda params, example: params["w"][example["number"]],
            {"w": np.zeros(ROWS, np.float32)},
            {"number": np.arange(ROWS, dtype=np.int32)},
            plan(sampler, clipping=flat(1.0), noise_multiplier=GENTLE, steps=2 * STEPS),
            optimizer=remembering(),
            keys=Keys.seeded(4),
        )
        found[type(sampler).__name__] = np.asarray(done.state.opt_state.updates) * sampler.batch_size
    return found


def noise_alone(numbers: int, **how: Any) -> Run:
    """One step of a model whose gradients are zero."""
    return train(
        lambda params, example: 0.0 * jnp.sum(params["w"]) * example["number"],
        {"w": np.zeros(numbers, np.float32)},
        {"number": np.ones(ROWS, np.float32)},
        plan(noise_multiplier=LARGE, steps=1),
        optimizer=optax.sgd(1.0),
        keys=Keys.seeded(8),
        execution=Execution(microbatch=1, **how),
    )


@case(1, 2)
def noise() -> Arrays:
    return {"w": np.asarray(noise_alone(MANY).params["w"])}


@case(2, 4, 8)
def noise_on_divided_params() -> Arrays:
    """And how many random words a device makes for its part."""
    words, made = [], whole_normals._stretches

    def counting(key: jax.Array, starts: jax.Array, lanes: int, multiple: int) -> jax.Array:
        words.append(16 * starts.shape[0] * lanes)
        return made(key, starts, lanes, multiple)

    whole_normals._stretches = counting
    done = noise_alone(MANY, divide_params=True)
    whole_normals._stretches = made
    return {"w": np.asarray(done.params["w"]), "words": np.array(words)}


@case(2)
def noise_that_every_device_adds() -> Arrays:
    """Planted: noise before the sum, the same on every device, or of its own on each."""
    added, found = steps_module.add_whole_noise, {}
    for name in ("the same", "of its own"):

        def before_the_sum(key: Any, total: Any, grid: Any, parts: Any = None, kind: str = name) -> Any:
            own = key if kind == "the same" else jax.random.fold_in(key, jax.lax.axis_index("records"))
            return jax.lax.psum(added(own, total, grid), "records")

        steps_module.add_whole_noise = before_the_sum
        found[name] = np.asarray(noise_alone(4096).params["w"])
    steps_module.add_whole_noise = added
    return found


@case(4)
def bytes_that_devices_exchange() -> Arrays:
    """In one step, by the compiled program."""
    compiled, found = mesh.Layout.compiled, {}
    for name in ("kept whole", "divided"):
        texts: list[str] = []

        def keeping(self: Any, function: Any, state: Any, kept: Any = texts) -> Any:
            many: Any = compiled(self, function, state)

            def call(*arguments: Any) -> Any:
                program = many.lower(*arguments).compile()
                kept.append(program.as_text())
                return program(*arguments)

            return call

        mesh.Layout.compiled = keeping
        run(plan(steps=2), optimizer=optax.sgd(0.1), execution=Execution(divide_params=name == "divided"))
        (text,) = texts
        found[name] = np.array(json.dumps(exchanged(text)))
    mesh.Layout.compiled = compiled
    return found


_EXCHANGE = re.compile(
    r"= (?P<shapes>.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
    r"(?:-start)?\((?P<given>.*)"
)
_SHAPE = re.compile(r"(?P<kind>[a-z]\w*)\[(?P<sizes>[\d,]*)\]")


def exchanged(text: str) -> list[tuple[str, int]]:
    """Each exchange of a compiled program, and the bytes that a device brings or gets, whichever is more."""
    found = []
    for line in text.splitlines():
        if match := _EXCHANGE.search(line):
            shapes = _SHAPE.findall(match["shapes"])
            numbers = sum(
                int(np.prod([int(size) for size in sizes.split(",") if size])) for _, sizes in shapes
            )
            scattered = DEVICES if match["kind"] == "reduce-scatter" else 1
            assert {kind for kind, _ in shapes} <= {"f32", "s32", "u32"}, line
            found.append((match["kind"], 4 * numbers * scattered))
    return found


@case(1, 2, 8)
def stopped_here_and_gone_on_with_elsewhere() -> Arrays:
    """Goes on from what a process with another number of devices left, and leaves a state for the next."""
    recipe = plan(steps=12)

    def stop(moment: Any) -> None:
        raise KeyboardInterrupt

    begun = Checkpoints(path=FOLDER / f"checkpoint of {DEVICES}", stamp="s")
    half = run(recipe, on_progress=stop, checkpoints=begun, execution=Execution(divide_params=True))
    before = FOLDER / CHECKPOINT
    found = {"steps before": np.asarray(half.state.step)}
    if before.exists():
        copy = Path(shutil.copy(before, FOLDER / f"copy for {DEVICES}"))
        done = run(recipe, checkpoints=Checkpoints(path=copy, stamp="s"))
        found |= params_of(done)
    else:
        found |= params_of(run(recipe))
    return found


@case(8)
def refused() -> Arrays:
    """What was said of a mesh that is too large, and of what cannot be divided."""
    orders: dict[str, dict[str, Any]] = {
        "too many devices": {
            "recipe": plan(Poisson(examples=ROWS, batch_size=DEVICES - 1)),
            "execution": Execution(mesh=Mesh(np.array(jax.devices()), ("records",))),
        },
        "looks at all": {"optimizer": optax.lamb(0.1), "execution": Execution(divide_params=True)},
        "projection": {"project": onto_ball(1.0), "execution": Execution(divide_params=True)},
    }
    found = {}
    for name, order in orders.items():
        try:
            run(**order)
            found[name] = np.array("nothing")
        except ReticentError as error:
            found[name] = np.array(str(error))
    return found


def _free(*_: Any, **__: Any) -> Any:
    return 0.0


def main() -> None:
    assert len(jax.devices()) == DEVICES
    found = {}
    for name, function in CASES.items():
        found |= {f"{name}: {key}": array for key, array in function().items()}
        Plan.guarantee = Plan.epsilon_after = _free  # the first case said what it costs
    np.savez(FOLDER / f"{DEVICES}.npz", **found)


if __name__ == "__main__":
    main()
