"""How long a fit takes on covtype, as a ratio to scikit-learn's: run in a process of its own, on one core.

python -m benchmarks.convex.timing REPEATS    prints seconds as JSON
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from statistics import median
from typing import Any

from benchmarks.training.tables import Check, Section

_BAR = 2.0
_METHODS = ("auto", "objective")
_NORM = 3.0  # ten numbers within [-1, 1] of which few are large, and two ones


def timing(repeats: int = 1) -> tuple[Section, Any]:
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.convex.timing", str(repeats)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=one_thread).stdout
    measured = json.loads(answer.splitlines()[-1])
    return section(measured, repeats), measured


def section(measured: dict[str, dict[str, Any]], repeats: int) -> Section:
    rows, checks = [], []
    for task, found in measured.items():
        seconds = {name: median(model["seconds"]) for name, model in found.items()}
        for name, model in found.items():
            ratio = seconds[name] / seconds["scikit-learn"]
            label = name if name == "scikit-learn" else f'ours, `method="{name}"`'
            rows.append(
                (task, label, f"{seconds[name]:.1f}", f"{ratio:.2f}", f"{100 * model['accuracy']:.1f}")
            )
            if name in _METHODS:
                checks.append(Check(f"time over scikit-learn's: {task}, {name}", ratio, "<=", _BAR))
    text = (
        f"Processor seconds of a fit, the median of {repeats}, on one core with one thread: processor time, "
        "so that other work on the machine does not count. 581,012 rows, 54 columns. `LogisticRegression()` "
        "with its defaults, compared with "
        "`PrivateLogisticRegression(epsilon=1, norm=3, classes=...)`. Ours includes "
        "compiling. Accuracy is in percent of the same rows."
    )
    return Section("Time on covtype", text, ("task", "", "seconds", "ratio", "accuracy"), rows, checks)


def _measure(repeats: int) -> dict[str, dict[str, Any]]:
    from sklearn.linear_model import LogisticRegression

    from benchmarks.convex.datasets import covtype
    from reticent.sklearn import PrivateLogisticRegression

    warnings.simplefilter("ignore")  # that 100 iterations were too few for scikit-learn's
    x, labels = covtype()
    found = {}
    for task, y in {"2 classes": (labels == 2).astype(int), "7 classes": labels}.items():
        models: dict[str, Any] = {"scikit-learn": LogisticRegression()}
        for method in _METHODS:
            models[method] = PrivateLogisticRegression(
                epsilon=1.0, norm=_NORM, classes=sorted(set(y.tolist())), method=method
            )
        found[task] = {name: {"seconds": [], "accuracy": 0.0} for name in models}
        for _ in range(repeats):
            for name, model in models.items():
                started = time.process_time()
                model.fit(x, y)
                taken, accuracy = time.process_time() - started, float(model.score(x, y))
                found[task][name]["seconds"].append(taken)
                found[task][name]["accuracy"] += accuracy / repeats
                print(f"{task}, {name}: {taken:.1f} s, {accuracy:.4f}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(json.dumps(_measure(int(sys.argv[1]))))
