"""Junction trees: groups of columns, joined so that one pass each way gives all their distributions.

    tree = JunctionTree.of(cliques, sizes)
    beliefs, log_total = tree.calibrate(potentials)      # one table of probabilities per node

Everything is a table over few columns in float64; a node's columns are in rising order, one axis each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Clique = tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """Nodes in an order in which each comes after its parent; the first has none (-1).

    A node that shares no column with an earlier one hangs from the first, by an empty separator.
    """

    sizes: tuple[int, ...]
    nodes: tuple[Clique, ...]
    parents: tuple[int, ...]

    @classmethod
    def of(cls, cliques: Iterable[Clique], sizes: Sequence[int]) -> JunctionTree:
        """A tree in which every clique, and every single column, is within some node."""
        nodes = maximal(eliminate([tuple(sorted(clique)) for clique in cliques], sizes))
        order, parents = _spanning_tree(nodes)
        return cls(tuple(sizes), tuple(nodes[node] for node in order), parents)

    @cached_property
    def separators(self) -> tuple[Clique, ...]:
        """The columns that each node shares with its parent."""
        pairs = zip(self.nodes, self.parents, strict=True)
        return tuple(
            tuple(column for column in node if parent >= 0 and column in self.nodes[parent])
            for node, parent in pairs
        )

    def shape(self, clique: Clique) -> tuple[int, ...]:
        return tuple(self.sizes[column] for column in clique)

    def home(self, clique: Clique) -> int | None:
        """The smallest node that holds a clique, or None."""
        homes = [node for node, columns in enumerate(self.nodes) if set(clique) <= set(columns)]
        return min(homes, key=lambda node: cells_of(self.nodes[node], self.sizes), default=None)

    def zeros(self) -> list[np.ndarray]:
        """Potentials by which every row is as likely as any other."""
        return [np.zeros(self.shape(node)) for node in self.nodes]

    def calibrate(self, potentials: Sequence[np.ndarray]) -> tuple[list[np.ndarray], float]:
        """The probabilities of each node's columns under exp(sum of potentials), and the log total.

        Messages go from the leaves to the root and back; each is a logarithm, so nothing underflows.
        """
        tables = [np.array(potential) for potential in potentials]
        upward: dict[int, np.ndarray] = {}
        for node in range(len(tables) - 1, 0, -1):
            separator, parent = self.separators[node], self.parents[node]
            upward[node] = _log_sum(tables[node], self.axes_without(node, separator))
            tables[parent] += self.spread(upward[node], separator, parent)
        log_total = _log_sum(tables[0], self.axes_without(0, ()))
        tables[0] -= log_total
        for node in range(1, len(tables)):
            separator, parent = self.separators[node], self.parents[node]
            across = _log_sum(tables[parent], self.axes_without(parent, separator))
            with np.errstate(invalid="ignore"):  # what is impossible stays impossible
                news = np.where(np.isneginf(across), -np.inf, across - upward[node])
            tables[node] += self.spread(news, separator, node)
        return [np.exp(table) for table in tables], float(log_total)

    def spread(self, table: np.ndarray, clique: Clique, node: int) -> np.ndarray:
        """A table over a clique, shaped so that it adds to a node's."""
        return table.reshape([self.sizes[c] if c in clique else 1 for c in self.nodes[node]])

    def axes_without(self, node: int, kept: Clique) -> tuple[int, ...]:
        """The axes of a node's table that are summed to keep a clique."""
        return tuple(axis for axis, column in enumerate(self.nodes[node]) if column not in kept)

    def with_each(self, beliefs: Sequence[np.ndarray], column: int) -> list[np.ndarray]:
        """The joint probabilities of one column with every column: (its values, the other's) for each.

        From a node that holds it outwards: what it says of the next node goes through their separator.
        """
        size, start = self.sizes[column], self.home((column,))
        assert start is not None
        values = self.spread(np.arange(size), (column,), start)
        is_value = np.arange(size).reshape(-1, *[1] * values.ndim) == values  # (values, node's axes)
        visits = [(start, -1, is_value * beliefs[start])]
        found: dict[int, np.ndarray] = {}
        while visits:
            node, origin, table = visits.pop()
            for axis, other in enumerate(self.nodes[node], start=1):
                found.setdefault(other, table.sum(axis=tuple(a for a in range(1, table.ndim) if a != axis)))
            for near, separator in self._neighbours(node):
                if near != origin:
                    said = table.sum(axis=tuple(axis + 1 for axis in self.axes_without(node, separator)))
                    rest = self.conditional(beliefs, near, separator)
                    wide = said.reshape(size, *self.spread(said[0], separator, near).shape)
                    visits.append((near, node, wide * rest))
        return [found[other] for other in range(len(self.sizes))]

    def conditional(self, beliefs: Sequence[np.ndarray], node: int, given: Clique) -> np.ndarray:
        """The probabilities of a node's columns given some of them; zero where those are impossible."""
        total = beliefs[node].sum(axis=self.axes_without(node, given), keepdims=True)
        return np.divide(beliefs[node], total, out=np.zeros_like(beliefs[node]), where=total > 0)

    @cached_property
    def cells(self) -> int:
        """The number of cells of all nodes together."""
        return sum(cells_of(node, self.sizes) for node in self.nodes)

    def cells_with(self, pair: Clique) -> int:
        """How many there would be, at most, if two columns were joined.

        One of them is carried along the separators between the two; what it meets there becomes new nodes.
        """
        path = self._path(*pair)
        if len(path) == 1:
            return self.cells
        between = [self._columns[one] & self._columns[two] for one, two in itertools.pairwise(path)]
        if not all(between):  # they are in parts that nothing joins
            return self.cells + cells_of(pair, self.sizes)
        added = []
        for carried, separators in ((pair[0], between), (pair[1], between[::-1])):
            along = [one | two | {carried} for one, two in itertools.pairwise(separators)]
            added.append(sum(cells_of(node, self.sizes) for node in [*along, separators[-1] | set(pair)]))
        return self.cells + min(added)

    def _path(self, first: int, second: int) -> list[int]:
        """The nodes from the last that holds one column to the first that holds the other."""
        up = []
        for column in (first, second):
            line = [self._homes[column]]
            while line[-1] > 0:
                line.append(self.parents[line[-1]])
            up.append(line)
        meeting = next(node for node in up[0] if node in up[1])
        there = up[0][: up[0].index(meeting) + 1] + up[1][: up[1].index(meeting)][::-1]
        begin = max(at for at, node in enumerate(there) if first in self.nodes[node])
        end = min(
            (at for at, node in enumerate(there) if second in self.nodes[node] and at >= begin), default=begin
        )
        return there[begin : end + 1]

    @cached_property
    def _columns(self) -> tuple[frozenset[int], ...]:
        """The columns of each node."""
        return tuple(map(frozenset, self.nodes))

    @cached_property
    def _homes(self) -> tuple[int, ...]:
        """The smallest node that holds each column."""
        return tuple(self.home((column,)) or 0 for column in range(len(self.sizes)))

    def _neighbours(self, node: int) -> list[tuple[int, Clique]]:
        found = [(child, self.separators[child]) for child, up in enumerate(self.parents) if up == node]
        return found + [(self.parents[node], self.separators[node])] * (node > 0)


def cells_of(clique: Iterable[int], sizes: Sequence[int]) -> int:
    return math.prod(sizes[column] for column in clique)


def eliminate(cliques: Sequence[Clique], sizes: Sequence[int]) -> list[Clique]:
    """The cliques of eliminating columns one by one, each time the one with the fewest cells."""
    neighbours: dict[int, set[int]] = {column: set() for column in range(len(sizes))}
    for clique in cliques:
        for column in clique:
            neighbours[column] |= set(clique) - {column}
    costs = {column: cells_of(around | {column}, sizes) for column, around in neighbours.items()}
    joined = []
    while neighbours:
        column = min(neighbours, key=lambda column: (costs[column], column))
        around = neighbours.pop(column)
        joined.append(tuple(sorted(around | {column})))
        for other in around:
            neighbours[other] |= around - {other}
            neighbours[other].discard(column)
            costs[other] = cells_of(neighbours[other] | {other}, sizes)
    return joined


def maximal(cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques that are not part of another one."""
    found: list[Clique] = []
    for clique in sorted(set(cliques), key=lambda clique: (-len(clique), clique)):
        if not any(set(clique) <= set(other) for other in found):
            found.append(clique)
    return found


def _spanning_tree(nodes: Sequence[Clique]) -> tuple[list[int], tuple[int, ...]]:
    """Joined by the largest overlaps first, which makes it a junction tree; its order and parents."""
    order, parents = [0], [-1]
    best = {node: (len(set(nodes[node]) & set(nodes[0])), 0) for node in range(1, len(nodes))}
    while best:
        node = max(best, key=lambda node: best[node][0])
        parents.append(best.pop(node)[1])
        order.append(node)
        for other, (known, _) in best.items():
            here = len(set(nodes[other]) & set(nodes[node]))
            if here > known:
                best[other] = (here, len(order) - 1)
    return order, tuple(parents)


def _log_sum(table: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    if not axes:
        return table.copy()
    top = table.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)  # all impossible, where a value was given
    kept = [length for axis, length in enumerate(table.shape) if axis not in axes]
    with np.errstate(divide="ignore"):
        return np.log(np.exp(table - top).sum(axis=axes)) + top.reshape(kept)
