"""Private descent on a small network: its mean squared gradient, below the bound of the theorem.

python -m benchmarks.nonconvex_rates
python -m benchmarks.nonconvex_rates --figure docs/figures/nonconvex_rates.svg

The network: 16 tanh units on four inputs of norm at most 1; their outputs are added with fixed weights a of
length 1, and the loss is logistic. The gradient of one record is no longer than |a| = 1. Its Hessian is at
most 1/4 |a|^2 + max |a| max |tanh''| = 0.25 + 0.77 / 4. The loss starts at log 2 and is never below 0.

Gradients of the mean loss are looked at here, which no run may do: the rows are made up.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.training.tables import table
from reticent.data.sampling import Batch
from reticent.report.figures.curves import check_format, save
from reticent.training import theory
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.step import Blocks, Roots, TrainState, private_step

DELTA = 1e-5
INPUTS, UNITS = 4, 16
CONSTANTS = {"smoothness": 0.25 + 0.77 / math.sqrt(UNITS), "gap": math.log(2), "parameters": INPUTS * UNITS}
SETTINGS = [(epsilon, rows) for epsilon in (0.5, 2.0) for rows in (300, 1000, 3000, 10_000)]

_SIGNS = np.where(np.arange(UNITS) % 2, 1, -1) / math.sqrt(UNITS)


class Point(NamedTuple):
    """The mean over seeds, and what the theorem allows."""

    epsilon: float
    rows: int
    steps: int
    measured: float
    bound: float


def make_rows(rows: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(rows, INPUTS))
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1)
    return {"x": x.astype(np.float32), "y": np.sign(x[:, 0] + x[:, 1] * x[:, 2]).astype(np.float32)}


def loss(weights: jax.Array, example: dict[str, jax.Array]) -> jax.Array:
    margin = example["y"] * (jnp.tanh(weights @ example["x"]) @ jnp.asarray(_SIGNS, jnp.float32))
    return jnp.logaddexp(0.0, -margin)


def measure(epsilon: float, rows: int, seeds: int) -> Point:
    found = theory.best_descent(epsilon=epsilon, delta=DELTA, examples=rows, gradient_bound=1.0, **CONSTANTS)
    plan, data = found.plan, {name: jnp.asarray(array) for name, array in make_rows(rows).items()}
    optimizer = optax.sgd(found.step_size)

    def squared(weights: jax.Array) -> jax.Array:
        mean = jax.grad(lambda weights: jnp.mean(jax.vmap(loss, (None, 0))(weights, data)))
        return jnp.sum(jnp.square(mean(weights)))

    step = private_step(
        clipped_gradient_sum(loss, clipping=plan.clipping),
        plan,
        optimizer,
        None,
        lambda total, weights, _: total + squared(weights),  # of what comes after each step
        contribution=Contribution(),
        blocks=Blocks.of(plan),
    )
    batch = Blocks.of(plan).padded(Batch(jnp.arange(rows), jnp.ones(rows, bool)))

    def run(key: jax.Array) -> jax.Array:
        roots, start = Roots(*jax.random.split(key, 3)), jnp.zeros((UNITS, INPUTS))
        state = TrainState(jnp.int32(0), start, optimizer.init(start), jnp.float32(1), average=jnp.float32(0))
        last, _ = jax.lax.scan(
            lambda state, _: (step(state, DeviceRows(data), batch, roots)[0], None), state, length=plan.steps
        )
        return (squared(start) + last.average - squared(last.params)) / plan.steps

    keys = jax.vmap(lambda seed: jax.random.key(seed, impl="threefry2x32"))(jnp.arange(seeds))
    means = np.asarray(jax.jit(jax.vmap(run))(keys), np.float64)
    return Point(epsilon, rows, plan.steps, float(means.mean()), found.squared_gradient)


def draw(points: list[Point], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for colour, epsilon in zip(("C0", "C1"), sorted({point.epsilon for point in points}), strict=True):
        own = [point for point in points if point.epsilon == epsilon]
        rows = [point.rows for point in own]
        axes.loglog(rows, [point.measured for point in own], "o-", color=colour, label=f"epsilon {epsilon:g}")
        axes.loglog(rows, [point.bound for point in own], ":", color=colour)
    axes.set(xlabel="rows", ylabel="mean squared gradient")
    axes.set_title("A network of 16 tanh units. Dotted: the bound.", fontsize=9)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--figure", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    if options.figure is not None:
        check_format(options.figure)
    points = []
    for epsilon, rows in SETTINGS:
        points.append(measure(epsilon, rows, options.seeds))
        print(points[-1], file=sys.stderr, flush=True)
    shown = [
        (f"{p.epsilon:g}", f"{p.rows:,}", str(p.steps), f"{p.measured:.3g}", f"{p.bound:.3g}") for p in points
    ]
    print(table(("epsilon", "rows", "steps", "mean squared gradient", "bound"), shown))
    if options.figure is not None:
        draw(points, options.figure)
    sys.exit(0 if all(point.measured <= point.bound for point in points) else 1)


if __name__ == "__main__":
    main()
