"""Tables as strangers bring them.

python -m benchmarks.strangers                          every table, epsilon 1 and 4 (two hours)
python -m benchmarks.strangers --only Default --peer no one table, without the peer
python -m benchmarks.strangers --write docs/benchmarks/strangers.md
python -m benchmarks.strangers --again ours             measures ours anew, and keeps what others scored

Every fit is written down as soon as it is made, and is not made again: start it anew after an interruption.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import r2_score

from benchmarks.strangers import models, page
from benchmarks.strangers.results import Fit, Results
from benchmarks.strangers.tables import FRESH, STRANGERS, Stranger, split
from benchmarks.training.environments import Peer, default_folder, interpreter
from reticent.runs.problem import default_delta

PEER = Peer("interpret", ("interpret-core==0.7.8",))


def main() -> None:
    wanted = _options()
    results = Results(wanted.results or wanted.environments / "strangers.jsonl")
    if wanted.again:
        results.forget(wanted.again)
    python = interpreter(PEER, wanted.environments) if wanted.peer == "yes" else None
    chosen = [
        stranger for stranger in (*STRANGERS, *FRESH) if not wanted.only or stranger.name in wanted.only
    ]
    for stranger in chosen:
        with tempfile.TemporaryDirectory() as scratch:
            measure(stranger, wanted, python, Path(scratch), results)
        section = page.compared(results, [stranger.name])
        print(section.markdown(), flush=True)
        if wanted.write is not None:
            wanted.write.parent.mkdir(parents=True, exist_ok=True)
            wanted.write.write_text(page.page(results))
    print(page.compared(results, [stranger.name for stranger in chosen]).markdown(), flush=True)


def measure(
    stranger: Stranger, wanted: argparse.Namespace, python: Path | None, scratch: Path, results: Results
) -> None:
    """All fits of a table that were not made yet."""
    train, test = split(stranger, wanted.environments / "strangers", scratch)
    target, is_number = stranger.target, models.is_number(train, stranger.target)
    whole = pd.read_csv(train, dtype=str)
    rows, columns = len(whole), len(whole.columns) - 1

    def keep(who: str, epsilon: float | None, repeat: int, fit: Callable[[], models.Score]) -> None:
        if results.has(stranger.name, who, epsilon, repeat):
            return
        began = time.perf_counter()
        score, error = attempt(fit)
        results.add(
            Fit(
                table=stranger.name,
                rows=rows,
                columns=columns,
                is_number=is_number,
                who=who,
                epsilon=epsilon,
                repeat=repeat,
                score=None if score is None else score.value,
                remark=error or score.remark,  # pyright: ignore[reportOptionalMemberAccess]
                model="" if score is None else score.model,
                seconds=time.perf_counter() - began,
            )
        )

    for who in ("linear", "boosted"):
        without = partial(models.without_privacy, train, test, target, is_boosted=who == "boosted")
        keep(who, None, 0, without)
    own = "ours" if wanted.model == "auto" else f"ours, {wanted.model}"
    for epsilon, repeat in itertools.product(wanted.epsilon or (1.0, 4.0), range(wanted.repeats)):
        folder = scratch / f"{epsilon:g}-{repeat}"
        keep(own, epsilon, repeat, partial(models.ours, train, test, target, epsilon, folder, wanted.model))
        if python is not None:
            theirs = partial(peer, python, train, test, target, epsilon, rows, is_number)
            keep("DP-EBM", epsilon, repeat, theirs)


def attempt(fit: Callable[[], models.Score]) -> tuple[models.Score | None, str]:
    """A score, or the name of what went wrong."""
    try:
        return fit(), ""
    except Exception as error:  # noqa: BLE001 - one table that fails must not hide the others
        traceback.print_exc(file=sys.stderr)
        return None, type(error).__name__


def peer(
    python: Path, train: Path, test: Path, target: str, epsilon: float, rows: int, is_number: bool
) -> models.Score:
    kind = "number" if is_number else "classes"
    script = Path(__file__).with_name("peer.py")
    words = [python, script, train, test, target, epsilon, default_delta(rows), kind]
    done = subprocess.run(
        list(map(str, words)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    truth = pd.read_csv(test, dtype=str, keep_default_na=False)[target]
    if is_number:
        return models.Score(float(r2_score(truth.astype(float), found["predicted"])))
    return models.Score(models.scored(truth, found["classes"], np.array(found["odds"])))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.strangers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--only", action="append", choices=[stranger.name for stranger in (*STRANGERS, *FRESH)]
    )
    parser.add_argument("--epsilon", type=float, action="append")
    parser.add_argument("--repeats", type=int, default=3, help="fits of each private model: all draw noise")
    parser.add_argument("--model", default="auto")
    parser.add_argument("--peer", choices=["yes", "no"], default="yes")
    parser.add_argument("--environments", type=Path, default=default_folder())
    parser.add_argument("--results", type=Path, help="where every fit is written down")
    parser.add_argument("--again", help="forgets the fits of ours, DP-EBM, linear or boosted")
    parser.add_argument("--write", type=Path, help="a Markdown file for the tables")
    return parser.parse_args()


if __name__ == "__main__":
    main()
