"""Parameters that a malicious server sends, so that the gradient of a whole batch gives its examples away.

Every unit of the first layer is made to measure the same thing, say the mean brightness, each with a higher
threshold than the one before. An example wakes all units below its own brightness. The next layer listens
to all units alike, so two neighbours differ by the examples between their thresholds only: the difference
of their gradients is, up to a factor, the one example that lies there.

Clipping each example does not help, since it scales a bin and not what is in it. Noise does.

Reference:
    Fowl et al. (2022), Robbing the fed, arXiv:2110.13057.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from reticent.attacks.metrics import Estimate, clopper_pearson
from reticent.attacks.reconstruction.leakage import psnr
from reticent.core import checks
from reticent.core.errors import DataError
from reticent.core.trees import ArrayTree

RECOGNISABLE = 20.0  # decibels: a clear copy


def trap_parameters(
    params: ArrayTree, thresholds: Any, *, first: str = "dense1", following: str = "dense2"
) -> Any:
    """Replaces the first layer by one that sorts examples into bins by their mean.

    The layer has to be dense and followed by ReLU, as in `mlp`.

    Args:
        thresholds: rising, one for each unit of the first layer; see `even_thresholds`.

    Example:
        >>> params = {
        ...     "dense1": {"w": np.zeros((6, 4)), "b": np.zeros(4)},
        ...     "dense2": {"w": np.zeros((4, 2)), "b": np.zeros(2)},
        ... }
        >>> trapped = trap_parameters(params, [0.2, 0.4, 0.6, 0.8])
        >>> [round(float(bias), 2) for bias in trapped["dense1"]["b"]]
        [-0.2, -0.4, -0.6, -0.8]
    """
    for name in (first, following):
        if name not in params or np.ndim(params[name].get("w")) != 2 or "b" not in params[name]:
            raise DataError(
                f"The parameters have no dense layer '{name}' with a bias.",
                remedy=f"Name two that follow each other, among {', '.join(params)}.",
            )
    inputs, units = params[first]["w"].shape
    cuts = np.asarray(thresholds, float)
    if cuts.shape != (units,) or (np.diff(cuts) <= 0).any():
        raise DataError(
            f"Layer '{first}' has {units} units, and the thresholds have shape {cuts.shape} or do not rise.",
            remedy=f"Give {units} rising numbers: even_thresholds(means, {units}).",
        )
    _, outputs = params[following]["w"].shape
    # All units feed every output alike, and outputs differ, so that no gradient is zero.
    listen = np.cos(np.arange(outputs)) / units
    return {
        **params,
        first: {"w": jnp.full((inputs, units), 1 / inputs), "b": jnp.asarray(-cuts, jnp.float32)},
        following: {
            "w": jnp.asarray(np.tile(listen, (units, 1)), jnp.float32),
            "b": jnp.zeros(outputs),
        },
    }


def even_thresholds(means: Any, units: int) -> Float[np.ndarray, " {units}"]:
    """Chooses thresholds with about as many examples between any two, from the means of similar records.

    Example:
        >>> even_thresholds(np.linspace(0, 1, 101), 4).round(2).tolist()
        [-0.01, 0.25, 0.5, 0.75]
    """
    checks.count(minimum=2, units=units)
    found = np.asarray(means, float).ravel()
    if len(found) < 2 or not np.isfinite(found).all() or np.ptp(found) == 0:
        raise DataError(
            f"The {len(found)} means do not spread, or are not finite.",
            remedy="Give the means of some records of that kind, at least two different ones.",
        )
    cuts = np.quantile(found, np.arange(units) / units)
    cuts[0] = found.min() - 0.01 * np.ptp(found)
    rising = np.arange(units) * 1e-9 * np.ptp(found)  # where records are equally bright, bins still differ
    return cuts + rising


def read_trap(
    layer: Mapping[str, Any], *, box: tuple[float, float] = (0.0, 1.0)
) -> Float[np.ndarray, "found inputs"]:
    """Reads everything that the bins hold: (found, inputs), examples and some mixtures.

    Args:
        layer: gradients `w` (inputs, units) and `b` (units,) of the trapped layer.

    Example:
        >>> one = np.array([0.2, 0.4])  # its gradient is the same in every unit that it reaches
        >>> layer = {"w": np.stack([one, 0 * one], axis=1), "b": np.array([1.0, 0.0])}
        >>> read_trap(layer).round(3).tolist()
        [[0.2, 0.4]]
    """
    w, b = np.asarray(layer["w"], float), np.asarray(layer["b"], float)
    inside = w - np.append(w[:, 1:], np.zeros((len(w), 1)), axis=1)
    weight = b - np.append(b[1:], 0)
    is_filled = np.abs(weight) > 1e-5 * np.abs(b).max()
    found = (inside[:, is_filled] / weight[is_filled]).T
    return np.clip(found, *box)


@dataclass(frozen=True, kw_only=True)
class TrapReport:
    """What the server reconstructed from a batch.

    Args:
        best: (examples, inputs), for each example the most similar thing that was found.
        psnr: of each, in decibels.
        recognisable: the share of examples above 20 decibels.
    """

    best: np.ndarray = field(repr=False)
    psnr: np.ndarray
    recognisable: Estimate


def compare_with_batch(
    found: Float[np.ndarray, "found inputs"], batch: ArrayTree, *, peak: float = 1.0
) -> TrapReport:
    """Matches what was found with the examples of the batch, given as numbers.

    Example:
        >>> batch = np.random.default_rng(0).random((3, 8))
        >>> compare_with_batch(batch[[2, 0]], batch).recognisable.value > 0.6
        True
    """
    truth = np.asarray(batch, float).reshape(len(batch), -1)
    if not len(found):
        found = np.zeros((1, truth.shape[1]))
    distance = ((truth[:, None] - found[None]) ** 2).mean(axis=-1)  # (examples, found)
    best = found[distance.argmin(axis=1)]
    quality = np.array([psnr(a, b, peak=peak) for a, b in zip(truth, best, strict=True)])
    hits = int(np.sum(quality >= RECOGNISABLE))
    return TrapReport(best=best, psnr=quality, recognisable=clopper_pearson(hits, len(truth)))
