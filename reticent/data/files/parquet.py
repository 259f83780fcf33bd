"""Tables in Parquet, read one slice of a row group at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from reticent.core.errors import DataError
from reticent.data.arrow_cells import compute
from reticent.data.files.dialect import DeclaredFormat, Dialect
from reticent.data.files.shards import row_cuts
from reticent.data.files.table import Table, check_names, damage_error, report_damage

MAGIC = b"PAR1"

_ROWS = 1 << 16  # at once
_BYTES = 1 << 26  # of words, written out


class ParquetTable(Table):
    """A Parquet file. Text and categories are text, booleans are true and false, dates are text."""

    def __init__(self, path: Path, *, declared: DeclaredFormat | None = None) -> None:
        self.path = path
        with report_damage(path, "Parquet"), parquet.ParquetFile(path) as file:
            schema, self._row_count = file.schema_arrow, file.metadata.num_rows
            self._groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            if set(file.schema.names) and not schema.names:
                raise damage_error(path, "Parquet")
        if not schema.names or not self._row_count:
            raise DataError(f"{path} has no rows.", remedy="Give a file with at least one row.")
        check_names(path, schema.names)
        self.names = tuple(schema.names)
        declared = declared or DeclaredFormat()  # of columns of text, nothing is detected
        self.dialect = Dialect(
            format="parquet",
            decimal=declared.decimal or ".",
            thousands=declared.thousands or "",
            day_first=bool(declared.day_first),
        )
        self._texts = frozenset(field.name for field in schema if pa.types.is_string(field.type))
        self.unsupported = {
            field.name: str(field.type) for field in schema if _plain_type(field.type) is None
        }

    def shard(self, number: int, count: int) -> ParquetTable:
        cuts = row_cuts(list(self._shares().values()), count)
        shard = copy(self)
        shard._first_row = self._first_row + cuts[number]
        shard._row_count = cuts[number + 1] - cuts[number]
        return shard

    def _shares(self) -> dict[int, int]:
        """The row groups that have rows of this table, and how many."""
        first, last = self._first_row, self._first_row + self.row_count
        ends = list(accumulate(self._groups))
        shares = {
            group: min(end, last) - max(end - self._groups[group], first) for group, end in enumerate(ends)
        }
        return {group: rows for group, rows in shares.items() if rows > 0}

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        groups = list(self._shares())
        skip = self._first_row - sum(self._groups[: groups[0]])  # rows of another shard in the first group
        seen = 0
        texts = [name for name in columns if name in self._texts]
        opened = parquet.ParquetFile(self.path, pre_buffer=False, read_dictionary=texts)
        with report_damage(self.path, "Parquet"), opened as file:
            for batch in file.iter_batches(
                batch_size=_ROWS, row_groups=groups, columns=list(columns), use_threads=False
            ):
                batch, skip = batch.slice(min(skip, batch.num_rows)), max(0, skip - batch.num_rows)
                batch = batch.slice(0, self.row_count - seen)
                for part in _in_parts(batch):
                    seen += part.num_rows
                    plain = [_plain(part.column(name)) for name in columns]
                    yield pa.RecordBatch.from_arrays(plain, names=list(columns)), seen / self.row_count
                if seen == self.row_count:
                    return
        raise damage_error(self.path, "Parquet")


def _in_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Parts of a batch that stay small when words that are stored once are written out in every row."""
    widest = sum(map(_longest, batch.columns))
    step = max(_BYTES // max(widest, 1), 1)
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


def _longest(column: pa.Array) -> int:
    """Bytes of the longest word that is stored once for many rows; 0 where each row has its own."""
    if not pa.types.is_dictionary(column.type) or not len(column.dictionary):
        return 0
    words = column.dictionary
    is_text = pa.types.is_string(words.type) or pa.types.is_large_string(words.type)
    return int(compute.max(compute.binary_length(words)).as_py() or 0) if is_text else 0


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """The type in which a column is handed out: text, a number, or `None` for neither."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_boolean(kind):
        return pa.string()
    if pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind):
        return kind
    if pa.types.is_float16(kind) or pa.types.is_decimal(kind):
        return pa.float64()
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    if is_text or pa.types.is_temporal(kind) or pa.types.is_null(kind):
        return pa.string()
    return None


def _plain(column: pa.Array) -> pa.Array:
    wanted = _plain_type(column.type)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    column.validate(full=True)  # a damaged file may claim to hold text that is not
    column = compute.cast(column, wanted)
    return compute.ascii_trim_whitespace(column) if pa.types.is_string(column.type) else column
