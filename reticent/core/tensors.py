"""Tensors in a safetensors file that a stranger may have written: read strictly, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reticent.core import strict_json
from reticent.core.files import read_inside, read_start_inside

_LARGEST_HEADER = 1 << 24  # bytes
_LARGEST_TEXTS = 1 << 20  # bytes, of a file whose tensors are known
_LARGEST_ENTRY = 1 << 10  # bytes, of one tensor in the header, beside its name


class TensorFile(NamedTuple):
    """Named tensors, and the texts in the header of their file."""

    tensors: dict[str, np.ndarray]
    texts: dict[str, str]


def parse(content: bytes) -> TensorFile:
    """The tensors and texts of a safetensors file.

    Raises:
        ValueError: it is not one.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    texts = texts_of(content)
    try:
        return TensorFile(load(content), texts)
    except (SafetensorError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(f"it is not a safetensors file: {error}") from error


def read_known_inside(folder: Path, name: str, sizes: Mapping[str, int]) -> bytes:
    """Reads a file whose tensors are known: no more bytes than these can take.

    Args:
        sizes: of each tensor, by its name, in bytes.

    Raises:
        OSError: as `read_inside`; EFBIG if the file is larger than one with these tensors.
    """
    header = _LARGEST_TEXTS + sum(_LARGEST_ENTRY + 6 * len(known.encode()) for known in sizes)
    return read_inside(folder, name, most=header + sum(sizes.values()))


def texts_inside(folder: Path, name: str) -> dict[str, str]:
    """The texts of a safetensors file in a folder; its tensors are not read, however large they are.

    Raises:
        OSError: as `read_inside`. ValueError: it does not begin as such a file.
    """
    length = int.from_bytes(read_start_inside(folder, name, 8), "little")
    return texts_of(read_start_inside(folder, name, 8 + min(length, _LARGEST_HEADER)))


def texts_of(content: bytes) -> dict[str, str]:
    """The texts in the header of a safetensors file; its tensors are not read.

    Raises:
        ValueError: it does not begin as one.
    """
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or not 0 < length <= min(len(content) - 8, _LARGEST_HEADER):
        raise ValueError("it is not a safetensors file")
    texts = strict_json.parse_object(content[8 : 8 + length]).get("__metadata__", {})
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("its header does not hold texts")
    return texts
