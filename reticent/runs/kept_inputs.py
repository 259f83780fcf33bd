"""Features by public weights, kept in the private part of a run: computed once, read by whatever comes later.

They are as private as the images that they were made of. The name of a file is a digest of the weights and of
all rows in their order, so that other rows, or other weights, are never taken for these.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from reticent.core.files import whole_file
from reticent.core.observer import Observer
from reticent.distributed import collectives
from reticent.features.computing import kept_features, kept_place
from reticent.runs.learners import Learner
from reticent.runs.private_part import PRIVATE, make_private
from reticent.runs.public_start import FEATURES
from reticent.runs.spill import Arrays


class KeptInputs:
    """Rows as a learner takes them, found in the folder of a run or computed and kept there.

    Args:
        folder: of the run; None to keep nothing.
    """

    def __init__(self, learn: Learner, folder: Path | None) -> None:
        is_slow = learn.name == FEATURES and collectives.count() == 1
        self._learn, self._folder = learn, folder if is_slow else None

    def of(self, part: Arrays, observer: Observer, compute: Callable[[], np.ndarray] | None = None) -> Arrays:
        """The same rows with the inputs of the learner.

        Args:
            compute: how they are computed, where that is not row after row.
        """
        if self._folder is None:
            return {**part, "x": self._computed(part, observer, compute)}
        rows = np.asarray(part["x"])
        path = kept_place(self._folder / PRIVATE, self._learn.start[0], rows)
        found = kept_features(path, (len(rows), *self._width))
        if found is None:
            found = self._computed(part, observer, compute)
            make_private(self._folder)
            with whole_file(path, is_private=True) as file:
                np.save(file, found)
        return {**part, "x": found}

    def _computed(
        self, part: Arrays, observer: Observer, compute: Callable[[], np.ndarray] | None
    ) -> np.ndarray:
        if compute is not None:
            return compute()
        with observer.watch(f"features for {self._learn.name}") as on_progress:
            return self._learn.inputs(part["x"], on_progress)

    @property
    def _width(self) -> tuple[int, ...]:
        """Of one row of inputs: as many as the product has."""
        return self._learn.model.starts["w"].shape[:1]
