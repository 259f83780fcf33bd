"""Pictures: the idx files of MNIST, CIFAR-10 in two forms, and CIFAR-100.

Pixels stay bytes, 0 to 255, as they were published: a float image takes four times the memory, and
how to scale is for the model to say.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from reticent.data.catalog.entries import CatalogEntry, Splits
from reticent.data.catalog.unpacking import damage_error, npz_arrays, read_bytes, tar_members
from reticent.data.dataset import Dataset

_IDX_OF_BYTES = b"\x00\x00\x08"  # then one byte: how many axes
_CIFAR_SIDE = 32
_CIFAR_RECORD = 1 + 3 * _CIFAR_SIDE * _CIFAR_SIDE  # a label, then three planes of pixels


def read_mnist(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """MNIST and datasets in the same format: x (n, 28, 28) uint8, y (n,) int32."""

    def part(prefix: str) -> Dataset:
        images = read_idx(paths[f"{prefix}-images-idx3-ubyte.gz"], axes=3)
        labels = read_idx(paths[f"{prefix}-labels-idx1-ubyte.gz"], axes=1)
        return _as_dataset(entry.name, images, labels)

    return Splits(train=part("train"), test=part("t10k"))


def read_idx(path: Path, *, axes: int) -> np.ndarray:
    """An array of bytes in the idx format: magic number, the length of each axis, the bytes."""
    stored = read_bytes(path)
    start = 4 + 4 * axes
    if len(stored) < start or stored[:3] != _IDX_OF_BYTES or stored[3] != axes:
        raise damage_error(
            path, f"is not an idx file of bytes with {axes} axes: it starts with {stored[:4].hex(' ')}"
        )
    shape = struct.unpack(f">{axes}I", stored[4:start])
    promised = math.prod(shape)
    if len(stored) - start != promised:
        raise damage_error(
            path, f"holds {len(stored) - start:,} bytes after its header, which promises {promised:,}"
        )
    return np.frombuffer(stored, dtype=np.uint8, offset=start).reshape(shape)


def read_cifar_binary(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """The archive of the authors: x (n, 32, 32, 3) uint8, y (n,) int32."""
    (path,) = paths.values()
    names = [f"cifar-10-batches-bin/data_batch_{number}.bin" for number in range(1, 6)]
    test_name = "cifar-10-batches-bin/test_batch.bin"
    members = tar_members(path, [*names, test_name])
    batches = {name: _cifar_records(path, name, body) for name, body in members.items()}
    train = np.concatenate([batches[name] for name in names])
    return Splits(train=_cifar_dataset(entry, train), test=_cifar_dataset(entry, batches[test_name]))


def _cifar_records(path: Path, name: str, body: bytes) -> np.ndarray:
    if not body or len(body) % _CIFAR_RECORD:
        raise damage_error(path, f"has {len(body):,} bytes in {name}, not a multiple of {_CIFAR_RECORD}")
    return np.frombuffer(body, dtype=np.uint8).reshape(-1, _CIFAR_RECORD)


def _cifar_dataset(entry: CatalogEntry, records: np.ndarray) -> Dataset:
    planes = records[:, 1:].reshape(-1, 3, _CIFAR_SIDE, _CIFAR_SIDE)
    return _as_dataset(entry.name, np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0])


def read_cifar_strips(entry: CatalogEntry, paths: Mapping[str, Path]) -> Splits:
    """Lossless WebP strips in npz archives: x (n, 32, 32, 3) uint8, y (n,) int32."""
    parts = {name: _read_strips(path) for name, path in paths.items()}
    test = parts.pop("test_batch.webp.npz", None)
    images = np.concatenate([images for images, _ in parts.values()])
    labels = np.concatenate([labels for _, labels in parts.values()])
    held_out = None if test is None else _as_dataset(entry.name, *test)
    return Splits(train=_as_dataset(entry.name, images, labels), test=held_out)


def _read_strips(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Each strip is a picture as wide as an image, with the images stacked downwards."""
    webp, offsets, labels = npz_arrays(path, ["webp", "offsets", "labels"])
    is_ascending = offsets.ndim == 1 and len(offsets) > 1 and bool(np.all(np.diff(offsets) > 0))
    if not is_ascending or offsets[0] < 0 or offsets[-1] > len(webp):
        raise damage_error(path, "has strip offsets that do not fit its bytes")
    stored = webp.tobytes()
    strips = [_decode_strip(path, stored[start:end]) for start, end in itertools.pairwise(offsets)]
    images = np.concatenate(strips)
    if len(images) != len(labels):
        raise damage_error(path, f"has {len(images):,} images and {len(labels):,} labels")
    return images, labels


def _decode_strip(path: Path, strip: bytes) -> np.ndarray:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(strip), formats=["WEBP"]) as picture:
            pixels = np.asarray(picture.convert("RGB"))
    except (UnidentifiedImageError, OSError, ValueError) as error:
        raise damage_error(path, f"has a strip that is not a WebP picture ({error})") from error
    height, width, _ = pixels.shape
    if width != _CIFAR_SIDE or height % _CIFAR_SIDE:
        raise damage_error(path, f"has a strip of {width}x{height} pixels, not of stacked 32x32 images")
    return pixels.reshape(-1, _CIFAR_SIDE, _CIFAR_SIDE, 3)


def _as_dataset(name: str, images: np.ndarray, labels: np.ndarray) -> Dataset:
    return Dataset(arrays={"x": images, "y": labels.astype(np.int32)}, name=name)
