"""ONNX models as extractors, run by onnxruntime: one record per call, on one thread, alike every time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.features.extractor import Extractor
from reticent.features.onnx_session import content_of, first_line, open_session
from reticent.features.onnx_text import from_session, is_for_texts

Pixels = Literal["imagenet", "unit", "centred", "bytes"]

_USUAL_SIDE = 224  # pixels, where the model takes any
_MEAN = np.array([0.485, 0.456, 0.406], np.float32)  # of ImageNet's pixels
_DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


class _Input(NamedTuple):
    """What a model takes: its only input.

    Args:
        layout: `NCHW` or `NHWC` for images, `NF` for rows of numbers.
        side: height and width, where they are fixed.
        slots: records per call; only the first is ever used.
    """

    name: str
    layout: str
    dtype: Any
    channels: int
    side: tuple[int, int] | None
    slots: int


def from_onnx(
    path: Path | str, *, pixels: Pixels = "imagenet", side: int | None = None, output: str | None = None
) -> Extractor:
    """A model in an ONNX file as an extractor of images, of texts or of rows of numbers.

    An image is resized by itself to what the model takes; a grey one gets three equal colours. A text becomes
    its word pieces, by the `tokenizer.json` beside the model, and is never padded.

    Args:
        pixels: how bytes become what the model expects: `imagenet` for mean 0 and deviation 1 over ImageNet,
            `unit` for 0 to 1, `centred` for -1 to 1, `bytes` for 0 to 255.
        side: of the images that it is given, where it takes any.
        output: the name of what is taken from it; its first output otherwise. Of maps the mean is taken.

    Raises:
        DataError: there is no such file, it is not an ONNX model, or it takes something else.
        Unavailable: onnxruntime is not installed.
    """
    path = Path(path)
    checks.one_of(get_args(Pixels), pixels=pixels)
    content = content_of(path)
    session = open_session(path, content)
    outputs = [found.name for found in session.get_outputs()]
    if output is not None and output not in outputs:
        raise InvalidArgument(
            f"{path} has no output '{output}'.", remedy=f"It has: {', '.join(outputs[:12])}."
        )
    wanted = output or outputs[0]
    if is_for_texts(session):
        return from_session(path, content, session, wanted)
    takes = _input_of(path, session)
    size = _size_of(path, takes, side)
    settings = f"{pixels} {size} {wanted}"
    digest = hashlib.blake2b(hashlib.sha256(content).digest() + settings.encode(), digest_size=20)
    prepare = _row_of_numbers(takes) if size is None else _image(takes, size, pixels)

    def apply(record: Any) -> np.ndarray:
        given = prepare(record)
        # A model made for several records per call gets one, and nobody's beside it.
        batch = np.zeros((takes.slots, *given.shape), given.dtype)
        batch[0] = given
        try:
            (found,) = session.run([wanted], {takes.name: batch})
        except Exception as error:  # noqa: BLE001  # the runtime's own errors have no public base
            raise _refusal(path, given.shape, error) from None
        row = np.asarray(found, np.float32)[0]
        return _pool(row, takes.layout)

    return Extractor(
        name=path.name,
        digest=digest.hexdigest(),
        apply=apply,
        side=size,
        takes="rows" if size is None else "images",
    )


def _input_of(path: Path, session: Any) -> _Input:
    found = session.get_inputs()
    types = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8}
    if len(found) != 1 or found[0].type not in types or len(found[0].shape) not in (2, 4):
        said = ", ".join(f"{each.name}: {each.type} {each.shape}" for each in found[:4])
        raise DataError(
            f"{path} takes {said}, and images are one tensor of (1, colours, height, width) or "
            "(1, height, width, colours).",
            remedy="Export it with one input of float32 or uint8.",
        )
    (only,) = found
    shape = [size if isinstance(size, int) and size > 0 else None for size in only.shape]
    slots, dtype = shape[0] or 1, types[only.type]
    if len(shape) == 2:
        return _Input(only.name, "NF", dtype, shape[1] or 0, None, slots)
    if shape[1] in (1, 3):
        layout, channels, sides = "NCHW", shape[1], shape[2:]
    elif shape[3] in (1, 3):
        layout, channels, sides = "NHWC", shape[3], shape[1:3]
    else:
        raise DataError(
            f"{path} takes images of shape {only.shape[1:]}, which have neither one colour nor three.",
            remedy="Export it for images of (colours, height, width) or (height, width, colours).",
        )
    height, width = sides
    side = None if height is None or width is None else (height, width)
    return _Input(only.name, layout, dtype, channels, side, slots)


def _size_of(path: Path, takes: _Input, side: int | None) -> tuple[int, int] | None:
    """Height and width of the images that the model is given; None for rows of numbers."""
    if takes.layout == "NF":
        if side is not None:
            raise InvalidArgument(
                f"{path} takes rows of numbers, which have no side.", remedy="Leave the side out."
            )
        return None
    if side is None:
        return takes.side or (_USUAL_SIDE, _USUAL_SIDE)
    checks.count(side=side)
    if takes.side not in (None, (side, side)):
        height, width = takes.side or (0, 0)
        raise InvalidArgument(
            f"{path} takes images of {height} x {width} pixels, not of {side} x {side}.",
            remedy="Leave the side out, or export the model for another one.",
        )
    return side, side


def _row_of_numbers(takes: _Input) -> Callable[[Any], np.ndarray]:
    return lambda record: np.asarray(record, takes.dtype).ravel()


def _image(takes: _Input, size: tuple[int, int], pixels: Pixels) -> Callable[[Any], np.ndarray]:
    def prepare(record: Any) -> np.ndarray:
        image = resize(np.asarray(record), size, takes.channels)  # (height, width, colours), bytes
        given = image if takes.dtype == np.uint8 else scale_pixels(image, pixels)
        return np.ascontiguousarray(given.transpose(2, 0, 1) if takes.layout == "NCHW" else given)

    return prepare


def resize(image: np.ndarray, size: tuple[int, int], channels: int = 3) -> np.ndarray:
    """One image as bytes of another size, (height, width, channels): interpolated, each by itself.

    Example:
        >>> resize(np.zeros((4, 4), np.uint8), (8, 6)).shape
        (8, 6, 3)
    """
    from PIL import Image

    if image.dtype != np.uint8:
        image = np.clip(np.nan_to_num(image) * 255, 0, 255).round().astype(np.uint8)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise DataError(
            f"A record has shape {image.shape}, and an image has one colour or three.",
            remedy="Give images of (height, width) or (height, width, 3).",
        )
    picture = Image.fromarray(image).convert("L" if channels == 1 else "RGB")
    if picture.size != (size[1], size[0]):
        picture = picture.resize((size[1], size[0]), Image.Resampling.BICUBIC)
    return np.asarray(picture).reshape(*size, channels)


def scale_pixels(image: np.ndarray, pixels: Pixels) -> np.ndarray:
    """Bytes as the numbers that a model was trained on: by public constants."""
    found = image.astype(np.float32)
    if pixels == "bytes":
        return found
    if pixels == "centred":
        return found / 127.5 - 1
    found /= 255
    if pixels == "unit":
        return found
    grey = image.shape[-1] == 1
    return (found - (_MEAN.mean() if grey else _MEAN)) / (_DEVIATION.mean() if grey else _DEVIATION)


def _pool(row: np.ndarray, layout: str) -> np.ndarray:
    """What a model says of one record as one row: maps by their mean over all places."""
    if row.ndim == 3:
        return row.mean(axis=(0, 1) if layout == "NHWC" else (1, 2))
    return row.mean(axis=0) if row.ndim == 2 else row


def _refusal(path: Path, shape: tuple[int, ...], error: Exception) -> DataError:
    return DataError(
        f"{path} does not take a record of shape {shape}: {first_line(error)}",
        remedy="Choose the size of images that the model was made for, or export it for any.",
    )
