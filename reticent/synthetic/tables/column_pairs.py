"""Which pairs of columns are worth measuring: chosen privately, by how wrong the model is about them.

    spanning    a tree: each choice joins two groups of columns that were apart, in the manner of MST
    adaptive    any pairs whose model stays small, round after round, in the manner of AIM

References:
    McKenna, Miklau and Sheldon (2021), Winning the NIST contest, Algorithm 2, arXiv:2108.04978v1.
    McKenna, Mullins, Sheldon and Miklau (2022), AIM, Algorithms 2 and 3, arXiv:2201.12677v1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.choosing import choose_whole
from reticent.mechanisms.events import ExponentialMechanism
from reticent.mechanisms.whole import to_grid
from reticent.synthetic.tables.junction import Clique, JunctionTree, cells_of
from reticent.synthetic.tables.marginals import count

ERROR_MOVES = 1.0  # by a record that is added or removed
STEP = 2.0**-20  # of scores: that fine, a choice is as good as with real numbers
_MOST_ROWS = 1 << 30
MOST_CELLS = 1 << 16  # of a model: above it a search would take minutes

Fits = Callable[[Sequence[Clique], Clique], bool]  # whether a pair may be added to those of this round


def choose_at(
    scores: np.ndarray,
    event: ExponentialMechanism,
    source: np.random.Generator,
    *,
    max_change: float = ERROR_MOVES,
) -> int:
    """The position of one score: drawn in proportion to exp(epsilon score / (2 max_change)).

    Guarantee:
        Costs `event` if a record that is added or removed moves no score by more than `max_change`; up to
        2^-90. Scores are moved to whole numbers of `STEP`, by which neighbours' come apart by one step more
        at most, and the weights by which one is drawn are whole numbers too.
    """
    checks.positive(max_change=max_change)
    if event.adjacency is not Adjacency.ADD_OR_REMOVE:
        raise InvalidArgument(
            "Pairs are chosen under adjacency 'add-or-remove' only.", remedy="Plan for that adjacency."
        )
    unit = Fraction(event.epsilon) / (2 * (Fraction(max_change) / Fraction(STEP) + 1))
    return int(choose_whole(source, to_grid(scores, STEP), unit))


def errors(
    codes: np.ndarray,
    candidates: Iterable[Clique],
    expected: Mapping[Clique, np.ndarray],
    sizes: Sequence[int],
    *,
    rows: int,
    deviation: float,
) -> dict[Clique, float]:
    """The error of the model on each pair, minus the expected noise of measuring it. Private.

    Numbers on the grid of `STEP`.

    Args:
        expected: the probabilities of each pair by a model of earlier releases.
        rows: the public number of rows, never the length of `codes`.
        deviation: of the noise that a measurement would have.

    Guarantee:
        Adding or removing a record moves no error by more than 1. With counts c, and e = rows * expected,
        which is the same for both datasets, the error is sum |c - e| less a constant. A record is in one
        cell: there |c - e| moves by at most | |c + 1 - e| - |c - e| | <= 1, and elsewhere not at all. The
        same is true of the floats: c is whole, e is moved to the grid, so that up to 2^31 rows their
        differences and the sums of those are exact.

    Raises:
        InvalidArgument: there are more rows than that.
    """
    if not rows <= _MOST_ROWS:
        raise InvalidArgument(f"Errors of {rows} rows are not exact.", remedy="Take at most 2^30 of them.")
    noise = math.sqrt(2 / math.pi) * deviation  # the mean of |N(0, deviation^2)|, for each cell

    def error(pair: Clique) -> float:
        distance = np.abs(count(codes, pair, sizes) - _on_grid(rows * expected[pair])).sum()
        return float(distance - _on_grid(min(noise * cells_of(pair, sizes), 4.0 * _MOST_ROWS)))

    return {pair: error(pair) for pair in candidates}


def select(
    scores: Mapping[Clique, float],
    fits: Fits,
    events: Iterable[ExponentialMechanism],
    source: np.random.Generator,
    *,
    again: Sequence[Clique] = (),
    max_change: float = ERROR_MOVES,
) -> list[Clique]:
    """Selects one pair per event: a new one that fits, otherwise a measured one, otherwise any.

    Args:
        max_change: of a score, by all the records of one unit: each moves it by one at most.

    Guarantee:
        Costs all of `events`: what fits depends on sizes and on earlier choices only, and is asked of all
        pairs, so that the time it takes says nothing about scores.
    """
    pairs, chosen = list(scores), list[Clique]()
    for event in events:
        new = [pair for pair in pairs if pair not in chosen and fits(chosen, pair)]
        among = new or [pair for pair in pairs if pair in chosen or pair in again] or pairs
        found = np.array([scores[pair] for pair in among])
        chosen.append(among[choose_at(found, event, source, max_change=max_change)])
    return chosen


def candidates(columns: int, target: int | None = None) -> list[Clique]:
    """All pairs of columns, or all except those with the target."""
    return [pair for pair in itertools.combinations(range(columns), 2) if target not in pair]


def joins(chosen: Sequence[Clique], pair: Clique) -> bool:
    """Whether a pair joins columns that are still apart: together such pairs make a tree."""
    part = _parts(tuple(chosen))
    return part.get(pair[0], pair[0]) != part.get(pair[1], pair[1])


@lru_cache(maxsize=1)
def _parts(chosen: tuple[Clique, ...]) -> dict[int, int]:
    """For each column of the pairs, one column of all those that it is joined with."""
    part: dict[int, int] = {}
    for pair in chosen:
        first, second = (part.setdefault(column, column) for column in pair)
        part |= {column: first for column, other in part.items() if other == second}
    return part


def small_enough(measured: Sequence[Clique], sizes: Sequence[int], *, limit: int = MOST_CELLS) -> Fits:
    """Whether the model with a pair still has at most `limit` cells, or no more than it has already."""

    @lru_cache(maxsize=1)
    def tree_of(chosen: tuple[Clique, ...]) -> JunctionTree:
        return JunctionTree.of([*measured, *chosen], sizes)

    def fits(chosen: Sequence[Clique], pair: Clique) -> bool:
        tree = tree_of(tuple(chosen))
        return tree.cells_with(pair) <= max(limit, tree.cells)

    return fits


def _on_grid(values: np.ndarray | float) -> np.ndarray:
    return np.rint(np.asarray(values) / STEP) * STEP
