"""The rates of the theorems: excess risk over epsilon n, in the worst case of a family of problems.

python -m benchmarks.convex_rates
python -m benchmarks.convex_rates --figure docs/figures/convex_rates.svg --json rates.json

The family: all n rows are alike, (g, 0, ..., 0) with 0 < g <= 1, and their targets so far away that the Huber
loss is a straight line. The mean loss falls with slope g, and its least value in the ball is known: -g D.
Lower bounds are proved with such problems, since no curvature helps. Any one of them gets easier
than the rate as n grows, so at each size the excess is that of the worst g, a mean over seeds.

Seeds are for benchmarks: whoever knows one can subtract the noise. A real run takes no seed.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.training.tables import Check, table
from reticent.accounting.theorems import gaussian_dp
from reticent.convex import fit, losses
from reticent.convex.objective import tilt_scale
from reticent.convex.output import lecture_excess_risk
from reticent.core.keys import Keys
from reticent.data.sampling import Batch
from reticent.mechanisms.adjacency import Adjacency
from reticent.report.figures.curves import check_format, save
from reticent.training import theory
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.plan import Plan
from reticent.training.projection import onto_ball
from reticent.training.step import Blocks, Roots, TrainState, private_step

DELTA = 1e-6
WEIGHTS = 5
RADIUS = 1.0

_FAR = 1000.0
_LOSS = losses.huber(1.0, bound=1e3)
_SLOPES = np.geomspace(1e-3, 1.0, 19)
_SIZES = (20, 63, 200, 632, 2000)  # at epsilon 1
_DESCENT_SIZES = (40, 126, 400, 1265, 4000)  # at epsilon 1; below, the worst slope would be larger than 1
_EPSILONS = (0.1, 0.316, 1.0, 3.16, 10.0)  # with 2000 rows, for the exponential mechanism
_TOLERANCE = 0.15


class Point(NamedTuple):
    """At one size: the worst slope, what it costs there, and what a theorem allows."""

    size: float  # epsilon n
    worst: float
    excess: float
    bound: float


class Rate(NamedTuple):
    name: str
    law: str
    slope: float  # promised
    points: Callable[[int], list[Point]]


# Measurements


def by_fit(method: str, regularisation: Callable[[int], float | None]) -> Callable[[int], list[Point]]:
    """Releases of `fit` with delta, with a regulariser by a rule of n."""

    def points(seeds: int) -> list[Point]:
        found = []
        for rows in _SIZES:
            mu = regularisation(rows)
            found.append(_worst(method, rows, _SLOPES, seeds, epsilon=1.0, delta=DELTA, regularisation=mu))
        return found

    return points


def by_exponential(seeds: int) -> list[Point]:
    """Pure, so that only epsilon n counts: epsilon varies. Its excess hardly depends on the slope."""
    slopes = np.array([0.25, 1.0])
    return [_worst("exponential", 2000, slopes, seeds, epsilon=epsilon) for epsilon in _EPSILONS]


def _worst(method: str, rows: int, slopes: np.ndarray, seeds: int, *, epsilon: float, **more: Any) -> Point:
    excess, bound = [], math.nan
    for slope in slopes:
        found = []
        for seed in range(seeds):
            released = fit(
                _LOSS,
                np.full((rows, 1), slope) * np.eye(1, WEIGHTS),
                np.full(rows, _FAR),
                method=method,
                epsilon=epsilon,
                norm=1.0,
                intercept=False,
                radius=RADIUS,
                adjacency=Adjacency.REPLACE,
                keys=Keys.seeded(seed),
                **more,
            )
            found.append(slope * (RADIUS - float(released.coefficients[0, 0])))
            bound = released.excess_risk_bound or math.nan
        excess.append(float(np.mean(found)))
    place = int(np.argmax(excess))
    point = Point(epsilon * rows, float(slopes[place]), excess[place], bound)
    print(f"{method}: {point}", file=sys.stderr, flush=True)
    return point


def by_descent(seeds: int) -> list[Point]:
    """As many steps as the theorem asks for, beyond the 1000 at which `fit` stops; all runs at once."""
    found = []
    for rows in _DESCENT_SIZES:
        noise = (
            2 * gaussian_dp.noise_multiplier(1.0, DELTA) / rows
        )  # on the mean gradient, of a single release
        scale = math.sqrt(WEIGHTS) * noise
        steps = math.ceil(1 / scale**2)
        plan = Plan.for_budget(
            epsilon=1.0,
            delta=DELTA,
            examples=rows,
            steps=steps,
            max_norm=1 + 1e-6,
            sampling="full",
            adjacency=Adjacency.REPLACE,
        )
        # Around the noise and above it: smaller slopes cannot cost much, and larger ones all cost the same.
        slopes = np.minimum(scale * np.array([0.5, 1.0, 2.0, 4.0]), 1.0)
        weights = _descended(plan, slopes, seeds)  # (slopes, seeds)
        excess = (slopes[:, None] * (RADIUS - weights)).mean(axis=1)
        place = int(np.argmax(excess))
        bound = theory.excess_risk(plan, radius=RADIUS, parameters=WEIGHTS)
        found.append(Point(rows, float(slopes[place]), float(excess[place]), bound))
        print(f"descent, {steps} steps: {found[-1]}", file=sys.stderr, flush=True)
    return found


def _descended(plan: Plan, slopes: np.ndarray, seeds: int) -> np.ndarray:
    """The first weight of the mean iterate, for each slope and seed: the package's step, vectorised."""
    rows = plan.sampler.examples
    optimizer = optax.sgd(theory.step_size(plan, radius=RADIUS, parameters=WEIGHTS))
    step = private_step(
        clipped_gradient_sum(_loss_of_a_record, clipping=plan.clipping),
        plan,
        optimizer,
        onto_ball(RADIUS),
        lambda average, params, step: average + (params - average) / (step + 1),
        contribution=Contribution(),
        blocks=Blocks.of(plan),
    )
    batch = Blocks.of(plan).padded(Batch(jnp.arange(rows), jnp.ones(rows, bool)))

    def run(slope: jax.Array, key: jax.Array) -> jax.Array:
        source = DeviceRows({"x": jnp.zeros((rows, WEIGHTS)).at[:, 0].set(slope), "y": jnp.full(rows, _FAR)})
        roots, start = Roots(*jax.random.split(key, 3)), jnp.zeros(WEIGHTS)
        state = TrainState(jnp.int32(0), start, optimizer.init(start), jnp.float32(1 + 1e-6), average=start)
        last, _ = jax.lax.scan(
            lambda state, _: (step(state, source, batch, roots)[0], None), state, length=plan.steps
        )
        return last.average[0]

    keys = jax.vmap(lambda seed: jax.random.key(seed, impl="threefry2x32"))(jnp.arange(seeds))
    every = jax.vmap(jax.vmap(run, (None, 0)), (0, None))
    return np.asarray(jax.jit(every)(jnp.asarray(slopes, jnp.float32), keys), np.float64)


def _loss_of_a_record(params: jax.Array, example: dict[str, jax.Array]) -> jax.Array:
    score = jnp.dot(example["x"], params)
    return _LOSS.value(score[None, None], example["y"][None], xp=jnp)[0]


# Regularisers of the theorems


def lecture_mu(rows: int) -> float:
    """The mu with the least mu D^2 / 2 + K / mu, the lecture's bound for Lipschitz losses."""
    constant = lecture_excess_risk(_LOSS, mu=1.0, examples=rows, parameters=WEIGHTS, epsilon=1.0, delta=DELTA)
    return math.sqrt(2 * constant) / RADIUS


def tilt_mu(rows: int) -> float:
    """Lambda / n with Lambda = sqrt(d) s / D, where the two terms of the bound are equal."""
    deviation = tilt_scale(_LOSS, 0.9, DELTA, Adjacency.REPLACE)  # what the determinant leaves, about
    return math.sqrt(WEIGHTS) * deviation / (RADIUS * rows)


RATES = (
    Rate("output", "(sqrt d/(eps n))^(1/2)", -1 / 2, by_fit("output", lecture_mu)),
    Rate("output, its own rule", "1/(eps n)^(2/3)", -2 / 3, by_fit("output", lambda rows: None)),
    Rate("objective", "sqrt d/(eps n)", -1.0, by_fit("objective", tilt_mu)),
    Rate("descent", "sqrt d/(eps n)", -1.0, by_descent),
    Rate("exponential", "d/(eps n)", -1.0, by_exponential),
)


# Report


def slope_of(points: list[Point], what: str) -> float:
    """Of the least-squares line through the logarithms."""
    sizes, values = (
        np.log([point.size for point in points]),
        np.log([getattr(point, what) for point in points]),
    )
    return float(np.polyfit(sizes, values, 1)[0])


def draw(found: dict[str, list[Point]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for rate, colour in zip(RATES, ("C0", "C4", "C1", "C2", "C3"), strict=True):
        if rate.name not in found:
            continue
        points = found[rate.name]
        sizes, excess = np.array([point.size for point in points]), [point.excess for point in points]
        middle = (
            math.exp(float(np.mean(np.log(excess)))) * (sizes / math.exp(np.log(sizes).mean())) ** rate.slope
        )
        label = f"{rate.name}: slope {slope_of(points, 'excess'):.2f}"
        axes.loglog(sizes, excess, "o", color=colour, label=label)
        axes.loglog(sizes, middle, "-", color=colour, linewidth=1)
        axes.loglog(sizes, [point.bound for point in points], ":", color=colour, linewidth=1)
    axes.set(xlabel="epsilon n", ylabel="excess risk, worst problem")
    axes.set_title("Points: measured. Lines: the promised slope. Dotted: the bound.", fontsize=9)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [rate.name for rate in RATES]
    parser.add_argument("--only", action="append", choices=names)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep every point; parts not run stay")
    parser.add_argument("--figure", type=Path, metavar="FILE.svg")
    options = parser.parse_args()
    if options.figure is not None:
        check_format(options.figure)
    kept = json.loads(options.json.read_text()) if options.json and options.json.is_file() else {}
    found = {name: [Point(*point) for point in points] for name, points in kept.items()}
    for rate in RATES:
        if rate.name in (options.only or names):
            found[rate.name] = rate.points(options.seeds)
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
    rows, checks = [], []
    for rate in RATES:
        if rate.name in found:
            points = found[rate.name]
            seen, bound = slope_of(points, "excess"), slope_of(points, "bound")
            off = abs(seen / rate.slope - 1)
            checks.append(Check(rate.name, off, "<=", _TOLERANCE))
            rows.append(
                (rate.name, rate.law, f"{rate.slope:.2f}", f"{seen:.2f}", f"{bound:.2f}", f"{off:.0%}")
            )
    print(table(("method", "excess risk", "slope", "measured", "of its bound", "off by"), rows))
    if options.figure is not None:
        draw(found, options.figure)
    sys.exit(0 if all(check.is_met for check in checks) else 1)


if __name__ == "__main__":
    main()
