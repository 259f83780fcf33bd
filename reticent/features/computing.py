"""Features of many records: each computed by itself, once, and kept."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from reticent.core.errors import DataError
from reticent.core.files import whole_file
from reticent.features.extractor import Extractor, finite_rows
from reticent.features.isolation import probes_like, require_alone

AskedRecords = Sequence[Any] | np.ndarray


@runtime_checkable
class InFiles(Protocol):
    """Records that stay in their files until they are asked for one by one."""

    def content(self, at: int) -> bytes:
        """What the file of a record holds, before it is decoded."""
        ...


PREFIX = "features-"
_LARGE = 1 << 28  # bytes, above which features stay on the disk
_PIECE = 256  # records between two reports


def compute(
    extractor: Extractor,
    records: AskedRecords,
    *,
    cache: Path | str | None = None,
    on_progress: Callable[[float], None] = lambda done: None,
    threads: int | None = None,
) -> np.ndarray:
    """The features of records, (records, width) float32: each by a call of its own.

    Args:
        records: an array with one row per record, or a list of texts.
        cache: a folder where the result is kept, and found the next time for the same model and the same
            records. It is as private as the records are. Large results are memory-mapped from there.
        on_progress: is told the fraction done.
        threads: that ask at the same time; one per core.

    Guarantee:
        A row depends on its own record alone, so to compute features costs no privacy, provided that the
        model never saw these records (`extractor.assumption`).

    Raises:
        DataError: the model has a memory, or does not make one row of numbers of a record.

    Example:
        >>> from reticent.features.extractor import from_function
        >>> lengths = from_function(lambda text: [len(text)], name="lengths", digest="1")
        >>> compute(lengths, ["one", "three"]).tolist()
        [[3.0], [5.0]]
    """
    width = require_alone(extractor, probes_like(records))
    if cache is None:
        found = np.empty((len(records), width), np.float32)
        _fill(found, extractor, records, on_progress, threads)
        return found
    path = kept_place(Path(cache), extractor.digest, records)
    if (kept := kept_features(path, (len(records), width))) is not None:
        on_progress(1.0)
        return kept
    return _write(path, extractor, records, width, on_progress, threads)


def kept_place(cache: Path, model: str, records: AskedRecords) -> Path:
    """Where the features of records are kept.

    Args:
        model: its digest.
    """
    return cache / f"{PREFIX}{fingerprint(model, records)}.npy"


def fingerprint(model: str, records: AskedRecords) -> str:
    """A digest of a model's digest and all records, in their order: the name of what is kept of them."""
    digest = hashlib.blake2b(model.encode(), digest_size=20)
    if isinstance(records, np.ndarray) and records.dtype.kind not in "OUST":
        digest.update(f"{records.dtype.str} {records.shape}".encode())
        for start in range(0, len(records), _PIECE):
            digest.update(np.ascontiguousarray(records[start : start + _PIECE]).tobytes())
        return digest.hexdigest()
    for at in range(len(records)):
        digest.update(content_of(records, at))
    return digest.hexdigest()


def content_of(records: AskedRecords, at: int) -> bytes:
    """What tells one record from others: its bytes, with their type and number in front."""
    if isinstance(records, InFiles):
        kind, content = "file", records.content(at)
    elif isinstance(record := records[at], np.ndarray):
        kind, content = f"{record.dtype.str} {record.shape}", record.tobytes()
    else:
        kind, content = "text", str(record).encode("utf-8", "surrogatepass")
    return f"{kind} {len(content)}:".encode() + content


def kept_features(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """What an earlier call kept there; None if there is nothing of this shape, or something else."""
    with suppress(OSError, ValueError, EOFError):
        if path.is_symlink():
            return None
        found = np.load(path, mmap_mode="r", allow_pickle=False)
        if found.shape == shape and found.dtype == np.float32:
            return found if found.nbytes > _LARGE else np.array(found)
    return None


def _write(
    path: Path,
    extractor: Extractor,
    records: AskedRecords,
    width: int,
    on_progress: Callable[[float], None],
    threads: int | None,
) -> np.ndarray:
    if 4 * len(records) * width <= _LARGE:
        found = np.empty((len(records), width), np.float32)
        _fill(found, extractor, records, on_progress, threads)
        with whole_file(path, is_private=True) as file:
            np.save(file, found)
        return found
    with whole_file(path, is_private=True) as file:
        header = np.lib.format.header_data_from_array_1_0(np.empty((0, width), np.float32))
        np.lib.format.write_array_header_1_0(file, header | {"shape": (len(records), width)})
        for piece in _pieces(extractor, records, width, on_progress, threads):
            file.write(piece.tobytes())
    found = kept_features(path, (len(records), width))
    if found is None:
        raise DataError(f"{path} was changed while it was written.", remedy="Try again.")
    return found


def _fill(
    found: np.ndarray,
    extractor: Extractor,
    records: AskedRecords,
    on_progress: Callable[[float], None],
    threads: int | None,
) -> None:
    at = 0
    for piece in _pieces(extractor, records, found.shape[1], on_progress, threads):
        found[at : at + len(piece)] = piece
        at += len(piece)


def _pieces(
    extractor: Extractor,
    records: AskedRecords,
    width: int,
    on_progress: Callable[[float], None],
    threads: int | None,
) -> Iterator[np.ndarray]:
    """Features of a few records after the other; the records of each are shared out among threads."""
    count = threads or os.cpu_count() or 1
    with ThreadPoolExecutor(count) as pool:
        for start in range(0, len(records), _PIECE):
            piece = records[start : start + _PIECE]
            if extractor.apply_rows is not None and isinstance(piece, np.ndarray):
                at_once = range(0, len(piece), extractor.at_once)
                found = np.concatenate(list(pool.map(partial(_loop, extractor, piece), at_once)))
            else:
                shares = [range(first, len(piece), count) for first in range(count)]
                found = np.empty((len(piece), width), np.float32)
                # `list` brings the first error of a thread to the one who asked.
                list(pool.map(partial(_ask, found, extractor, piece), shares))
            if found.shape != (len(piece), width):
                raise DataError(
                    f"'{extractor.name}' makes rows of other lengths than {width} of some records.",
                    remedy="Give a function that makes as many numbers of each.",
                )
            yield found
            on_progress(min(start + _PIECE, len(records)) / len(records))


def _ask(found: np.ndarray, extractor: Extractor, piece: AskedRecords, share: range) -> None:
    for at in share:
        row = extractor.row(piece[at])
        if row.shape != found.shape[1:]:
            raise DataError(
                f"'{extractor.name}' makes {len(row)} numbers of one record and {found.shape[1]} of another.",
                remedy="Give a function that makes as many of each.",
            )
        found[at] = row


def _loop(extractor: Extractor, piece: np.ndarray, at: int) -> np.ndarray:
    assert extractor.apply_rows is not None
    rows = piece[at : at + extractor.at_once]
    padded = np.zeros((extractor.at_once, *piece.shape[1:]), piece.dtype)
    padded[: len(rows)] = rows
    return finite_rows(extractor.apply_rows(padded)[: len(rows)])
