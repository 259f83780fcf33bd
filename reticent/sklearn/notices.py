"""Warnings of the estimators, at the line of whoever called `fit`."""

from __future__ import annotations

import hashlib
import secrets
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse

_KEY = secrets.token_bytes(32)
_MOST = 10_000  # data that are remembered
_SAMPLED = 1 << 20  # entries of an array that are hashed
_BETWEEN = ("reticent", "sklearn", "joblib")  # packages between a warning and the line that it is about

_fits: OrderedDict[bytes, int] = OrderedDict()
_told: set[type[Warning]] = set()
_guard = threading.Lock()


class RepeatedFitWarning(UserWarning):
    """The same data were fitted again, and nothing adds up what the fits cost together.

    Example:
        >>> import numpy as np, warnings
        >>> from reticent.sklearn import PrivateScaler
        >>> X = np.random.default_rng(7).normal(size=(50, 1))
        >>> with warnings.catch_warnings(record=True) as seen:
        ...     warnings.simplefilter("always")
        ...     _ = [PrivateScaler().fit(X) for _ in range(2)]
        >>> seen[0].category.__name__
        'RepeatedFitWarning'
    """


class PublicLabelsWarning(UserWarning):
    """Nobody said which classes there are, so the labels in y count as public.

    Example:
        >>> import warnings
        >>> warnings.simplefilter("ignore", PublicLabelsWarning)  # where that is known
    """


def warn_of_public_labels(name: str) -> None:
    """Once in the life of a process: every guarantee says it anyway."""
    if PublicLabelsWarning not in _told:
        _told.add(PublicLabelsWarning)
        message = (
            f"{name} takes the set of labels in y as public, and guarantee_ says so. Pass classes=[...] or "
            "classes='public' to confirm it, or classes='private' to find it from the budget."
        )
        warnings.warn(message, PublicLabelsWarning, stacklevel=_callers_level())


def warn_of_repeated_fit(name: str, data: Iterable[Any]) -> None:
    """Remembers that these data were fitted; warns when that happens for the second time."""
    mark = fingerprint(data)
    with _guard:
        fits = _fits[mark] = _fits.pop(mark, 0) + 1
        if len(_fits) > _MOST:
            _fits.popitem(last=False)
    if fits == 2:
        message = (
            f"{name}: the same data were fitted more than once in this process. Each guarantee_ is about one "
            "fit, and all fits together cost more. To tune, use PrivateSearch. Otherwise pass one budget to "
            "all fits: budget=SharedBudget(epsilon=..., delta=...)."
        )
        warnings.warn(message, RepeatedFitWarning, stacklevel=_callers_level())


def fingerprint(data: Iterable[Any]) -> bytes:
    """A keyed hash of the shapes and of a sample of the entries: the key lives as long as the process."""
    digest = hashlib.blake2b(key=_KEY, digest_size=16)
    for part in data:
        if sparse.issparse(part):
            rows: Any = part.tocsr()
            arrays = [rows.data, rows.indices, rows.indptr]
        else:
            arrays = [np.asarray(part)]
        digest.update(str(part.shape).encode())
        for array in arrays:
            sample = array.ravel()[:: max(array.size // _SAMPLED, 1)]
            has_objects = sample.dtype.hasobject
            digest.update(repr(sample.tolist()).encode() if has_objects else sample.tobytes())
    return digest.digest()


def _callers_level() -> int:
    """How many calls lie between the function that warns and the first line outside the libraries."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    return level
