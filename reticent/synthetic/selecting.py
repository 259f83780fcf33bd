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

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ExponentialMechanism
from reticent.synthetic.junction import Clique, cells_of, tree_cells
from reticent.synthetic.measuring import count

ERROR_MOVES = 1.0  # by a record that is added or removed
MOST_CELLS = 1 << 16  # of a model: above it a search would take minutes

Allowed = Callable[[Sequence[Clique]], Iterable[Clique]]  # given those chosen in this round


def choose(
    scores: np.ndarray,
    event: ExponentialMechanism,
    source: np.random.Generator,
    *,
    max_change: float = ERROR_MOVES,
) -> int:
    """The position of a score, with probability proportional to exp(epsilon score / (2 max_change)).

    Sampled as the largest exponent plus Gumbel noise, which is the same distribution, in 64 bits.

    Guarantee:
        Costs `event` if a record that is added or removed moves no score by more than `max_change`.
    """
    checks.positive(max_change=max_change)
    if event.adjacency is not Adjacency.ADD_OR_REMOVE:
        raise InvalidArgument(
            "Pairs are chosen under adjacency 'add-or-remove' only.", remedy="Plan for that adjacency."
        )
    exponents = event.epsilon / (2 * max_change) * np.asarray(scores, np.float64)
    return int(np.argmax(exponents + source.gumbel(size=len(exponents))))


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
    allowed: Allowed,
    events: Iterable[ExponentialMechanism],
    source: np.random.Generator,
) -> list[Clique]:
    """One pair for each event, none of them twice as long as there are others.

    Guarantee:
        Costs all of `events`: which pairs are allowed depends on sizes and on earlier choices only.
    """
    chosen: list[Clique] = []
    for event in events:
        able = [pair for pair in allowed(chosen) if pair in scores]
        able = [pair for pair in able if pair not in chosen] or able or list(scores)
        chosen.append(able[choose(np.array([scores[pair] for pair in able]), event, source)])
    return chosen


def candidates(columns: int, target: int | None) -> list[Clique]:
    """All pairs; without those of the target, which are measured in any case."""
    return [pair for pair in itertools.combinations(range(columns), 2) if target not in pair]


def spanning(pairs: Sequence[Clique]) -> Allowed:
    """Those that join columns which are still apart: together they make a tree."""

    def allowed(chosen: Sequence[Clique]) -> list[Clique]:
        group = {column: column for pair in pairs for column in pair}
        for first, second in chosen:
            old, new = group[first], group[second]
            group = {column: new if at == old else at for column, at in group.items()}
        return [pair for pair in pairs if group[pair[0]] != group[pair[1]]]

    return allowed


def small_enough(
    pairs: Sequence[Clique], measured: Sequence[Clique], sizes: Sequence[int], *, limit: int = MOST_CELLS
) -> Allowed:
    """Those with which the model still has at most `limit` cells, or no more than it has already."""

    def allowed(chosen: Sequence[Clique]) -> list[Clique]:
        here = [*measured, *chosen]
        most = max(limit, tree_cells(here, sizes))
        return [pair for pair in pairs if tree_cells([*here, pair], sizes) <= most]

    return allowed
