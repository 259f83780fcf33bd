"""Figures of a run as files, drawn by matplotlib: epsilon, accuracy, votes, and the charts of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from reticent.core.errors import InvalidArgument
from reticent.core.files import whole_file
from reticent.report.facts.facts import Chart

FORMATS = (".svg", ".png", ".pdf")


def save_epsilon_curve(
    path: Path, epochs: Sequence[float], curves: Mapping[str, Sequence[float]], *, title: str
) -> None:
    """Epsilon over epochs, one line per accountant, written whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for name, values in curves.items():
        axes.plot(epochs, values, label=name, linewidth=2 if name == "pld" else 1.2)
    axes.set(xlabel="epochs", ylabel="epsilon", title=title, ylim=(0, None), xlim=(0, None))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    save(figure, path)


def save_accuracy_and_epsilon(
    path: Path,
    epochs: Sequence[float],
    accuracy: Sequence[float],
    epsilon: Sequence[float],
    *,
    title: str,
) -> None:
    """What a run learned above what it cost, epoch by epoch, written whole or not at all.

    Args:
        accuracy: on rows that were not trained on, from 0 to 1.
        epsilon: spent up to and including each epoch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    figure = Figure(figsize=(6.4, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    learned, spent = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    learned.plot(epochs, [100 * share for share in accuracy], linewidth=2, marker=".")
    learned.set(ylabel="held-out accuracy, %", title=title)
    spent.plot(epochs, epsilon, linewidth=2, marker=".", color="tab:red")
    spent.set(xlabel="epochs", ylabel="epsilon spent", ylim=(0, None), xlim=(0, None))
    for axes in (learned, spent):
        axes.grid(alpha=0.25)
    save(figure, path)


def save_agreement(path: Path, counts: Sequence[int]) -> None:
    """Public rows by the share of teachers behind the winning class: private, and marked so.

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


def check_format(path: Path) -> None:
    """Refuses a file name whose ending is not a picture's, before anything is computed for it."""
    if path.suffix.lower() not in FORMATS:
        raise InvalidArgument(
            f"'{path}' does not have the extension of a picture.", remedy=f"End it in {', '.join(FORMATS)}."
        )


def save(figure, path: Path) -> None:
    """Writes a figure, whole or not at all."""
    with whole_file(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower(), dpi=160)


def save_chart(path: Path, chart: Chart) -> None:
    """A chart of a report as a picture of its own, written whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    check_format(path)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in chart.lines:
        axes.plot(line.x, line.y, label=line.name, marker=".", linestyle="--" if line.is_dashed else "-")
    axes.set(xlabel=chart.x_label, ylabel=chart.y_label)
    axes.set_title(chart.title, fontsize="medium")
    if chart.is_log_x:
        axes.set_xscale("log")
    if chart.is_log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    save(figure, path)
