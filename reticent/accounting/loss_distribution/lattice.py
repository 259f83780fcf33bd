"""A privacy-loss distribution rounded to a lattice: upwards for an upper bound, downwards for a lower one.

Both roundings keep the truth on the right side for one release, and composition keeps them there:
if a pair dominates another, so do their products. Proofs in docs/accounting.md, section 3.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from reticent.accounting.loss_distribution.pairs import UNIT, Pair, ReversedPair

_SKETCH = np.geomspace(1e-10, 1.0001, 160)  # of the reach; enough to place the saddle point and the cut-offs
_SKETCH_EDGES = np.concatenate([-_SKETCH[::-1], _SKETCH])
_EDGE_CELLS = 24  # next to an edge of the support, where the cuts are fitted one by one


class Lattice(NamedTuple):
    """P masses of the losses `offset + (first + i) * spacing`, and of an infinite loss."""

    spacing: float
    offset: float
    first: int
    masses: np.ndarray
    infinite: float

    @property
    def losses(self) -> np.ndarray:
        return self.offset + self.spacing * (self.first + np.arange(len(self.masses)))


class RepeatedLattice(NamedTuple):
    """A release and how often it is made."""

    lattice: Lattice
    times: int


class Sketch(NamedTuple):
    """A coarse copy of a pair on uneven cells: chooses parameters, never enters a bound."""

    losses: np.ndarray
    masses: np.ndarray
    edges: np.ndarray
    below: np.ndarray  # P mass left of each edge
    above: np.ndarray  # P mass right of each edge


@lru_cache(maxsize=64)  # both ends of a bracket, and every delta, look at the same one
def sketch(pair: Pair) -> Sketch:
    """Merges a pair on cells that are fine near a loss of zero and wide far out."""
    if isinstance(pair, ReversedPair):  # the same cells, seen from the other side
        edges, p, q = _uneven_cells(pair.inner)
        edges, p, q = -edges[::-1], q[::-1], p[::-1]
    else:
        edges, p, q = _uneven_cells(pair)
    keep = (p > 0) & (q > 0)
    losses = np.log(p[keep]) - np.log(q[keep])
    below, above = np.cumsum(p)[:-1], np.cumsum(p[::-1])[::-1][1:]
    return Sketch(losses, p[keep], edges, below, above)


@lru_cache(maxsize=8)  # one direction after the other
def _uneven_cells(pair: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    low, high = pair.span()
    reach = max(-low, high, 1e-300)
    edges = reach * _SKETCH_EDGES
    edges = edges[(edges > low - 0.1 * reach) & (edges < high + 0.1 * reach)]
    p, q, _, _ = pair.masses(edges)
    return edges, p, q


def log_moments(copy: Sketch, tilts: np.ndarray) -> np.ndarray:
    """ln E[e^{tilt * loss}] of the coarse copy, for each tilt."""
    exponents = np.multiply.outer(tilts, copy.losses) + np.log(copy.masses)
    top = exponents.max(axis=1)
    return top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))


def cut_offs(copy: Sketch, *, left: float, right: float) -> tuple[float, float]:
    """Losses with at most `left` of the P mass below the first and `right` above the second."""
    if not len(copy.edges):  # so much noise that every loss is 0
        return 0.0, 0.0
    enough_right = np.flatnonzero(copy.above <= right)
    enough_left = np.flatnonzero(copy.below <= left)
    high = copy.edges[enough_right[0]] if len(enough_right) else copy.edges[-1]
    low = copy.edges[enough_left[-1]] if len(enough_left) else copy.edges[0]
    return float(low), float(max(high, low))


def lattice_ends(spacing: float, offset: float, low: float, high: float) -> tuple[int, int]:
    """The first and the last point of a lattice that holds the losses from `low` to `high`."""
    return int(np.floor((low - offset) / spacing)), int(np.ceil((high - offset) / spacing)) + 1


def round_up(pair: Pair, spacing: float, offset: float, low: float, high: float) -> Lattice:
    """Spreads the mass of every cell to its two ends, keeping its P and its Q mass.

    The privacy profile of the result is the chord polygon of the true, convex one, so it lies
    above it everywhere. Mass below `low` moves up to it, mass above `high` to infinity.

    Reference:
        Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), Connect the dots, arXiv:2207.04380v1.
    """
    first, last = lattice_ends(spacing, offset, low, high)
    edges = offset + spacing * np.arange(first, last + 1)
    p, q, p_error, q_error = pair.masses(edges)
    inner_p, inner_q = p[1:-1], q[1:-1]
    with np.errstate(invalid="ignore", over="ignore"):
        growth = np.exp(edges[:-1])
        # upper + lower = p and upper e^{-h} + lower = q e^{low end}; errors always count upwards.
        error = p_error[1:-1] + growth * q_error[1:-1] + 4 * UNIT * (inner_p + growth * inner_q)
        upper = (inner_p - growth * inner_q + error) / -np.expm1(-spacing)
    total = inner_p + p_error[1:-1]
    # Where e^loss overflows the split is unknown: then all of it counts as the upper end.
    upper = np.where(np.isfinite(upper), np.clip(upper, 0.0, total), total)
    masses = np.zeros(len(edges))
    masses[:-1] += total - upper
    masses[1:] += upper
    masses[0] += p[0] + p_error[0]
    return Lattice(spacing, offset, first, masses, float(p[-1] + p_error[-1]))


def round_down(pair: Pair, spacing: float, offset: float, low: float, high: float, tilt: float) -> Lattice:
    """Merges the mass around every lattice point into one outcome whose loss is (almost) that point.

    Merging outcomes is post-processing, so the result is dominated by the truth, wherever the cells
    are cut. The cuts are moved until the merged losses sit on the lattice; what still falls below its
    point is covered by lowering the whole lattice a little, and the rare rest by one whole step.
    """
    first, last = int(np.floor((low - offset) / spacing)), int(np.ceil((high - offset) / spacing))
    last += 1  # so that every finite atom has its own cell, and an infinite loss the last one
    points = offset + spacing * np.arange(first, last + 1)
    cuts, move = _place_cuts(pair, points, spacing)
    points, offset = points + move, offset + move
    p, losses = _merge_losses(pair, cuts)
    # Raising the left cut lifts a cell, and lifts its left neighbour too: no new cell falls below.
    deficit = np.maximum(-_excess(p, losses, points), 0.0)
    p, losses = _merge_losses(pair, np.minimum(cuts + 2.2 * deficit, points + 0.4 * spacing))
    is_real = p > 0
    excess = np.where(is_real, losses - points, 0.0)
    lowered = _best_lowering(excess, points, p, tilt, spacing)
    steps = np.minimum(np.floor((excess + lowered) / spacing + 1e-12), 0).astype(int)
    target = np.arange(len(points)) + steps
    infinite = float(p[-1]) if np.isinf(losses[-1]) else 0.0
    keep = is_real & (target >= 0) & np.isfinite(losses)
    masses = np.bincount(target[keep], weights=p[keep], minlength=len(points))
    return Lattice(spacing, offset - lowered - 1e-12 * spacing, first, masses, infinite)


def _place_cuts(pair: Pair, points: np.ndarray, spacing: float) -> tuple[np.ndarray, float]:
    """Cuts whose cells have merged losses near the points, and how far to move the points for that."""
    cuts = points - spacing / 2
    p, losses = _merge_losses(pair, cuts)
    excess = _excess(p, losses, points)
    # Moving both cuts of a cell by its excess centres it, up to the second difference of the excess.
    smooth = np.clip((np.append(excess[0], excess[:-1]) + excess) / 2, -0.2 * spacing, 0.2 * spacing)
    start = int(np.argmax(p > 1e-6))
    edge = slice(start, start + _EDGE_CELLS)
    # What that leaves is the second difference: next to nothing, except at an edge of the support.
    with np.errstate(invalid="ignore"):  # far right, where Q is below the smallest float, losses are infinite
        left_over = np.abs(np.diff(excess, n=2, prepend=excess[0], append=excess[-1]))
    if len(points) > start + 2 * _EDGE_CELLS and float(p[edge] @ left_over[edge]) > 4e-5 * spacing:
        for first_move in np.array([0.0, 0.25, 0.5, 0.75]) * spacing:
            fitted = _fit_edge(
                pair, points[edge], (cuts - smooth)[start + 1 :][:_EDGE_CELLS], first_move, spacing
            )
            if fitted is not None:
                edge_cuts, move = fitted
                moved = cuts - smooth + move
                moved[start + 1 : start + _EDGE_CELLS] = edge_cuts
                moved[: start + 1] = points[0] - spacing * (2 + start - np.arange(start + 1))
                return moved, move
    return cuts - smooth, 0.0


def _fit_edge(
    pair: Pair, points: np.ndarray, cuts: np.ndarray, first_move: float, spacing: float
) -> tuple[np.ndarray, float] | None:
    """Cuts next to a left edge of the support, and a move of the lattice, that centre every cell exactly.

    Newton's method on the inner cuts and the move; the first cell reaches from minus infinity to the
    first inner cut, and the last cut stays where the smooth part wants it. None without convergence.
    """
    count = len(points)
    inner, move = cuts + first_move, first_move
    step = 1e-5 * spacing
    for _ in range(12):
        edges = np.column_stack([inner, inner + step]).ravel()
        p, q, _, _ = pair.masses(edges)
        sliver, body = p[1::2], p[:-1:2]
        whole_p = body + np.append(0.0, sliver[:-1])
        whole_q = q[:-1:2] + np.append(0.0, q[1::2][:-1])
        if not (whole_p.min() > 0 and whole_q.min() > 0):
            return None
        losses = np.log(whole_p) - np.log(whole_q)
        residual = losses - points - move
        if np.abs(residual).max() < 1e-9 * spacing:
            return inner[:-1], move
        density = sliver / step
        right = density / whole_p * -np.expm1(losses - inner)  # d loss / d right cut
        left = np.append(0.0, density[:-1] / whole_p[1:] * np.expm1(losses[1:] - inner[:-1]))
        jacobian = np.zeros((count, count))  # unknowns: the inner cuts but the last, then the move
        rows = np.arange(count)
        jacobian[rows[:-1], rows[:-1]] = right[:-1]
        jacobian[rows[1:], rows[:-1]] = left[1:]
        jacobian[:, -1] = -1.0
        jacobian[-1, -1] += right[-1]  # the last cut moves with the lattice
        try:
            change = np.linalg.solve(jacobian, -residual)
        except np.linalg.LinAlgError:
            return None
        change *= min(1.0, 0.4 * spacing / max(np.abs(change).max(), 1e-300))
        inner = inner + np.append(change[:-1], change[-1])
        move += float(change[-1])
        if np.any(np.diff(inner) <= step) or abs(move) > 1.5 * spacing:
            return None
    return None


def _merge_losses(pair: Pair, cuts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The outcomes right of each cut: their P mass and their loss, both rounded down.

    Cuts that were moved past one another are put back in order: no outcome may count twice.
    """
    p, q, p_error, q_error = pair.masses(np.maximum.accumulate(cuts))
    p, q = np.maximum(p[1:] - p_error[1:], 0.0), q[1:] + q_error[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(p) - np.log(q)
        return p, losses - 8 * UNIT * np.where(np.isfinite(losses), np.abs(losses), 0.0)


def _excess(p: np.ndarray, losses: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How far each merged loss lies above its point; the last cell, open to the right, counts as on it."""
    excess = np.where(p > 0, losses - points, 0.0)
    excess[-1] = 0.0
    return excess


def _best_lowering(
    excess: np.ndarray, points: np.ndarray, p: np.ndarray, tilt: float, spacing: float
) -> float:
    """How far to lower the lattice: lowering it costs everybody, not lowering it costs those below a step."""
    low = np.flatnonzero(excess < 0)
    if not len(low):
        return 0.0
    with np.errstate(divide="ignore"):
        logs = np.log(p) + tilt * points
    weights = np.exp(np.maximum(logs - logs.max(), -600.0))
    order = low[np.argsort(excess[low])]
    falls = np.concatenate([[0.0], np.cumsum(weights[order])]) / weights.sum()
    depths = -np.concatenate([excess[order], [0.0]])
    return float(depths[np.argmin(depths + spacing * falls)])
