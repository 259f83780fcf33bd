"""How well a model does on held-out rows, as a record keeps it: unreleased, in the private part of a folder.

All figures are shares and errors. How many rows were held out is as secret as the coins that chose them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from reticent.runs.json_values import mapping, number, or_none, text

# The names of scores.
ACCURACY, MAJORITY, BALANCED = "accuracy", "accuracy of the most frequent class", "balanced accuracy"
AUROC, AUROC_MEAN = "auroc", "auroc, mean over the classes"
CALIBRATION_ERROR = "expected calibration error"
R2, RMSE, MAE = "R2", "root mean squared error", "mean absolute error"
RMSE_OF_MEAN = "root mean squared error of the mean"
BITS = "bits per character"
MAE_OF_MEDIAN = "mean absolute error of the median"

MOST_CLASSES = 100  # of a confusion matrix


class ReliabilityBin(NamedTuple):
    """Rows whose predicted class had a similar probability.

    Args:
        confidence: the mean of that probability.
        right: the share of them that were predicted right.
        share: the share of all held-out rows that they are.
    """

    confidence: float
    right: float
    share: float


class ThresholdPoint(NamedTuple):
    """What a threshold on the probability of the second of two classes does.

    Args:
        predicted: the share of rows that are predicted to be of the second class.
        precision: the share of these that are; None if there are none.
        recall: the share of the second class that is found.
    """

    threshold: float
    predicted: float
    precision: float | None
    recall: float


@dataclass(frozen=True, kw_only=True)
class ScoreDetails:
    """What lies behind the scores.

    Args:
        outside: by column, the share of cells outside the bounds; columns without any are left out.
        confusion: the share of all held-out rows by class (outer) and predicted class (inner).
    """

    outside: Mapping[str, float]
    confusion: tuple[tuple[float, ...], ...] = ()
    reliability: tuple[ReliabilityBin, ...] = ()
    thresholds: tuple[ThresholdPoint, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Points by the names of their fields."""
        return {
            "outside": dict(self.outside),
            "confusion": [list(row) for row in self.confusion],
            "reliability": [each._asdict() for each in self.reliability],
            "thresholds": [each._asdict() for each in self.thresholds],
        }

    @property
    def recalls(self) -> tuple[float | None, ...]:
        """The share of each class's rows that are predicted right; None for a class without rows."""
        sums = [sum(row) for row in self.confusion]
        return tuple(
            row[at] / total if total > 0 else None
            for at, (row, total) in enumerate(zip(self.confusion, sums, strict=True))
        )


@dataclass(frozen=True, kw_only=True)
class HeldOutScores:
    """How well a model does on held-out rows: unreleased estimates, and a label that says so."""

    label: str
    values: Mapping[str, float]
    details: ScoreDetails | None = None

    def to_json(self) -> dict[str, Any]:
        details = {} if self.details is None else {"details": self.details.to_json()}
        return {"label": self.label, **self.values, **details}

    @classmethod
    def from_json(cls, value: Any) -> HeldOutScores:
        """What `to_json` wrote, every value checked.

        Raises:
            TypeError, ValueError, KeyError: it is something else.
        """
        found = mapping(value)
        # Version 3 wrote how many rows were held out, which is as secret as the coins that chose them.
        kept = {name: item for name, item in found.items() if name not in ("label", "rows", "details")}
        return cls(
            label=text(found["label"]),
            values={text(name): number(item) for name, item in kept.items()},
            details=or_none(_details, found.get("details")),
        )


def _details(value: Any) -> ScoreDetails:
    found = mapping(value)
    if unknown := set(found) - {name.name for name in fields(ScoreDetails)}:
        raise ValueError(f"unknown: {unknown}")
    confusion = tuple(tuple(map(_share, row)) for row in found["confusion"])
    if any(len(row) != len(confusion) for row in confusion):
        raise ValueError("a confusion matrix is square")
    return ScoreDetails(
        outside={text(name): _share(share) for name, share in mapping(found["outside"]).items()},
        confusion=confusion,
        reliability=tuple(map(_bin, found["reliability"])),
        thresholds=tuple(map(_threshold, found["thresholds"])),
    )


def _bin(value: Any) -> ReliabilityBin:
    found = _fields(ReliabilityBin, value)
    return ReliabilityBin(**{name: _share(item) for name, item in found.items()})


def _threshold(value: Any) -> ThresholdPoint:
    found = _fields(ThresholdPoint, value)
    precision = or_none(_share, found.pop("precision"))
    return ThresholdPoint(precision=precision, **{name: _share(item) for name, item in found.items()})


def _fields(kind: type[ReliabilityBin | ThresholdPoint], value: Any) -> dict[str, Any]:
    found = dict(mapping(value))
    if set(found) != set(kind._fields):
        raise ValueError(f"{value!r} is not a {kind.__name__}")
    return found


def _share(value: Any) -> float:
    """A number from 0 to 1, up to rounding."""
    found = number(value)
    if not (-1e-9 <= found <= 1 + 1e-9):
        raise ValueError(f"{found} is not a share")
    return found
