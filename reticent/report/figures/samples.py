"""Sheets of synthetic images, a row for each class: what was learned, and how it varies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.report.figures.curves import check_format, save


def save_sample_sheet(
    path: Path, sheets: Mapping[str, Sequence[np.ndarray]], *, names: Sequence[str] | None = None
) -> None:
    """Sheets side by side, written whole or not at all.

    Args:
        sheets: by title, for each class its images (n, height, width) or (n, height, width, 3): bytes, or
            numbers from 0 to 1. Synthetic ones: a picture of a private record would show the record.
        names: of the classes, beside their rows.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    tiles = {title: _tile(rows) for title, rows in sheets.items()}
    widths = [tile.shape[1] for tile in tiles.values()]
    tallest = max(tile.shape[0] for tile in tiles.values())
    figure = Figure(figsize=(sum(widths) / 60 + 0.6, tallest / 60 + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    all_axes = figure.subplots(1, len(tiles), width_ratios=widths, squeeze=False)[0]
    for place, (axes, (title, tile)) in enumerate(zip(all_axes, tiles.items(), strict=True)):
        axes.imshow(tile, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title(title, fontsize=9)
        classes = len(sheets[title])
        side = tile.shape[0] / classes
        axes.set_xticks([])
        axes.set_yticks(
            [side * (label + 0.5) for label in range(classes)] if place == 0 else [],
            (names or [str(label) for label in range(classes)]) if place == 0 else [],
        )
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    save(figure, path)


def _tile(rows: Sequence[np.ndarray]) -> np.ndarray:
    """One large image: a row for each class, with a dark line around every image."""
    shapes = {np.shape(row) for row in rows}
    if len(shapes) != 1 or len(next(iter(shapes))) not in (3, 4):
        raise InvalidArgument(
            f"A sheet needs as many images of one size for every class, got {sorted(map(str, shapes))}.",
            remedy="Sample the same number for each class.",
        )
    images = np.stack([np.asarray(row) for row in rows])  # (classes, n, height, width[, colours])
    numbers = images.astype(np.float32) / (255 if images.dtype == np.uint8 else 1)
    widths = [(0, 0), (0, 0), (1, 1), (1, 1)] + [(0, 0)] * (images.ndim - 4)
    framed = np.pad(numbers, widths, constant_values=0.25)
    return np.concatenate(list(np.concatenate(list(framed.swapaxes(0, 1)), axis=2)), axis=0)
