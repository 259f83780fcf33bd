"""A finished run beside the rows it was made from: for whoever holds them, never for publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.core.errors import DataError, IntegrityError
from reticent.core.observer import NOBODY, Onlooker
from reticent.data.domain import Domain
from reticent.data.held_out import Split
from reticent.runs import folder as folders
from reticent.runs.arrays import Arrays, divided_by, inputs_of, with_public
from reticent.runs.learners import Learner
from reticent.runs.order import Material, Order
from reticent.runs.predict import Predictor
from reticent.runs.private import read_split
from reticent.runs.problem import Problem


class Again(NamedTuple):
    """A model, and its rows as it takes them.

    Args:
        domain: what is public about the table; none for images.
        train_on: those that it was trained on.
        held_out: those that it never saw.
        public: those that it saw without labels; PATE only.
        split: which rows were held out, if coins decided.
    """

    record: dict[str, Any]
    problem: Problem
    learner: Learner
    params: Any
    domain: Domain | None
    train_on: Arrays
    held_out: Arrays
    public: np.ndarray | None = None
    split: Split | None = None


def reopened(folder: Path, *, onlooker: Onlooker = NOBODY) -> Again:
    """Reads a finished run, and its data from where they were.

    Raises:
        DataError: the run is not finished, its data are not there any more, or the folder came without its
            private part.
        IntegrityError: they are others, or the folder was changed.
    """
    predictor = Predictor(folder)
    record = predictor.record
    material = Material(Order(**record["order"]))
    if material.rows != record["records"]:
        raise _changed(folder)
    if not material.has_test:
        material.split = read_split(folder, material.order.test)
    path = folder / folders.DOMAIN
    domain = Domain.read(path) if path.exists() else None
    try:
        divided, public = with_public(
            material, domain, divided_by(record, material, domain, onlooker), onlooker
        )
    except DataError as error:
        raise DataError(
            f"The data of {folder} cannot be read again: {error.happened}", remedy=error.remedy
        ) from error
    if divided.problem != predictor.problem:
        raise _changed(folder)
    learner = predictor.learner
    train_on, held_out = (inputs_of(learner, part, onlooker) for part in (divided.train_on, divided.held_out))
    if domain is None and material.splits is not None:
        domain = material.splits.domain
    unlabelled = None if public is None else inputs_of(learner, {"x": public}, onlooker)["x"]
    return Again(
        record,
        predictor.problem,
        learner,
        predictor.params,
        domain,
        train_on,
        held_out,
        unlabelled,
        material.split,
    )


def _changed(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"The data of {folder} are not those it was trained on.", remedy="Put them back as they were."
    )
