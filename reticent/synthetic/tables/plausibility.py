"""Whether the released counts of a synthetic table show anything but their own noise.

Everything here is computed from noisy counts that are part of the release, so it may be published with them.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from reticent.data.kinds import OTHER, quote
from reticent.synthetic.tables.codes import CodedColumn, Coder
from reticent.synthetic.tables.table_model import TableModel

QUANTILES = (0.05, 0.5, 0.95)
_MUCH_NOISE = 0.25  # of the rows, misplaced by noise in the counts of one column
_DEVIATIONS = 2.0  # of the noise, that a quantile may be off
_PILE = 0.1  # of the rows, in the first or last bin of a column
_PILE_BESIDE = 4.0  # times as many as in the bins beside it
_FEW_BINS, _FEWEST_BINS = 12, 5  # with few, both ends have to be piles; with fewer, nothing is said
_MISFIT = 3.0  # deviations of the noise, between counts and the model of them


class Quantile(NamedTuple):
    """A quantile of a column as the noisy counts show it, and where it may be without their noise."""

    low: float
    value: float
    high: float


@dataclass(frozen=True, kw_only=True)
class MeasuredFit:
    """A model against the noisy counts that it was made of.

    Args:
        worst_column: its position, or None if the model does not have its counts.
        deviations: how far the counts of that column are from the model, on average over its codes, in
            deviations of what noise and the coins of held-out rows explain.
    """

    worst_column: int | None
    deviations: float

    @property
    def has_passed(self) -> bool:
        return self.deviations <= _MISFIT

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"has_passed": self.has_passed}


def fit_to_counts(model: TableModel) -> MeasuredFit:
    """Compares the columns of a model with the noisy counts that were released about them."""
    if model.counts is None:
        return MeasuredFit(worst_column=None, deviations=0.0)
    # Coins of held-out rows move a count of n rows by at most sqrt(n) / 2 on average.
    allowed = model.single_deviation + math.sqrt(model.plan.rows) / 2
    found = [
        float(np.sqrt(np.mean((counts - counts.sum() * share) ** 2))) / allowed
        for counts, share in zip(model.counts, model.singles(), strict=True)
    ]
    worst = int(np.argmax(found))
    return MeasuredFit(worst_column=worst, deviations=found[worst])


def noise_warnings(model: TableModel, coder: Coder, declared: Collection[str]) -> list[str]:
    """Names the columns whose counts or bounds are mostly noise, one line each.

    Args:
        declared: columns whose bounds somebody declared: those are meant as they are.
    """
    said = []
    for at, column in enumerate(coder.columns):
        line = _about_noise(model, at, column)
        if line is None and column.bins is not None and column.name not in declared:
            line = _about_ends(model, at, column)
        words = getattr(column.column, "values", None)
        if line is None and words is not None and len(words) == 1 and column.name not in declared:
            line = (
                f"{quote(column.name)} has one word that is frequent enough to be shown, and all others are "
                f"written as {OTHER}. If they matter, declare them in a domain file."
            )
        said += [] if line is None else [line]
    return said


def quantiles(model: TableModel, coder: Coder) -> dict[str, dict[str, list[float]]]:
    """The quantiles that the noisy counts show of each number: lowest, shown and highest that they may be."""
    return {
        column.name: {f"{level:.0%}": list(found) for level, found in zip(QUANTILES, each, strict=True)}
        for at, column in enumerate(coder.columns)
        if column.bins is not None and (each := _quantiles(model, at, column)) is not None
    }


def _about_noise(model: TableModel, at: int, column: CodedColumn) -> str | None:
    rows, noise = model.plan.rows, model.single_deviation
    # The mean of |N(0, s^2)| is s sqrt(2 / pi); what is missing in one code is too much in another.
    misplaced = column.size * noise * math.sqrt(2 / math.pi) / 2 / rows
    shown = None if column.bins is None else _quantiles(model, at, column)
    if shown is not None and shown[0].high >= shown[-1].low and shown[0].low < shown[-1].high:
        what = "is mostly noise: that on its quantiles is larger than what they show"
    elif misplaced >= _MUCH_NOISE:
        what = f"carries much noise: it misplaces about {min(misplaced, 1):.0%} of the rows"
    else:
        return None
    return (
        f"{quote(column.name)} {what} ({column.size} counts of {rows:,} rows, each off by about "
        f"{noise:.0f}). Use a larger epsilon, fewer columns, or fewer values in a domain file."
    )


def _about_ends(model: TableModel, at: int, column: CodedColumn) -> str | None:
    """A pile of rows at an end: bounds that noise made too narrow look like this."""
    assert column.bins is not None
    edges = column.bins.edges
    if model.counts is None or len(edges) - 1 < _FEWEST_BINS:
        return None
    counts, noise = model.counts[at][: len(edges) - 1], model.single_deviation
    piled = []
    half = 0.5 if column.bins.is_whole else 0.0
    ends = (counts[0], counts[1:4], edges[0] + half), (counts[-1], counts[-4:-1], edges[-1] - half)
    for end, beside, edge in ends:
        enough = max(_PILE * model.plan.rows, _PILE_BESIDE * float(np.mean(beside)), 4 * noise)
        if end > enough and abs(edge) > 0.5:  # many rows at exactly zero are no surprise
            piled.append((end / model.plan.rows, edge))
    if not piled or (len(piled) < 2 and len(edges) - 1 < _FEW_BINS):
        return None
    shares = " and ".join(f"about {share:.0%} of its rows at {edge:.4g}" for share, edge in piled)
    return (
        f"{quote(column.name)} has {shares}, where the bounds end that were found privately: either many "
        "rows have this value, or rows beyond are cut off. Declare its bounds: "
        f"--bounds {column.name}=LOW:HIGH."
    )


def _quantiles(model: TableModel, at: int, column: CodedColumn) -> list[Quantile] | None:
    """The quantiles of a column; None if no row seems to have a number."""
    assert column.bins is not None
    values, order = _values(column)
    shares = model.singles()[at][: column.bins.size][order]
    if not shares.sum() > 0:
        return None
    up_to = np.cumsum(shares) / shares.sum()
    # The noise of a sum over j codes grows with sqrt(j), and that of the other codes counts as well.
    codes = np.arange(1, len(shares) + 1)
    off = (
        _DEVIATIONS
        * model.single_deviation
        / model.plan.rows
        * np.sqrt(np.minimum(codes, len(codes) - codes + 1))
    )
    return [
        Quantile(*(float(values[min(int(np.searchsorted(line, level)), len(values) - 1)]) for line in lines))
        for level in QUANTILES
        for lines in [(np.maximum.accumulate(up_to + off), up_to, np.maximum.accumulate(up_to - off))]
    ]


def _values(column: CodedColumn) -> tuple[np.ndarray, np.ndarray]:
    """The middle of each bin in ascending order, and the codes in that order."""
    assert column.bins is not None
    edges = np.asarray(column.bins.edges)
    middle = edges[:-1] / 2 + edges[1:] / 2
    found = np.concatenate([middle, [0.0]]) if column.bins.has_zero else middle
    order = np.argsort(found, kind="stable")
    return found[order], order
