"""Dominating pairs: the two distributions that tell neighbours apart best, as measures on the privacy loss.

A pair (P, Q) is seen only through its loss L = ln(dP/dQ): `masses(edges)` gives the P and the Q mass of
the losses between consecutive edges. Everything the accountant does (rounding to a lattice, composing,
reading off epsilon) needs no more than that. Masses carry a bound on their own rounding error, see
docs/accounting.md section 3.5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import ndtr

UNIT = 2.0**-53  # half the spacing of float64 at 1: the relative error of one rounding
_LEAST = 2.0**-1070  # more than the error of a mass that is too small for a normal float
_FARTHEST = 38.0  # standard deviations; beyond it a normal tail is below 1e-315


class Masses(NamedTuple):
    """P and Q mass of each cell (-inf, e0], (e0, e1], ..., (en, inf), and how wrong each may be."""

    p: np.ndarray
    q: np.ndarray
    p_error: np.ndarray
    q_error: np.ndarray


class Pair(Protocol):
    """A pair of distributions, seen through its privacy loss."""

    def masses(self, edges: np.ndarray) -> Masses:
        """Masses of the cells between ascending `edges`: one more cell than there are edges."""
        ...

    def span(self) -> tuple[float, float]:
        """Losses outside this range have no representable mass (an infinite loss aside)."""
        ...

    def atoms(self) -> tuple[float, ...]:
        """Finite losses that occur with positive probability: a lattice does well to hit the first two."""
        ...


@dataclass(frozen=True)
class GaussianPair:
    """N(mu, 1) against N(0, 1): `mu` is the sensitivity over the standard deviation."""

    mu: float

    def masses(self, edges: np.ndarray) -> Masses:
        z = edges / self.mu + self.mu / 2  # where the loss mu z - mu^2 / 2 crosses an edge
        q, q_error = _normal_cells(z)
        p, p_error = _normal_cells(z - self.mu)
        return Masses(p, q, p_error, q_error)

    def span(self) -> tuple[float, float]:
        reach = _FARTHEST * self.mu + self.mu * self.mu / 2
        return -reach, reach

    def atoms(self) -> tuple[float, ...]:
        return ()


@dataclass(frozen=True)
class LaplacePair:
    """Laplace noise at 1 against Laplace noise at 0, of scale 1 / `epsilon`."""

    epsilon: float

    def masses(self, edges: np.ndarray) -> Masses:
        e0 = self.epsilon
        inner = np.clip(edges, -e0, e0)
        # Between the atoms at -e0 and +e0 the loss has density e^{-(e0 - l)/2} / 4 under P.
        width = -np.expm1(-np.diff(inner) / 2)
        p_inner = np.exp((inner[1:] - e0) / 2) * width / 2
        q_inner = np.exp((-inner[:-1] - e0) / 2) * width / 2
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        p[1:-1], q[1:-1] = p_inner, q_inner
        p[0], q[-1] = -np.expm1(-(inner[0] + e0) / 2) * np.exp((inner[0] - e0) / 2) / 2, 0.0
        q[0] = -np.expm1(-(inner[0] + e0) / 2) / 2
        p[-1] = -np.expm1(-(e0 - inner[-1]) / 2) / 2
        q[-1] = -np.expm1(-(e0 - inner[-1]) / 2) * np.exp(-(inner[-1] + e0) / 2) / 2
        low, high = np.searchsorted(edges, [-e0, e0])  # the cells (a, b] that hold the two atoms
        p[low] += np.exp(-e0) / 2
        q[low] += 0.5
        p[high] += 0.5
        q[high] += np.exp(-e0) / 2
        return Masses(p, q, 32 * UNIT * p + _LEAST, 32 * UNIT * q + _LEAST)

    def span(self) -> tuple[float, float]:
        return -self.epsilon, self.epsilon

    def atoms(self) -> tuple[float, ...]:
        return -self.epsilon, self.epsilon


@dataclass(frozen=True)
class AtomPair:
    """Finitely many losses, and outcomes that only P (loss +inf) or only Q (loss -inf) can give."""

    losses: tuple[float, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]

    def masses(self, edges: np.ndarray) -> Masses:
        cells = np.searchsorted(edges, self.losses)
        p = np.bincount(cells, weights=self.p, minlength=len(edges) + 1)
        q = np.bincount(cells, weights=self.q, minlength=len(edges) + 1)
        # What one of the two cannot give at all is a zero without error.
        least = _LEAST * np.bincount(cells, weights=np.isfinite(self.losses), minlength=len(edges) + 1)
        return Masses(p, q, 16 * UNIT * p + least, 16 * UNIT * q + least)

    def span(self) -> tuple[float, float]:
        return min(self.atoms(), default=0.0), max(self.atoms(), default=0.0)

    def atoms(self) -> tuple[float, ...]:
        return tuple(loss for loss in self.losses if np.isfinite(loss))

    @property
    def has_minus_infinity(self) -> bool:
        return any(np.isneginf(loss) and mass > 0 for loss, mass in zip(self.losses, self.q, strict=True))


@dataclass(frozen=True)
class SampledPair:
    """(1 - rate) Q + rate P against Q: the record was there, but joined the batch with a coin.

    Reference:
        Zhu, Dong and Wang (2022), Theorem 11, arXiv:2106.08567v4: if (P, Q) dominates a mechanism for
        removals, this pair dominates it under Poisson sampling.
    """

    inner: Pair
    rate: float

    def masses(self, edges: np.ndarray) -> Masses:
        # No loss is below ln(1 - rate), where an inner loss of minus infinity ends up: the cells that end
        # before it are empty, and that atom is in the first one that does not.
        empty = int(np.searchsorted(edges, self._loss(-np.inf)))
        if empty == len(edges):
            nothing, everything = np.zeros(len(edges) + 1), np.append(np.zeros(len(edges)), 1.0)
            return Masses(everything, everything, nothing, nothing)
        inner = self.inner.masses(self._inner_edges(edges[empty:]))
        p, q, p_error, q_error = (np.append(np.zeros(empty), part) for part in inner)
        mixed = (1 - self.rate) * q + self.rate * p
        mixed_error = (1 - self.rate) * q_error + self.rate * p_error + 4 * UNIT * mixed
        return Masses(mixed, q, mixed_error, q_error)

    def _inner_edges(self, edges: np.ndarray) -> np.ndarray:
        """Where the loss ln(1 - rate + rate e^l) crosses an edge: e^l = (e^edge - 1 + rate) / rate."""
        with np.errstate(divide="ignore", over="ignore"):
            # Either difference is right to the last digit of e^edge: at a high rate, that is near 0.
            grown = np.expm1(edges) + self.rate if self.rate < 0.5 else np.exp(edges) - (1 - self.rate)
            inner_edges = np.log(np.maximum(grown, 0.0)) - np.log(self.rate)
        # Where e^edge swallows everything else, it is edge - ln(rate); exp would overflow.
        return np.where(edges > 40, edges - np.log(self.rate), inner_edges)

    def span(self) -> tuple[float, float]:
        low, high = self.inner.span()
        return self._loss(-np.inf if self._has_floor else low), self._loss(high)

    def atoms(self) -> tuple[float, ...]:
        inner = self.inner.atoms()
        return tuple(map(self._loss, (*inner, -np.inf) if self._has_floor else inner))

    @property
    def _has_floor(self) -> bool:
        """Whether ln(1 - rate) itself has mass. Makes bounds tight; they hold without it."""
        return self.rate < 1 and isinstance(self.inner, AtomPair) and self.inner.has_minus_infinity

    def _loss(self, inner: float) -> float:
        if self.rate == 1:
            return float(inner)
        return float(np.logaddexp(np.log1p(-self.rate), np.log(self.rate) + inner))


@dataclass(frozen=True)
class ReversedPair:
    """(Q, P) for a pair (P, Q): the neighbour that gains a record instead of losing one."""

    inner: Pair

    def masses(self, edges: np.ndarray) -> Masses:
        p, q, p_error, q_error = self.inner.masses(-edges[::-1])
        return Masses(q[::-1], p[::-1], q_error[::-1], p_error[::-1])

    def span(self) -> tuple[float, float]:
        low, high = self.inner.span()
        return -high, -low

    def atoms(self) -> tuple[float, ...]:
        return tuple(-loss for loss in self.inner.atoms())


@dataclass(frozen=True)
class FixedSizePair:
    """A batch of fixed size, one record replaced: gains from one pair, losses from its mirror image.

    Under replacement the privacy profile is that of (1 - rate) Q + rate P against Q for losses above 0,
    and that of P against (1 - rate) P + rate Q below. Neither pair alone dominates a composition; the one
    whose profile is pieced together from both does.

    Reference:
        Zhu, Dong and Wang (2022), Theorem 11; Lebeda, Regehr, Kamath and Steinke (2024),
        arXiv:2405.20769, on why one of the two is not enough.
    """

    inner: Pair
    rate: float

    def masses(self, edges: np.ndarray) -> Masses:
        sampled = SampledPair(self.inner, self.rate)
        split = int(np.searchsorted(edges, 0.0))
        cut = np.concatenate([edges[:split], [0.0], edges[split:]])
        above, below = sampled.masses(cut), ReversedPair(sampled).masses(cut)
        parts = [
            np.concatenate([low[: split + 1], high[split + 1 :]])
            for low, high in zip(below, above, strict=True)
        ]
        # What is left over sits at loss 0 exactly, in the same amount under P and Q.
        rest = max(0.0, 1 - max(float(parts[0].sum()), float(parts[1].sum())))
        merged = [np.delete(part, split) for part in parts]
        for whole, part, extra in zip(merged, parts, (rest, rest, 0.0, 0.0), strict=True):
            whole[split] += part[split] + extra
        merged[2][split] += 64 * UNIT
        merged[3][split] += 64 * UNIT
        return Masses(*merged)

    def span(self) -> tuple[float, float]:
        _, high = SampledPair(self.inner, self.rate).span()
        return -high, high

    def atoms(self) -> tuple[float, ...]:
        return (0.0,)


@dataclass(frozen=True)
class MixturePair:
    """A mixture of unit normals against another, whose loss grows along the line.

    Covers a group of records under Poisson sampling, and one record replaced under it.
    """

    p_weights: tuple[float, ...]
    p_means: tuple[float, ...]
    q_weights: tuple[float, ...]
    q_means: tuple[float, ...]

    def masses(self, edges: np.ndarray) -> Masses:
        z = self._crossings(edges)
        p, p_error = _mixture_cells(z, self.p_weights, self.p_means)
        q, q_error = _mixture_cells(z, self.q_weights, self.q_means)
        return Masses(p, q, p_error, q_error)

    def span(self) -> tuple[float, float]:
        means = self.p_means + self.q_means
        ends = np.array([min(means) - _FARTHEST, max(means) + _FARTHEST])
        low, high = self._loss(ends)
        return float(low), float(high)

    def atoms(self) -> tuple[float, ...]:
        return ()

    def _loss(self, z: np.ndarray) -> np.ndarray:
        return _log_density(z, self.p_weights, self.p_means) - _log_density(z, self.q_weights, self.q_means)

    def _crossings(self, edges: np.ndarray) -> np.ndarray:
        """Where the loss crosses each edge, by bisection: it needs no more than monotony."""
        means = self.p_means + self.q_means
        low = np.full(edges.shape, min(means) - _FARTHEST)
        high = np.full(edges.shape, max(means) + _FARTHEST)
        for _ in range(60):
            middle = (low + high) / 2
            is_below = self._loss(middle) < edges
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return high


@dataclass(frozen=True)
class CoinPair:
    """`rare` with probability `chance` and `usual` otherwise, by a coin that everybody sees.

    That everybody sees it makes the pair worse: hiding the coin is post-processing. So it dominates every
    mechanism that is dominated by `usual` or by `rare` given something that is alike on both neighbours.
    """

    usual: Pair
    rare: Pair
    chance: float

    def masses(self, edges: np.ndarray) -> Masses:
        usual, rare = self.usual.masses(edges), self.rare.masses(edges)
        stays = min(1 - self.chance + UNIT, 1.0)
        p, q, p_error, q_error = (
            stays * one + self.chance * other for one, other in zip(usual, rare, strict=True)
        )
        return Masses(p, q, p_error + 4 * UNIT * p, q_error + 4 * UNIT * q)

    def span(self) -> tuple[float, float]:
        usual, rare = self.usual.span(), self.rare.span()
        return min(usual[0], rare[0]), max(usual[1], rare[1])

    def atoms(self) -> tuple[float, ...]:
        return self.usual.atoms()


def _log_density(z: np.ndarray, weights: tuple[float, ...], means: tuple[float, ...]) -> np.ndarray:
    """ln of the mixture's density over that of N(0, 1); NaN where a mean is too far away for floats."""
    with np.errstate(over="ignore", invalid="ignore"):
        terms = [np.log(w) + m * z - m * m / 2 for w, m in zip(weights, means, strict=True) if w > 0]
        return np.logaddexp.reduce(terms, axis=0)


def _mixture_cells(
    z: np.ndarray, weights: tuple[float, ...], means: tuple[float, ...]
) -> tuple[np.ndarray, np.ndarray]:
    mass, error = np.zeros(len(z) + 1), np.zeros(len(z) + 1)
    for weight, mean in zip(weights, means, strict=True):
        cells, cell_error = _normal_cells(z - mean)
        mass += weight * cells
        error += weight * cell_error
    return mass, error + 8 * UNIT * mass


def _normal_cells(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mass of N(0, 1) between consecutive points, each from the tail on its own side.

    The difference of two small tails keeps its leading digits where the difference of two numbers
    near 1 would lose them all.
    """
    size = np.abs(z)
    tail = ndtr(-size)
    # The relative error of a computed tail at z: that of erfc, and that of z itself, amplified by z.
    error = tail * (16 + 4 * np.minimum(size, _FARTHEST) ** 2) * UNIT
    is_left = z <= 0
    first_right = int(np.count_nonzero(is_left))
    # A cell below 0 is its tail less the one before; above, less the one after; the one between is the rest.
    mass, left, right = np.empty(len(z) + 1), tail[:first_right], tail[first_right:]
    mass[:1] = left[:1] if first_right else 0.0
    np.subtract(left[1:], left[:-1], out=mass[1 : max(first_right, 1)])
    mass[-1:] = right[-1:] if len(right) else 0.0
    np.subtract(right[:-1], right[1:], out=mass[first_right + 1 : first_right + 1 + max(len(right) - 1, 0)])
    inner_left = tail[first_right - 1] if first_right else 0.0
    inner_right = tail[first_right] if first_right < len(z) else 0.0
    mass[first_right] = 1 - inner_left - inner_right
    bounds = np.zeros(len(z) + 1)
    bounds[:-1] += error
    bounds[1:] += error
    bounds[first_right] += UNIT
    return np.maximum(mass, 0.0), bounds
