"""Which public model a request names, for which column, and what it is asked about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.data import catalog
from reticent.data.dataset import Dataset
from reticent.data.domain import Domain, Label
from reticent.data.files import Table, open_table
from reticent.data.files.images import IMAGE, ImageFiles, ImageFolder
from reticent.data.files.made import Holds, MadeTable
from reticent.data.kinds import quote
from reticent.features.computing import AskedRecords
from reticent.features.extractor import Extractor
from reticent.features.hashing import hashed_words
from reticent.runs.private_part import PRIVATE
from reticent.runs.public_features import PublicFeatures, read_whitening, require_apart, spread

TEXT = "text"  # what the column of a catalog's texts is called


class Asked(NamedTuple):
    """What a request says about features.

    Args:
        model: an ONNX file; None for hashed words.
        column: which holds the texts or images.
    """

    model: str | None
    column: str
    holds: Holds


def asked_of_table(request: Any, table: Table) -> Asked | None:
    """What is asked about a table; None where its columns are numbers and words as they are.

    Raises:
        InvalidArgument: a model without a column, or images without a model.
    """
    if isinstance(table, ImageFolder):
        if request.text is not None or request.images not in (None, IMAGE):
            raise InvalidArgument(
                f"{table.path} is a folder of images, which has no other columns.",
                remedy="Leave out --text and --images.",
            )
        return _images(request, IMAGE)
    if request.text is not None and request.images is not None:
        raise InvalidArgument(
            "Only one column can be turned into features, and two are named.",
            remedy="Pass --text or --images.",
        )
    if request.text is not None:
        _require_column(request.text, table, request.target)
        _require_known_encoding(table, request)
        return Asked(request.features, request.text, "texts")
    if request.images is not None:
        _require_column(request.images, table, request.target)
        return _images(request, request.images)
    if request.features is not None:
        raise InvalidArgument(
            f"{request.features} makes features of texts or images, and no column of {table.label} is named.",
            remedy=f"Pass --text COLUMN or --images COLUMN. Columns: {', '.join(table.names[:12])}.",
        )
    return None


def asked_of_catalog(request: Any, splits: catalog.Splits) -> Asked | None:
    """What is asked about a named dataset: its texts are hashed where no model is named.

    Raises:
        InvalidArgument: it is a table.
    """
    holds: Holds | None = None
    if TEXT in splits.train.arrays:
        holds = "texts" if "y" in splits.train.arrays else None
    elif "x" in splits.train.arrays and splits.train["x"].ndim > 2:
        holds = "images"
    column = TEXT if holds == "texts" else IMAGE
    named = request.text or request.images
    if holds is None or named not in (None, column):
        if request.features is None and named is None:
            return None
        what = "has neither texts nor images with classes" if holds is None else f"has the column '{column}'"
        raise InvalidArgument(
            f"'{request.source}' {what}.", remedy="Leave out --features, --text and --images."
        )
    if holds == "images" and request.features is None:
        return None
    return Asked(request.features, column, holds)


def open_features(request: Any, asked: Asked, folder: Path | None) -> PublicFeatures:
    """The public model that was asked for, with the whitening that the run in `folder` keeps, if it does.

    Raises:
        DataError, InvalidArgument, Unavailable: it cannot be opened, or is for something else.
        IntegrityError: it is not the one that the run was made with.
    """
    known = None if folder is None else read_whitening(folder)
    found = PublicFeatures(
        extractor=open_extractor(request, asked),
        holds=asked.holds,
        known=known,
        cache=None if folder is None or not (folder / PRIVATE).is_dir() else folder / PRIVATE,
    )
    if known is None and request.public is not None and request.method != "pate":
        found.public, found.public_name = public_records(request.public, asked), request.public
    if request.features_digest not in (None, found.digest):
        raise other_model(request.features or found.extractor.name)
    return found


def open_extractor(request: Any, asked: Asked) -> Extractor:
    """The model alone."""
    if asked.model is None:
        return hashed_words()
    from reticent.features.onnx_model import from_onnx

    extractor = from_onnx(asked.model, pixels=request.pixels)
    if extractor.takes != asked.holds:
        raise InvalidArgument(
            f"{asked.model} takes {extractor.takes}, and {quote(asked.column)} holds {asked.holds}.",
            remedy="Name another model, or another column with --text or --images.",
        )
    return extractor


def other_model(name: str) -> IntegrityError:
    return IntegrityError(
        f"{name} is not the model, with its settings and public records, that the run was made with: its "
        "digest differs.",
        remedy="Put the one back that it was made with, or name it: --features FILE.",
    )


def public_records(named: str, asked: Asked) -> AskedRecords:
    """Some of the public records of a dataset of the catalog, a table or a folder of images.

    Raises:
        DataError: there are none of this kind.
    """
    if named in catalog.names() and not Path(named).exists():
        train = catalog.load(named).train
        key = TEXT if asked.holds == "texts" else "x"
        if key not in train.arrays or (asked.holds == "images" and train[key].ndim < 3):
            raise InvalidArgument(
                f"'{named}' of the catalog has no {asked.holds}.", remedy="Name other public records."
            )
        chosen = train[key][spread(len(train))]
        return list(map(str, chosen)) if asked.holds == "texts" else np.asarray(chosen)
    table = open_rows(named)
    column = IMAGE if isinstance(table, ImageFolder) else asked.column
    root = root_of(table)
    records = MadeTable(table, column, holds=asked.holds, root=root, make=np.asarray).records()
    places = spread(len(records))
    if isinstance(records, ImageFiles):
        return ImageFiles(root, [records.names[at] for at in places])
    return [records[at] for at in places]


def open_rows(source: str, **layout: Any) -> Table:
    """A table, or a folder of images as one."""
    if Path(source).is_dir():
        return ImageFolder(Path(source))
    return open_table(source, **layout)


def root_of(table: Table) -> Path:
    """The folder that paths of images are relative to."""
    return table.path if isinstance(table, ImageFolder) else table.path.parent


def made_table(table: Table, asked: Asked, features: PublicFeatures) -> MadeTable:
    """The table with the numbers that the model makes of its column."""
    return MadeTable(
        table,
        asked.column,
        holds=asked.holds,
        root=root_of(table),
        make=lambda records: features.rows(records),
    )


def made_splits(splits: catalog.Splits, asked: Asked, features: PublicFeatures) -> catalog.Splits:
    """A named dataset with the numbers that the model makes of each record as its `x`."""

    def part(data: Dataset | None) -> Dataset | None:
        if data is None:
            return None
        rows = features.rows(records_of(data, asked))
        return replace(data, arrays={"x": rows, "y": data["y"]})

    train, test = part(splits.train), part(splits.test)
    assert train is not None
    return splits._replace(train=train, test=test)


def records_of(data: Dataset, asked: Asked) -> AskedRecords:
    """The texts or images of a named dataset."""
    return list(map(str, data[TEXT])) if asked.holds == "texts" else np.asarray(data["x"])


def domain_of_catalog(asked: Asked, features: PublicFeatures, classes: int) -> Domain:
    """What is public about a named dataset of texts or images."""
    label = Label(values=tuple(map(str, range(classes))))
    return Domain(columns={asked.column: features.column, "label": label}, target="label")


def require_no_overlap(features: PublicFeatures, private: AskedRecords, request: Any) -> None:
    """
    Raises:
        DataError: public records are among the private ones, and nobody said that these are public.
    """
    if features.public is not None and not request.overlap_is_public:
        require_apart(private, features.public, name=features.public_name)


def _images(request: Any, column: str) -> Asked:
    if request.features is None:
        raise InvalidArgument(
            "Images in files need a public model to compute their features, and none is named.",
            remedy="Pass --features MODEL.onnx, such as a network that was trained on ImageNet, cut off "
            "before its last layer.",
        )
    return Asked(request.features, column, "images")


def _require_column(column: str, table: Table, target: str | None) -> None:
    table.require([column])
    if column == target:
        raise InvalidArgument(
            f"{quote(column)} is both the target and what it is predicted from.",
            remedy="Name another column with --text, --images or --target.",
        )


def _require_known_encoding(table: Table, request: Any) -> None:
    encoding = table.dialect.encoding
    is_plain = encoding is None or encoding.lower().replace("_", "-").startswith(("utf", "ascii"))
    if not is_plain and "encoding" not in request.layout:
        raise DataError(
            f"{table.label} is not written in UTF-8, so that its texts may be read wrongly.",
            remedy=f"Say how it is written: --encoding {encoding}, or another; or save it as UTF-8.",
        )
