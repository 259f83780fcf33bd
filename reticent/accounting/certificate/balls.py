"""Dominating pairs in ball arithmetic: every number comes with a radius that holds its true value.

A pair of distributions (P, Q) is seen through its loss L = ln(dP/dQ) alone. `split(edge)` gives the P and the
Q mass of the losses on both sides of an edge. Whether a loss that *is* the edge counts as below or above does
not matter: `measure.round_up` leaves its mass at the edge either way.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from reticent.core.errors import Unavailable

Ball = Any  # flint.arb: python-flint is an optional package, and it is imported where it is used


def load_flint() -> Any:
    """The package that computes with balls.

    Raises:
        Unavailable: it is not installed.
    """
    try:
        import flint
    except ImportError:
        raise Unavailable(
            "Certificates need the package 'python-flint', which is not installed.",
            remedy="Install it: pip install 'reticent[certify]'.",
        ) from None
    return flint


def ball_of(number: float | Fraction) -> Ball:
    """The smallest ball around a number; a point, where the precision is enough for it."""
    from flint import arb, fmpz

    exact = Fraction(number)
    return arb(fmpz(exact.numerator)) / arb(fmpz(exact.denominator))


class Undecided(ArithmeticError):
    """Two balls overlap, and which of the two numbers is larger remains open: more bits decide."""


class Halves(NamedTuple):
    """P and Q mass of the losses below and above an edge; the smaller of two keeps its digits."""

    p_below: Ball
    p_above: Ball
    q_below: Ball
    q_above: Ball


class BallPair(Protocol):
    """A dominating pair."""

    def split(self, edge: Ball) -> Halves:
        """The masses on both sides of a loss."""
        ...


@dataclass(frozen=True)
class GaussianBalls:
    """N(mu, 1) against N(0, 1): the loss at z is mu z - mu^2 / 2."""

    mu: Ball

    def split(self, edge: Ball) -> Halves:
        z = edge / self.mu + self.mu / 2
        return Halves(*_normal(z - self.mu), *_normal(z))


@dataclass(frozen=True)
class LaplaceBalls:
    """Laplace noise around 1 against Laplace noise around 0, of scale 1 / `epsilon`.

    Half of P has the loss epsilon, and e^-epsilon / 2 of it -epsilon. Up to a loss l between the two, P has
    e^((l - epsilon) / 2) / 2, for the noise that is at most (l + epsilon) / (2 epsilon).
    """

    epsilon: Ball

    def split(self, edge: Ball) -> Halves:
        if _is_less(edge, -self.epsilon):
            return Halves(edge * 0, edge * 0 + 1, edge * 0, edge * 0 + 1)
        if not _is_less(edge, self.epsilon):
            return Halves(edge * 0 + 1, edge * 0, edge * 0 + 1, edge * 0)
        p_below = ((edge - self.epsilon) / 2).exp() / 2
        q_above = ((-edge - self.epsilon) / 2).exp() / 2
        return Halves(p_below, 1 - p_below, 1 - q_above, q_above)


@dataclass(frozen=True)
class AtomBalls:
    """Finitely many losses, each with its P and its Q mass, and what only P or only Q can give."""

    atoms: tuple[tuple[Ball, Ball, Ball], ...]
    only_p: Ball
    only_q: Ball

    def split(self, edge: Ball) -> Halves:
        p_below, p_above, q_below, q_above = (
            edge * 0,
            edge * 0 + self.only_p,
            edge * 0 + self.only_q,
            edge * 0,
        )
        for loss, p, q in self.atoms:
            if _is_less(edge, loss):
                p_above, q_above = p_above + p, q_above + q
            else:
                p_below, q_below = p_below + p, q_below + q
        return Halves(p_below, p_above, q_below, q_above)


@dataclass(frozen=True)
class SampledBalls:
    """(1 - rate) Q + rate P against Q. Its loss is ln(1 - rate + rate e^l), where l is that of (P, Q)."""

    inner: BallPair
    rate: Ball

    def split(self, edge: Ball) -> Halves:
        grown = edge.exp() - (1 - self.rate)
        if _is_less(grown, grown * 0):
            return Halves(grown * 0, grown * 0 + 1, grown * 0, grown * 0 + 1)
        if not grown > 0:
            raise Undecided
        inner = self.inner.split((grown / self.rate).log())
        return Halves(
            (1 - self.rate) * inner.q_below + self.rate * inner.p_below,
            (1 - self.rate) * inner.q_above + self.rate * inner.p_above,
            inner.q_below,
            inner.q_above,
        )


@dataclass(frozen=True)
class ReversedBalls:
    """(Q, P): every loss changes its sign."""

    inner: BallPair

    def split(self, edge: Ball) -> Halves:
        found = self.inner.split(-edge)
        return Halves(found.q_above, found.q_below, found.p_above, found.p_below)


@dataclass(frozen=True)
class FixedSizeBalls:
    """Losses above 0 of the sampled pair, losses below 0 of its mirror image, and the rest at 0.

    Zhu, Dong and Wang (2022), Theorem 11; section 2.3 of docs/accounting.md.
    """

    sampled: SampledBalls

    def split(self, edge: Ball) -> Halves:
        if _is_less(edge, edge * 0):
            mirrored = self.sampled.split(-edge)
            return Halves(mirrored.q_above, 1 - mirrored.q_above, mirrored.p_above, 1 - mirrored.p_above)
        found = self.sampled.split(edge)
        return Halves(1 - found.p_above, found.p_above, 1 - found.q_above, found.q_above)


@dataclass(frozen=True)
class ReplacedBalls:
    """(1 - rate) N(0) + rate N(mu) against (1 - rate) N(0) + rate N(-mu): section 2.4 of docs/accounting.md.

    With x = e^(mu z) and a = rate e^(-mu^2 / 2) the loss is ln((1 - rate + a x) / (1 - rate + a / x)). It
    grows with z, and is an edge at the positive root of a x^2 + (1 - rate)(1 - e^edge) x - a e^edge.
    """

    mu: Ball
    rate: Ball

    def split(self, edge: Ball) -> Halves:
        a = self.rate * (-self.mu * self.mu / 2).exp()
        grown = edge.exp()
        middle = (1 - self.rate) * (1 - grown)
        root = (middle * middle + 4 * a * a * grown).sqrt()
        # Of the two forms of the root, the one that adds numbers of the same sign.
        x = 2 * a * grown / (middle + root) if middle > 0 else (root - middle) / (2 * a)
        z = x.log() / self.mu
        middle_below, middle_above = _normal(z)
        right_below, right_above = _normal(z - self.mu)
        left_below, left_above = _normal(z + self.mu)
        stays, joins = 1 - self.rate, self.rate
        return Halves(
            stays * middle_below + joins * right_below,
            stays * middle_above + joins * right_above,
            stays * middle_below + joins * left_below,
            stays * middle_above + joins * left_above,
        )


@dataclass(frozen=True)
class GroupBalls:
    """A mixture of N(k mu), k = 0, 1, ..., against N(0): k of a group joined (Ganesh 2024, Theorem 3.1).

    The loss is ln of the sum of w_k e^(k t - k^2 mu^2 / 2), with t = mu z. It grows with t.
    """

    mu: Ball
    weights: tuple[Ball, ...]

    def split(self, edge: Ball) -> Halves:
        rest = edge.exp() - self.weights[0]
        if _is_less(rest, rest * 0):
            return Halves(rest * 0, rest * 0 + 1, rest * 0, rest * 0 + 1)
        if not rest > 0:
            raise Undecided
        z = self._crossing(rest) / self.mu
        cells = [_normal(z - k * self.mu) for k in range(len(self.weights))]
        return Halves(
            sum((w * cell[0] for w, cell in zip(self.weights, cells, strict=True)), rest * 0),
            sum((w * cell[1] for w, cell in zip(self.weights, cells, strict=True)), rest * 0),
            *cells[0],
        )

    def _crossing(self, rest: Ball) -> Ball:
        """Where the terms from k = 1 on sum to `rest`: Newton finds it, a change of sign proves it."""
        flint = load_flint()
        target, most = rest.log(), len(self.weights) - 1
        logs = [self.weights[k].log() - k * k * self.mu * self.mu / 2 for k in range(1, most + 1)]

        def value(t: Ball) -> tuple[Ball, Ball]:
            terms = [(log + k * t - target).exp() for k, log in enumerate(logs, start=1)]
            total: Ball = sum(terms, rest * 0)
            return total.log(), sum((k * term for k, term in enumerate(terms, start=1)), rest * 0) / total

        # Where the last term alone is the target the sum is above it, and Newton comes down from there.
        radius = ball_of(Fraction(1, 2 ** (flint.ctx.prec - 40)))
        t = ((target - logs[-1]) / most).mid()
        for _ in range(200):
            miss, slope = value(t)
            step = (miss / slope).mid()
            t = (t - step).mid()
            if abs(step) < radius / 16:
                break
        if not (value(t - radius)[0] < 0 < value(t + radius)[0]):
            raise Undecided
        return (t - radius).union(t + radius)


@dataclass(frozen=True)
class MixedBalls:
    """One of several pairs, by a public coin: weights and pairs."""

    parts: tuple[tuple[Ball, BallPair], ...]

    def split(self, edge: Ball) -> Halves:
        found = [(weight, pair.split(edge)) for weight, pair in self.parts]
        return Halves(*(sum((weight * part[i] for weight, part in found), edge * 0) for i in range(4)))


def _normal(z: Ball) -> tuple[Ball, Ball]:
    """The mass of N(0, 1) below and above z, the smaller one from its own tail."""
    flint = load_flint()
    root = flint.arb(2).sqrt()
    if z > 0:
        above = (z / root).erfc() / 2
        return 1 - above, above
    below = (-z / root).erfc() / 2
    return below, 1 - below


def _is_less(one: Ball, other: Ball) -> bool:
    """Whether one number is smaller than another, where their balls tell.

    Raises:
        Undecided: they overlap.
    """
    if one < other:
        return True
    if one >= other:
        return False
    raise Undecided
