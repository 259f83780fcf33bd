"""Ways in which a machine adds noise, and the marks that each leaves in the bits of what is released.

Whoever knows two sums that a release may be of asks of each: is there noise, such as this sampler draws, that
gives exactly these bits on top of this sum? A float has few neighbours where it is large, and a sum of two
keeps the coarser grid of both: often only one of the sums could have been there.

A suspicion that is wrong tells the sums apart no better than chance does; it accuses nobody.

Reference:
    Mironov (2012), On significance of the least significant bits for differential privacy.
    Jin, McMurtry, Rubinstein and Ohrimenko (2022), Are we there yet?, arXiv:2112.05307.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

_WORD_BITS = 32  # of the words whose normal numbers have gaps in the tails
_TAIL = 4.4  # deviations, from where the gaps between them are wider than any approximation
_JAX_BITS, _JAX_NUMBERS = 23, 512  # of a float32 that jax.random draws; so many are looked up in its list
_MISSTATED, _ALL = 1e-4, 0.95  # relative, by which a deviation may be off; the share of noise that has to fit
_NUMBERS = 1 << 13  # of a release that are looked at one by one
_NEAR = 0.25  # of a grid's step
_GRID_NUMBERS, _GRID_LEAST = 1 << 16, 32  # that a grid is looked for in

Could = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Suspect(NamedTuple):
    """One way to add noise.

    Args:
        could: of a sum, and of what was released, of the same float type: for which numbers noise of this
            kind could have made the one from the other.
    """

    name: str
    could: Could


def suspects(dtype: np.dtype, deviation: float, divisor: float, noise: np.ndarray) -> list[Suspect]:
    """All that are looked for in releases of one float type.

    Args:
        deviation: of the noise on the sum.
        divisor: what the noisy sum was divided by.
        noise: some of it, on its own, in the units of the sum.
    """
    kind = np.dtype(dtype).name
    ways: dict[str, Could] = {f"{kind} noise, added in {kind}": _could_be_added}
    if dtype == np.float32:
        ways["float32 noise, multiplied and added at once"] = functools.partial(_could_be_fused, deviation)
        ways["normal numbers of jax.random"] = functools.partial(
            _could_be_from_jax, fit_deviation(deviation, noise)
        )
    found = [Suspect(name, _first_numbers(_allow_division(could, divisor))) for name, could in ways.items()]
    if dtype == np.float32:  # in the tails, of which there is little: on all numbers
        words = functools.partial(_could_be_from_words, deviation)
        found.append(Suspect("normal numbers of 32-bit words", _allow_division(words, divisor)))
    rounding = roundings(dtype)
    step = grid_of(noise, rounding)
    if step is not None:
        on_grid = functools.partial(_on_grid, step, divisor, rounding)
        found.append(Suspect("noise on a grid", _first_numbers(on_grid)))
    return found


def roundings(dtype: np.dtype) -> float:
    """The relative error of a released number: of four operations at most, after sum and noise were added."""
    return 4 * float(np.finfo(dtype).epsneg)


def trailing_zeros(released: np.ndarray) -> float:
    """How many of the lowest bits are zero, on average: more where a float came from a larger one."""
    values = released[released != 0]
    if not values.size:
        return 0.0
    whole = values.view(np.int32 if values.dtype == np.float32 else np.int64)
    return float(np.mean(np.log2((whole & -whole).astype(np.float64))))


def _could_be_added(clean: np.ndarray, released: np.ndarray) -> np.ndarray:
    """Some float, added to the sum and rounded, is what was released."""
    exact = (released.astype(np.longdouble) - clean).astype(released.dtype)
    return _any(clean + noise == released for noise in _around(exact))


def _could_be_fused(deviation: float, clean: np.ndarray, released: np.ndarray) -> np.ndarray:
    """The same for a float times the deviation, where the product is not rounded before it is added."""
    scale, wide = np.float64(np.float32(deviation)), clean.astype(np.float64)
    exact = ((released - wide) / scale).astype(np.float32)
    return _any((wide + scale * noise).astype(np.float32) == released for noise in _around(exact))


def _could_be_from_jax(deviation: float, clean: np.ndarray, released: np.ndarray) -> np.ndarray:
    """A normal number of jax.random is where it has to be, for a part of the numbers: its list is long."""
    could = np.ones(released.shape, bool)
    some = slice(_JAX_NUMBERS)
    could[some] = _is_listed(_jax_normals(), 2.0**-22, deviation, clean[some], released[some])
    return could


def _could_be_from_words(deviation: float, clean: np.ndarray, released: np.ndarray) -> np.ndarray:
    """In the tails, a normal number of a 32-bit word is where it has to be."""
    could = np.ones(released.shape, bool)
    tails = np.flatnonzero(np.abs(released.astype(np.float64) - clean) > _TAIL * deviation)
    could[tails] = _is_listed(_word_normals(), 2.0**-20.5, deviation, clean[tails], released[tails])
    return could


def _is_listed(
    values: np.ndarray, error: float, deviation: float, clean: np.ndarray, released: np.ndarray
) -> np.ndarray:
    """Whether one of these values, times the deviation, is near enough.

    Args:
        error: relative, of the values and what they are multiplied by.
    """
    noise = released.astype(np.float64) - clean
    room = 0.51 * np.spacing(np.abs(released)) + np.abs(noise) * error
    low, high = (np.searchsorted(values, (noise + side * room) / deviation) for side in (-1, 1))
    return low != high


def _on_grid(
    step: float, divisor: float, rounding: float, clean: np.ndarray, released: np.ndarray
) -> np.ndarray:
    """The noise is a whole multiple of the step."""
    total = released.astype(np.float64) * divisor
    steps = (total - clean) / step
    is_hidden = rounding * np.abs(total) > _NEAR / 4 * step
    return is_hidden | (np.abs(steps - np.rint(steps)) < _NEAR)


def _first_numbers(could: Could) -> Could:
    """Asks about the first numbers only: they say enough."""
    return lambda clean, released: could(clean[:_NUMBERS], released[:_NUMBERS])


def _allow_division(could: Could, divisor: float) -> Could:
    """For sums that were divided: any that gives these bits may be the one."""
    if divisor == 1:
        return could

    def could_divided(clean: np.ndarray, released: np.ndarray) -> np.ndarray:
        kind = released.dtype.type
        before = (released.astype(np.longdouble) * divisor).astype(kind)
        return _any(
            ((total / kind(divisor) == released) | (total * kind(1 / divisor) == released))
            & could(clean, total)
            for total in _around(before)
        )

    return could_divided


def _around(values: np.ndarray) -> Iterator[np.ndarray]:
    """The floats themselves, and their neighbours on either side."""
    yield values
    for side in (-np.inf, np.inf):
        yield np.nextafter(values, values.dtype.type(side))


def _any(found: Iterator[np.ndarray]) -> np.ndarray:
    return functools.reduce(np.logical_or, found)


def fit_deviation(deviation: float, noise: np.ndarray) -> float:
    """The number that normal numbers of jax.random were multiplied by, if it is near this; else this.

    Far out there are so few of them that the largest noise is a multiple of one or two; the rest of the
    noise says of which.
    """
    values, noise = _jax_normals(), noise.reshape(-1)
    largest = noise[np.argmax(np.abs(noise))]
    near = sorted(largest / deviation * (1 + side * _MISSTATED) for side in (-1, 1))
    tried = largest / values[slice(*np.searchsorted(values, near))]
    some, nothing = (
        noise[:_JAX_NUMBERS].astype(np.float32),
        np.zeros(min(_JAX_NUMBERS, len(noise)), np.float32),
    )
    shares = [np.mean(_is_listed(values, 2.0**-22, each, nothing, some)) for each in tried]
    return float(tried[np.argmax(shares)]) if max(shares, default=0) > _ALL else deviation


@functools.cache
def _jax_normals() -> np.ndarray:
    """All normal numbers that jax.random.normal draws in float32: there are 2^23 of them."""
    import jax.numpy as jnp
    from jax.scipy.special import erfinv

    low = np.nextafter(np.float32(-1), np.float32(0))
    words = np.arange(1 << _JAX_BITS, dtype=np.uint32) | np.float32(1).view(np.uint32)
    share = words.view(np.float32) - np.float32(1)
    uniform = np.maximum(low, share * (np.float32(1) - low) + low)
    return np.sort(np.asarray(np.float32(np.sqrt(2)) * erfinv(jnp.asarray(uniform)), np.float64))


@functools.cache
def _word_normals() -> np.ndarray:
    """The tails of the normal numbers at the middles of 2^32 equal shares of probability."""
    count = int(2.0**_WORD_BITS * ndtr(0.01 - _TAIL))
    tail = -ndtri((np.arange(count) + 0.5) / 2.0**_WORD_BITS)
    return np.sort(np.concatenate([tail, -tail]))


def grid_of(noise: np.ndarray, rounding: float) -> float | None:
    """The step of which all numbers are whole multiples, as far as rounding shows; None if none is found.

    Of many numbers some are one step apart. The smallest distance says about how long a step is; a long
    multiple of it says so precisely.

    Args:
        rounding: the relative error of each number.
    """
    values = np.unique(np.abs(noise.reshape(-1)[:_GRID_NUMBERS].astype(np.float64)))
    if len(values) < _GRID_LEAST:
        return None
    gaps = np.where(np.diff(values) > 8 * rounding * values[1:], np.diff(values), np.inf)
    at = int(np.argmin(gaps))
    if not np.isfinite(gaps[at]):
        return None
    step, error = gaps[at], 2 * rounding * values[at + 1] / gaps[at]  # relative
    known = values[(values * error < _NEAR * step) & (values > step / 2)]
    if not len(known):
        return None
    step = known[-1] / np.rint(known[-1] / step)
    steps = values[values * rounding < _NEAR / 4 * step] / step
    is_grid = len(steps) >= _GRID_LEAST and bool(np.all(np.abs(steps - np.rint(steps)) < _NEAR / 2))
    return float(step) if is_grid else None
