"""How long a person waits: for the command line, for a first model, for the second one.

    python -m benchmarks.startup                 # starting, a minute
    python -m benchmarks.startup --waiting       # fits, commands and the demonstration beside their bars
    python -m benchmarks.startup --waiting --cpu # the same in processor time, where other programs run beside

Each line is a fresh process, run in turn with the others so that a busy moment hits all of them alike. The
first round warms the disk and does not count. Compiled programs are kept in a folder of the benchmark, which
is empty when "first" is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

ROUNDS = 15
LIMIT = 0.5  # seconds, for `reticent --help`

_CLI = [sys.executable, "-c", "from reticent.cli.app import main; main()"]
PLAIN = "python -c pass"
COMMANDS = {
    PLAIN: [sys.executable, "-c", "pass"],
    "import reticent": [sys.executable, "-c", "import reticent"],
    "reticent --version": [*_CLI, "--version"],
    "reticent --help": [*_CLI, "--help"],
    "reticent datasets list": [*_CLI, "datasets", "list"],
}
_ESTIMATORS = (
    *("PrivateLogisticRegression", "PrivateLinearSVC", "PrivateLinearRegression"),
    *("PrivateAdditiveClassifier", "PrivateMLPClassifier"),
)
_FITS = """
import json, sys, time, warnings
import numpy as np
import reticent.sklearn as estimators
warnings.simplefilter("ignore")
name, clock = sys.argv[1], getattr(time, sys.argv[2])
make, rng = getattr(estimators, name), np.random.default_rng(0)
import sklearn.utils.validation  # what every estimator imports is not a part of the fit

def fit(rows, columns, epsilon=1.0):
    x = rng.uniform(-1, 1, (rows, columns))
    y = x @ rng.normal(size=columns)
    is_number = name == "PrivateLinearRegression"
    given = {"classes": [0, 1]} if not is_number else {"bounds": (-10.0, 10.0)}
    given |= {"ranges": (-1.0, 1.0)} if "Additive" in name else {"norm": columns**0.5}
    known = make._get_param_names()
    given = {key: value for key, value in given.items() if key in known}
    start = clock()
    make(epsilon=epsilon, random_state=0, **given).fit(x, y if is_number else (y > 0).astype(int))
    return clock() - start

found = {}
for rows, columns in ((500, 10), (10_000, 100)):
    found[f"{rows:,} x {columns}"] = [fit(rows, columns), fit(rows, columns)]
found["20 fits, 500 x 10"] = [sum(fit(500, 10, epsilon=0.5 + at / 10) for at in range(20))]
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--waiting", action="store_true", help="Fits, commands and the demonstration.")
    parser.add_argument("--cpu", action="store_true", help="Processor time instead of seconds.")
    given = parser.parse_args()
    if given.waiting:
        print_waiting(is_cpu=given.cpu)
    else:
        print_starts()


def print_starts() -> None:
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS + 1):
        for name, command in COMMANDS.items():
            taken[name].append(_seconds(command))
    medians = {name: statistics.median(times[1:]) for name, times in taken.items()}
    print(f"{'':24}{'median s':>10}{'x python':>10}{'slowest s':>11}")
    for name, median in medians.items():
        ratio = median / medians[PLAIN]
        print(f"{name:24}{median:10.3f}{ratio:10.1f}{max(taken[name][1:]):11.3f}")
    waited = medians["reticent --help"]
    verdict = "below" if waited < LIMIT else "ABOVE"
    print(f"reticent --help takes {waited:.2f} s: {verdict} the {LIMIT} s that a person does not notice")


def print_waiting(*, is_cpu: bool) -> None:
    what = "processor s" if is_cpu else "s"
    print(f"{'':52}{'first ' + what:>20}{'second ' + what:>20}{'bar':>16}")
    for name in _ESTIMATORS:
        command = [sys.executable, "-c", _FITS, name, "process_time" if is_cpu else "perf_counter"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for size, times in json.loads(done.stdout).items():
            bar = "5" if len(times) == 1 else "1.5 and 0.1"
            _print_row(f"{name}.fit, {size}", times, bar)
    with tempfile.TemporaryDirectory() as folder:
        for name, times, bar in _commands(Path(folder), is_cpu=is_cpu):
            _print_row(name, times, bar)


def _print_row(name: str, times: Sequence[float], bar: str) -> None:
    cells = [f"{each:20.2f}" for each in times] + [" " * 20] * (2 - len(times))
    print(f"{name:52}{''.join(cells)}{bar:>16}", flush=True)


def _commands(folder: Path, *, is_cpu: bool) -> Iterator[tuple[str, list[float], str]]:
    """Commands on a table of 5,000 rows, with an empty cache of programs and with a full one."""
    _write_table(folder / "t.csv")
    run, kept = folder / "run", {**os.environ, "RETICENT_CACHE": str(folder / "cache")}
    clock: Callable[[], float] = _children_time if is_cpu else time.perf_counter

    def taken(words: Sequence[str], *fresh: Path) -> list[float]:
        found = []
        for _ in range(2):
            for path in fresh:
                if path.is_dir():
                    shutil.rmtree(path)
                path.unlink(missing_ok=True)
            start = clock()
            subprocess.run(
                [*_CLI, *words], check=True, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            found.append(clock() - start)
        return found

    train = ["train", str(folder / "t.csv"), "--target", "out", "--epsilon", "1", "-o", str(run)]
    noise = ["--noise-multiplier", "1.1", "--delta", "1e-5"]
    account = ["account", "--examples", "60000", "--batch-size", "256", "--epochs", "60", *noise]
    predictions, shown = folder / "p.csv", folder / "demo"
    yield "reticent account", taken(account), "0.6"
    yield "reticent train, 5,000 rows", taken(train, run), "5"
    yield "reticent train --model linear, 5,000 rows", taken([*train, "--model", "linear"], run), "5"
    yield "reticent show", taken(["show", str(run)]), "1.5"
    predict = ["predict", str(run), str(folder / "t.csv"), "-o", str(predictions)]
    yield "reticent predict, 5,000 rows", taken(predict, predictions), "1.5"
    yield "reticent demo", taken(["demo", "-o", str(shown)], shown), "20"
    yield "reticent demo --table", taken(["demo", "--table", "-o", str(shown)], shown), "20"


def _children_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["age,income,smoker,city,height,out"]
    for _ in range(5000):
        age, income, height = rng.integers(18, 90), rng.normal(50, 20), rng.normal(170, 10)
        smokes, city = rng.choice(["yes", "no"]), rng.choice(["a", "b", "c", "d"])
        risk = age / 30 + income / 40 + (smokes == "yes") + rng.normal(0, 0.7)
        lines.append(f"{age},{income:.1f},{smokes},{city},{height:.1f},{'yes' if risk > 4 else 'no'}")
    path.write_text("\n".join(lines) + "\n")


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
