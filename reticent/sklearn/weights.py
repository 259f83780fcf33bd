"""Weights of records and of classes: declared, bounded, and inside the proof."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_consistent_length, column_or_1d

from reticent.core import checks
from reticent.core.errors import InvalidArgument


def record_weights(
    given: Mapping[str, Any],
    *,
    max_weight: float | None,
    class_weight: Any,
    labels: np.ndarray | None,
    targets: Any,
) -> np.ndarray | None:
    """The weight of each record over the largest there may be, from 0 to 1; None if there are none.

    Args:
        given: the keywords of a fit; only `sample_weight` is known.
        max_weight: the declared largest sample weight; larger ones count as that.
        class_weight: None, or a declared weight for each label.
        targets: one for each record; only their number matters.

    Guarantee:
        The weight of a record follows from that record alone, and from what is declared.
    """
    if unknown := sorted(set(given) - {"sample_weight"}):
        raise TypeError(f"fit() got an unexpected keyword argument '{unknown[0]}'")
    by_record = _by_record(given.get("sample_weight"), max_weight, targets)
    by_class = None if labels is None else _by_class(class_weight, labels)
    if by_record is None or by_class is None:
        return by_class if by_record is None else by_record
    return by_record * by_class


def refuse_weights(given: Mapping[str, Any], name: str) -> None:
    """Says that an estimator has no proof for weights."""
    if given.get("sample_weight") is not None:
        raise InvalidArgument(
            f"{name} takes no sample_weight: its proof counts every record once.",
            remedy="Use PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression.",
        )
    record_weights(given, max_weight=None, class_weight=None, labels=None, targets=None)


def _by_record(weights: Any, largest: float | None, targets: ArrayLike) -> np.ndarray | None:
    if weights is None:
        return None
    if largest is None:
        raise InvalidArgument(
            "sample_weight needs a declared bound: noise has to hide the record with the largest weight.",
            remedy="Pass max_weight=..., the largest weight that a record may have; larger ones are clipped.",
        )
    checks.positive(max_weight=largest)
    found = column_or_1d(np.asarray(weights, np.float64))
    check_consistent_length(found, targets)
    if not (np.isfinite(found).all() and (found >= 0).all()):
        raise InvalidArgument("A weight is negative or not finite.", remedy="Pass weights of 0 or more.")
    return np.minimum(found / largest, 1.0)


def _by_class(weights: Any, labels: np.ndarray) -> np.ndarray | None:
    if weights is None:
        return None
    if not isinstance(weights, Mapping):
        raise InvalidArgument(
            f"class_weight={weights!r} would read the sizes of the classes from y, which was not paid for.",
            remedy="Declare a weight for each label: class_weight={0: 1.0, 1: 5.0}.",
        )
    values = {label: float(weight) for label, weight in weights.items()}
    largest = max(values.values(), default=1.0)
    is_fine = all(0 <= weight < np.inf for weight in values.values())
    if not (is_fine and largest > 0):
        raise InvalidArgument(
            "Class weights are finite numbers of 0 or more, and one is above 0.",
            remedy="Declare a weight for each label: class_weight={0: 1.0, 1: 5.0}.",
        )
    largest = max(largest, 1.0)  # of a label that is not declared
    return np.array([values.get(label, 1.0) for label in labels.tolist()], np.float64) / largest
