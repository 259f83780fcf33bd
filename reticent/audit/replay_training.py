"""Replay of whole runs: who is in which batch, how many releases there are, and the steps of `train`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from reticent.audit.noise_checks import flat
from reticent.audit.own_step import own_step, require_replayable
from reticent.audit.replay import Replay, ReplayProblem, replay
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.core.trees import ArrayTree
from reticent.data.sampling import Poisson
from reticent.training.gradients import LossFunction
from reticent.training.plan import Plan

DrawBatch = Callable[[int, int], Any]

_FALSE_ALARM = 1e-6


def replay_sampling(draw: DrawBatch, *, examples: int, rate: float, seeds: int = 4) -> Replay:
    """Checks that batches are Poisson samples, as amplification assumes: one coin flip per record and step.

    Args:
        draw: of the number of examples and a seed; returns who is in which batch, booleans (steps, examples).
        rate: the probability of each coin, as accounted for.

    Guarantee:
        None beyond what is seen. Correct sampling fails with probability below one in ten thousand.

    Example:
        >>> def draw(examples, seed):
        ...     return np.random.default_rng(seed).random((100, examples)) < 0.1
        >>> (
        ...     replay_sampling(draw, examples=50, rate=0.1).is_clean,
        ...     replay_sampling(draw, examples=50, rate=0.2).is_clean,
        ... )
        (True, False)
    """
    checks.count(examples=examples, seeds=seeds)
    checks.probability(rate=rate)
    runs = [np.asarray(draw(examples, seed), bool) for seed in range(seeds)]
    for run in runs:
        if run.ndim != 2 or run.shape[1] != examples:
            raise InvalidArgument(
                f"draw returned an array of shape {run.shape} for {examples} examples.",
                remedy="Return one row per step and one boolean per record.",
            )
    problems = [*_check_rate(np.concatenate(runs), rate), *_check_variance(runs, rate)]
    if seeds > 1 and np.array_equal(runs[0], runs[1]):
        problems.append(ReplayProblem(check="sampling", what="two seeds draw the same batches."))
    return Replay(problems=tuple(problems[:1]), moved=0.0, checked=("sampling",))


def replay_run(
    train: Callable[[dict[str, np.ndarray], int], Sequence[Any]],
    data: Mapping[str, Any],
    record: Mapping[str, Any],
    *,
    steps: int,
) -> Replay:
    """Checks that a run releases as often, and in the same shapes, with one record more.

    Args:
        train: of the data and a seed; returns what was released, one tree of arrays per step.
        steps: how many releases were accounted for.

    Example:
        >>> def train(data, seed):
        ...     return [np.zeros(2) for _ in range(len(data["x"]))]  # a step for every record
        >>> found = replay_run(train, {"x": np.zeros((4, 1))}, {"x": np.zeros((1, 1))}, steps=4)
        >>> found.is_clean
        False
    """
    rows = {key: np.asarray(array) for key, array in data.items()}
    more = {key: np.concatenate([rows[key], np.asarray(record[key])[:1]]) for key in rows}
    problems = []
    for name, given in (("the data", rows), ("one record more", more)):
        for seed in (0, 1):
            try:
                released = [flat(each) for each in train(dict(given), seed) if each is not None]
            except Exception as error:  # noqa: BLE001 - whatever a stranger's code raises is a finding
                what = f"the run fails with {name} ({type(error).__name__}: {error})."
                problems.append(ReplayProblem(check="control flow", what=what))
                continue
            if len(released) != steps:
                what = f"{len(released)} releases with {name}, but {steps} were accounted for."
                problems.append(ReplayProblem(check="control flow", what=what))
            if len({tuple((key, leaf.shape) for key, leaf in each.items()) for each in released}) > 1:
                problems.append(ReplayProblem(check="shapes", what=f"releases with {name} differ in shape."))
    return Replay(problems=tuple(problems[:1]), moved=0.0, checked=("number of releases", "shapes"))


def replay_plan(
    loss: LossFunction,
    params: ArrayTree,
    data: Mapping[str, Any],
    record: Mapping[str, Any],
    plan: Plan,
    *,
    seeds: int = 12,
) -> Replay:
    """Replays `train`'s own step with your loss, and with the clipping, noise and divisor of a plan.

    A loss that fails here mixes examples, or depends on something other than its arguments.
    """
    require_replayable(plan)
    found = replay(
        own_step(loss, params, plan),
        data,
        record,
        max_norm=plan.clipping.sensitivity,
        noise_multiplier=plan.noise_multiplier,
        divisor=plan.sampler.batch_size,
        adjacency=plan.adjacency,
        seeds=seeds,
    )
    if not isinstance(plan.sampler, Poisson) or plan.sampler.largest is not None:
        return found
    drawn = replay_sampling(_own_draw(plan), examples=plan.sampler.examples, rate=plan.sampler.rate)
    return Replay(
        problems=found.problems + drawn.problems, moved=found.moved, checked=found.checked + drawn.checked
    )


def _own_draw(plan: Plan) -> DrawBatch:
    steps = max(-(-200 // max(plan.sampler.batch_size, 1)), 40)

    def draw(examples: int, seed: int) -> np.ndarray:
        root = Keys.seeded(seed).take(Stream.SAMPLING, steps=range(steps))
        batch = plan.sampler.draw(root, jnp.arange(steps), examples)
        joins = np.zeros((steps, examples), bool)
        for at, (indices, is_real) in enumerate(zip(batch.indices, batch.is_real, strict=True)):
            joins[at, np.asarray(indices)[np.asarray(is_real)]] = True
        return joins

    return draw


def _check_rate(joins: np.ndarray, rate: float) -> list[ReplayProblem]:
    """How often a record joins, over everything."""
    expected, variance = joins.size * rate, joins.size * rate * (1 - rate)
    away = (float(joins.sum()) - expected) / max(variance, 1e-12) ** 0.5
    if 2 * ndtr(-abs(away)) >= _FALSE_ALARM:
        return []
    what = f"a record joins a batch with probability {joins.mean():.4g}, but {rate:.4g} was accounted for."
    return [ReplayProblem(check="sampling", what=what)]


def _check_variance(runs: Sequence[np.ndarray], rate: float) -> list[ReplayProblem]:
    """Whether batch sizes, and the numbers of batches a record is in, vary as those of coins do."""
    problems = []
    for name, axis in (("the sizes of batches", 1), ("the numbers of batches that a record is in", 0)):
        counts, coins = np.concatenate([run.sum(axis=axis) for run in runs]), runs[0].shape[axis]
        variance = coins * rate * (1 - rate)
        if variance == 0:
            continue
        statistic = float(np.square(counts - coins * rate).sum()) / variance
        deviation = math.sqrt(len(counts) * (2 + (1 - 6 * rate * (1 - rate)) / variance))
        # Too even is what shuffled and fixed batches are; too uneven shows in how often records join. The
        # lower tail of the sum of squares is lighter than a normal one.
        if ndtr((statistic - len(counts)) / deviation) < _FALSE_ALARM:
            what = (
                f"{name} have variance {np.var(counts):.4g}; those of independent coins have {variance:.4g}. "
                "Shuffled or fixed batches get no Poisson amplification."
            )
            problems.append(ReplayProblem(check="sampling", what=what))
    return problems
