"""Votes, questions and answers: types that cannot be confused.

A published tutorial handed class labels to an analysis that wanted row numbers, and so analysed the first
ten rows again and again. Here votes are `Votes`, row numbers are `Questions`, what came back is `Answers`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument


@dataclass(frozen=True, kw_only=True, eq=False)
class Votes:
    """How many teachers vote for each class, for each record of a public pool. Private: never publish it.

    Args:
        counts: whole numbers, (queries, classes); every row adds up to `teachers`.

    Example:
        >>> votes = Votes.of_labels([[0, 1], [0, 0], [0, 1]], classes=2)  # (teachers, queries)
        >>> votes.counts.tolist(), votes.teachers
        ([[3, 0], [1, 2]], 3)
        >>> votes.about(Questions(rows=[1])).counts.tolist()
        [[1, 2]]
    """

    counts: np.ndarray
    teachers: int

    def __post_init__(self) -> None:
        checks.count(teachers=self.teachers)
        object.__setattr__(self, "counts", _whole(self.counts))
        if self.counts.ndim != 2 or self.counts.shape[1] < 2:
            raise DataError(
                f"Votes have a row for each query and a column for each class; these have shape "
                f"{self.counts.shape}.",
                remedy="Pass counts of shape (queries, classes), or use Votes.of_labels for single votes.",
            )
        if len(self.counts) and self.counts.min() < 0:
            row = int(np.argmax((self.counts < 0).any(axis=1)))
            raise DataError(f"Row {row} has a negative count.", remedy="Count each teacher once.")
        totals = self.counts.sum(axis=1)
        if (totals != self.teachers).any():
            row = int(np.argmax(totals != self.teachers))
            raise DataError(
                f"The votes of row {row} add up to {totals[row]}, and there are {self.teachers} teachers.",
                remedy="Let every teacher vote exactly once on every record, or state how many there are.",
            )

    @classmethod
    def of_labels(cls, labels: ArrayLike, *, classes: int) -> Votes:
        """Counts single votes: a row for each teacher, a column for each record, class numbers in it."""
        labels = _whole(labels)
        checks.count(minimum=2, classes=classes)
        if labels.ndim != 2:
            raise DataError(
                f"Single votes have shape (teachers, queries); these have {labels.shape}.",
                remedy="Pass one row of class numbers for each teacher.",
            )
        if labels.size and not 0 <= labels.min() <= labels.max() < classes:
            raise DataError(
                f"There are votes from {labels.min()} to {labels.max()}, and classes are 0 to {classes - 1}.",
                remedy="Number the classes from 0, or state how many there are.",
            )
        teachers, queries = labels.shape
        places = labels + classes * np.arange(queries)
        counts = np.bincount(places.ravel(), minlength=queries * classes).reshape(queries, classes)
        return cls(counts=counts, teachers=teachers)

    @property
    def queries(self) -> int:
        return self.counts.shape[0]

    @property
    def classes(self) -> int:
        return self.counts.shape[1]

    @property
    def plurality(self) -> Int[np.ndarray, " queries"]:
        """The class with the most votes, without noise: private."""
        return self.counts.argmax(axis=1)

    def about(self, questions: Questions) -> Votes:
        """The votes on these records alone, in the order they are asked about."""
        if not isinstance(questions, Questions):
            raise InvalidArgument(
                f"Records to ask about are given as Questions, not {type(questions).__name__}.",
                remedy="Wrap row numbers: Questions(rows=...). Class labels are not row numbers.",
            )
        questions.require_within(self.queries)
        return Votes(counts=self.counts[questions.rows], teachers=self.teachers)


@dataclass(frozen=True, kw_only=True, eq=False)
class Questions:
    """Rows of a public pool that are asked about, each once.

    Example:
        >>> Questions.first(3).rows.tolist()
        [0, 1, 2]
        >>> Questions(rows=[5]).require_within(3)
        Traceback (most recent call last):
            ...
        reticent.core.errors.DataError: Row 5 is asked about, and the pool has 3 rows. Ask about rows
        of this pool.
    """

    rows: np.ndarray

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", _whole(self.rows))
        if self.rows.ndim != 1:
            raise DataError(
                f"Questions are a list of row numbers, and this has shape {self.rows.shape}.",
                remedy="Pass one row number for each question.",
            )
        if len(self.rows) and self.rows.min() < 0:
            raise DataError(f"There is no row {self.rows.min()}.", remedy="Count rows from 0.")
        known, times = np.unique(self.rows, return_counts=True)
        if len(known) != len(self.rows):
            raise DataError(
                f"Row {known[np.argmax(times)]} is asked about {times.max()} times.",
                remedy="Ask about each record once. If these are class labels, pass row numbers instead.",
            )

    @classmethod
    def first(cls, count: int) -> Questions:
        return cls(rows=np.arange(count))

    def __len__(self) -> int:
        return len(self.rows)

    def require_within(self, pool: int) -> None:
        if len(self.rows) and self.rows.max() >= pool:
            raise DataError(
                f"Row {self.rows.max()} is asked about, and the pool has {pool} rows.",
                remedy="Ask about rows of this pool.",
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Answers:
    """Answers that were paid for: they may be published.

    Args:
        questions: those that were answered.
        labels: one class number for each.
        asked: how many were asked in all; the others were refused.
        counts: the noisy counts behind the labels, (answers, classes), where the noise covers them: with
            Gaussian noise what is accounted for is the whole histogram.

    Example:
        >>> answers = Answers(questions=Questions(rows=[4, 9]), labels=np.array([1, 0]), asked=3)
        >>> len(answers), answers.asked
        (2, 3)
    """

    questions: Questions
    labels: np.ndarray
    asked: int
    counts: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", _whole(self.labels))
        answered, counts = self.questions.rows.shape, self.labels if self.counts is None else self.counts
        if not self.labels.shape == answered == counts.shape[:1] or self.asked < len(self.questions):
            raise DataError(
                f"There are {self.labels.size} labels for {len(self.questions)} answered of {self.asked} "
                "questions.",
                remedy="Pass one label for each answered question.",
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def evidence(self) -> np.ndarray:
        """What a student learns from: noisy counts if there are any, otherwise labels."""
        return self.labels if self.counts is None else self.counts


def _whole(values: ArrayLike) -> np.ndarray:
    """Read-only 64-bit integers; a fraction is an error, never rounded away."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array)) or np.any(array != np.round(array)):
        raise DataError(
            f"These are not all whole numbers: {array.dtype} values of shape {array.shape}.",
            remedy="Pass counts, row numbers or class numbers as whole numbers.",
        )
    copy = array.astype(np.int64)
    copy.flags.writeable = False
    return copy
