"""Sentences, messages, names and plays.

Text is kept in numpy's own strings of any length (`StringDType`). A fixed-width array would pad
every sentence to the longest one at four bytes a character (72 MB for SST-2 instead of 5), and an
array of Python objects could not be saved without pickling it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from reticent.data.catalog.entries import CatalogEntry, Splits
from reticent.data.catalog.unpacking import damage_error, read_bytes, read_text
from reticent.data.dataset import Dataset

_STRING = np.dtypes.StringDType()


def read_sst2(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """Sentences with y = 1 where the sentiment is positive; the first line of each file is a heading."""

    def part(name: str) -> Dataset:
        return _labelled_lines(entry, paths[name], {"0": 0, "1": 1}, has_heading=True)

    return Splits(train=part("train.tsv.gz"), test=part("test.tsv.gz"), validation=part("dev.tsv.gz"))


def read_sms_spam(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """Messages with y = 1 where they are spam."""
    (path,) = paths.values()
    return Splits(train=_labelled_lines(entry, path, {"ham": 0, "spam": 1}, has_heading=False))


def read_lines(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """One record per line, and nothing to predict."""
    (path,) = paths.values()
    return Splits(train=Dataset(arrays={"text": _strings(_lines(path))}, name=entry.name))


def read_characters(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """One record per character, as its byte: cut it into windows of the length that a model reads."""
    (path,) = paths.values()
    characters = np.frombuffer(read_bytes(path), dtype=np.uint8)
    if characters.max(initial=0) > 127:
        raise damage_error(path, "has characters outside of ASCII")
    return Splits(train=Dataset(arrays={"x": characters}, name=entry.name))


def _labelled_lines(
    entry: CatalogEntry, path: Path, labels: Mapping[str, int], *, has_heading: bool
) -> Dataset:
    """Lines of the form `label<TAB>text`, with the label as a number."""
    texts: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(_lines(path), start=1):
        if has_heading and number == 1:
            continue
        label, tab, text = line.partition("\t")
        if not tab or label not in labels:
            raise damage_error(
                path, f"line {number:,} does not start with one of the labels {', '.join(labels)} and a tab"
            )
        texts.append(text)
        numbers.append(labels[label])
    return Dataset(arrays={"text": _strings(texts), "y": np.array(numbers, dtype=np.int32)}, name=entry.name)


def _lines(path: Path) -> list[str]:
    """The lines of a file, split at line feeds only: some messages hold rarer separators."""
    lines = read_text(path).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _strings(texts: Iterable[str]) -> np.ndarray:
    return np.array(list(texts), dtype=_STRING)
