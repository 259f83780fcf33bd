"""Tables with a public description, encoded by their domains: see `domains/`."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from reticent.data.catalog.domains import public_domain
from reticent.data.catalog.entries import CatalogEntry, Splits
from reticent.data.catalog.unpacking import damage_error, npz_arrays, read_bytes
from reticent.data.dataset import Dataset
from reticent.data.domain import Category, Domain, Label
from reticent.data.encoding import encode
from reticent.data.files import Dialect, Table, open_table

_COVTYPE_NUMBERS = 10
_COVTYPE_WIDTHS = (4, 40)  # yes-or-no columns for the wilderness area, and for the soil type


class ArrowTable(Table):
    """A table in memory, as Arrow columns."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        self.path = path
        self.names = tuple(table.column_names)
        self.dialect = Dialect(format="arrow")
        self.unsupported = {}
        self._table = table

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        done = 0
        for batch in self._table.select(list(columns)).to_batches(max_chunksize=1 << 16):
            done += batch.num_rows
            yield batch, done / self._table.num_rows


def read_table(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """A file that any reader of tables can read, encoded."""
    (path,) = paths.values()
    domain = _domain(entry)
    return Splits(train=_encode(entry, open_table(path), domain), domain=domain)


def read_adult(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """Adult, encoded: x (n, features) float32, y = 1 for an income above 50,000 dollars."""
    domain = _domain(entry)
    train, test = (
        _encode(entry, ArrowTable(path, _adult_cells(path, domain)), domain) for path in paths.values()
    )
    return Splits(train=train, test=test, domain=domain)


def _adult_cells(path: Path, domain: Domain) -> pa.Table:
    """Adult as text: no heading, a comment on the first line of one file, and a dot after its labels."""
    lines = [line.removesuffix(b".") for line in read_bytes(path).splitlines() if line[:1] not in (b"", b"|")]
    names = list(domain.columns)
    try:
        return arrow_csv.read_csv(
            io.BytesIO(b"\n".join(lines).replace(b", ", b",")),
            read_options=arrow_csv.ReadOptions(column_names=names),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    except pa.ArrowException as error:
        raise damage_error(path, f"is not a table of {len(names)} columns ({error})") from error


def read_breast_cancer(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """The table that comes with scikit-learn, encoded: y = 1 for a benign tumour, as there."""
    from sklearn.datasets import load_breast_cancer

    domain = _domain(entry)
    *features, target = domain.columns
    cells, labels = (np.asarray(part) for part in load_breast_cancer(return_X_y=True))
    columns = {name: pa.array(cells[:, position]) for position, name in enumerate(features)}
    columns[target] = _words(domain, target, labels)
    return Splits(
        train=_encode(entry, ArrowTable(Path(entry.name), pa.table(columns)), domain), domain=domain
    )


def read_covtype_text(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """The file of the authors: 10 numbers, 4 + 40 yes-or-no columns, and a label from 1 to 7."""
    (path,) = paths.values()
    width = _COVTYPE_NUMBERS + sum(_COVTYPE_WIDTHS) + 1
    names = [str(position) for position in range(width)]
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(read_bytes(path)),
            read_options=arrow_csv.ReadOptions(column_names=names),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.int16())),
        )
    except pa.ArrowException as error:
        raise damage_error(path, f"is not a table of {width} whole numbers per line ({error})") from error
    if any(column.null_count for column in table.columns):
        raise damage_error(path, "has empty cells")
    cells = np.stack([column.to_numpy() for column in table.columns], axis=1)
    numbers, wilderness, soil, labels = np.split(
        cells, np.cumsum([_COVTYPE_NUMBERS, *_COVTYPE_WIDTHS]), axis=1
    )
    if not all(np.all(np.sort(choice, axis=1)[:, -2:] == [0, 1]) for choice in (wilderness, soil)):
        raise damage_error(path, "has a row without exactly one wilderness area and one soil type")
    return _covtype(entry, path, numbers, wilderness.argmax(1), soil.argmax(1), labels[:, 0] - 1)


def read_covtype_arrays(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """The same table as four arrays, with the categories counted from 1."""
    (path,) = paths.values()
    numbers, *choices = npz_arrays(path, ["numeric", "wilderness", "soil", "label"])
    return _covtype(entry, path, numbers, *(choice.astype(np.int16) - 1 for choice in choices))


def _covtype(
    entry: CatalogEntry,
    path: Path,
    numbers: np.ndarray,
    wilderness: np.ndarray,
    soil: np.ndarray,
    labels: np.ndarray,
) -> Splits:
    """Covertype, encoded: x (n, features) float32, y (n,) from 0 to 6."""
    domain = _domain(entry)
    names = list(domain.columns)
    if numbers.ndim != 2 or numbers.shape[1] != _COVTYPE_NUMBERS:
        raise damage_error(
            path, f"has numbers of shape {list(numbers.shape)}, not [rows, {_COVTYPE_NUMBERS}]"
        )
    columns = dict(zip(names[:_COVTYPE_NUMBERS], map(pa.array, numbers.T), strict=True))
    for name, codes in zip(names[_COVTYPE_NUMBERS:], (wilderness, soil, labels), strict=True):
        columns[name] = _words(domain, name, codes, path=path)
    return Splits(train=_encode(entry, ArrowTable(path, pa.table(columns)), domain), domain=domain)


def _words(domain: Domain, name: str, codes: np.ndarray, *, path: Path | None = None) -> pa.Array:
    """Codes from 0 as the words of the domain that they stand for."""
    column = domain.columns[name]
    assert isinstance(column, (Category, Label))
    words = column.values or ()
    if path and codes.size and not 0 <= codes.min() <= codes.max() < len(words):
        raise damage_error(path, f"has a {name} outside of the {len(words)} known ones")
    return pa.DictionaryArray.from_arrays(codes.astype(np.int32), pa.array(words)).dictionary_decode()


def _domain(entry: CatalogEntry) -> Domain:
    domain = public_domain(entry.name)
    assert domain is not None, f"{entry.name} is read as a table, so it has a file in domains/"
    return domain


def _encode(entry: CatalogEntry, table: Table, domain: Domain) -> Dataset:
    encoded = encode(table, domain)
    return Dataset(arrays=encoded.arrays, name=entry.name)
