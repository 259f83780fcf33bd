"""What an adversary of fixed-size batches gains who may choose the other records anew after some steps.

One record is replaced. If all others are opposite to it, the loss of a step has a long upper tail; if they
are alike to it, a long lower one. Neither is worse at every loss, so the bound takes the worse parts of both
(docs/accounting.md, section 2.3). Here the better of the two is chosen before every block of steps, for what
the loss is by then: dynamic programming on a grid of losses. An estimate of a lower bound, not a bound.
"""

from __future__ import annotations

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr

_FINE, _COARSE, _MOST = 5e-4, 0.01, 40.0  # spacings of one step's losses and of values; the largest loss
_POINTS = 2**17


def adaptive_epsilon(
    *, rate: float, noise: float, steps: int, delta: float, block: int
) -> tuple[float, float]:
    """The epsilon at delta of the dataset that never changes, and of the best choice before every block."""
    laws = [_law(rate, 2 / noise, sign, block) for sign in (1, -1)]
    losses = _COARSE * np.arange(-round(_MOST / _COARSE), round(_MOST / _COARSE) + 1)
    alone = chosen = np.maximum(1 - np.exp(losses), 0)  # of what is left of epsilon
    for _ in range(steps // block):
        alone = _one_block(alone, *laws[0])
        chosen = np.maximum(_one_block(chosen, *laws[0]), _one_block(chosen, *laws[1]))
    first, second = (float(losses[np.argmax(values <= delta)]) for values in (alone, chosen))
    return first, second


def _law(rate: float, mu: float, sign: int, block: int) -> tuple[int, np.ndarray]:
    """The losses of a block of steps on the coarse grid: the first place, and masses."""
    edges = _FINE * (np.arange(-20, 50_000) - 0.5)
    with np.errstate(all="ignore"):
        z = (np.log(np.maximum((np.expm1(edges) + rate) / rate, 0)) + mu * mu / 2) / mu
    q, p = np.diff(ndtr(z)), np.diff((1 - rate) * ndtr(z) + rate * ndtr(z - mu))
    keep = (p > 0) & (q > 0)
    losses = sign * np.log(p[keep] / q[keep])
    one = _split(losses / _FINE, p[keep] if sign > 0 else q[keep])
    many = np.maximum(np.fft.irfft(np.fft.rfft(one) ** block), 0)
    places = np.arange(_POINTS)
    places = np.where(places < _POINTS // 2, places, places - _POINTS)
    found = np.roll(_split(places * (_FINE / _COARSE), many), _POINTS // 2)
    real = np.flatnonzero(found > 1e-13)
    return int(real[0]) - _POINTS // 2, found[real[0] : real[-1] + 1]


def _split(places: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """Every mass goes to the two whole places next to it, on a circle."""
    below = np.floor(places + 1e-12)
    share, at = places - below, below.astype(int)
    found = np.zeros(_POINTS)
    np.add.at(found, at % _POINTS, masses * (1 - share))
    np.add.at(found, (at + 1) % _POINTS, masses * share)
    return found


def _one_block(values: np.ndarray, first: int, masses: np.ndarray) -> np.ndarray:
    """The mean value after one more block, for each loss that is left."""
    pad = len(masses) + abs(first)
    wide = np.concatenate([np.full(pad, values[0]), values, np.zeros(pad)])
    start = pad - first
    return np.clip(fftconvolve(wide, masses)[start : start + len(values)], 0, 1)
