"""Images in files: a folder with one folder per class as a table, and image files decoded one at a time.

A file is read only if it lies below the folder that was named; no link is followed. How many pixels it has is
looked at before it is decoded.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from reticent.core.errors import DataError
from reticent.core.files import read_inside
from reticent.data.files.dialect import Dialect
from reticent.data.files.shards import row_cuts
from reticent.data.files.table import Table
from reticent.data.kinds import quote

IMAGE, LABEL = "image", "label"  # the columns of a folder

MOST_PIXELS = 1 << 26  # of one image
_MOST_BYTES = 1 << 27  # of one file
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"}
_AT_ONCE = 4096  # names in a batch


class ImageFolder(Table):
    """The images below a folder, by their names: in one folder per class, or all in one without classes.

    Attributes:
        skipped: files that are no images by their names.

    Raises:
        DataError: there is no image, or images lie both inside and beside folders.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.dialect = Dialect(format="images")
        self.unsupported = {}
        self.skipped: list[str] = []
        self._files = self._list_files()
        if not self._files:
            raise DataError(
                f"There is no image in {path}.", remedy="Give a folder with one folder of images per class."
            )
        beside = [name for name in self._files if "/" not in name]
        if beside and len(beside) < len(self._files):
            raise DataError(
                f"{quote(beside[0])} and {len(beside) - 1:,} other images of {path} lie beside its folders, "
                "so their classes are unknown.",
                remedy="Move them into the folders of their classes, or out of the way.",
            )
        self.names = (IMAGE,) if beside else (IMAGE, LABEL)
        self._row_count = len(self._files)

    def _list_files(self) -> list[str]:
        found = []
        for above, folders, names in os.walk(self.path, onerror=_refuse_folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            if link := next((name for name in folders if os.path.islink(os.path.join(above, name))), None):
                raise _is_link(Path(above, link))
            inside = Path(above).relative_to(self.path)
            for name in sorted(names):
                place = (inside / name).as_posix()
                if Path(name).suffix.lower() in _SUFFIXES and not name.startswith("."):
                    if os.path.islink(os.path.join(above, name)):
                        raise _is_link(Path(above, name))
                    found.append(place)
                elif not name.startswith("."):
                    self.skipped.append(place)
        for name in found:
            _require_text(self.path, name)
        return sorted(found)

    @property
    def doubt(self) -> str | None:
        if not self.skipped:
            return None
        return (
            f"{len(self.skipped):,} files in {self.path} are not images by their names ({self.skipped[0]}): "
            "they are left out."
        )

    def shard(self, number: int, count: int) -> ImageFolder:
        cuts = row_cuts([len(self._files)], count)
        shard = copy(self)
        shard._files = self._files[cuts[number] : cuts[number + 1]]
        shard._first_row, shard._row_count = self._first_row + cuts[number], len(shard._files)
        return shard

    def place(self, row: int) -> str:
        return self._files[row]

    def _read(self, columns: Sequence[str]) -> Iterator[tuple[pa.RecordBatch, float]]:
        for start in range(0, len(self._files), _AT_ONCE):
            names = self._files[start : start + _AT_ONCE]
            cells = {IMAGE: names, LABEL: [name.partition("/")[0] for name in names]}
            batch = pa.RecordBatch.from_pydict({name: pa.array(cells[name], pa.string()) for name in columns})
            yield batch, min(start + _AT_ONCE, len(self._files)) / len(self._files)


class ImageFiles(Sequence[Any]):
    """Image files below a folder, each decoded when it is asked for; a slice decodes nothing.

    Args:
        root: the folder that all names are relative to.

    Example:
        >>> files = ImageFiles(Path("."), ["cat/1.png", "cat/2.png"])
        >>> len(files), len(files[:1])
        (2, 1)
    """

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.root, self.names = root, list(names)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return ImageFiles(self.root, self.names[at])
        return decode_image(self.content(at), called=str(self.root / self.names[at]))

    def content(self, at: int) -> bytes:
        """The bytes of a file.

        Raises:
            DataError: it is not there, is a link, or lies outside of the folder.
        """
        name = self.names[at]
        place = PurePosixPath(name.replace(os.sep, "/"))
        if not place.parts or place.is_absolute() or ".." in place.parts:
            raise DataError(
                f"The image {quote(name)} lies outside of {self.root}, and is not opened.",
                remedy="Write paths of images relative to the folder of their table, without '..'.",
            )
        try:
            return read_inside(self.root, str(place), most=_MOST_BYTES)
        except FileNotFoundError:
            raise DataError(f"There is no image {self.root / name}.", remedy="Check its path.") from None
        except (OSError, ValueError) as error:
            why = str(getattr(error, "strerror", None) or error)
            raise DataError(
                f"Cannot read the image {self.root / name}: {why}.",
                remedy="Put a plain file of at most 128 MB in its place, or take it out.",
            ) from None


def decode_image(content: bytes, *, called: str) -> np.ndarray:
    """The pixels of an image file as bytes: (height, width) if it is grey, else (height, width, 3).

    Args:
        called: what messages call it.

    Raises:
        DataError: it is not an image, is damaged, or has too many pixels.
    """
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=_FORMATS) as picture:
            width, height = picture.size
            if width * height <= MOST_PIXELS:
                return _pixels(picture)
        why = f"it has {width:,} x {height:,} pixels, and {MOST_PIXELS:,} are the most"
    except Exception as error:  # noqa: BLE001  # decoders raise what they like on damaged files
        why = _reason(error)
    raise DataError(
        f"{called} cannot be read as an image: {why}.", remedy="Replace it by a whole one, or take it out."
    )


def _pixels(picture) -> np.ndarray:
    if picture.mode.startswith("I"):  # 16 bits
        deep = np.asarray(picture).astype(np.int64)
        return np.clip(deep // 257, 0, 255).astype(np.uint8)
    is_grey = picture.mode in ("1", "L", "LA", "F")
    return np.asarray(picture.convert("L" if is_grey else "RGB"))


def _reason(error: Exception) -> str:
    if type(error).__name__ == "UnidentifiedImageError":
        return "it is none, or of a kind that is not read"
    if type(error).__name__ == "DecompressionBombError":
        return "it has far too many pixels"
    return str(error).strip().split("\n")[0].rstrip(".")[:120] or type(error).__name__


def _refuse_folder(error: OSError) -> None:
    raise DataError(
        f"Cannot look into {error.filename}: {error.strerror}.", remedy="Check that you may read it."
    ) from error


def _is_link(path: Path) -> DataError:
    return DataError(
        f"{path} is a symbolic link, which is not followed.",
        remedy="Put the files themselves into the folder.",
    )


def _require_text(folder: Path, name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DataError(
            f"A file in {folder} has a name that is not text: {name!r}.", remedy="Give it another name."
        ) from None
