"""What synthetic rows reveal: how near they are to training rows, and to held-out rows.

Being near is not a harm in itself: a row of a common kind is near to everybody. What counts is whether
records of the training table are nearer than records of the same kind outside it. None of these numbers is
noisy, so all of them are `unreleased`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reticent.attacks import metrics
from reticent.attacks.scores import FEWEST, Scores
from reticent.core import checks
from reticent.core.errors import DataError
from reticent.synthetic.tables.codes import check_codes
from reticent.synthetic.tables.table_model import TableModel

_BLOCK = 128  # rows that are compared with all others at once
MOST_RECORDS = 2000  # of each side that are looked at


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """The share of columns in which a record differs from the synthetic row that is nearest to it."""

    training_median: float
    training_exact: float  # the share of records that a synthetic row repeats
    held_out_median: float
    held_out_exact: float
    unreleased: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Membership:
    """How well an attacker tells training records from held-out ones; an AUC of 0.5 is guessing."""

    attack: str
    measured: metrics.Measured
    unreleased: bool = True

    def to_json(self) -> dict[str, Any]:
        return {"attack": self.attack, **self.measured.to_json(), "unreleased": self.unreleased}


def nearest(
    records: np.ndarray, made: np.ndarray, ordered: Sequence[bool], sizes: Sequence[int]
) -> np.ndarray:
    """The mean difference over columns to the nearest synthetic row, for each record: 0 to 1.

    Words differ or they do not; bins differ by their distance, as a part of the column's range.
    """
    records, made = check_codes(records, sizes), check_codes(made, sizes)
    scales = [
        1.0 / max(size - 1, 1) if is_ordered else 0.0 for size, is_ordered in zip(sizes, ordered, strict=True)
    ]
    columns = np.ascontiguousarray(made.T)
    found = []
    for at in range(0, len(records), _BLOCK):
        block = records[at : at + _BLOCK]
        total = np.zeros((len(block), len(made)), np.float32)
        for column, scale in enumerate(scales):
            difference = block[:, column, None] - columns[column]
            total += np.abs(difference) * np.float32(scale) if scale else difference != 0
        found.append(total.min(axis=1))
    return np.concatenate(found) / len(sizes)


def nearness(
    made: np.ndarray,
    training: np.ndarray,
    held_out: np.ndarray,
    ordered: Sequence[bool],
    sizes: Sequence[int],
    *,
    seed: int = 0,
) -> tuple[Nearness, Membership]:
    """How near synthetic rows are to training rows and to held-out ones, and the attack that goes by it.

    At most 2,000 records of each side are drawn by chance.
    """
    sides = [nearest(_some(side, seed), made, ordered, sizes) for side in (training, held_out)]
    ours, theirs = sides
    near = Nearness(
        training_median=float(np.median(ours)),
        training_exact=float(np.mean(ours == 0)),
        held_out_median=float(np.median(theirs)),
        held_out_exact=float(np.mean(theirs == 0)),
    )
    scores = Scores(members=-ours, outsiders=-theirs)
    return near, Membership(attack="distance to the nearest row", measured=metrics.measure(scores))


def density_attack(
    model: TableModel, training: np.ndarray, held_out: np.ndarray, *, reference: TableModel | None = None
) -> Membership:
    """An attacker who has the generator itself, and calls likely records members.

    Args:
        reference: a model of other records of the same kind. How likely a record is beside what it is there
            tells more than how likely it is alone.
    """
    sides = []
    for side in (training, held_out):
        likely = model.log_probabilities(side)
        sides.append(likely if reference is None else likely - reference.log_probabilities(side))
    name = "density" if reference is None else "density beside a reference"
    scores = Scores(members=sides[0], outsiders=sides[1])
    return Membership(attack=name, measured=metrics.measure(scores))


def _some(records: np.ndarray, seed: int) -> np.ndarray:
    if len(records) < FEWEST:
        raise DataError(
            f"{len(records)} records are too few to draw conclusions.", remedy=f"Give at least {FEWEST}."
        )
    checks.count(minimum=0, seed=seed)
    if len(records) <= MOST_RECORDS:
        return records
    return records[np.random.default_rng(seed).choice(len(records), MOST_RECORDS, replace=False)]
