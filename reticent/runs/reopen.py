"""A finished run beside the rows it was made from: for whoever holds them, never for publication."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.core.errors import DataError, IntegrityError
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain
from reticent.data.held_out import Split
from reticent.features.computing import PREFIX
from reticent.runs import folder as folders
from reticent.runs.arrays import Arrays, DividedRows, UsersOfRows, divided_by, inputs_of, with_public
from reticent.runs.learners import Learner
from reticent.runs.origin import require_own
from reticent.runs.predict import Predictor
from reticent.runs.private_part import read_split, without_leftovers
from reticent.runs.problem import Problem
from reticent.runs.record import RunRecord
from reticent.runs.request import request_of
from reticent.runs.row_fingerprint import KnownRows, row_count_differs, warn_unchecked
from reticent.runs.source import Source, move, require_there


class Again(NamedTuple):
    """A model, and its rows as it takes them.

    Args:
        domain: what is public about the table; none for images.
        train_on: those that it was trained on.
        held_out: those that it never saw.
        public: those that it saw without labels; PATE only.
        split: which rows were held out, if coins decided.
        users: whose the rows are, if the run protects users.
    """

    record: RunRecord
    problem: Problem
    learner: Learner
    params: Any
    domain: Domain | None
    train_on: Arrays
    held_out: Arrays
    public: np.ndarray | None = None
    split: Split | None = None
    users: UsersOfRows | None = None


def open_again(folder: Path, *, observer: Observer = NOBODY, data: Path | str | None = None) -> Again:
    """Reads a finished run, and its data from where they were.

    Args:
        data: where its table is, if that was moved.

    Raises:
        DataError: the run is not finished, its data are not there any more, or the folder came without its
            private part.
        IntegrityError: they are not the rows it was made from, or not in the same order, or the folder was
            changed.
    """
    predictor = Predictor(folder)
    record = predictor.record
    require_own(folder, record)
    request = move(request_of(record), data)
    require_there(request, folder)
    source = Source(request, folder=folder)
    if source.rows != record.records:
        what = f"{record.request.unit}s" if record.request.unit == "user" else "rows"
        raise row_count_differs(folder, source.request.source, source.rows, record.records, what)
    known = KnownRows.read(folder)
    source.row_digest = None if known is None else known.digest
    if not source.has_test:
        source.split = read_split(folder, source.request.test)
    domain = folders.read_domain(folder)
    with without_leftovers(folder, f"{PREFIX}*.npy"):  # features of rows that turn out to be others
        divided, public = _rows_again(folder, source, domain, known, observer)
    if divided.problem != predictor.problem:
        raise _changed_data(folder)
    learner = predictor.learner
    parts = (divided.train_on, divided.held_out)
    train_on, held_out = (inputs_of(learner, part, observer, folder) for part in parts)
    if domain is None and source.splits is not None:
        domain = source.splits.domain
    unlabelled = None if public is None else inputs_of(learner, {"x": public}, observer)["x"]
    return Again(
        record,
        predictor.problem,
        learner,
        predictor.params,
        domain,
        train_on,
        held_out,
        unlabelled,
        source.split,
        divided.users,
    )


def _rows_again(
    folder: Path, source: Source, domain: Domain | None, known: KnownRows | None, observer: Observer
) -> tuple[DividedRows, np.ndarray | None]:
    """The rows of the run as they were divided, compared with those that it was made from."""
    try:
        found = with_public(source, domain, divided_by(source, domain, observer), observer)
    except DataError as error:
        raise DataError(
            f"The data of {folder} cannot be read again: {error.happened}", remedy=error.remedy
        ) from error
    if known is None:
        warn_unchecked(folder, source.request.source, observer)
    else:
        known.require_same(known.digest.total(), source.request.source)
    return found


def _changed_data(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"The data of {folder} are not those it was trained on.", remedy="Put them back as they were."
    )
