"""Random settings of every kind, thrown at the accountant until something gives.

    python -m benchmarks.accounting_fuzz --count 10000 --seed 0

A setting fails when its bracket is NaN, negative or the wrong way round, when a proved accountant falls
below the lower bound, or when anything warns or raises. Each failure is printed with the event as JSON,
so that it can become a test. The suite runs the first few hundred.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
import warnings
from typing import NamedTuple

import numpy as np

from reticent.accounting.loss_distribution.distribution import RepeatedPair, lower_epsilon
from reticent.accounting.loss_distribution.dominating import Neighbours, directions, flatten
from reticent.accounting.theorems import renyi, zcdp
from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

WIDE = 1.0e-3  # relative to epsilon: a wider bracket is counted, not failed
_SLOW = 5.0  # seconds


class RandomSetting(NamedTuple):
    event: Event
    delta: float
    adjacency: Adjacency
    group: int

    def __str__(self) -> str:
        written = json.dumps(events.to_json(self.event))
        return f"delta={self.delta!r} adjacency={self.adjacency} group={self.group} event={written}"


class Outcome(NamedTuple):
    """Failures in words (none: all is well), and what was found."""

    failures: list[str]
    lower: float
    upper: float
    seconds: float

    @property
    def width(self) -> float:
        """Relative; that of a bracket at epsilon below 0.01 counts as at 0.01."""
        if not math.isfinite(self.upper):
            return 0.0
        return (self.upper - self.lower) / max(self.upper, 1e-2)


def random_setting(rng: np.random.Generator) -> RandomSetting:
    """A composition of one to three kinds of release that has a theorem, and neighbours for it."""
    adjacency = list(Adjacency)[int(rng.choice(3, p=[0.6, 0.2, 0.2]))]
    group = int(rng.choice([1, 1, 1, 1, 2, 3, 8]))
    kinds = int(rng.choice([1, 1, 1, 2, 3]))
    parts = tuple(_repeated(rng, _release(rng, adjacency, group)) for _ in range(kinds))
    event = parts[0] if kinds == 1 else events.Composed(events=parts)
    return RandomSetting(event, _log_uniform(rng, 1e-20, 1e-1), adjacency, group)


def check(setting: RandomSetting) -> Outcome:
    """Accounts for a setting with warnings as errors, and says everything that is wrong."""
    failures: list[str] = []
    lower = upper = math.nan
    start = time.perf_counter()
    neighbours = Neighbours(setting.adjacency, setting.group)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lower, upper, *_ = tight(setting.event, setting.delta, setting.adjacency, group=setting.group)
            failures += _contradictions(setting, upper)
            others = {"rdp": renyi.epsilon, "zcdp": zcdp.epsilon}
            for name, accountant in others.items():
                try:
                    found = accountant(setting.event, setting.delta, neighbours)
                except Unproven:
                    continue
                if not found >= lower * (1 - 1e-9):
                    failures.append(f"{name} says {found!r}, below the lower bound {lower!r}")
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        failures.append(f"{type(error).__name__}: {error}")
    else:
        if not 0 <= lower <= upper:
            failures.append(f"not a bracket: [{lower!r}, {upper!r}]")
    return Outcome(failures, lower, upper, time.perf_counter() - start)


def _contradictions(setting: RandomSetting, upper: float) -> list[str]:
    """Lower bounds above the smallest upper one: `tight` would cut them off there, and hide the fault."""
    neighbours = Neighbours(setting.adjacency, setting.group)
    parts = [
        (directions(item, neighbours), times) for item, times in flatten(setting.event).items() if times > 0
    ]
    if not math.isfinite(upper) or any(part.slack > 0 for part, _ in parts):
        return []
    found = []
    for side in (0, 1):
        releases = [RepeatedPair(part.attained[side], times) for part, times in parts]
        lower = lower_epsilon(releases, setting.delta, near=upper)
        if not lower <= upper * (1 + 1e-12):
            found.append(f"a lower bound {lower!r} above the upper bound {upper!r}")
    return found


def _repeated(rng: np.random.Generator, event: Event) -> Event:
    return events.Repeated(event=event, times=int(_log_uniform(rng, 1, 1e7)))


def _release(rng: np.random.Generator, adjacency: Adjacency, group: int) -> Event:
    """One release that has a theorem under these neighbours."""
    choices = ["gaussian", "laplace", "pure", "approximate", "exponential"]
    if adjacency is not Adjacency.REPLACE or group == 1:
        choices += 4 * ["poisson"] + ["truncated"]
    if group == 1:
        choices += ["poisson laplace"] if adjacency is not Adjacency.REPLACE else ["fixed", "response"]
        choices += ["poisson pure"] if adjacency is Adjacency.ADD_OR_REMOVE else []
    rate = _log_uniform(rng, 1e-7, 1)
    gaussian = events.Gaussian(noise_multiplier=_log_uniform(rng, 0.2, 1e3))
    laplace = events.Laplace(noise_multiplier=_log_uniform(rng, 0.1, 1e4))
    pure = events.PureDp(epsilon=_log_uniform(rng, 1e-5, 10), adjacency=adjacency)
    examples = int(_log_uniform(rng, 2, 1e7))
    batch = max(1, min(examples, int(examples * rate)))
    match str(rng.choice(choices)):
        case "gaussian":
            return gaussian
        case "laplace":
            return laplace
        case "pure":
            return pure
        case "approximate":
            hidden = _log_uniform(rng, 1e-30, 1e-10)
            return events.ApproximateDp(epsilon=pure.epsilon, delta=hidden, adjacency=adjacency)
        case "exponential":
            return events.ExponentialMechanism(epsilon=pure.epsilon, adjacency=adjacency)
        case "poisson":
            return events.PoissonSampled(rate=rate, event=gaussian)
        case "poisson laplace":
            return events.PoissonSampled(rate=rate, event=laplace)
        case "poisson pure":
            return events.PoissonSampled(rate=rate, event=pure)
        case "truncated":
            room = int(batch + rng.uniform(4, 12) * math.sqrt(batch) + 8)
            return events.TruncatedPoissonSampled(
                rate=batch / examples, capacity=room, examples=examples, event=gaussian
            )
        case "fixed":
            return events.FixedSizeSampled(batch_size=batch, examples=examples, event=gaussian)
        case _:
            options = int(rng.integers(2, 9))
            truth = 1 / options + (1 - 1 / options) * _log_uniform(rng, 1e-4, 0.999)
            return events.RandomizedResponse(truth=truth, choices=options)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(math.exp(rng.uniform(math.log(low), math.log(high))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first setting")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--memory", type=int, default=3000, help="MB of address space")
    arguments = parser.parse_args()
    # More memory than this is a failure of the setting, not of the machine.
    resource.setrlimit(resource.RLIMIT_AS, (arguments.memory * 2**20, arguments.memory * 2**20))
    start, failed, wide, infinite, slow = time.perf_counter(), 0, 0, 0, 0
    for done in range(1, arguments.count + 1):
        number = arguments.first + done - 1
        setting = random_setting(np.random.default_rng([arguments.seed, number]))
        outcome = check(setting)
        failed += bool(outcome.failures)
        wide += outcome.width > WIDE
        infinite += math.isinf(outcome.upper)
        slow += outcome.seconds > _SLOW
        for failure in outcome.failures:
            print(f"FAILED {number}: {failure}\n  {setting}", flush=True)
        if outcome.width > WIDE:
            print(f"wide {number}: [{outcome.lower:.6g}, {outcome.upper:.6g}] {setting}", flush=True)
        if outcome.seconds > _SLOW:
            print(f"slow {number}: {outcome.seconds:.1f} s {setting}", flush=True)
        if done % 100 == 0 or done == arguments.count:
            taken = time.perf_counter() - start
            left = taken / done * (arguments.count - done)
            print(
                f"{done}/{arguments.count}: {failed} failed, {wide} wide, {infinite} infinite, {slow} slow; "
                f"{taken / done:.3f} s each, {left / 60:.1f} minutes left",
                flush=True,
            )
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
