"""What was learned from public data, in a folder: weights, how they came about, and hashes of the rows.

A private run records the digest of the file, and refuses private rows whose hashes are among these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import strict_json, tensors
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import digest_of, read_inside, write_whole
from reticent.core.observer import OnProgress
from reticent.core.trees import ArrayTree
from reticent.models.colours import on_public_scale, with_public_scale
from reticent.models.model import Model
from reticent.models.patches import Patches, patch_features
from reticent.models.whitening import Whitening, unit_rows
from reticent.models.wide_resnet import wide_resnet, wide_resnet_features

WEIGHTS, NOTE = "public.safetensors", "NOT_PRIVATE.txt"
PARTS = ("patches", "wide_resnet")
_VERSION = 1
_MOST = 1 << 31  # bytes
_AT_ONCE = 32  # images
_NOT_PRIVATE = (
    "These weights were learned WITHOUT privacy, from data that everybody may see: {rows:,} rows of "
    "{dataset}.\nThey may tell of each of those rows. A private run that starts from them protects its own "
    "records alone.\n"
)


@dataclass(frozen=True, kw_only=True)
class About:
    """How public weights came about: what their file says of itself.

    Args:
        dataset: a name of the catalog, or where the rows came from in words.
        shape: of one image.
        network: depth, width, stride of the stem and classes of the network; empty if there is none.
        accuracy: of the network on public rows that it was not trained on.
        is_mirrored: the network is asked about an image and its mirror image, and the mean taken.
    """

    dataset: str
    rows: int
    shape: tuple[int, ...]
    network: Mapping[str, int] = field(default_factory=dict)
    epochs: int = 0
    stride: int = 0
    accuracy: float | None = None
    is_mirrored: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicModel:
    """Features that were learned from public data: patches of it, a network, or both.

    Args:
        arrays: by name: `network/...`, `patches/...`, `whitening/...` and `rows`, the hashes of all rows.
    """

    about: About
    arrays: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def name(self) -> str:
        """What it is made of: `patches`, `wide_resnet` or `wide_resnet+patches`."""
        return "+".join(part for part in reversed(PARTS) if f"whitening/{part}/centre" in self.arrays)

    @cached_property
    def content(self) -> bytes:
        """The file."""
        from safetensors.numpy import save

        about = json.dumps({"version": _VERSION, **asdict(self.about)}, sort_keys=True)
        ordered = {name: np.ascontiguousarray(self.arrays[name]) for name in sorted(self.arrays)}
        return save(ordered, metadata={"about": about})

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file, in hexadecimal: what a private run records."""
        return digest_of(self.content)

    @property
    def assumption(self) -> str:
        """What the guarantee of a run that starts from it takes for granted."""
        return (
            f"the public weights (digest {self.digest[:16]}, pre-trained on {self.about.dataset} without "
            "privacy) never saw a private record"
        )

    @property
    def row_hashes(self) -> np.ndarray:
        """The hash of every row that was learned from, (rows, 16)."""
        return np.asarray(self.arrays["rows"])

    @property
    def has_network(self) -> bool:
        return bool(self.about.network)

    @property
    def width(self) -> int:
        """How many features an image has."""
        return sum(self._whitening(part).directions.shape[1] for part in self.name.split("+"))

    def network(self, classes: int, *, is_folded: bool = False) -> Model:
        """The architecture of the network, for so many classes; it takes images as bytes.

        Args:
            is_folded: for parameters that `wide_resnet.fold` has standardised for good.
        """
        network = wide_resnet(
            **self._size, classes=classes, channels=self.about.shape[2], is_folded=is_folded
        )
        return with_public_scale(network)

    def params(self) -> dict[str, Any]:
        """The parameters of the network, its last layer included."""
        found: dict[str, Any] = {}
        for name, array in self.arrays.items():
            kind, *path = name.split("/")
            if kind == "network":
                inner = found
                for step in path[:-1]:
                    inner = inner.setdefault(step, {})
                inner[path[-1]] = jnp.asarray(array)
        return found

    def features(self, images: np.ndarray, on_progress: OnProgress | None = None) -> np.ndarray:
        """Features of images, (n, width) rows of length 1: each depends on its own image alone."""
        parts = self.name.split("+")
        found = np.empty((len(images), self.width), np.float32)
        at_once = 32 * _AT_ONCE
        for start in range(0, len(images), at_once):
            piece = np.asarray(images[start : start + at_once])
            rows = [self._whitening(part)(self.raw_features(part, piece)) for part in parts]
            found[start : start + at_once] = unit_rows(np.concatenate(rows, axis=1))
            if on_progress is not None:
                on_progress(min(start + at_once, len(images)) / len(images))
        return found

    def raw_features(self, part: str, images: np.ndarray) -> np.ndarray:
        """The features of one part before they are whitened: rows of length 1."""
        if part == "patches":
            filters, shifts = (np.asarray(self.arrays[f"patches/{name}"]) for name in ("filters", "shifts"))
            return patch_features(images, Patches(filters, shifts, self.about.stride))
        views = (images, images[:, :, ::-1]) if self.about.is_mirrored else (images,)
        params = self.params()
        found = [unit_rows(_in_pieces(self._network_features, params, view)) for view in views]
        return unit_rows(np.sum(found, axis=0))

    @cached_property
    def _network_features(self) -> Any:
        size = self._size

        def of_one(params: ArrayTree, image: jax.Array) -> jax.Array:
            return jnp.sqrt(jnp.abs(wide_resnet_features(params, on_public_scale(image), **size)))

        return jax.jit(jax.vmap(of_one, in_axes=(None, 0)))

    @property
    def _size(self) -> dict[str, int]:
        return {name: size for name, size in self.about.network.items() if name != "classes"}

    def _whitening(self, part: str) -> Whitening:
        names = (f"whitening/{part}/{name}" for name in ("centre", "directions"))
        return Whitening(*(np.asarray(self.arrays[name]) for name in names))

    def write(self, folder: Path) -> None:
        """Writes the weights into a folder, with a note that they are not private."""
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / WEIGHTS, self.content)
        write_whole(folder / NOTE, _NOT_PRIVATE.format(**asdict(self.about)).encode())


def read_public(folder: Path, *, digest: str | None = None) -> PublicModel:
    """The public weights in a folder.

    Args:
        digest: what they have to have, where a run recorded it.

    Raises:
        DataError: there are none. IntegrityError: they are damaged, or others than the run started from.
    """
    path = folder / WEIGHTS
    try:
        content = read_inside(folder, WEIGHTS, most=_MOST)
    except OSError as error:
        raise DataError(
            f"There are no public weights in {folder}: cannot read {path.name}, {error.strerror}.",
            remedy="Make them: reticent pretrain cifar100 --model wide_resnet -o FOLDER.",
        ) from error
    if digest is not None and digest_of(content) != digest:
        raise IntegrityError(
            f"{path} holds other weights than this run started from.",
            remedy=f"Restore those with the digest {digest[:16]}.",
        )
    try:
        found = tensors.parse(content)
        about = strict_json.parse_object(found.texts["about"].encode())
        if about.pop("version") != _VERSION:
            raise ValueError("another version")
        made = PublicModel(
            about=About(**{**about, "shape": tuple(map(int, about["shape"]))}), arrays=found.tensors
        )
        _require_whole(made)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise IntegrityError(
            f"{path} does not hold public weights that this version can read.",
            remedy="Restore it from a copy, or make it again: reticent pretrain.",
        ) from error
    return made


def _require_whole(made: PublicModel) -> None:
    """
    Raises:
        ValueError, KeyError: something is missing, or of another shape than it has to be.
    """
    if not made.name or made.row_hashes.ndim != 2 or made.row_hashes.dtype != np.uint8:
        raise ValueError("no features")
    if any(array.dtype == np.float32 and not np.isfinite(array).all() for array in made.arrays.values()):
        raise ValueError("not finite")
    blank = np.zeros((1, *made.about.shape), np.uint8)
    made.features(blank)
    if made.has_network:
        like = jax.eval_shape(made.network(made.about.network["classes"]).init, jax.random.key(0))
        shapes = jax.tree.map(lambda leaf: leaf.shape, made.params())
        if shapes != jax.tree.map(lambda leaf: leaf.shape, like):
            raise ValueError("another network")


def _in_pieces(apply: Any, params: ArrayTree, images: np.ndarray) -> np.ndarray:
    """Pieces of one size, the last one filled up: one compilation for all."""
    found = []
    for start in range(0, len(images), _AT_ONCE):
        piece = images[start : start + _AT_ONCE]
        full = np.pad(piece, [(0, _AT_ONCE - len(piece))] + [(0, 0)] * (piece.ndim - 1))
        found.append(np.asarray(apply(params, full))[: len(piece)])
    return np.concatenate(found)
