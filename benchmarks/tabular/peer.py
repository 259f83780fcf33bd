"""DP-EBM beside ours, on the same rows, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.tabular.trials import DELTA, Outcome, Setting, Trials, divided, percent
from benchmarks.training.environments import Peer, interpreter
from benchmarks.training.tables import Check, Section

PEER = Peer("interpret", ("interpret-core==0.7.8",))

_EPSILONS = (0.5, 1.0, 4.0)
_WORKER = Path(__file__).with_name("dp_ebm.py")


def beside(trials: Trials, environments: Path) -> tuple[Section, Any]:
    """Accuracy and AUROC of both, split by split."""
    python = interpreter(PEER, environments)
    rows, checks, raw = [], [], []
    for epsilon in _EPSILONS:
        ours = trials.of(Setting(epsilon))
        theirs = [_ask(python, trials.folder, epsilon, outcome) for outcome in ours]
        raw.append({"epsilon": epsilon, "dp_ebm": theirs, "ours": [outcome._asdict() for outcome in ours]})
        rows.append(
            (
                f"{epsilon:g}",
                percent([run.auroc for run in ours]),
                percent([run["auroc"] for run in theirs]),
                percent([run.accuracy for run in ours]),
                percent([run["accuracy"] for run in theirs]),
                f"{mean(run.seconds for run in ours):.1f}",
                f"{mean(run['seconds'] for run in theirs):.1f}",
            )
        )
        ahead = 100 * mean(run.auroc - other["auroc"] for run, other in zip(ours, theirs, strict=True))
        checks.append(Check(f"points of AUROC ahead at epsilon {epsilon:g}", ahead, ">=", 0, ""))
    text = (
        "`DPExplainableBoostingClassifier` of interpret-core 0.7.8 with its default settings, on the same "
        f"rows as ours, seed by seed, delta {DELTA:g}; mean and deviation in percent. By default it takes "
        "the kinds and the bounds of the columns from the data without charge, with a warning; ours pays. "
        "Each epsilon comes from the accounting of its own package."
    )
    header = (
        "epsilon",
        "AUROC, ours",
        "AUROC, DP-EBM",
        "accuracy, ours",
        "accuracy, DP-EBM",
        "seconds, ours",
        "seconds, DP-EBM",
    )
    return Section("Compared with DP-EBM", text, header, rows, checks), raw


def _ask(python: Path, folder: Path, epsilon: float, outcome: Outcome) -> dict[str, float]:
    parts = [folder / "train.csv", folder / "test.csv"]
    for path, lines in zip(parts, divided(outcome), strict=True):
        path.write_bytes(b"\n".join(lines) + b"\n")
    command = [str(python), str(_WORKER), *map(str, parts), str(epsilon), str(DELTA), str(outcome.seed)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(f"DP-EBM, epsilon {epsilon:g}: {answer.strip()}", file=sys.stderr, flush=True)
    return json.loads(answer.splitlines()[-1])
