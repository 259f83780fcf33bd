"""A budget that lets everything through and remembers it, and data to fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event


class Recorder:
    """What was charged, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.purposes: list[str] = []

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str, unit: str) -> None:
        assert adjacency is Adjacency.ADD_OR_REMOVE
        assert unit == "record"
        self.events.append(event)
        self.purposes.append(purpose)

    @property
    def event(self) -> Event:
        return self.events[0] if len(self.events) == 1 else Composed(events=tuple(self.events))

    def __sklearn_clone__(self) -> Recorder:
        return self


class Refusing:
    """A budget from which nothing may be taken."""

    def charge(self, event: Event, **terms: Any) -> None:
        raise PermissionError(type(event).__name__)


def separable(rows: int, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of length about 1 around as many corners as there are classes."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % classes
    corners = np.eye(max(classes, 3))[:classes]
    return corners[labels] + 0.1 * rng.normal(size=(rows, corners.shape[1])), labels


def nothing_but_noise(rows: int, classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of zeros: the coefficients of whatever is fitted to them are noise."""
    return np.zeros((rows, 4)), np.random.default_rng(seed).permutation(np.arange(rows) % classes)
