"""Time and memory of `reticent train` as a table grows, each run in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tabular import files
from benchmarks.training.tables import Check, Section

_DIVISORS = (10, 3, 1)
_MOST_MEMORY = 4000  # MB
_LINEAR = 1.25  # what the whole may take, as a multiple of three times a third
_EVERY = 0.02  # seconds between two looks at the memory of the child


class Case(NamedTuple):
    name: str
    write: Callable[[Path], Path]
    target: str


class Grown(NamedTuple):
    """One run on a part of a table."""

    name: str
    rows: int
    seconds: float
    megabytes: float
    accuracy: float | None  # None if the labels were taken for a quantity


CASES = (
    Case("kddcup99", files.kddcup99, "column_42"),
    Case("covtype", files.covtype, "column_55"),
)


def growth(folder: Path) -> tuple[Section, Any]:
    found = [run for case in CASES for run in _runs(case, folder)]
    checks = []
    for case in CASES:
        _, third, whole = (run for run in found if run.name == case.name)
        checks.append(
            Check(f"{case.name}: peak memory of all rows", whole.megabytes, "<", _MOST_MEMORY, "MB")
        )
        ratio = whole.seconds / (third.seconds * whole.rows / third.rows)
        checks.append(Check(f"{case.name}: time of all rows / three times a third", ratio, "<=", _LINEAR))
    text = (
        "`reticent train FILE --no-header --target LAST --model linear --epsilon 1 -o FOLDER` in a process "
        "of its own, on rows drawn at random; nothing is declared. kddcup99 has 42 columns and 23 labels, "
        "covtype 55 columns and 7. Memory is the largest resident set; seconds are those of the process."
    )
    rows = [
        (
            run.name,
            f"{run.rows:,}",
            f"{run.seconds:.1f}",
            f"{run.megabytes:,.0f}",
            "-" if run.accuracy is None else f"{100 * run.accuracy:.2f}",
        )
        for run in found
    ]
    header = ("table", "rows", "seconds", "peak MB", "accuracy, %")
    return Section("Growth", text, header, rows, checks), [run._asdict() for run in found]


def _runs(case: Case, folder: Path) -> list[Grown]:
    table = case.write(folder)
    found = []
    for divisor in _DIVISORS:
        part, rows = files.part_of(table, divisor, folder)
        found.append(_train(case, part, rows))
        part.unlink()
        print(found[-1], file=sys.stderr, flush=True)
    return found


def _train(case: Case, table: Path, rows: int) -> Grown:
    with tempfile.TemporaryDirectory(dir=table.parent) as folder:
        command = [sys.executable, "-c", "from reticent.cli.app import main; main()"]
        command += ["train", str(table), "--no-header", "--target", case.target, "--epsilon", "1"]
        command += ["--model", "linear"]
        command += ["-o", str(Path(folder) / "run"), "--json"]
        started = time.perf_counter()
        with (Path(folder) / "answer").open("w+") as answer:
            child = subprocess.Popen(command, stdout=answer)
            most = 0.0
            while child.poll() is None:
                most = max(most, _peak_megabytes(child.pid))
                time.sleep(_EVERY)
            seconds = time.perf_counter() - started
            if child.returncode:
                raise SystemExit(f"Training on {rows} rows of {case.name} ended with {child.returncode}.")
            answer.seek(0)
            return Grown(case.name, rows, seconds, most, json.load(answer)["metrics"].get("accuracy"))


def _peak_megabytes(process: int) -> float:
    """The most that the process ever held: not `getrusage`, which begins with the peak of its parent."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1000 * 1.024 for line in lines if line.startswith("VmHWM")), 0.0)
