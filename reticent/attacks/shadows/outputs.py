"""What shadow models say: who was in each one's training set, and its outputs for every record.

Models come in pairs of twins that divide the records between them, so every record is in exactly half of
the models, and still is when a model and its twin are left out. A record's share of the others then says
nothing about the one that is attacked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from reticent.attacks.foreign_files import BROKEN_ARCHIVE
from reticent.attacks.signals import Signals, signals_of
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.files import whole_file


class Accuracies(NamedTuple):
    """The accuracies of a model on its own training set and on records that it did not see."""

    train: float
    test: float

    @property
    def gap(self) -> float:
        return self.train - self.test


@dataclass(frozen=True, kw_only=True)
class Shadows:
    """Models trained on random halves of one pool of records, as far as an attack needs to know them.

    Args:
        logits: (models, records, classes) of every model for every record.
        is_member: (models, records), whom each model was trained on.
        labels: (records,).
        robustness: (models, records), the share of disturbed copies that kept the right label.
        fingerprint: of the recipe, the data and the seed: models of another one are never mixed in.

    Example:
        >>> labels = np.arange(6) % 2
        >>> shadows = Shadows(
        ...     logits=np.zeros((4, 6, 2)), is_member=balanced_halves(6, 4, seed=0), labels=labels
        ... )
        >>> shadows.models, shadows.records
        (4, 6)
    """

    logits: Float[np.ndarray, "models records classes"] = field(repr=False)
    is_member: Bool[np.ndarray, "models records"] = field(repr=False)
    labels: Int[np.ndarray, " records"] = field(repr=False)
    robustness: np.ndarray | None = field(default=None, repr=False)
    fingerprint: str = ""

    def __post_init__(self) -> None:
        models, records = self.is_member.shape
        if self.logits.shape[:2] != (models, records) or self.labels.shape != (records,):
            raise DataError(
                f"Shadow outputs of shape {self.logits.shape}, membership {self.is_member.shape} and labels "
                f"{self.labels.shape} do not fit together.",
                remedy="Give logits (models, records, classes), membership (models, records), "
                "labels (records,).",
            )
        twice = 2 * self.is_member.sum(axis=0)
        if models % 2 or (twice != models).any():
            raise DataError(
                f"Records are in {twice.min() // 2} to {twice.max() // 2} of the {models} shadow models.",
                remedy="Train an even number of models, with every record in exactly half: balanced_halves.",
            )
        if not np.isfinite(self.logits).all():
            bad = int((~np.isfinite(self.logits)).any(axis=(1, 2)).sum())
            raise DataError(
                f"{bad} of {models} shadow models give outputs that are not finite.",
                remedy="Train them with a smaller learning rate.",
            )

    @property
    def models(self) -> int:
        return len(self.is_member)

    @property
    def records(self) -> int:
        return len(self.labels)

    @cached_property
    def signals(self) -> Signals:
        """The signals of every model for every record: each array is (models, records)."""
        return signals_of(self.logits, self.labels, self.robustness)

    @property
    def accuracies(self) -> Accuracies:
        """The mean over all models."""
        right = self.signals.is_right
        return Accuracies(float(right[self.is_member].mean()), float(right[~self.is_member].mean()))

    def others(self, model: int) -> np.ndarray:
        """All models but this one and its twin: among them, every record is in exactly half."""
        return np.flatnonzero(np.arange(self.models) // 2 != model // 2)

    def first(self, models: int) -> Shadows:
        """Takes the first models, an even number of them."""
        checks.count(models=models)
        if models > self.models or models % 2:
            raise InvalidArgument(
                f"{models} of {self.models} shadow models cannot be taken.",
                remedy=f"Pass an even number up to {self.models}.",
            )
        robustness = None if self.robustness is None else self.robustness[:models]
        return replace(
            self, logits=self.logits[:models], is_member=self.is_member[:models], robustness=robustness
        )

    def and_more(self, later: Shadows) -> Shadows:
        """Appends later models of the same recipe, data and seed."""
        if later.fingerprint != self.fingerprint:
            raise DataError(
                "These shadow models come from different recipes, data or seeds.",
                remedy="Extend them with the same train_shadows arguments, or start over.",
            )
        robustness = None
        if self.robustness is not None and later.robustness is not None:
            robustness = np.concatenate([self.robustness, later.robustness])
        return replace(
            self,
            logits=np.concatenate([self.logits, later.logits]),
            is_member=np.concatenate([self.is_member, later.is_member]),
            robustness=robustness,
        )

    def save(self, path: Path) -> None:
        """Writes a .npz file, whole or not at all."""
        arrays: dict[str, Any] = {"logits": self.logits, "is_member": self.is_member, "labels": self.labels}
        if self.robustness is not None:
            arrays["robustness"] = self.robustness
        arrays["fingerprint"] = np.array(self.fingerprint)
        with whole_file(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: Path) -> Shadows:
        try:
            with path.open("rb") as opened, np.load(opened) as file:
                return cls(
                    logits=file["logits"],
                    is_member=file["is_member"],
                    labels=file["labels"],
                    robustness=file.get("robustness"),
                    fingerprint=str(file["fingerprint"]),
                )
        except (OSError, *BROKEN_ARCHIVE):
            raise DataError(
                f"{path} is not a file of shadow outputs.",
                remedy="Name one that train_shadows wrote, or delete it and train again.",
            ) from None


def balanced_halves(records: int, models: int, *, seed: int) -> Bool[np.ndarray, "{models} {records}"]:
    """Draws who is in whose training set: (models, records), every record in exactly half of them.

    Pair number k depends on the seed and on k alone, so that a longer matrix begins with a shorter one.

    Example:
        >>> halves = balanced_halves(5, 4, seed=0)
        >>> halves.shape, halves.sum(axis=0).tolist()
        ((4, 5), [2, 2, 2, 2, 2])
    """
    checks.count(minimum=2, records=records)
    checks.count(minimum=2, models=models)
    if models % 2:
        raise InvalidArgument(
            f"With {models} shadow models, no record can be in exactly half of them.",
            remedy=f"Train {models + 1}.",
        )
    matrix = np.zeros((models, records), bool)
    for pair in range(models // 2):
        order = np.random.default_rng([seed, pair]).permutation(records)
        matrix[2 * pair, order[: -(-records // 2)]] = True
        matrix[2 * pair + 1] = ~matrix[2 * pair]
    return matrix


def check_alike(shadows: Shadows, target: Accuracies, *, tolerance: float = 0.05) -> None:
    """Refuses shadow models that are not like the target: an attack with them would say little about it.

    Raises:
        DataError: a mean accuracy of the shadows differs from the target's by more than the tolerance.
    """
    ours = shadows.accuracies
    for what, shadow, wanted in (("train", ours.train, target.train), ("test", ours.test, target.test)):
        if not abs(shadow - wanted) <= tolerance:
            raise DataError(
                f"The shadow models have a {what} accuracy of {shadow:.3f}, the target one of {wanted:.3f}.",
                remedy="Train them as the target was: architecture, optimizer, epochs, noise and set size.",
            )
