"""Runs of `reticent train` on Adult, by seed: each is made once, whoever asks for it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tabular import files
from reticent.core.keys import Keys
from reticent.data.held_out import Split
from reticent.runs.fit import fit
from reticent.runs.private_part import read_split
from reticent.runs.request import Request

DELTA = 1e-6
FIRST_SEED = 1000  # whatever is tuned uses seeds below it


class Setting(NamedTuple):
    """What is varied; all else is as `reticent train` does it."""

    epsilon: float
    method: str = "auto"
    model: str = "linear"
    is_declared: bool = False


class Outcome(NamedTuple):
    """One run: how good its model is on the rows held out, and which rows those were."""

    seed: int
    accuracy: float
    auroc: float
    seconds: float
    share: float
    split: int


class Trials:
    """The runs on Adult, in a folder that is the caller's to remove."""

    def __init__(self, folder: Path, seeds: int) -> None:
        self.folder, self.seeds = folder, seeds
        self._done: dict[Setting, list[Outcome]] = {}

    def of(self, setting: Setting) -> list[Outcome]:
        if setting not in self._done:
            table, domain = files.adult(self.folder), files.adult_domain(self.folder)
            self._done[setting] = [
                self._run(setting, table, domain, seed) for seed in range(FIRST_SEED, FIRST_SEED + self.seeds)
            ]
        return self._done[setting]

    def _run(self, setting: Setting, table: Path, domain: Path, seed: int) -> Outcome:
        """`reticent train adult.data --no-header --target column_15 --epsilon E`, with a model, seeded."""
        order = Request(
            source=str(table),
            target="column_15",
            epsilon=setting.epsilon,
            delta=DELTA,
            method=setting.method,
            model=setting.model,  # type: ignore[arg-type]  # checked by the request itself
            domain=str(domain) if setting.is_declared else None,
            layout={"header": False},
        )
        folder = self.folder / "run"
        record = fit(order, folder, keys=Keys.seeded(seed)).record
        split = read_split(folder, order.test)
        shutil.rmtree(folder)
        found = record.result.metrics
        seconds = record.result.seconds
        outcome = Outcome(seed, found["accuracy"], found["auroc"], seconds, split.share, split.seed)
        print(f"{setting}: {outcome}", file=sys.stderr, flush=True)
        return outcome


def divided(outcome: Outcome) -> tuple[list[bytes], list[bytes]]:
    """The lines of Adult that a run trained on, and those that it held out."""
    lines = files.adult_lines()
    is_held_out = Split(share=outcome.share, seed=outcome.split).is_held_out(0, len(lines))
    first, second = ([lines[row] for row in np.flatnonzero(mask)] for mask in (~is_held_out, is_held_out))
    return first, second


def percent(values: list[float]) -> str:
    """The mean and the deviation of shares, in percent."""
    spread = f" ± {100 * stdev(values):.2f}" if len(values) > 1 else ""
    return f"{100 * mean(values):.2f}{spread}"


def as_json(setting: Setting, outcomes: list[Outcome]) -> dict[str, Any]:
    return {**setting._asdict(), "runs": [outcome._asdict() for outcome in outcomes]}
