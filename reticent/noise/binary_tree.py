"""The binary tree: one noisy sum for each node, and every prefix from a few of them.

Step t, counted from 1, completes the nodes of its trailing zero bits. A prefix sum is that of the nodes of
its binary digits. What a record adds is 1 in each node above its step.

Reference:
    Dwork, Naor, Pitassi and Rothblum (2010); Chan, Shi and Song (2011); Kairouz et al. (2021),
    arXiv:2103.00039v3.
"""

from __future__ import annotations

import math

import numpy as np

from reticent.core import checks
from reticent.noise.participation import Participation
from reticent.noise.sensitivity import rounded_up


def levels(steps: int) -> int:
    """How many nodes lie above a step, with itself, at most.

    Example:
        >>> levels(1600), levels(1), levels(8)
        (11, 1, 4)
    """
    checks.count(steps=steps)
    return steps.bit_length()


def nodes_of_prefix(step: int) -> int:
    """How many nodes make the sum of the first `step` steps.

    Example:
        >>> [nodes_of_prefix(step) for step in range(1, 9)]
        [1, 1, 2, 1, 2, 2, 3, 1]
    """
    return step.bit_count()


def tree_matrix(steps: int) -> np.ndarray:
    """One row for each node that is complete, one column for each step.

    Example:
        >>> tree_matrix(4).sum(axis=0).tolist()
        [3.0, 3.0, 3.0, 3.0]
    """
    rows = []
    for size in (2**level for level in range(levels(steps))):
        for start in range(0, steps - size + 1, size):
            row = np.zeros(steps)
            row[start : start + size] = 1
            rows.append(row)
    return np.array(rows)


def tree_sensitivity(size: int, steps: int, participation: Participation) -> float:
    """The sensitivity of all nodes of trees over at most `size` steps each, wherever they begin.

    In a level, nodes of s steps are disjoint, and there are at most steps / s of them. Each has a record at
    most ceil(s / separation) times, and the level at most `times` times. Its contributions to a node add up,
    at their worst in one direction. That holds for a run that was resumed too, whose last tree begins where
    it was resumed.

    Example:
        >>> round(tree_sensitivity(1600, 1600, Participation(times=1)) ** 2, 9)
        11.0
    """
    part = participation.within(steps)
    squares = sum(_most_squares(2**level, steps, part) for level in range(levels(size)))
    return rounded_up(math.sqrt(squares), 1)


def _most_squares(size: int, steps: int, part: Participation) -> int:
    most = min(-(-size // part.separation), part.times)
    full, rest = divmod(part.times, most)
    nodes = steps // size
    return nodes * most**2 if full >= nodes else full * most**2 + rest**2
