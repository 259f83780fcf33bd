"""What a product learns with, once it is paid for, and what it leaves behind."""

from __future__ import annotations

from typing import Any, NamedTuple

from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data.domain import Domain
from reticent.data.preparation.noise import PreparationNoise
from reticent.runs.held_out_scores import HeldOutScores
from reticent.runs.method import Recipe
from reticent.runs.open_run import OpenRun
from reticent.runs.problem import Problem
from reticent.runs.record import HistoryPoint, ModelFile


class Learned(NamedTuple):
    """What a product left in the folder, and what is to be said of it.

    Args:
        assumptions: what the guarantee rests on because of the method.
        unreleased: what was seen on the way and is private.
    """

    model: ModelFile
    assumptions: tuple[str, ...]
    problem: Problem | None = None
    scores: HeldOutScores | None = None
    history: tuple[HistoryPoint, ...] = ()
    unreleased: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


class Work(NamedTuple):
    """What a product learns with, once it is paid for.

    Args:
        rows: what `RunProduct.read_rows` returned.
    """

    run: OpenRun
    source: Any
    recipe: Recipe
    noise: PreparationNoise | None
    domain: Domain | None
    rows: Any
    keys: Keys
    observer: Observer
