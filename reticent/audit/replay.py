"""Replay: a unit test for anybody's training code.

A step is run with a record and without it, under the same randomness, and again under other randomness. What
a proof of privacy assumes about it can then be checked: that one record moves the sum by no more
than the clipping norm, that the noise does not depend on the records, that it has its size on every
parameter, and that no two steps and no two parameters share it.

    def train_step(batch, seed, step):      # one of your steps, on these rows
        ...
        return noisy_sum                    # a tree of arrays, before the optimizer

    found = replay(train_step, data, record, max_norm=1.0, noise_multiplier=1.1)
    assert found.is_clean, found
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reticent.audit.noise_checks import Leaves, describe_wrong_size, flat, is_same_noise
from reticent.audit.shared_noise import shared_noise
from reticent.core import checks
from reticent.core.errors import DataError, ReticentError
from reticent.mechanisms.adjacency import Adjacency

Rows = Mapping[str, np.ndarray]
TrainStep = Callable[[dict[str, np.ndarray], int, int], Any]

_ROUNDING = 1e-3  # relative, of a norm in float32


@dataclass(frozen=True, kw_only=True)
class ReplayProblem:
    """An assumption of a proof of privacy that does not hold."""

    check: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {self.what}"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """What a replay found.

    Args:
        moved: the most that a record moved the sum, as a share of what it may.
        checked: what was checked.
    """

    problems: tuple[ReplayProblem, ...]
    moved: float
    checked: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        if self.is_clean:
            return (
                f"No problem found ({', '.join(self.checked)}): a record moved the sum by "
                f"{self.moved:.0%} of what it may."
            )
        return "\n".join(map(str, self.problems))

    def to_json(self) -> dict[str, Any]:
        problems = [{"check": each.check, "what": each.what} for each in self.problems]
        return {"problems": problems, "moved": self.moved, "checked": list(self.checked)}


def replay(
    train_step: TrainStep,
    data: Mapping[str, Any],
    record: Mapping[str, Any],
    *,
    max_norm: float,
    noise_multiplier: float,
    divisor: float = 1.0,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
    seeds: int = 12,
    sizes: tuple[int, ...] = (),
) -> Replay:
    """Runs a training step with and without a record, and checks what a proof of privacy assumes.

    Args:
        train_step: takes a batch (a dict of arrays, one row per record), a seed and the number of the step;
            returns the noisy sum that is handed to the optimizer, as a tree of arrays. Given the same three,
            it returns the same.
        data: rows of an ordinary batch. Each entry of `sizes` says how many of them to use.
        record: rows to add, each in turn; the more unlike the data, the better the test. Under `replace`, the
            record takes the place of the last row.
        max_norm: what one record may move the sum by, as claimed.
        noise_multiplier: the noise over `max_norm`, as claimed.
        divisor: what the sum was divided by before it was returned.
        seeds: how often noise is drawn; 0 to leave the noise alone.
        sizes: of the batches that are tried; by default none, one, a few and all rows.

    Guarantee:
        None: passing means that nothing was found on these rows. A correct step fails with a probability
        below one in ten thousand.

    Example:
        >>> def step(batch, seed, number):  # adds the noise that it claims, but forgets to clip
        ...     return batch["x"].sum(axis=0) + np.random.default_rng([seed, number]).normal(size=2)
        >>> found = replay(
        ...     step,
        ...     {"x": np.zeros((8, 2))},
        ...     {"x": np.full((1, 2), 50.0)},
        ...     max_norm=1.0,
        ...     noise_multiplier=1.0,
        ... )
        >>> found.is_clean, found.moved > 50
        (False, True)
    """
    checks.positive(max_norm=max_norm, noise_multiplier=noise_multiplier, divisor=divisor)
    rows, records = arrays_of(data, "data"), arrays_of(record, "record")
    if set(rows) != set(records):
        raise DataError(
            f"The data have {', '.join(sorted(rows))}; the record has {', '.join(sorted(records))}.",
            remedy="Give the record the arrays of the data, each with one row at least.",
        )
    claimed = _Claim(max_norm / divisor, noise_multiplier * max_norm / divisor, adjacency)
    runner = Runner(train_step)
    count = length_of(rows)
    for size in sorted({min(size, count) for size in (sizes or (0, 1, count // 2, count))}):
        _check_sensitivity(runner, cut(rows, size), records, claimed)
    checked = ["shapes", "control flow", "sensitivity"]
    if seeds:
        _check_noise(runner, rows, claimed, seeds)
        checked += ["size of the noise", "noise of other parameters, seeds and steps"]
    return Replay(problems=tuple(runner.problems), moved=runner.moved, checked=tuple(checked))


@dataclass(frozen=True)
class _Claim:
    """How far a record may move what is returned, and the deviation of its noise."""

    reach: float
    deviation: float
    adjacency: Adjacency


class Runner:
    """Runs steps, and keeps the problems that were found."""

    def __init__(self, train_step: TrainStep) -> None:
        self.train_step = train_step
        self.problems: list[ReplayProblem] = []
        self.moved = 0.0

    def report(self, check: str, what: str) -> None:
        if not any(each.check == check for each in self.problems):  # the first of a kind says enough
            self.problems.append(ReplayProblem(check=check, what=what))

    def run(self, batch: Rows, seed: int, step: int) -> Leaves | None:
        """The leaves that a step returned, in float64; None, and a problem, if it failed."""
        returned = self.release(batch, seed, step)
        return None if returned is None else flat(returned)

    def release(self, batch: Rows, seed: int, step: int) -> Any:
        """What a step returned, as it is; None, and a problem, if it failed."""
        try:
            returned = self.train_step(dict(batch), seed, step)
        except ReticentError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a stranger's step raises is a finding
            self.report(
                "control flow",
                f"the step fails on a batch of {length_of(batch)} rows ({type(error).__name__}: {error}). "
                "Whether a step succeeds must not depend on who is in the batch.",
            )
            return None
        if returned is None:
            self.report(
                "control flow",
                f"the step returned nothing for a batch of {length_of(batch)} rows. Even a step on an "
                "empty batch has to release noise.",
            )
            return None
        if not all(np.isfinite(leaf).all() for leaf in flat(returned).values()):
            self.report("control flow", f"a batch of {length_of(batch)} rows gives NaN or infinity.")
            return None
        return returned


def _check_sensitivity(runner: Runner, batch: Rows, records: Rows, claimed: _Claim) -> None:
    """Sensitivity: the same seed, one record more, or another one in the last place."""
    without = runner.run(batch, 0, 0)
    limit = claimed.reach * claimed.adjacency.reach
    for index in range(length_of(records)):
        new = cut(records, 1, index)
        kept = length_of(batch) - (claimed.adjacency is Adjacency.REPLACE)
        if kept < 0:
            return
        neighbour = {key: np.concatenate([batch[key][:kept], new[key]]) for key in batch}
        inside = runner.run(neighbour, 0, 0)
        if without is None or inside is None:
            continue
        shapes = [{name: leaf.shape for name, leaf in each.items()} for each in (without, inside)]
        if shapes[0] != shapes[1]:
            runner.report("shapes", f"{shapes[0]} became {shapes[1]} with record {index}.")
            continue
        moved = math.sqrt(sum(float(np.sum((inside[name] - without[name]) ** 2)) for name in inside))
        noise = claimed.deviation * math.sqrt(sum(leaf.size for leaf in inside.values()))
        runner.moved = max(runner.moved, moved / limit)
        # Entries are rounded where noise and sum are added: to one part in ten million each.
        if not (moved <= limit * (1 + _ROUNDING) + 1e-6 * noise):
            runner.report(
                "sensitivity",
                f"record {index}, added to {length_of(batch)} rows under the same seed, moves what is "
                f"released by {moved:.4g}; the noise is made for {limit:.4g}. Clip each record's gradient, "
                "divide by a fixed number, and let no record change another's gradient or the noise.",
            )


def _check_noise(runner: Runner, rows: Rows, claimed: _Claim, seeds: int) -> None:
    """The noise itself: what two runs on the same rows differ by is noise alone."""
    runs = [runner.run(rows, seed, 0) for seed in range(1, seeds + 1)]
    if any(each is None for each in runs):
        return
    drawn = [each for each in runs if each is not None]
    again, later = runner.run(rows, 1, 0), runner.run(rows, 1, 1)
    if again is not None and any(not np.array_equal(again[name], drawn[0][name]) for name in again):
        runner.report(
            "randomness",
            "the same batch, seed and step gave two results: the step has another source of randomness, and "
            "its noise cannot be checked.",
        )
        return
    draws = {name: np.stack([each[name] for each in drawn]) for name in drawn[0]}
    sizes = {name: describe_wrong_size(leaf, claimed.deviation) for name, leaf in draws.items()}
    for name, problem in sizes.items():
        if problem:
            runner.report("size of the noise", f"on '{name}' {problem}.")
    if not any(sizes.values()) and (problem := shared_noise(draws, claimed.deviation)):
        runner.report("noise of other parameters", f"{problem}. Draw fresh noise for every number.")
    if is_same_noise(drawn[0], drawn[1], claimed.deviation):
        runner.report(
            "noise of other seeds",
            "two seeds give the same noise: anyone who knows the code can subtract it.",
        )
    if later is not None and is_same_noise(drawn[0], later, claimed.deviation):
        runner.report(
            "noise of other steps",
            "two steps of a run share their noise: it can be subtracted from the other.",
        )


def arrays_of(rows: Mapping[str, Any], name: str) -> dict[str, np.ndarray]:
    arrays = {key: np.asarray(array) for key, array in rows.items()}
    lengths = {len(array) if array.ndim else -1 for array in arrays.values()}
    if len(lengths) != 1 or -1 in lengths or lengths == {0}:
        raise DataError(
            f"The arrays of '{name}' have no common number of rows above 0.",
            remedy="Give every array one row per record, and at least one record.",
        )
    return arrays


def length_of(rows: Rows) -> int:
    return len(next(iter(rows.values())))


def cut(rows: Rows, size: int, start: int = 0) -> dict[str, np.ndarray]:
    return {key: array[start : start + size] for key, array in rows.items()}
