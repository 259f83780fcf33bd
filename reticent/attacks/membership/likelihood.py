"""The likelihood-ratio attack (LiRA): does the model look as if it had seen this very record?

For each record, the log odds of its true class are nearly normal over models that were trained on it, and
over models that were not, with different means. The score is the log of the ratio of the two densities at
what the target says, so zero is where both are as likely.

How the deviations are found decides what few shadow models can do:

    fixed         one for all records, from residuals around each record's own mean
    per-example   each record's own; poor below 64 models
    published     the first below 64 models, the second from there on
    shrunk        each record's own, leaning on records of which models are as sure; so does the difference
                  of the means, and densities have the tails that so few models call for. The default

Reference:
    Carlini, Chien, Nasr, Song, Terzis and Tramer (2022), Algorithm 1, arXiv:2112.03570v2.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import t as student

from reticent.core import checks
from reticent.core.errors import InvalidArgument

Variance = Literal["shrunk", "published", "fixed", "per-example"]

THRESHOLD = 0.0
PER_EXAMPLE_FROM = 62  # models: 64 without the attacked one and its twin

_LEAST_VARIANCE = 1e-12
_NORMAL = 1e6  # degrees of freedom at which Student's distribution is normal
_LEAN = 16.0  # models that a record's neighbours count for
_NEIGHBOURS = 201


class SignalFit(NamedTuple):
    """The distribution of each record's signal over some models: (records,) each."""

    mean: np.ndarray
    variance: np.ndarray
    freedom: np.ndarray  # degrees of; many for a normal distribution


class _Sums(NamedTuple):
    models: np.ndarray
    mean: np.ndarray
    squares: np.ndarray  # of residuals around the record's own mean


def lira(
    target: Float[np.ndarray, " records"],
    shadows: Float[np.ndarray, "models records"],
    is_member: Bool[np.ndarray, "models records"],
    *,
    variance: Variance = "shrunk",
) -> Float[np.ndarray, " records"]:
    """The log-likelihood ratio of in against out, for each record.

    Args:
        target: (records,) what the attacked model says; see `Signals.confidence`.
        shadows, is_member: (models, records) of other models.

    Example:
        >>> rng, is_member = np.random.default_rng(0), np.arange(16)[:, None] % 2 == np.arange(5) % 2
        >>> shadows = rng.normal(size=(16, 5)) + 4 * is_member
        >>> (lira(np.array([4.0, 4.0, 0.0, 0.0, 0.0]), shadows, is_member) > 0).tolist()
        [True, True, False, False, False]
    """
    inside, outside = fit(shadows, is_member, variance=variance)
    return log_density(target, inside) - log_density(target, outside)


def lira_offline(
    target: Float[np.ndarray, " records"],
    shadows: Float[np.ndarray, "models records"],
    is_member: Bool[np.ndarray, "models records"],
    *,
    variance: Variance = "shrunk",
) -> Float[np.ndarray, " records"]:
    """How many deviations the target is above models that never had the record: no other is needed.

    Example:
        >>> rng, is_member = np.random.default_rng(0), np.arange(16)[:, None] % 2 == np.arange(5) % 2
        >>> shadows = rng.normal(size=(16, 5)) + 4 * is_member
        >>> (lira_offline(np.array([4.0, 4.0, 0.0, 0.0, 0.0]), shadows, is_member) > 2).tolist()
        [True, True, False, False, False]
    """
    checks.one_of(get_args(Variance), variance=variance)
    shadows, is_outside = np.asarray(shadows, float), ~np.asarray(is_member, bool)
    sums = _sums(shadows, is_outside)
    if variance == "shrunk":
        spread = _shrink_variance(sums, sums.mean)
    else:
        spread = _fit_plain(sums, is_fixed=_is_fixed(variance, len(shadows))).variance
    return (target - sums.mean) / np.sqrt(spread)


def fit(
    shadows: np.ndarray, is_member: np.ndarray, *, variance: Variance = "shrunk"
) -> tuple[SignalFit, SignalFit]:
    """The distribution of each record over the models that had it, and over those that did not."""
    checks.one_of(get_args(Variance), variance=variance)
    shadows, is_member = np.asarray(shadows, float), np.asarray(is_member, bool)
    inside, outside = (_sums(shadows, which) for which in (is_member, ~is_member))
    if variance == "shrunk":
        return _fit_shrunk(inside, outside)
    is_fixed = _is_fixed(variance, len(shadows))
    return _fit_plain(inside, is_fixed=is_fixed), _fit_plain(outside, is_fixed=is_fixed)


def log_density(values: np.ndarray, fit: SignalFit) -> np.ndarray:
    deviation = np.sqrt(fit.variance)
    return student.logpdf((values - fit.mean) / deviation, fit.freedom) - np.log(deviation)


def _sums(shadows: np.ndarray, which: np.ndarray) -> _Sums:
    count = which.sum(axis=0)
    if count.min() < 2:
        raise InvalidArgument(
            f"A record has {count.min()} shadow models on one side, and a deviation needs 2.",
            remedy="Train at least 6 shadow models with every record in half of them.",
        )
    mean = np.where(which, shadows, 0).sum(axis=0) / count
    return _Sums(count, mean, np.where(which, np.square(shadows - mean), 0).sum(axis=0))


def _is_fixed(variance: Variance, models: int) -> bool:
    return variance == "fixed" or (variance == "published" and models < PER_EXAMPLE_FROM)


def _fit_plain(sums: _Sums, *, is_fixed: bool) -> SignalFit:
    """The variance of residuals, never of raw signals: how records differ is nothing to explain."""
    if is_fixed:
        variance = np.full(len(sums.mean), sums.squares.sum() / (sums.models - 1).sum())
    else:
        variance = sums.squares / (sums.models - 1)
    return SignalFit(sums.mean, np.maximum(variance, _LEAST_VARIANCE), np.full(len(sums.mean), _NORMAL))


def _fit_shrunk(inside: _Sums, outside: _Sums) -> tuple[SignalFit, SignalFit]:
    """Lets each record lean on those of which models are as sure.

    The difference of the two means is what the attack lives on, and a few models know it badly. It is pulled
    towards what is usual for such records, as far as its own error calls for (empirical Bayes). The
    variance is that of a new model around means that are themselves known from few.
    """
    middle = (inside.mean + outside.mean) / 2
    within, without = (_shrink_variance(sums, middle) for sums in (inside, outside))
    doubt = within / inside.models + without / outside.models  # the variance of the difference
    difference = inside.mean - outside.mean
    usual = _parabola(middle, difference)
    spread = max(float(np.mean(np.square(difference - usual) - doubt)), _LEAST_VARIANCE)
    own = spread / (spread + doubt)  # how far a record's own difference is to be trusted
    half = (own * difference + (1 - own) * usual) / 2
    left = (1 + own) * doubt / 4  # of the middle, and of half the difference
    return (
        SignalFit(middle + half, within + left, inside.models - 1 + _LEAN),
        SignalFit(middle - half, without + left, outside.models - 1 + _LEAN),
    )


def _shrink_variance(sums: _Sums, by: np.ndarray) -> np.ndarray:
    """Each record's variance, leaning on the mean over its neighbours in `by`."""
    order = np.argsort(by)
    each = (sums.squares / (sums.models - 1))[order]
    reach = (min(_NEIGHBOURS, len(each)) - 1) // 2
    padded = np.concatenate([[0.0], np.cumsum(np.pad(each, reach, mode="symmetric"))])
    width = 2 * reach + 1
    of_neighbours = np.empty(len(each))
    of_neighbours[order] = (padded[width:] - padded[:-width]) / width
    leaning = (sums.squares + _LEAN * of_neighbours) / (sums.models - 1 + _LEAN)
    return np.maximum(leaning, _LEAST_VARIANCE)


def _parabola(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The least-squares parabola of y by x, at each x."""
    scaled = (x - x.mean()) / max(float(x.std()), 1e-9)
    powers = np.stack([np.ones_like(scaled), scaled, np.square(scaled)], axis=1)
    return powers @ np.linalg.lstsq(powers, y, rcond=None)[0]
