"""Charts of votes: how often teachers agree. Private, and marked so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reticent.report.figures.curves import check_format, save


def save_agreement(path: Path, counts: Sequence[int]) -> None:
    """Public rows by the share of teachers behind the winning class, written whole or not at all.

    Args:
        counts: rows in equally wide bins from no teacher to all of them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    width = 100 / max(len(counts), 1)
    axes.bar([width * (place + 0.5) for place in range(len(counts))], counts, width=0.9 * width)
    axes.set(
        xlabel="teachers who vote for the winning class, %",
        ylabel="public rows",
        title="How often the teachers agree (private: unreleased)",
        xlim=(0, 100),
    )
    axes.grid(alpha=0.25, axis="y")
    save(figure, path)
