"""Every fit in a file of lines of JSON: what was measured is kept, whatever stops the rest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import NamedTuple


class Fit(NamedTuple):
    """One fit of a table.

    Args:
        who: `ours`, `DP-EBM`, `linear` or `boosted`; the last two are not private, and have no epsilon.
        score: AUROC or R2; None where there is no model.
        remark: how it was asked for, if not by one command; or what went wrong.
        model: that ours chose.
    """

    table: str
    rows: int
    columns: int
    is_number: bool
    who: str
    epsilon: float | None
    repeat: int
    score: float | None
    remark: str
    model: str
    seconds: float


class Results:
    """The fits in a file, and those that are added to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fits = [Fit(**json.loads(line)) for line in self._lines()]

    def _lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def has(self, table: str, who: str, epsilon: float | None, repeat: int) -> bool:
        return any(fit.repeat == repeat for fit in self.of(table, who, epsilon))

    def of(self, table: str, who: str, epsilon: float | None = None) -> list[Fit]:
        wanted = (table, who, epsilon)
        return [fit for fit in self._fits if (fit.table, fit.who, fit.epsilon) == wanted]

    def all_of(self, who: str) -> list[Fit]:
        return [fit for fit in self._fits if fit.who == who]

    def add(self, fit: Fit) -> None:
        self._fits.append(fit)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(fit._asdict()) + "\n")

    def forget(self, who: str) -> None:
        """Drops the fits of one, which are then made again."""
        self._fits = [fit for fit in self._fits if fit.who != who]
        self._path.write_text("".join(json.dumps(fit._asdict()) + "\n" for fit in self._fits))


def mean_score(fits: Iterable[Fit]) -> float | None:
    """The mean over repeats; None if one of them has no model, or if there are none."""
    scores = [fit.score for fit in fits]
    if not scores or None in scores:
        return None
    return mean(score for score in scores if score is not None)
