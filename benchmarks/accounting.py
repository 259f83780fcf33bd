"""Our accountant beside dp-accounting, in one process and interleaved: epsilon, CPU seconds, ratio.

python -m benchmarks.accounting            settings (a) to (e) and both calibrations
python -m benchmarks.accounting --repeat 5 more rounds; the median of each is shown

No round repeats a setting: ours remembers what it was asked, and a number that is looked up costs nothing.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

from reticent.accounting.calibrate import noise_multiplier
from reticent.accounting.setting import Setting
from reticent.accounting.tight_epsilon import tight
from reticent.mechanisms.events import Event, Gaussian, PoissonSampled, Repeated

DELTA = 1e-5


class Case(NamedTuple):
    name: str
    noise: float
    rate: float | None  # None: full batch
    steps: int


CASES = (
    Case("a", 1.1, 256 / 60000, 14063),
    Case("b", 4.0, 0.01, 10_000),
    Case("c", 0.8, 0.001, 1_000_000),
    Case("d", 50.0, None, 1000),
    Case("e", 0.3, 1e-4, 10_000),
)


def event_of(case: Case) -> Event:
    step = Gaussian(noise_multiplier=case.noise)
    if case.rate is None:
        return Repeated(event=step, times=case.steps)
    return Repeated(event=PoissonSampled(rate=case.rate, event=step), times=case.steps)


def peer_event(case: Case) -> Any:
    import dp_accounting

    step = dp_accounting.GaussianDpEvent(case.noise)
    if case.rate is not None:
        step = dp_accounting.PoissonSampledDpEvent(case.rate, step)
    return dp_accounting.SelfComposedDpEvent(step, case.steps)


def peer_epsilon(case: Case) -> float:
    from dp_accounting.pld import PLDAccountant

    return PLDAccountant().compose(peer_event(case)).get_epsilon(DELTA)


def varied(case: Case, number: int) -> Case:
    """The same but for the ninth digit."""
    return case._replace(noise=case.noise * (1 + 1e-9 * number))


def peer_noise(epsilon: float, number: int) -> float:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def make(noise: float) -> Any:
        return peer_event(Case("calibration", noise, 1024 / (60_000 + number), 2344))

    return dp_accounting.calibrate_dp_mechanism(PLDAccountant, make, epsilon, DELTA)


def our_noise(epsilon: float, number: int) -> float:
    setting = Setting(examples=60_000 + number, batch_size=1024, steps=2344, noise_multiplier=1.0)
    return noise_multiplier(setting, epsilon=epsilon, delta=DELTA)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    value = work()
    return value, time.process_time() - start


def race(
    ours: Callable[[int], Any], theirs: Callable[[int], Any], repeat: int
) -> tuple[Any, float, Any, float]:
    """Both, in turns, so that a busy machine slows both; ours, of milliseconds, five times in each."""
    mine, peers = [], []
    result = peer = None
    for number in range(repeat):
        for one in range(5):
            result, seconds = timed(lambda each=5 * number + one: ours(each))
            mine.append(seconds)
        peer, seconds = timed(lambda each=number: theirs(each))
        peers.append(seconds)
    return result, median(mine), peer, median(peers)


def import_seconds(statement: str) -> float:
    code = f"import time; s = time.process_time(); {statement}; print(time.process_time() - s)"
    runs = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return median(runs)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=3)
    repeat = parser.parse_args().repeat
    for case in CASES:  # warm up both, so that nobody pays for imports
        tight(event_of(varied(case, -1)), DELTA)
    ours_alone = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    peer_epsilon(CASES[1])

    print(
        f"{'case':<14}{'lower':>12}{'upper':>12}{'width':>9}{'peer':>12}"
        f"{'ours s':>10}{'peer s':>10}{'ratio':>8}"
    )
    for case in CASES:
        cost, mine, peer, theirs = race(
            lambda number, c=case: tight(event_of(varied(c, number)), DELTA),
            lambda number, c=case: peer_epsilon(varied(c, number)),
            repeat,
        )
        width = (cost.upper - cost.lower) / cost.upper
        print(
            f"{case.name:<14}{cost.lower:>12.6f}{cost.upper:>12.6f}{width:>9.1e}{peer:>12.6f}"
            f"{mine:>10.4f}{theirs:>10.4f}{theirs / mine:>7.1f}x",
            flush=True,
        )
    for epsilon in (1.0, 8.0):
        noise, mine, peer, theirs = race(
            lambda number, e=epsilon: our_noise(e, number),
            lambda number, e=epsilon: peer_noise(e, number),
            max(repeat - 2, 1),
        )
        print(
            f"{f'noise, eps {epsilon:g}':<14}{'':>12}{noise:>12.6f}{'':>9}{peer:>12.6f}"
            f"{mine:>10.4f}{theirs:>10.4f}{theirs / mine:>7.1f}x",
            flush=True,
        )
    print(f"peak memory with ours alone: {ours_alone:.0f} MB")
    ours = import_seconds("import reticent.accounting.tight_epsilon, reticent.accounting.calibrate")
    theirs = import_seconds("import dp_accounting.pld")
    print(f"import: ours {ours:.2f} s CPU, dp-accounting {theirs:.2f} s CPU")


if __name__ == "__main__":
    main()
