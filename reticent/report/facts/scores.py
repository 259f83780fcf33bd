"""Scores on held-out rows in words: what each figure is, and what no model is needed for beside it."""

from __future__ import annotations

from typing import NamedTuple

from reticent.core.plain_numbers import plain_number
from reticent.report.facts.facts import Bars, Chart, Line, RowsTable, Value, ValueKind
from reticent.runs import held_out_scores as names
from reticent.runs.held_out_scores import HeldOutScores, ScoreDetails
from reticent.runs.record import RunResult

MAIN_SCORES = (names.ACCURACY, names.R2)  # the one that stands for all, by the kind of target

_SHOWN_CLASSES = 12  # of a confusion matrix on a terminal or a page
_SHOWN_COLUMNS = 6  # with cells outside their bounds
_BASELINES = {names.ACCURACY: names.MAJORITY, names.RMSE: names.RMSE_OF_MEAN, names.MAE: names.MAE_OF_MEDIAN}
_ORDER = (
    *(names.ACCURACY, names.BALANCED, names.AUROC, names.AUROC_MEAN, names.CALIBRATION_ERROR),
    *(names.R2, names.RMSE, names.MAE, names.BITS),
)
_SHARES = (names.ACCURACY, names.MAJORITY, names.BALANCED)
_MEANINGS = {
    names.MAJORITY: "always predicting the most frequent class",
    names.RMSE_OF_MEAN: "always predicting the mean",
    names.MAE_OF_MEDIAN: "always predicting the median",
    names.BALANCED: "the mean recall of the classes",
    names.CALIBRATION_ERROR: "how far probabilities are from the shares that come true",
    names.BITS: "how much each character surprises; log2 of 96 is guessing",
    names.R2: "the share of the variance explained; 0 is always predicting the mean",
}


class ScoreLine(NamedTuple):
    """One score: its name, its value, how it is printed, and what it compares with."""

    name: str
    value: float
    shown: str
    note: str = ""


def score_lines(scores: HeldOutScores) -> list[ScoreLine]:
    """The scores in a fixed order, each beside its baseline; those of other versions follow as they are."""
    lines = []
    baselines = {name for name in _BASELINES.values() if name in scores.values}
    ordered = [name for name in _ORDER if name in scores.values]
    for name in dict.fromkeys((*ordered, *scores.values)):
        if name in baselines:
            continue
        value = scores.values[name]
        baseline = _BASELINES.get(name)
        if baseline in baselines:
            note = f"{_MEANINGS[baseline]}: {show_score(baseline, scores.values[baseline])}"
        else:
            note = _MEANINGS.get(name, "")
        lines.append(ScoreLine(name, value, show_score(name, value), note))
    return lines


def score_values(scores: HeldOutScores, *, note: str) -> list[Value]:
    """The same as values of a report."""
    return [
        Value(
            name=line.name,
            value=line.value,
            kind=ValueKind.ESTIMATE,
            shown=line.shown,
            note="; ".join(filter(None, (line.note, note))),
        )
        for line in score_lines(scores)
    ]


def show_score(name: str, value: float) -> str:
    """A score as it is printed: shares in percent, errors in the units of the target."""
    return f"{100 * value:.1f}%" if name in _SHARES else plain_number(value)


def outside_in_words(details: ScoreDetails | None, target: str | None) -> list[tuple[str, str]]:
    """How many held-out cells lie outside the bounds: of the target, and of the features."""
    if details is None or not details.outside:
        return []
    rows = []
    if target is not None and target in details.outside:
        rows.append(("targets outside the bounds", f"{details.outside[target]:.1%} of the held-out rows"))
    features = sorted(
        ((share, name) for name, share in details.outside.items() if name != target), reverse=True
    )
    if features:
        listed = ", ".join(f"{name} {share:.1%}" for share, name in features[:_SHOWN_COLUMNS])
        more = f" and {len(features) - _SHOWN_COLUMNS} more" if len(features) > _SHOWN_COLUMNS else ""
        rows.append(("features outside the bounds", f"{listed}{more} of the held-out rows"))
    return rows


def recall_rows(result: RunResult) -> list[tuple[str, str, str]]:
    """Rows of a table: each class, its share of the held-out rows, and its recall. Rarest class first."""
    details = None if result.scores is None else result.scores.details
    if details is None or not details.confusion or result.problem is None:
        return []
    if len(details.confusion) != len(result.problem.classes):
        return []
    found = [
        (sum(row), name, recall)
        for row, name, recall in zip(details.confusion, result.problem.classes, details.recalls, strict=True)
    ]
    return [
        (name, f"{size:.1%}", "-" if recall is None else f"{recall:.1%}")
        for size, name, recall in sorted(found, key=lambda each: each[:2])
    ]


def class_tables(result: RunResult) -> list[RowsTable]:
    """Recall by class, the confusion matrix, and what each threshold does, of a run that predicts classes."""
    details = None if result.scores is None else result.scores.details
    rows = recall_rows(result)
    if details is None or not rows or result.problem is None:
        return []
    tables = [
        RowsTable(
            title="Recall by class, the rarest first (unreleased)",
            headings=("class", "share of held-out rows", "recall"),
            rows=tuple(rows),
        )
    ]
    classes = result.problem.classes
    if len(classes) <= _SHOWN_CLASSES:
        tables.append(
            RowsTable(
                title="Confusion matrix: % of held-out rows by class and prediction (unreleased)",
                headings=("class", *(f"as {name}" for name in classes)),
                rows=tuple(
                    (name, *(f"{100 * share:.1f}" for share in row))
                    for name, row in zip(classes, details.confusion, strict=True)
                ),
            )
        )
    if details.reliability:
        tables.append(
            RowsTable(
                title="Calibration: how often predictions come true (unreleased)",
                headings=("probability", "predicted right", "share of held-out rows"),
                rows=tuple(tuple(f"{share:.1%}" for share in each) for each in details.reliability),
            )
        )
    if thresholds := threshold_rows(details):
        tables.append(
            RowsTable(
                title=f"Predicting '{classes[1]}' by probability threshold (unreleased)",
                headings=("threshold", "predicted so", "precision", "recall"),
                rows=tuple(thresholds),
            )
        )
    return tables


def threshold_rows(details: ScoreDetails) -> list[tuple[str, ...]]:
    return [
        (
            f"{point.threshold:.2f}",
            f"{point.predicted:.1%}",
            "-" if point.precision is None else f"{point.precision:.1%}",
            f"{point.recall:.1%}",
        )
        for point in details.thresholds
    ]


def score_charts(result: RunResult) -> list[Chart | Bars]:
    """The reliability curve, of a run that predicts classes."""
    details = None if result.scores is None else result.scores.details
    if details is None or len(details.reliability) < 2:
        return []
    confidence = tuple(100 * each.confidence for each in details.reliability)
    right = tuple(100 * each.right for each in details.reliability)
    widest = max(details.reliability, key=lambda each: abs(each.right - each.confidence))
    return [
        Chart(
            id="reliability",
            title="How often predictions come true, by their probability (unreleased)",
            description=f"The farthest from the diagonal: rows predicted with {widest.confidence:.0%} are "
            f"right {widest.right:.0%} of the time.",
            x_label="probability of the predicted class, %",
            y_label="share predicted right, %",
            lines=(
                Line(name="this model", x=confidence, y=right),
                Line(name="calibrated", x=confidence, y=confidence, is_dashed=True),
            ),
            y_range=(0.0, 100.0),
        )
    ]
