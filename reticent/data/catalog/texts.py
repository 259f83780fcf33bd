"""Sentences, messages, names and plays.

Text is kept in numpy's own strings of any length (`StringDType`). A fixed-width array would pad
every sentence to the longest one at four bytes a character (72 MB for SST-2 instead of 5), and an
array of Python objects could not be saved without pickling it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from reticent.data.catalog.contents import damaged, read_bytes, read_text
from reticent.data.catalog.entry import Entry
from reticent.data.catalog.splits import Splits
from reticent.data.dataset import Dataset

_STRING = np.dtypes.StringDType()


def read_sst2(entry: Entry, paths: Mapping[str, Path]) -> Splits:
    """Sentences with y = 1 where they are kind; the first line of each file is a heading."""

    def part(name: str) -> Dataset:
        return _labelled_lines(entry, paths[name], {"0": 0, "1": 1}, has_heading=True)

    return Splits(train=part("train.tsv.gz"), test=part("test.tsv.gz"), validation=part("dev.tsv.gz"))


def read_sms_spam(entry: Entry, paths: Mapping[str, Path]) -> Splits:
    """Messages with y = 1 where they are spam."""
    (path,) = paths.values()
    return Splits(train=_labelled_lines(entry, path, {"ham": 0, "spam": 1}, has_heading=False))


def read_lines(entry: Entry, paths: Mapping[str, Path]) -> Splits:
    """One record a line, and nothing to predict."""
    (path,) = paths.values()
    return Splits(train=Dataset(arrays={"text": _strings(_lines(path))}, name=entry.name))


def read_characters(entry: Entry, paths: Mapping[str, Path]) -> Splits:
    """One record a character, as its byte: cut it into windows of the length that a model reads."""
    (path,) = paths.values()
    characters = np.frombuffer(read_bytes(path), dtype=np.uint8)
    if characters.max(initial=0) > 127:
        raise damaged(path, "has characters outside of ASCII")
    return Splits(train=Dataset(arrays={"x": characters}, name=entry.name))


def _labelled_lines(entry: Entry, path: Path, labels: Mapping[str, int], *, has_heading: bool) -> Dataset:
    """Lines of the form `label<TAB>text`, with the label as a number."""
    texts: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(_lines(path), start=1):
        if has_heading and number == 1:
            continue
        label, tab, text = line.partition("\t")
        if not tab or label not in labels:
            raise damaged(path, f"has on line {number:,} no label out of {', '.join(labels)} before a tab")
        texts.append(text)
        numbers.append(labels[label])
    return Dataset(arrays={"text": _strings(texts), "y": np.array(numbers, dtype=np.int32)}, name=entry.name)


def _lines(path: Path) -> list[str]:
    """The lines of a file, split at line feeds only: some messages hold rarer separators."""
    lines = read_text(path).removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def _strings(texts: Iterable[str]) -> np.ndarray:
    return np.array(list(texts), dtype=_STRING)
