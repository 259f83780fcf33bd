"""What an attack starts from and what it returns: the outputs of a model, and a score for each record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from reticent.core.errors import DataError

FEWEST = 10  # records on either side: below it no number about them means anything

_SUM_TOLERANCE = 1e-3
_LEAST_PROBABILITY = 1e-12  # a model that says 0 is taken to mean this
_SHUFFLES = 999


@dataclass(frozen=True, kw_only=True)
class Scores:
    """The scores of an attack for members and outsiders. Higher means "was a member".

        fewer than ten on a side       DataError
        NaN or infinite                DataError that names the first row
        all equal                      accepted: an attack without signal

    Example:
        >>> scores = Scores(members=np.arange(10) + 1.0, outsiders=np.arange(10))
        >>> int(scores.is_member.sum()), len(scores.values)
        (10, 20)

    Args:
        members: of records that were in the training set.
        outsiders: of records that were not.
        member_labels, outsider_labels: the class of each record, for results by class.

    Raises:
        DataError: fewer than ten records on a side, or a score that is not a number.
    """

    members: np.ndarray
    outsiders: np.ndarray
    member_labels: np.ndarray | None = field(default=None, repr=False)
    outsider_labels: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for side in ("members", "outsiders"):
            object.__setattr__(self, side, _check_scores(getattr(self, side), side))
        pairs = (("members", self.member_labels), ("outsiders", self.outsider_labels))
        for side, labels in pairs:
            if labels is not None and len(labels) != len(getattr(self, side)):
                raise DataError(
                    f"There are {len(labels)} labels for {len(getattr(self, side))} scores of {side}.",
                    remedy="Give one label for each score, or none at all.",
                )

    @classmethod
    def of_games(cls, scores: np.ndarray, is_member: np.ndarray, labels: np.ndarray | None = None) -> Scores:
        """Pools the games of many models: scores and membership (models, records), labels (records,)."""
        scores, is_member = np.atleast_2d(scores), np.atleast_2d(is_member)
        if labels is None:
            return cls(members=scores[is_member], outsiders=scores[~is_member])
        wide = np.broadcast_to(labels, scores.shape)
        return cls(
            members=scores[is_member],
            outsiders=scores[~is_member],
            member_labels=wide[is_member],
            outsider_labels=wide[~is_member],
        )

    @property
    def is_member(self) -> Bool[np.ndarray, " records"]:
        """The membership of `values`: True for each member, then False for each outsider."""
        return np.repeat([True, False], [len(self.members), len(self.outsiders)])

    @property
    def values(self) -> Float[np.ndarray, " records"]:
        return np.concatenate([self.members, self.outsiders])


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a model says of some records: one row per record, one column per class.

    Made by `from_probabilities` or `from_logits`, which check what they are given.

    Args:
        features: the records themselves, flat, if they are known: then an overlap can be found.

    Example:
        >>> outputs = Outputs.from_probabilities([[0.9, 0.1]] * 10, [0] * 10)
        >>> len(outputs), outputs.classes
        (10, 2)
        >>> Outputs.from_probabilities([[0.9, 0.3]] * 10, [0] * 10)
        Traceback (most recent call last):
            ...
        reticent.core.errors.DataError: The probabilities of records in row 0 sum to 1.2, the smallest
        is 0.3; 10 of 10 rows are like that. Give the softmax of the model, or its raw outputs as
        logits.
    """

    logits: Float[np.ndarray, "records classes"] = field(repr=False)  # (records, classes) float64
    labels: Int[np.ndarray, " records"] = field(repr=False)  # (records,)
    features: np.ndarray | None = field(default=None, repr=False)
    name: str = "records"

    @classmethod
    def from_logits(
        cls, logits: ArrayLike, labels: ArrayLike, *, features: ArrayLike | None = None, name: str = "records"
    ) -> Outputs:
        rows = _check_rows(logits, "logits", name)
        return cls(
            logits=rows,
            labels=_check_labels(labels, len(rows), rows.shape[1], name),
            features=_check_features(features, len(rows), name),
            name=name,
        )

    @classmethod
    def from_probabilities(
        cls,
        probabilities: ArrayLike,
        labels: ArrayLike,
        *,
        features: ArrayLike | None = None,
        name: str = "records",
    ) -> Outputs:
        """Checks probabilities; raises `DataError` that names the first row that does not sum to one."""
        rows = _check_rows(probabilities, "probabilities", name)
        sums = rows.sum(axis=1)
        wrong = (np.abs(sums - 1) > _SUM_TOLERANCE) | (rows < -_SUM_TOLERANCE).any(axis=1)
        if wrong.any():
            first = int(np.argmax(wrong))
            raise DataError(
                f"The probabilities of {name} in row {first} sum to {sums[first]:.4g}, the smallest is "
                f"{rows[first].min():.4g}; {wrong.sum()} of {len(rows)} rows are like that.",
                remedy="Give the softmax of the model, or its raw outputs as logits.",
            )
        return cls.from_logits(
            np.log(np.maximum(rows, _LEAST_PROBABILITY)), labels, features=features, name=name
        )

    @property
    def classes(self) -> int:
        return self.logits.shape[1]

    @property
    def log_probabilities(self) -> Float[np.ndarray, "records classes"]:
        return self.logits - logsumexp(self.logits, axis=1, keepdims=True)

    def __len__(self) -> int:
        return len(self.labels)


def check_apart(members: Outputs, outsiders: Outputs) -> None:
    """Makes sure that members and outsiders differ in nothing but membership.

    Raises:
        DataError: other classes, other labels than a random division would give, or the same records.
    """
    if members.classes != outsiders.classes:
        raise DataError(
            f"The model has {members.classes} classes for members and {outsiders.classes} for outsiders.",
            remedy="Ask one model, with the same classes in the same order, about both.",
        )
    _check_same_labels(members.labels, outsiders.labels)
    if members.features is not None and outsiders.features is not None:
        _check_no_overlap(members.features, outsiders.features)


def _check_same_labels(members: np.ndarray, outsiders: np.ndarray) -> None:
    """Refuses label sets that differ by more than a random division of the records would make them."""
    known, positions = np.unique(np.concatenate([members, outsiders]), return_inverse=True)
    counts = np.bincount(positions, minlength=len(known))
    among_members = np.bincount(positions[: len(members)], minlength=len(known))
    is_lonely = (among_members == 0) | (among_members == counts)
    lonely = counts[is_lonely].sum()
    if not lonely or len(known) == 1:
        return
    drawn = np.random.default_rng(0).multivariate_hypergeometric(
        counts, len(members), size=_SHUFFLES, method="marginals"
    )  # (shuffles, labels)
    by_chance = np.where((drawn == 0) | (drawn == counts), counts, 0).sum(axis=1)
    if (by_chance >= lonely).mean() <= 0.01:
        raise DataError(
            f"Members and outsiders have different labels: {_list_labels(known[is_lonely])} "
            f"only on one side, with {lonely} records.",
            remedy="Draw both at random from the same source, or leave those records out.",
        )


def _check_no_overlap(members: np.ndarray, outsiders: np.ndarray) -> None:
    if members.shape[1] != outsiders.shape[1]:
        raise DataError(
            f"Members have {members.shape[1]} features and outsiders {outsiders.shape[1]}.",
            remedy="Give the same features, in the same order, of both.",
        )
    seen: dict[bytes, int] = {}
    for row, record in enumerate(members):
        seen.setdefault(record.tobytes(), row)
    shared = [
        (seen[record.tobytes()], row) for row, record in enumerate(outsiders) if record.tobytes() in seen
    ]
    if shared:
        pairs = ", ".join(f"member {inside} = outsider {outside}" for inside, outside in shared[:3])
        more = f" and {len(shared) - 3} more" if len(shared) > 3 else ""
        raise DataError(
            f"{len(shared)} of {len(outsiders)} outsiders are also among the members: {pairs}{more}.",
            remedy="Leave them out of both: a record cannot be a member and an outsider.",
        )


def _check_scores(values: ArrayLike, side: str) -> np.ndarray:
    try:
        scores = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(
            f"The scores of {side} are not numbers.", remedy="Give one number per record."
        ) from None
    if scores.ndim != 1:
        raise DataError(
            f"The scores of {side} have shape {scores.shape}.", remedy="Give one number per record."
        )
    _check_enough(len(scores), side)
    if not np.isfinite(scores).all():
        first = int(np.argmin(np.isfinite(scores)))
        raise DataError(
            f"The score of {side} in row {first} is {scores[first]}.",
            remedy="Leave such records out, or give a large finite number for certainty.",
        )
    return scores


def _check_rows(values: ArrayLike, what: str, name: str) -> np.ndarray:
    try:
        rows = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        raise DataError(f"The {what} of {name} are not numbers.", remedy="Give rows of numbers.") from None
    if rows.ndim != 2:
        raise DataError(
            f"The {what} of {name} have shape {rows.shape}.",
            remedy="Give one row per record and one column per class; two columns for a yes or no.",
        )
    _check_enough(len(rows), name)
    if rows.shape[1] < 2:
        raise DataError(
            f"The {what} of {name} have one class.", remedy="Give a column for every class, at least two."
        )
    wrong = ~np.isfinite(rows).all(axis=1)
    if wrong.any():
        raise DataError(
            f"The {what} of {name} are not finite in {wrong.sum()} rows, first in row {np.argmax(wrong)}.",
            remedy="Find out why the model gives NaN or infinity there, or leave these records out.",
        )
    return rows


def _check_labels(labels: ArrayLike, records: int, classes: int, name: str) -> np.ndarray:
    found = np.asarray(labels)
    if found.shape != (records,) or not np.issubdtype(found.dtype, np.integer):
        raise DataError(
            f"The labels of {name} are {found.dtype} of shape {found.shape}, for {records} records.",
            remedy="Give one whole number per record: the column of its class.",
        )
    if found.min() < 0 or found.max() >= classes:
        raise DataError(
            f"The labels of {name} run from {found.min()} to {found.max()}, and there are {classes} columns.",
            remedy="Count classes from 0, and give a column for each.",
        )
    return found


def _check_features(features: ArrayLike | None, records: int, name: str) -> np.ndarray | None:
    if features is None:
        return None
    found = np.ascontiguousarray(features)
    if not found.ndim or len(found) != records:
        raise DataError(
            f"There are features of shape {found.shape} for the {records} {name}.",
            remedy="Give one row of features per record.",
        )
    return found.reshape(records, -1)


def _check_enough(count: int, name: str) -> None:
    if count < FEWEST:
        raise DataError(
            f"{count} {name} are too few to tell an attack from luck.",
            remedy=f"Give at least {FEWEST}; a true-positive rate at 0.1% needs 1,000 outsiders or more.",
        )


def _list_labels(labels: Sequence[Any] | np.ndarray) -> str:
    shown = ", ".join(str(label) for label in labels[:5])
    return f"{shown} and {len(labels) - 5} more are" if len(labels) > 5 else f"{shown} found"
