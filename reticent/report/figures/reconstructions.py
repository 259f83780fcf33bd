"""Pictures of what attacks other than membership find: faces of classes, stolen examples, bars, secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reticent.attacks.inference.attribute import AttributeReport
from reticent.attacks.reconstruction.extraction import Exposure
from reticent.attacks.reconstruction.inversion import Inverted
from reticent.attacks.reconstruction.leakage import LeakAt
from reticent.core.errors import InvalidArgument
from reticent.report.figures.curves import check_format, save

_BARS = 40


def save_inversion(path: Path, inverted: Inverted, class_means: Any, *, title: str) -> None:
    """The representative of each class below the mean of its records."""
    means = np.asarray(class_means, float)[list(inverted.labels)]
    save_grid(
        path,
        {"class mean": means, "inverted": inverted.pictures},
        captions=[f"{label}" for label in inverted.labels],
        title=title,
    )


def save_leakage(path: Path, truth: Any, rows: Sequence[LeakAt], *, title: str) -> None:
    """Examples above what the server reads at each noise multiplier."""
    lines = {"sent": np.asarray(truth, float)}
    lines |= {
        f"noise {row.noise_multiplier:g}\n{row.psnr.value:.0f} dB": row.recovered[: len(lines["sent"])]
        for row in rows
    }
    save_grid(path, lines, title=title)


def save_grid(
    path: Path, lines: Mapping[str, Any], *, title: str, captions: Sequence[str] | None = None
) -> None:
    """Pictures in named lines, grey from the smallest to the largest value of each line."""
    counts = {len(pictures) for pictures in lines.values()}
    if len(counts) != 1 or not all(np.ndim(pictures) == 3 for pictures in lines.values()):
        raise InvalidArgument(
            f"Lines of {sorted(counts)} pictures make no grid.",
            remedy="Give as many in each line, as arrays (pictures, height, width).",
        )
    (columns,) = counts
    figure, axes = _axes(path, (0.75 * columns + 1.2, 0.78 * len(lines) + 0.5), (len(lines), columns))
    for places, (name, pictures) in zip(axes, lines.items(), strict=True):
        for place, picture in zip(places, np.asarray(pictures), strict=True):
            place.imshow(picture, cmap="gray", interpolation="nearest")
            place.set(xticks=[], yticks=[])
        places[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize="small")
    for place, caption in zip(axes[0], captions or [], strict=False):
        place.set_title(caption, fontsize="small")
    figure.suptitle(title, fontsize="medium")
    save(figure, path)


def save_noise_curve(path: Path, curves: Mapping[str, Sequence[LeakAt]], *, title: str) -> None:
    """How similar the recovered examples are, over the noise multiplier; one line per attack."""
    if not any(curves.values()):
        raise InvalidArgument("There is no curve to draw.", remedy="Give the rows of at least one attack.")
    figure, axes = _axes(path, (6.4, 4.0))
    smallest = min(row.noise_multiplier for rows in curves.values() for row in rows if row.noise_multiplier)
    for name, rows in curves.items():
        # A logarithmic axis has no zero: it stands a tenth below the smallest multiplier.
        places = [row.noise_multiplier or smallest / 10 for row in rows]
        (line,) = axes.plot(places, [row.psnr.value for row in rows], marker="o", label=name)
        ends = [[row.psnr.low for row in rows], [row.psnr.high for row in rows]]
        axes.fill_between(places, *ends, alpha=0.15, color=line.get_color(), linewidth=0)
    axes.axhline(20, color="0.6", linestyle=":", linewidth=1)
    axes.annotate("above: a clear copy", (smallest / 10, 20.7), fontsize="small", color="0.4")
    axes.set(
        xscale="log",
        xlabel="noise multiplier (leftmost: none)",
        ylabel="similarity of the copy, dB (PSNR)",
        title=title,
    )
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    save(figure, path)


def save_attribute_excess(path: Path, reports: Mapping[str, AttributeReport], *, title: str) -> None:
    """The excess of every attack over imputation, members beside outsiders, one panel per model."""
    if not reports:
        raise InvalidArgument("There is no report to draw.", remedy="Give at least one, by the model's name.")
    figure, panels = _axes(path, (3.4 * len(reports) + 1.2, 4.0), (1, len(reports)), share=True)
    for axes, (name, report) in zip(panels[0], reports.items(), strict=True):
        attacks = list(report.of_membership)
        for shift, side, colour in ((-0.2, "members", "tab:red"), (0.2, "outsiders", "0.6")):
            excess = [report.row(attack, side).excess for attack in attacks]
            values = np.array([100 * estimate.value for estimate in excess])
            ends = [[100 * e.low for e in excess], [100 * e.high for e in excess]]
            reach = np.abs(np.array(ends) - values)
            axes.bar(
                np.arange(len(attacks)) + shift, values, 0.38, yerr=reach, color=colour, label=side, capsize=2
            )
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_xticks(range(len(attacks)), attacks, fontsize="small")
        axes.set_title(name, fontsize="medium")
        axes.grid(alpha=0.25, axis="y")
    panels[0][0].set_ylabel("accuracy above imputation, points")
    panels[0][0].legend(frameon=False, fontsize="small")
    figure.suptitle(title, fontsize="medium")
    save(figure, path)


def save_exposure(path: Path, exposures: Mapping[str, Exposure], *, title: str) -> None:
    """The losses of all secrets that were scored, and where the planted one lies; one panel per model."""
    if not exposures:
        raise InvalidArgument("There is no exposure to draw.", remedy="Give at least one, by name.")
    figure, panels = _axes(path, (6.4, 1.5 * len(exposures) + 0.8), (len(exposures), 1))
    for axes, (name, exposure) in zip(panels[:, 0], exposures.items(), strict=True):
        axes.hist(exposure.losses, bins=_BARS, color="0.75")
        axes.axvline(exposure.loss, color="tab:red", linewidth=2)
        kind = "" if exposure.kind == "exact" else ", estimate"
        axes.set_title(
            f"{name}: {exposure.bits:.1f} of {exposure.space_bits:.1f} bits{kind}",
            fontsize="small",
            loc="left",
        )
        axes.set_yticks([])
    panels[-1, 0].set_xlabel("loss of a text with each possible secret; red: the planted one")
    figure.suptitle(title, fontsize="medium")
    save(figure, path)


def _axes(
    path: Path, size: tuple[float, float], grid: tuple[int, int] | None = None, *, share: bool = False
) -> tuple[Any, Any]:
    """A figure, and its axes: one, or an array of them (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    if grid is None:
        return figure, figure.add_subplot()
    return figure, figure.subplots(*grid, squeeze=False, sharey=share)
