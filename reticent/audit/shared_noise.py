"""Whether the numbers of one release share their noise: two leaves, two parts of a leaf, or any two numbers.

Noise that stands in two places is gone from their difference. A proof counts on the claimed deviation in
every direction, so that is what is looked at: the difference and the sum of two places, over the root of two,
have it too if they are independent. More noise than claimed is not a problem here either.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv

_FALSE_ALARM = 1e-6  # of each of the two searches
_OF_A_LEAF = 4096  # numbers of each that are compared with another leaf's
_ANYWHERE = 1 << 16  # numbers of all leaves that are compared with each other
_ROUNDING = 1e-9  # of squares in units of the variance: whatever is nearer may be so by rounding alone


class _Pair(NamedTuple):
    """Two places with equally many numbers, (draws, numbers) each, and what they are."""

    what: str
    first: np.ndarray
    second: np.ndarray


def shared_noise(draws: Mapping[str, np.ndarray], deviation: float) -> str | None:
    """What numbers share noise, if any: of leaves drawn several times on the same sum, (draws, ...) each.

    For noise that has its size; noise that is missing would look shared. Correct noise, of which a number is
    rarely drawn twice, is blamed with a probability of at most two in a million.
    """
    drawn = {name: leaf for name, leaf in draws.items() if leaf.size and len(leaf) > 1}
    if not drawn:
        return None
    noise = {name: (leaf - leaf.mean(axis=0)) / deviation for name, leaf in drawn.items()}
    freedom = len(next(iter(noise.values()))) - 1
    pairs = [*_leaves(noise), *_parts(noise)]
    for pair in pairs:
        count = freedom * pair.first.shape[1]
        least = _least(count, _FALSE_ALARM / (2 * len(pairs)))
        for word, sign in (("difference", -1), ("sum", 1)):
            square = float(np.square(pair.first + sign * pair.second).sum()) / 2
            if square < least:
                found = deviation * math.sqrt(square / count)
                return (
                    f"{pair.what} share noise: their {word}, over the root of 2, has deviation {found:.4g} "
                    f"and {deviation:.4g} was claimed"
                )
    return _twins(noise, freedom)


def _least(freedom: int, probability: float) -> float:
    """The number below which a chi-squared variable is with this probability, however small."""
    return 2 * float(gammaincinv(freedom / 2, probability))


def _leaves(noise: Mapping[str, np.ndarray]) -> Iterator[_Pair]:
    """Every two leaves, from their first numbers on: what a generator gives first it gives to both."""
    flat = {name: leaf.reshape(len(leaf), -1)[:, :_OF_A_LEAF] for name, leaf in noise.items()}
    for (name, leaf), (other, beside) in combinations(flat.items(), 2):
        shared = min(leaf.shape[1], beside.shape[1])
        yield _Pair(f"'{name}' and '{other}'", leaf[:, :shared], beside[:, :shared])


def _parts(noise: Mapping[str, np.ndarray]) -> Iterator[_Pair]:
    """Halves of a leaf, and neighbours, along each of its axes: noise that was drawn once for several."""
    for name, leaf in noise.items():
        for axis in range(1, leaf.ndim):
            slices = np.moveaxis(leaf, axis, 1)  # (draws, along, ...)
            half = slices.shape[1] // 2
            if not half:
                continue
            halves = slices[:, :half], slices[:, half : 2 * half]
            neighbours = slices[:, : 2 * half : 2], slices[:, 1 : 2 * half : 2]
            for what, (first, second) in (("halves", halves), ("neighbours", neighbours)):
                yield _Pair(
                    f"{what} along axis {axis - 1} of '{name}'",
                    first.reshape(len(leaf), -1),
                    second.reshape(len(leaf), -1),
                )


def _twins(noise: Mapping[str, np.ndarray], freedom: int) -> str | None:
    """Two numbers with the same noise in every draw, or with opposite noise, wherever they stand.

    Twins have the same projection on any direction, so they are neighbours in the order of one.
    """
    room = max(_ANYWHERE // len(noise), 1)
    flat = {name: leaf.reshape(len(leaf), -1)[:, :room] for name, leaf in noise.items()}
    every = np.concatenate(list(flat.values()), axis=1)  # (draws, numbers)
    numbers = every.shape[1]
    least = _least(freedom, _FALSE_ALARM / max(numbers * (numbers - 1), 1))
    if least < _ROUNDING:
        return None  # so few draws that twins happen
    projected = np.random.default_rng(0).normal(size=len(every)) @ every
    order = np.argsort(np.abs(projected))
    turned = (every * np.where(projected < 0, -1.0, 1.0))[:, order]
    apart = np.square(np.diff(turned, axis=1)).sum(axis=0) / 2
    twins = np.flatnonzero(apart < least)
    if not len(twins):
        return None
    places = [(name, at) for name, leaf in flat.items() for at in range(leaf.shape[1])]
    (name, at), (other, there) = sorted(places[order[place]] for place in (twins[0], twins[0] + 1))
    return f"number {at} of '{name}' and number {there} of '{other}' share their noise"
