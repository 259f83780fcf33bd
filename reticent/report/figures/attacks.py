"""Pictures of what attacks find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import pearsonr

from reticent.attacks.metrics import no_signal_band, roc
from reticent.attacks.scores import Scores
from reticent.core.errors import InvalidArgument
from reticent.report.figures.curves import check_format, save

_POINTS = 400  # of a curve: one for each of a million thresholds would make a picture of 50 MB


class GapPoint(NamedTuple):
    """One trained model: how much better it is on its own data, and how well an attack tells it."""

    name: str
    gap: float
    success: float


def save_roc(path: Path, attacks: Mapping[str, Scores], *, title: str) -> None:
    """The curve of each attack on logarithmic axes, over the band where an attack without signal lies.

    The left of the picture matters most: how many members are found with hardly any false positives. The file
    is written whole or not at all.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    if not attacks:
        raise InvalidArgument("There is no attack to draw.", remedy="Give the scores of at least one.")
    smallest = min(len(scores.outsiders) for scores in attacks.values())
    fewest = min(len(scores.members) for scores in attacks.values())
    left = max(1 / smallest, 1e-5)
    figure = Figure(figsize=(6.4, 5.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    grid = np.geomspace(left, 1, _POINTS)
    low, high = no_signal_band(fewest, smallest, grid)
    axes.fill_between(grid, np.maximum(low, left), high, color="0.85", label="no signal (95%)", linewidth=0)
    for name, scores in attacks.items():
        false, true = roc(scores)
        # The rate at the last threshold that stays below each false-positive rate.
        at = np.searchsorted(false, grid, side="right") - 1
        axes.plot(grid, np.maximum(true[at], left), label=name, linewidth=1.6, drawstyle="steps-post")
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(left, 1),
        ylim=(left, 1),
        xlabel="false-positive rate",
        ylabel="true-positive rate",
        title=title,
    )
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, loc="lower right", fontsize="small")
    save(figure, path)


def save_gap(path: Path, points: Sequence[GapPoint], *, title: str, success: str) -> None:
    """How well an attack does against how much a model overfits; the title says how they are correlated."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    if len(points) < 3:
        raise InvalidArgument(
            f"{len(points)} models show no correlation.", remedy="Give at least three, of different gaps."
        )
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for point in points:
        axes.plot(point.gap, point.success, "o", color="tab:blue")
        axes.annotate(
            point.name,
            (point.gap, point.success),
            xytext=(5, 4),
            textcoords="offset points",
            fontsize="small",
        )
    gaps, successes = [point.gap for point in points], [point.success for point in points]
    correlation = pearsonr(gaps, successes)[0]
    axes.set(
        xlabel="train accuracy - test accuracy",
        ylabel=success,
        title=f"{title} (correlation {correlation:.2f})",
    )
    axes.margins(x=0.18, y=0.12)
    axes.grid(alpha=0.25)
    save(figure, path)
