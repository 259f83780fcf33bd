"""Columns of other libraries as arrays: pandas, Polars, Arrow, scipy, torch, TensorFlow, HDF5.

None of them is imported here: whoever passes a value of a library has imported it. A conversion depends on
the declared kind of a column and never on its values, so that no record decides how the others are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from reticent.core.errors import DataError, suggest
from reticent.data.lazy_rows import ArrayReader, LazyColumn, SparseReader

_NUMBERS = "biufc"  # kinds of numpy that are numbers or truth values


def library_of(value: Any) -> str:
    """The package that a value's class comes from.

    >>> library_of(np.zeros(3)), library_of({})
    ('numpy', 'builtins')
    """
    return type(value).__module__.partition(".")[0]


def is_table(value: Any) -> bool:
    """Whether it has named columns: a frame of pandas or Polars, a table of Arrow, or of what exports one."""
    if isinstance(value, Mapping | np.ndarray):
        return False
    if hasattr(value, "columns") and library_of(value) == "pandas":
        return True
    # A series exports a stream too, and has no column names.
    kind = type(value)
    return hasattr(kind, "__arrow_c_stream__") and (hasattr(kind, "columns") or hasattr(kind, "column_names"))


def is_array(value: Any) -> bool:
    """Whether it is one column: it has a kind, and rows that lie along its first axis."""
    return hasattr(value, "dtype") or hasattr(value, "__arrow_c_stream__") or library_of(value) == "pyarrow"


def columns_of(table: Any, name: str, names: Sequence[str] | None = None) -> dict[str, Any]:
    """The columns of a table by their names, each as an array of numbers.

    Raises:
        DataError: a column is not there or not of numbers, or two have the same name.
    """
    if library_of(table) == "pandas":
        keys = [str(key) for key in table.columns]
        values = [table.iloc[:, place] for place in range(len(keys))]
    else:
        arrow = _as_arrow(table)
        keys, values = list(arrow.column_names), list(arrow.columns)
    for key in names or ():
        if key not in keys:
            raise DataError(f"Table '{name}' has no column '{key}'.", remedy=suggest(key, keys))
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise DataError(
            f"Dataset '{name}' has several columns named {', '.join(twice)}.", remedy="Rename them."
        )
    wanted = keys if names is None else names
    found = {key: as_column(values[keys.index(key)], name, key) for key in wanted}
    _require_numbers(found, name)
    return found


def as_column(value: Any, name: str, key: str) -> Any:
    """One column as an array, or as a column whose rows are read when they are asked for.

    Arrays of NumPy and JAX stay as they are, memory maps on disk. A table becomes a matrix of its columns.

    Raises:
        DataError: it cannot be read as an array; the message names the column and what to do.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise _refusal(name, key, "has a mask, and it would be lost", "Fill the masked cells: x.filled(0)")
    if isinstance(value, np.ndarray | LazyColumn) or library_of(value) in {"jax", "jaxlib"}:
        return value
    if is_table(value):
        return _as_matrix(columns_of(value, name), name, key)
    if library_of(value) == "pandas" and hasattr(value, "dtype"):
        return _from_pandas(value, name, key)
    if library_of(value) == "pyarrow" or hasattr(value, "__arrow_c_stream__"):
        return _from_arrow(value, name, key)
    if type(value).__module__.startswith("scipy.sparse"):
        dense = value.ndim == 1
        return (
            value.toarray() if dense else LazyColumn(SparseReader(value), key, value.shape[1:], value.dtype)
        )
    if hasattr(value, "__dlpack__") or library_of(value) == "tensorflow":
        return _from_tensor(value, name, key)
    if all(hasattr(value, part) for part in ("dtype", "shape", "__getitem__")) and len(value.shape):
        return LazyColumn(ArrayReader(value), key, tuple(value.shape[1:]), value.dtype)
    return value


def _as_matrix(columns: Mapping[str, np.ndarray], name: str, key: str) -> np.ndarray:
    if not columns:
        raise _refusal(name, key, "is a table without columns", "Choose some of them")
    if any(column.ndim > 1 for column in columns.values()):
        raise _refusal(name, key, "is a table in which a column has lists", "Pass such columns on their own")
    return np.stack(list(columns.values()), axis=1)


def _require_numbers(columns: Mapping[str, Any], name: str) -> None:
    wrong = {key: array for key, array in columns.items() if array.dtype.kind not in _NUMBERS}
    wrong = {key: array for key, array in wrong.items() if array.dtype.name != "bfloat16"}
    if wrong:
        listed = ", ".join(f"{key}: {array.dtype}" for key, array in wrong.items())
        raise DataError(
            f"Dataset '{name}' has columns that are not numbers ({listed}).",
            remedy="Choose columns with names=[...], or turn them into numbers by a public rule, such as "
            "(table['city'] == 'Paris').",
        )


def _from_pandas(series: Any, name: str, key: str) -> np.ndarray:
    kind = series.dtype
    if isinstance(kind, np.dtype):
        return series.to_numpy()
    numbers = getattr(kind, "numpy_dtype", None)  # of columns that may have missing cells
    if numbers is None or numbers.kind not in _NUMBERS:
        return np.asarray(series, dtype=object)
    if numbers.kind == "f":
        return series.to_numpy(dtype=numbers, na_value=np.nan)
    if series.isna().any():
        raise _missing(name, key)
    return series.to_numpy(dtype=numbers)


def _as_arrow(table: Any) -> Any:
    import pyarrow as pa

    return table if isinstance(table, pa.Table) else pa.table(table)


def _from_arrow(value: Any, name: str, key: str) -> np.ndarray:
    import pyarrow as pa

    if not isinstance(value, pa.Array | pa.ChunkedArray):
        value = pa.chunked_array(value)
    chunks = value.chunks if isinstance(value, pa.ChunkedArray) else [value]
    whole = pa.concat_arrays(chunks) if chunks else pa.array([], value.type)
    if isinstance(whole, pa.ExtensionArray):
        whole = whole.storage
    if pa.types.is_fixed_size_list(whole.type):
        if whole.null_count:
            raise _missing(name, key)
        width, inside = whole.type.list_size, _from_arrow(whole.flatten(), name, key)
        return inside.reshape(len(whole), width, *inside.shape[1:])
    if pa.types.is_list(whole.type) or pa.types.is_large_list(whole.type):
        raise _refusal(
            name,
            key,
            "has lists that may differ in length",
            "Give it a fixed length: pyarrow.list_(type, 64)",
        )
    if whole.null_count and not pa.types.is_floating(whole.type):
        raise _missing(name, key)
    return whole.to_numpy(zero_copy_only=False)


def _from_tensor(value: Any, name: str, key: str) -> np.ndarray:
    """Through DLPack where NumPy knows the kind of number, else through JAX: it knows bfloat16 as well."""
    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu()
        value = value.to_dense() if value.layout != _strided_layout(value) else value
    try:
        return np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
    except (BufferError, TypeError, RuntimeError, ValueError):
        pass
    try:
        import jax

        return np.asarray(jax.dlpack.from_dlpack(value))
    except (BufferError, TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise _refusal(
            name, key, f"is a {type(value).__name__} that NumPy cannot read", "Convert it to a NumPy array"
        ) from error


def _strided_layout(tensor: Any) -> Any:
    import sys

    return sys.modules["torch"].strided


def _missing(name: str, key: str) -> DataError:
    return _refusal(
        name,
        key,
        "has missing cells, and whole numbers have no mark for them",
        "Fill them by a fixed rule (-1, for example), or make the column one of floats",
    )


def _refusal(name: str, key: str, what: str, remedy: str) -> DataError:
    return DataError(f"Column '{key}' of dataset '{name}' {what}.", remedy=f"{remedy}.")
