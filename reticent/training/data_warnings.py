"""What the holder of the data is told when they look wrong. Nobody else is: each finding depends on rows.

A run never fails because of such a finding, since one record could then decide whether it does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from reticent.data.dataset import Dataset
from reticent.training.plan import Plan
from reticent.training.step import Unreleased

_MOST_COMPARED = 1000  # rows to evaluate on
_MOST_READ = 2**30  # bytes of training rows
_MOST_CANDIDATES = 100_000  # training rows that are compared whole
_COLUMNS = 64  # numbers of a row that are compared first
_FEW = 0.95  # of the declared number
_MANY_BAD = 0.1  # of the examples
_MANY_COPIES = 0.5  # of the rows to evaluate on: in a table of few values some are equal by chance


class UnreleasedWarning(UserWarning):
    """Tells whoever holds the data something about them. No guarantee covers it: keep it to yourself.

    Example:
        >>> issubclass(UnreleasedWarning, UserWarning)
        True
    """


@contextmanager
def without_data_warnings() -> Iterator[None]:
    """For callers that know their rows: they held some out, checked the others, and warn in their own way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreleasedWarning)
        yield


def warn_of_few_rows(plan: Plan, units: int) -> None:
    """The guarantee holds with fewer rows than declared, but batches are smaller than planned."""
    declared = plan.sampler.examples
    if units <= _FEW * declared and units < declared - 1:  # one less is every neighbour
        _warn(
            f"the plan was made for {declared} {plan.unit}s, and there are {units}. The guarantee holds, but "
            f"batches have {units / declared:.0%} of their size, and sums are divided by the whole. If the "
            "public number is another one, make the plan with it."
        )


def warn_of_copies(data: Dataset, evaluate: Dataset | None) -> None:
    """Rows that are trained on and evaluated on measure memory, not learning."""
    if evaluate is None or set(data) != set(evaluate) or not len(evaluate):
        return
    if data.is_elsewhere or evaluate.is_elsewhere or data.nbytes > _MOST_READ:
        return
    found = _copies(data, evaluate)
    compared = min(len(evaluate), _MOST_COMPARED)
    if found > _MANY_COPIES * compared:
        _warn(
            f"{found} of {compared} rows to evaluate on are in the training data as well, so their figures "
            "are not those of held-out rows. Hold out rows before training."
        )


def warn_of_bad_losses(seen: Unreleased) -> None:
    """Examples whose loss is not a number add nothing, and a run of such examples learns nothing."""
    examples, bad = (int(np.asarray(count).sum()) for count in (seen.size, seen.not_finite))
    if bad > _MANY_BAD * examples:
        _warn(
            f"{bad / examples:.0%} of the examples in the first batches have a loss that is not finite, and "
            "add nothing. Look for missing values in the data and for labels beyond the last class."
        )


def _copies(data: Dataset, evaluate: Dataset) -> int:
    """How many of the first rows to evaluate on are among the training rows, byte for byte."""
    ours, theirs = (
        {key: np.asarray(part[key])[:most] for key in data}
        for part, most in ((data, None), (evaluate, _MOST_COMPARED))
    )
    if any(ours[key].shape[1:] != theirs[key].shape[1:] for key in ours):
        return 0
    if any(array.dtype.kind not in "biuf" for array in (*ours.values(), *theirs.values())):
        return 0
    marks, wanted = _marks(ours), _marks(theirs)
    candidates = np.flatnonzero(np.isin(marks, wanted))[:_MOST_CANDIDATES]
    known = {_bytes_of(ours, row) for row in candidates.tolist()}
    return sum(_bytes_of(theirs, row) in known for row in range(len(wanted)))


def _marks(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """One number per row that equal rows share: (rows,). Quick to compute; collisions are looked at again."""
    total = np.zeros(len(next(iter(arrays.values()))), np.float32)
    for name in sorted(arrays):
        flat = arrays[name].reshape(len(total), -1)
        columns = np.unique(np.linspace(0, flat.shape[1] - 1, _COLUMNS).astype(int)) if flat.size else ()
        weights = np.random.default_rng(0).standard_normal(len(columns)).astype(np.float32)
        for weight, column in zip(weights, columns, strict=True):
            total += weight * np.nan_to_num(flat[:, column].astype(np.float32))
    return total


def _bytes_of(arrays: dict[str, np.ndarray], row: int) -> bytes:
    return b"".join(np.ascontiguousarray(arrays[name][row]).tobytes() for name in sorted(arrays))


def _warn(said: str) -> None:
    warnings.warn(f"Unreleased: {said}", UnreleasedWarning, stacklevel=3)
