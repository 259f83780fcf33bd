"""New texts and images for a finished run: by the same public model, found again by its digest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

from reticent.core.errors import DataError
from reticent.data.domain import Domain, Featured
from reticent.data.files import Table
from reticent.data.files.images import IMAGE, ImageFolder
from reticent.data.files.made import MadeTable
from reticent.runs.feature_source import Asked, made_table, open_extractor, other_model
from reticent.runs.origin import is_own
from reticent.runs.public_features import PublicFeatures, read_whitening
from reticent.runs.record import RunRecord
from reticent.runs.request import request_of


def with_features(table: Table, predictor: Any, model: str | None) -> Table:
    """The table with what the public model of a run makes of it; as it is for a run without one.

    Args:
        model: the file of the model; None for the one that the run names, if this user made the run.

    Raises:
        DataError: the run is a stranger's and no model was named, or the table has no such column.
        IntegrityError: the model is another one.
    """
    found = column_of(predictor.domain)
    if found is None:
        return table
    name, column = found
    record: RunRecord = predictor.record
    request = request_of(record)
    named = _model_of(predictor.folder, record, request.features, model)
    holds = "images" if request.text is None and _is_of_images(request, name) else "texts"
    asked = Asked(named, name, holds)
    features = PublicFeatures(
        extractor=open_extractor(request, asked), holds=holds, known=read_whitening(predictor.folder)
    )
    if features.digest != column.digest or request.features_digest not in (None, column.digest):
        raise other_model(named or features.extractor.name)
    if isinstance(table, ImageFolder) and holds == "texts":
        raise DataError(f"{table.path} holds images, and this run reads texts.", remedy="Give a table.")
    return made_table(table, asked, features)


def column_of(domain: Domain | None) -> tuple[str, Featured] | None:
    """The column that a public model makes numbers of, and what is known of it; None if there is none."""
    for name, column in {} if domain is None else domain.columns.items():
        if isinstance(column, Featured):
            return name, column
    return None


def file_names(table: Table) -> Iterator[dict[str, str]]:
    """For each row its image, where rows are the files of a folder; nothing for others."""
    if not isinstance(table, MadeTable) or not isinstance(table.inner, ImageFolder):
        yield from repeat({})
        return
    for row in range(table.row_count):
        yield {IMAGE: table.place(row)}


def _model_of(folder: Path, record: RunRecord, known: str | None, typed: str | None) -> str | None:
    if typed is not None or known is None:
        return typed if known is not None else None
    if not is_own(folder, record):  # a stranger's run does not say which file is opened here
        raise DataError(
            f"{folder} was not made by you on this machine, and names the model {known!r}.",
            remedy="Say where the model is: --features FILE. Its digest is compared.",
        )
    return known


def _is_of_images(request: Any, name: str) -> bool:
    return request.images is not None or name == IMAGE
