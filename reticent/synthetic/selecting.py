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
from functools import lru_cache

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ExponentialMechanism
from reticent.synthetic.junction import Clique, JunctionTree, cells_of
from reticent.synthetic.measuring import count

ERROR_MOVES = 1.0  # by a record that is added or removed
MOST_CELLS = 1 << 16  # of a model: above it a search would take minutes

Fits = Callable[[Sequence[Clique], Clique], bool]  # whether a pair may be added to those of this round


def ranked(
    scores: np.ndarray,
    event: ExponentialMechanism,
    source: np.random.Generator,
    *,
    max_change: float = ERROR_MOVES,
) -> np.ndarray:
    """Positions of scores, the chosen one first: drawn in proportion to exp(epsilon score / (2 max_change)).

    The exponents plus Gumbel noise, sorted. The first of those that a public rule allows is drawn from
    these in the same proportion, and the rule is asked no more often than it has to be. Only one position
    may be used: it is one release.

    Guarantee:
        Costs `event` if a record that is added or removed moves no score by more than `max_change`.
    """
    checks.positive(max_change=max_change)
    if event.adjacency is not Adjacency.ADD_OR_REMOVE:
        raise InvalidArgument(
            "Pairs are chosen under adjacency 'add-or-remove' only.", remedy="Plan for that adjacency."
        )
    exponents = event.epsilon / (2 * max_change) * np.asarray(scores, np.float64)
    return np.argsort(-(exponents + source.gumbel(size=len(exponents))))


def errors(
    codes: np.ndarray,
    candidates: Iterable[Clique],
    expected: Mapping[Clique, np.ndarray],
    sizes: Sequence[int],
    *,
    rows: int,
    deviation: float,
) -> dict[Clique, float]:
    """How wrong the model is about each pair, less what the noise of measuring it would be. Private.

    Args:
        expected: the probabilities of each pair by a model of earlier releases.
        rows: the public number of rows, never the length of `codes`.
        deviation: of the noise that a measurement would have.

    Guarantee:
        Adding or removing a record moves no error by more than 1. With counts c, and e = rows * expected,
        which is the same for both datasets, the error is sum |c - e| less a constant. A record is in one
        cell: there |c - e| moves by at most | |c + 1 - e| - |c - e| | <= 1, and elsewhere not at all.
    """
    noise = math.sqrt(2 / math.pi) * deviation  # the mean of |N(0, deviation^2)|, for each cell
    return {
        pair: float(np.abs(count(codes, pair, sizes) - rows * expected[pair]).sum())
        - noise * cells_of(pair, sizes)
        for pair in candidates
    }


def select(
    scores: Mapping[Clique, float],
    fits: Fits,
    events: Iterable[ExponentialMechanism],
    source: np.random.Generator,
    *,
    again: Sequence[Clique] = (),
) -> list[Clique]:
    """One pair for each event: a new one that fits, else one that was measured before, else any.

    Guarantee:
        Costs all of `events`: what fits depends on sizes and on earlier choices only.
    """
    pairs, values = list(scores), np.array(list(scores.values()))
    chosen: list[Clique] = []
    for event in events:
        order = [pairs[at] for at in ranked(values, event, source)]
        new = (pair for pair in order if pair not in chosen and fits(chosen, pair))
        old = (pair for pair in order if pair in chosen or pair in again)
        chosen.append(next(new, None) or next(old, None) or order[0])
    return chosen


def candidates(columns: int, target: int | None = None) -> list[Clique]:
    """All pairs, or all without those of the target."""
    return [pair for pair in itertools.combinations(range(columns), 2) if target not in pair]


def joins(chosen: Sequence[Clique], pair: Clique) -> bool:
    """Whether a pair joins columns that are still apart: together such pairs make a tree."""
    reached, more = {pair[0]}, True
    while more:
        near = {column for other in chosen if reached & set(other) for column in other}
        more = not near <= reached
        reached |= near
    return pair[1] not in reached


def small_enough(measured: Sequence[Clique], sizes: Sequence[int], *, limit: int = MOST_CELLS) -> Fits:
    """Whether the model with a pair still has at most `limit` cells, or no more than it has already."""

    @lru_cache(maxsize=1)
    def tree_of(chosen: tuple[Clique, ...]) -> JunctionTree:
        return JunctionTree.of([*measured, *chosen], sizes)

    def fits(chosen: Sequence[Clique], pair: Clique) -> bool:
        tree = tree_of(tuple(chosen))
        return tree.cells_with(pair) <= max(limit, tree.cells)

    return fits
