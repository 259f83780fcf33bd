"""What a step claims about its arithmetic, and what one check of it found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from reticent.audit.verdict import Outcome
from reticent.core.trees import ArrayTree
from reticent.mechanisms.adjacency import Adjacency


class Claim(NamedTuple):
    """One noisy sum: what a record may move it by, its noise, and what it is divided by afterwards."""

    max_norm: float
    noise_multiplier: float
    divisor: float
    adjacency: Adjacency

    @property
    def reach(self) -> int:
        """How far apart neighbours' sums may be, in clipping norms."""
        return self.adjacency.reach

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise on the sum."""
        return self.noise_multiplier * self.max_norm

    @property
    def mu(self) -> float:
        """How many deviations apart neighbours' sums may be: all of the claim in one number."""
        return self.reach / self.noise_multiplier


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one check of a step found.

    Args:
        numbers: those that the sentence rests on.
    """

    check: str
    outcome: Outcome
    what: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.check}: {self.outcome}, {self.what}"

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "outcome": self.outcome.value,
            "what": self.what,
            "numbers": {name: _for_json(value) for name, value in self.numbers.items()},
        }


def _for_json(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def flat_numbers(tree: ArrayTree) -> np.ndarray:
    """All numbers of a release, in the widest of their float types: float32 or float64."""
    leaves = [np.asarray(leaf).reshape(-1) for leaf in jax.tree.leaves(tree)]
    kinds = [np.float64 if leaf.dtype == np.float64 else np.float32 for leaf in leaves]
    widest = np.result_type(*kinds) if kinds else np.float32
    return np.concatenate([leaf.astype(widest) for leaf in leaves]) if leaves else np.zeros(0, np.float32)
