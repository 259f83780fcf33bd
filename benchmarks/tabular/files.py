"""The raw files that the benchmark trains on, written into a folder of its own and never kept."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from reticent.data.catalog.domains import public_domain
from reticent.data.domain import Domain

_BESIDE_THE_REPOSITORY = Path(__file__).resolve().parents[3] / "shared" / "data"
_SUBSET = 20  # the seed of the rows that a smaller table keeps


class NotHere(Exception):
    """A dataset is not on this machine."""


def adult(into: Path) -> Path:
    """The file as it was published: no header, a blank after each comma."""
    return _written(into / "adult.data", adult_lines())


def adult_lines() -> list[bytes]:
    content = gzip.decompress(_found("adult", "adult.data.gz").read_bytes())
    return [line for line in content.splitlines() if line.strip()]


def adult_domain(into: Path) -> Path:
    """What is public about Adult, for columns that have a number and no name."""
    named = public_domain("adult")
    assert named is not None
    columns = {f"column_{place}": column for place, column in enumerate(named.columns.values(), start=1)}
    path = into / "adult.toml"
    Domain(columns=columns, target=list(columns)[-1], missing_markers=named.missing_markers).write(path)
    return path


def kddcup99(into: Path) -> Path:
    lines = gzip.decompress(_found("kddcup99", "kddcup.data_10_percent.gz").read_bytes()).splitlines()
    return _written(into / "kddcup99.data", lines)


def covtype(into: Path) -> Path:
    """The file of its authors: 10 numbers, 4 + 40 columns of yes or no, and a label from 1 to 7."""
    with np.load(_found("covtype", "covtype.npz")) as arrays:
        columns = list(arrays["numeric"].T)
        columns += [(arrays["wilderness"] == code).astype(np.int16) for code in range(1, 5)]
        columns += [(arrays["soil"] == code).astype(np.int16) for code in range(1, 41)]
        columns += [arrays["label"].astype(np.int16)]
    path = into / "covtype.data"
    table = pa.table({str(place): column for place, column in enumerate(columns)})
    csv.write_csv(table, path, csv.WriteOptions(include_header=False))
    return path


def part_of(table: Path, divisor: int, into: Path) -> tuple[Path, int]:
    """One row in so many, by chance and in their order; and how many there are."""
    lines = table.read_bytes().splitlines()
    if divisor == 1:
        return table, len(lines)
    rows = np.random.default_rng(_SUBSET).permutation(len(lines))[: len(lines) // divisor]
    return _written(into / f"{divisor}-{table.name}", [lines[row] for row in np.sort(rows)]), len(rows)


def _found(folder: str, name: str) -> Path:
    named = os.environ.get("RETICENT_DATA")
    path = (Path(named) if named else _BESIDE_THE_REPOSITORY) / folder / name
    if not path.is_file():
        raise NotHere(f"there is no {folder}/{name} in RETICENT_DATA or ../shared/data")
    return path


def _written(path: Path, lines: Sequence[bytes]) -> Path:
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path
