"""Merges rare codes, by the noisy counts of each column, which are already paid for.

A pair of columns with forty values each has 1,600 cells, most of them empty and all of them noisy. Values
that the counts of a column cannot tell from none are measured together in pairs, and taken apart again in a
sample in proportion to those counts. Neighbouring bins are joined with each other, rare words all with all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reticent.synthetic.tables.marginals import Marginal

_RARE = 2.0  # deviations of the noise on a count


@dataclass(frozen=True)
class Merging:
    """For each column: the group of each code (counted from 0), and its share of the group."""

    groups: tuple[np.ndarray, ...]
    shares: tuple[np.ndarray, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many groups each column has."""
        return tuple(int(group.max()) + 1 for group in self.groups)

    def merge(self, codes: np.ndarray) -> np.ndarray:
        """Replaces codes by their groups: (rows, columns)."""
        columns = [group[codes[:, column]] for column, group in enumerate(self.groups)]
        return np.stack(columns, axis=1).astype(np.int32)

    def counts(self, marginal: Marginal) -> Marginal:
        """The marginal of one column over its groups.

        A group's noise is that of all its codes; the deviation that is given is the mean one.
        """
        (column,) = marginal.columns
        group = self.groups[column]
        counts = np.bincount(group, weights=marginal.counts)
        mean = np.sqrt(len(group) / len(counts))
        return Marginal(marginal.columns, counts, marginal.deviation * float(mean))

    def split_groups(self, rows: np.ndarray, source: np.random.Generator) -> np.ndarray:
        """Replaces groups by codes, each drawn by its share: (rows, columns) int32."""
        codes = np.empty(rows.shape, np.int32)
        for column, (group, share) in enumerate(zip(self.groups, self.shares, strict=True)):
            for at in range(int(group.max()) + 1):
                members = np.flatnonzero(group == at)
                here = np.flatnonzero(rows[:, column] == at)
                alone = len(members) == 1
                drawn = members[0] if alone else source.choice(members, size=len(here), p=share[members])
                codes[here, column] = drawn
        return codes

    def spread(self, table: np.ndarray, columns: Sequence[int]) -> np.ndarray:
        """Probabilities of groups as probabilities of codes."""
        for axis, column in enumerate(columns):
            shape = [-1 if other == axis else 1 for other in range(table.ndim)]
            table = np.take(table, self.groups[column], axis=axis) * self.shares[column].reshape(shape)
        return table


def merging_of(singles: Sequence[Marginal], ordered: Sequence[bool]) -> Merging:
    """Groups of at least two deviations, from the noisy counts of every column in turn."""
    groups, shares = [], []
    for single, is_ordered in zip(singles, ordered, strict=True):
        least = _RARE * single.deviation
        joined = _neighbours(single.counts, least) if is_ordered else _rare(single.counts, least)
        # A count below one deviation says nothing: its code keeps a small share.
        weights = np.maximum(single.counts, 0.1 * single.deviation)
        groups.append(joined)
        shares.append(weights / np.bincount(joined, weights=weights)[joined])
    return Merging(tuple(groups), tuple(shares))


def _rare(counts: np.ndarray, least: float) -> np.ndarray:
    """Makes each frequent code a group, and all rare codes one group."""
    is_rare = counts < least
    if is_rare.sum() < 2:
        return np.arange(len(counts))
    frequent = np.cumsum(~is_rare) - 1
    return np.where(is_rare, frequent[-1] + 1, frequent)


def _neighbours(counts: np.ndarray, least: float) -> np.ndarray:
    """From the first code on, each joins the group before it until that has enough rows."""
    groups, at, total = np.zeros(len(counts), int), 0, 0.0
    for code, found in enumerate(counts):
        groups[code] = at
        total += found
        if total >= least:
            at, total = at + 1, 0.0
    if 0 < at == groups[-1]:
        groups[groups == at] = at - 1  # what is left over at the end
    return groups
