"""A step that is run on neighbours, under the same noise and under other."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reticent.audit import bits
from reticent.audit.distances import Distance, distance
from reticent.audit.finding import Claim, Finding, flat_numbers
from reticent.audit.powers import ladder_of, measure_copies, near_powers
from reticent.audit.replay import Rows, Runner, TrainStep, cut, length_of
from reticent.audit.strange_records import Strange
from reticent.audit.verdict import Outcome
from reticent.mechanisms.adjacency import Adjacency

_BATCH = 64  # rows that a record joins
_FEWEST = 16  # rows: with fewer, no sum is near a power of two for long
_MOST_BYTES = 1 << 26  # of a batch near a power of two


class _NoRelease(Exception):
    """The step failed; its runner knows why."""


class WatchedStep:
    """A step, what it claims, and some rows of its data.

    Args:
        rows: the most in a batch that the step takes.
    """

    def __init__(self, train_step: TrainStep, claim: Claim, data: Rows, rows: int) -> None:
        self.claim = claim
        self.rows = rows
        self._batch = cut(data, min(length_of(data), _BATCH, rows - 1))
        self._runner = Runner(train_step)

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The failures of the step, whatever was looked at."""
        return tuple(
            Finding(check=each.check, outcome=Outcome.CONTRADICTED, what=each.what.rstrip("."))
            for each in self._runner.problems
        )

    def release(self, batch: Rows, seed: int = 0) -> np.ndarray | None:
        """All numbers of a release; None if the step failed."""
        with np.errstate(all="ignore"):  # strange records overflow, and are meant to
            returned = self._runner.release(batch, seed, 0)
        return None if returned is None else flat_numbers(returned)

    def measure_moves(self, tried: Sequence[Strange]) -> list[Distance]:
        """How far each record moves the batch, under the same noise."""
        without = self.release(self._batch)

        def measure(new: Strange) -> Distance:
            inside = self.release(self._with(new))
            if without is None or inside is None:
                return Distance(math.inf, 0.0, new.what)
            return distance(without, inside, self.claim, new.what)

        return [measure(each) for each in tried]

    def near_powers(self, tried: Sequence[Strange]) -> list[Distance]:
        """How far a record moves a sum near a power of two: the first one that can be scaled, or the last."""
        bytes_a_row = sum(rows[:1].nbytes for rows in self._batch.values())
        rows = min(self.rows, _MOST_BYTES // max(bytes_a_row, 1))
        if rows < _FEWEST:
            return []
        for each in tried:
            ladder = ladder_of(self.release, each.record, self.claim)
            if ladder is not None:
                return list(near_powers(self.release, ladder, self.claim, rows, each.what))
        return [measure_copies(self.release, tried[-1].record, self.claim, rows, tried[-1].what)]

    def look_at_bits(self, record: Strange, *, confidence: float, seeds: int | None) -> Finding:
        """Which of two neighbours a release is of: the batch, or the batch with this record."""

        def on(given: Rows) -> bits.SeededRelease:
            def release(seed: int) -> np.ndarray:
                found = self.release(given, seed)
                if found is None:
                    raise _NoRelease
                return found

            return release

        neighbours = bits.NeighbourReleases(on(cut(self._batch, 0)), on(self._batch), on(self._with(record)))
        try:
            return bits.look_at_bits(neighbours, self.claim, confidence=confidence, seeds=seeds)
        except _NoRelease:
            what = "the step fails"
            return Finding(check=bits.CHECK, outcome=Outcome.UNINFORMATIVE, what=what)

    def _with(self, new: Strange) -> Rows:
        kept = length_of(self._batch) - (self.claim.adjacency is Adjacency.REPLACE)
        return {key: np.concatenate([rows[:kept], new.record[key]]) for key, rows in self._batch.items()}
