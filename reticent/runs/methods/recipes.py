"""How many steps, of how many rows, how far: settings of noisy descent, chosen by what is public.

The number of rows, epsilon and the model decide; no record does. Each choice comes with its reason, which the
record of the run keeps.
"""

from __future__ import annotations

from typing import NamedTuple

import jax

# What a product on whitened features was found to take at 50,000 rows and epsilon 2, on CIFAR-10 features.
_FEATURES = ("patches", "public-features")
_NETWORKS = ("wide_resnet", "public-network")
_USUAL_SIGNAL = 1e5  # rows times epsilon
_VIEWS = 8  # of an image, on devices that are made for it


class DescentSettings(NamedTuple):
    """The settings of noisy descent.

    Args:
        rate: the learning rate of the first step, from which a line falls to zero.
        batch: how many rows are expected in one; None for all.
        views: how many changed copies of an image are averaged before clipping.
        decay: of an exponential average of the iterates; 0 for the last one.
        why: these, in words; nothing where they are the same for everybody.
        is_adam: the optimizer is Adam.
    """

    steps: int
    rate: float
    max_norm: float
    batch: int | None
    views: int = 1
    decay: float = 0.0
    why: str = ""
    is_adam: bool = False


def for_batches(model: str, rows: int, epsilon: float, views: int | None = None) -> DescentSettings:
    """Settings of descent on random batches: a thirteenth of the rows (at least 64, at most 4096) each."""
    batch = int(min(max(rows // 13, 64), 4096, rows))
    if model in _FEATURES:
        return _for_features(rows, epsilon, batch)
    if model in _NETWORKS:
        return _for_network(model, rows, epsilon, min(1024, batch), views)
    if model == "language":
        return DescentSettings(200, 0.004, 0.5, max(rows // 4, 1), is_adam=True)
    steps, rate, norm = {
        "linear": (200, 4.0, 1.0),
        "fourier": (200, 6.0, 0.3),
        "mlp": (300, 1.0, 1.0),
        "cnn": (1200, 3.0, 0.1),
        "scattering": (600, 60.0, 0.1),
    }[model]
    return DescentSettings(steps, rate, norm, min(1024, batch) if model == "cnn" else batch, views or 1)


def for_everybody(model: str, rows: int, epsilon: float, views: int | None = None) -> DescentSettings:
    """Settings of descent on all rows in every step."""
    if model in _FEATURES:
        return _for_features(rows, epsilon, None)
    if model in _NETWORKS:
        return _for_network(model, rows, epsilon, None, views)
    if model == "language":
        return DescentSettings(100, 0.004, 0.5, None, is_adam=True)
    steps, rate, norm = {
        "linear": (100, 4.0, 1.0),
        "fourier": (50, 10.0, 0.3),
        "mlp": (150, 1.0, 1.0),
        "cnn": (200, 3.0, 0.1),
        "scattering": (200, 100.0, 0.1),
    }[model]
    return DescentSettings(steps, rate, norm, None, views or 1)


def _for_features(rows: int, epsilon: float, batch: int | None) -> DescentSettings:
    """The more signal there is, the more steps and the longer ones: rows times epsilon."""
    signal = rows * epsilon / _USUAL_SIGNAL
    steps = round(min(max(400 * signal**0.5, 50), 800))
    rate = float(f"{min(max(15 * signal**0.7, 0.5), 20):.2g}")
    why = (
        f"{steps} steps at a rate of {rate:g} for {rows:,} rows at epsilon {epsilon:g}: steps go with the "
        "root of rows times epsilon; features are computed once, so an image has one view"
    )
    return DescentSettings(steps, rate, 0.5, batch, why=why)


def _for_network(
    model: str, rows: int, epsilon: float, batch: int | None, views: int | None
) -> DescentSettings:
    is_public = model == "public-network"
    signal = rows * epsilon / _USUAL_SIGNAL
    steps = round(min(max((150 if is_public else 400) * signal**0.5, 40), 300 if is_public else 1200))
    rate = 0.5 if is_public else 1.0
    how = "as asked"
    if views is None:
        views = 1 if jax.default_backend() == "cpu" else _VIEWS
        how = (
            "each further view costs as much as all the others, and this is a CPU"
            if views == 1
            else "as on any GPU"
        )
    decay = round(1 - 10 / steps, 4)
    why = (
        f"{steps} steps of {'all' if batch is None else f'{batch:,}'} rows for {rows:,} rows at epsilon "
        f"{epsilon:g}; {views} {'view' if views == 1 else 'views'} of an image ({how}); averaged over about "
        f"{round(1 / (1 - decay))} steps, which costs nothing"
    )
    return DescentSettings(steps, rate, 1.0, batch, views, decay, why)
