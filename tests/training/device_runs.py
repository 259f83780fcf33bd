"""Small runs on 1, 2 and 8 of the eight devices that this process has; what came out goes into one file.

    python device_runs.py FOLDER

Every case is a function of a number of devices that returns named arrays. Their names are their functions'.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FOLDER, NAMES = Path(sys.argv[1]), sys.argv[2:]
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"

import jax  # noqa: E402 - it reads the flags when it is imported
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax.sharding import Mesh  # noqa: E402

from reticent import noise as noise_strategies  # noqa: E402
from reticent.core import whole_normals  # noqa: E402
from reticent.core.errors import ReticentError  # noqa: E402
from reticent.core.keys import Keys  # noqa: E402
from reticent.data.allocation import Allocation  # noqa: E402
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

ADAM = optax.adam(0.05)
ROWS, STEPS, MANY = 37, 6, 1 << 19  # rows that no number of devices divides; numbers of a large leaf
GENTLE, LARGE = 0.02, 3.0  # noise that hides nobody, and more than any gradient here
Case = Callable[[int], Arrays]
CASES: list[tuple[int, Case]] = []


def case(*devices: int) -> Callable[[Case], Case]:
    """A case that is worth its while on so many devices."""

    def noted(function: Case) -> Case:
        CASES.extend((many, function) for many in devices)
        return function

    return noted


def on(devices: int, **how: Any) -> Execution:
    """All eight are there unless fewer are asked for."""
    some = None if devices == 8 else Mesh(np.array(jax.devices()[:devices]), ("records",))
    return Execution(mesh=some, **how)


def loss(params: Any, example: Any) -> jax.Array:
    hidden = jnp.tanh(example["x"] @ params["first"] + params["bias"])
    return -jax.nn.log_softmax(hidden @ params["second"])[example["y"]]


def start() -> Any:
    """Leaves that 2 and 8 devices divide, that only 2 do, and that none does."""
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
    options = {"optimizer": ADAM, "keys": Keys.seeded(3), **options}
    of_example = options.pop("of_example", loss)
    return train(of_example, start(), rows() if data is None else data, recipe or plan(), **options)


def params_of(done: Run) -> Arrays:
    return {name: np.asarray(leaf) for name, leaf in done.params.items()}


@case(1, 2, 8)
def divided_params(devices: int) -> Arrays:
    """And all that the run says."""
    done, exchanges = watched(devices, lambda: _evaluated(on(devices, divide_params=True)))
    return {
        **_said(done),
        "exchanged": np.array(json.dumps(exchanges)),
        **{
            f"parts of {name}": np.array([part.data.shape[0] for part in leaf.addressable_shards])
            for name, leaf in (*done.params.items(), ("moment", done.state.opt_state[0].mu["first"]))
        },
    }


def _evaluated(execution: Execution) -> Run:
    held_out = {key: column[:10].copy() for key, column in rows().items()}
    recipe = plan(noise_multiplier=1.0, steps=2 * STEPS)
    return run(recipe, evaluate=held_out, unreleased=True, execution=execution)


def _said(done: Run) -> Arrays:
    said = [moment._asdict() for moment in done.history]
    values = [list(moment["held_out"].values()) + list(moment["unreleased"].values()) for moment in said]
    promise = json.dumps(done.guarantee.to_json(), sort_keys=True)
    return {**params_of(done), "history": np.array(values), "guarantee": np.array(promise)}


@case(8)
def a_mesh_of_some_devices_with_two_axes(devices: int) -> Arrays:
    some = Mesh(np.array(jax.devices()[:3:-1]).reshape(2, 2), ("hosts", "records"))
    return _said(_evaluated(Execution(mesh=some, divide_params=True)))


@case(1, 2)
def shuffled_batches_in_blocks_clipped_by_layers(devices: int) -> Arrays:
    clipping = per_layer({"first": 0.4, "second": 0.3, "bias": 0.2})
    recipe = plan(Shuffled(examples=ROWS, batch_size=11), clipping=clipping)
    done, exchanges = watched(devices, lambda: run(recipe, execution=on(devices, microbatch=2)))
    return params_of(done) | {"exchanged": np.array(json.dumps(exchanges))}


@case(1, 8)
def views_of_users_a_norm_that_adapts_projection_and_the_mean(devices: int) -> Arrays:
    owners = np.random.default_rng(5).integers(0, 19, ROWS)
    sampler = Poisson(examples=len(np.unique(owners)), batch_size=8)
    adaptive = AdaptiveNorm(noise_multiplier=1.0)
    recipe = plan(sampler, unit="user", rows_per_user=3, adaptive=adaptive)
    data = Dataset(arrays=rows(), users=owners)
    options = {"augment": _shaken, "views": 2, "project": onto_ball(1.0), "output": "mean"}
    done = run(recipe, data, execution=on(devices), of_example=_with_dropout, **options)
    return {**params_of(done), "norm": np.asarray(done.state.max_norm)}


def _with_dropout(params: Any, example: Any, key: jax.Array) -> jax.Array:
    return loss(params, {**example, "x": example["x"] * jax.random.bernoulli(key, 0.8, (8,))})


def _shaken(key: jax.Array, example: Any) -> Any:
    return {**example, "x": example["x"] + 0.3 * jax.random.normal(key, example["x"].shape)}


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


def its_own_number(params: Any, example: Any) -> jax.Array:
    """The gradient of a row is 1 at its number: a sum of them says who was there."""
    return params["w"][example["number"]]


@case(1, 8)
def who_is_in_each_batch(devices: int) -> Arrays:
    samplers: list[Sampler] = [FixedSize(examples=ROWS, batch_size=9), FullBatch(examples=ROWS)]
    some = samplers[: 2 if devices == 8 else 1]  # of all rows there is one set
    return {type(sampler).__name__: _who(sampler, devices) for sampler in some}


@case(1, 2)
def who_is_in_allocated_batches(devices: int) -> Arrays:
    """Three rounds of four steps."""
    return {"who": _who(Allocation(examples=ROWS, batch_size=12), devices)}


def _who(sampler: Sampler, devices: int) -> np.ndarray:
    done = train(
        its_own_number,
        {"w": np.zeros(ROWS, np.float32)},
        {"number": np.arange(ROWS, dtype=np.int32)},
        plan(sampler, clipping=flat(1.0), noise_multiplier=GENTLE, steps=2 * STEPS),
        optimizer=remembering(),
        keys=Keys.seeded(4),
        execution=on(devices),
    )
    return np.asarray(done.state.opt_state.updates) * sampler.batch_size


def nothing(params: Any, example: Any) -> jax.Array:
    return 0.0 * jnp.sum(params["w"]) * example["number"]


def noise_alone(numbers: int, execution: Execution, **beside: int) -> Run:
    """One step of a model whose gradients are zero, and that may have more leaves."""
    sizes = {"w": numbers, **beside}
    return train(
        nothing,
        {name: np.zeros(size, np.float32) for name, size in sizes.items()},
        {"number": np.ones(ROWS, np.float32)},
        plan(noise_multiplier=LARGE, steps=1),
        optimizer=optax.sgd(1.0),
        keys=Keys.seeded(8),
        execution=execution,
    )


@case(1, 2)
def noise(devices: int) -> Arrays:
    return {"w": np.asarray(noise_alone(MANY, on(devices, microbatch=1)).params["w"])}


@case(1, 2)
def correlated_noise(devices: int) -> Arrays:
    """With memory on one device, or divided over two as the parameters are."""
    recipe = Plan.for_budget(
        epsilon=4.0,
        delta=1e-3,
        examples=ROWS,
        batch_size=12,
        steps=STEPS,
        max_norm=0.5,
        sampling="cyclic",
        noise=noise_strategies.banded(bands=3),
    )
    return params_of(run(recipe, execution=on(devices, divide_params=devices > 1)))


@case(8)
def noise_on_divided_params(devices: int) -> Arrays:
    """And how many random words a device makes for its part."""
    words, made = [], whole_normals._stretches

    def counting(key: jax.Array, starts: jax.Array, lanes: int, multiple: int) -> jax.Array:
        words.append(16 * starts.shape[0] * lanes)
        return made(key, starts, lanes, multiple)

    whole_normals._stretches = counting
    done = noise_alone(MANY, on(devices, microbatch=1, divide_params=True))
    whole_normals._stretches = made
    return {"w": np.asarray(done.params["w"]), "words": np.array(words)}


@case(2)
def noise_of_one_name(devices: int) -> Arrays:
    """Two models of one name, each divided: the parts of the second are not where those of the first are."""
    how = on(devices, microbatch=1, divide_params=True, program="nothing")
    return {size: params_of(noise_alone(int(size), how, z=40))["w"] for size in ("40", "100")} | {
        "beside": params_of(noise_alone(100, how, z=40))["z"]
    }


@case(2)
def noise_that_every_device_adds(devices: int) -> Arrays:
    """Planted: noise before the sum, the same on every device, or of its own on each."""
    added, found = steps_module.add_whole_noise, {}
    for name in ("the same", "of its own"):

        def before_the_sum(key: Any, total: Any, grid: Any, parts: Any = None, kind: str = name) -> Any:
            own = key if kind == "the same" else jax.random.fold_in(key, jax.lax.axis_index("records"))
            return jax.lax.psum(added(own, total, grid), "records")

        steps_module.add_whole_noise = before_the_sum
        found[name] = np.asarray(noise_alone(4096, on(devices, microbatch=1)).params["w"])
    steps_module.add_whole_noise = added
    return found


def watched(devices: int, attempt: Callable[[], Run]) -> tuple[Run, list[tuple[str, int]]]:
    """A run, and what its devices exchange in one step, by its compiled program; one device has nobody."""
    if devices == 1:
        return attempt(), []
    compiled, programs = mesh.Layout.compiled, []

    def keeping(self: Any, function: Any, state: Any) -> Any:
        many: Any = compiled(self, function, state)

        def call(*arguments: Any) -> Any:
            if not programs:
                programs.append(many.lower(*arguments).compile())
            return programs[0](*arguments)

        return call

    mesh.Layout.compiled = keeping
    done = attempt()
    mesh.Layout.compiled = compiled
    return done, exchanged(devices, programs[0].as_text())


_EXCHANGE = re.compile(
    r"= (?P<shapes>.*?) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
    r"(?:-start)?\((?P<given>.*)"
)
_SHAPE = re.compile(r"(?P<kind>[a-z]\w*)\[(?P<sizes>[\d,]*)\]")


def exchanged(devices: int, text: str) -> list[tuple[str, int]]:
    """Each exchange of a compiled program, and the bytes that a device brings or gets, whichever is more."""
    found = []
    for line in text.splitlines():
        if match := _EXCHANGE.search(line):
            shapes = _SHAPE.findall(match["shapes"])
            numbers = sum(
                int(np.prod([int(size) for size in sizes.split(",") if size])) for _, sizes in shapes
            )
            scattered = devices if match["kind"] == "reduce-scatter" else 1
            assert {kind for kind, _ in shapes} <= {"f32", "s32", "u32"}, line
            found.append((match["kind"], 4 * numbers * scattered))
    return found


@case(8)
def stopped_on_two_and_ended_on_eight(devices: int) -> Arrays:
    """In parts on two, and whole on eight."""

    def stop(moment: Any) -> None:
        raise KeyboardInterrupt

    left = Checkpoints(path=FOLDER / "checkpoint", stamp="s")
    recipe = plan(noise_multiplier=1.0, steps=2 * STEPS)
    half = run(recipe, checkpoints=left, on_progress=stop, execution=on(2, divide_params=True))
    done = run(recipe, checkpoints=left, execution=on(8))
    return params_of(done) | {"steps": np.array([int(part.state.step) for part in (half, done)])}


@case(8)
def refused(devices: int) -> Arrays:
    """What was said of a mesh that is too large, and of what cannot be divided."""
    orders: dict[str, dict[str, Any]] = {
        "too many devices": {
            "recipe": plan(Poisson(examples=ROWS, batch_size=devices - 1)),
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
    assert len(jax.devices()) == 8
    said, found = (Plan.guarantee, Plan.epsilon_after), {}
    for devices, function in CASES:
        if NAMES and function.__name__ not in NAMES:
            continue
        is_asked = function in (divided_params, a_mesh_of_some_devices_with_two_axes)
        Plan.guarantee, Plan.epsilon_after = said if is_asked else (_free, _free)
        named = function(devices).items()
        found |= {f"{devices}: {function.__name__}: {key}": array for key, array in named}
    np.savez(FOLDER / "found.npz", **found)


if __name__ == "__main__":
    main()
