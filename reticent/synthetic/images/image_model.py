"""A generator of images or vectors of declared classes: the result of a private fit.

    images, labels = model.sample(1000, 7)              # classes as often as they were found to be
    sevens, _ = model.sample(100, 8, given=7)
    model.save(folder); load(folder)                    # safetensors and JSON, no seed in them

Everything in it was released with noise, so sampling and sharing cost nothing more.
"""

from __future__ import annotations

import errno
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reticent.accounting.guarantee import Guarantee
from reticent.core import checks, strict_json
from reticent.core import tensors as tensor_files
from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.files import digest_of, misfits_as, read_inside, write_whole
from reticent.core.trees import ArrayTree
from reticent.mechanisms.adjacency import Adjacency
from reticent.runs import folder as folders
from reticent.synthetic.images.basis import ImageBasis
from reticent.synthetic.images.networks import NOISE, generate_many

RECORD, TENSORS = "generator.json", "generator.safetensors"
MAKERS = ("gaussians", "network")

_AT_ONCE = 8192  # rows
_LARGEST_RECORD = 1 << 22  # bytes
_LARGEST = 1 << 30  # bytes; 60 directions of colour photographs of a megapixel take 720 million
_VERSION = 2  # 1 said nothing in the header of the tensors

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class ImageModel:
    """A class-conditional sampler.

    Args:
        method: which fit made it.
        maker: `gaussians`, a mean and a spread for each class, or `network`.
        tensors: what the maker needs, by name.
        frequencies: of the classes, as they were released.
        shape: of one record.
        is_bytes: records are made as bytes from 0 to 255, as those it was fitted on.
        plan: the JSON of the plan that was followed.

    Guarantee:
        `guarantee` covers the whole object and everything that is sampled from it, however often.
    """

    method: str
    maker: str
    tensors: Tensors
    basis: ImageBasis
    frequencies: np.ndarray
    shape: tuple[int, ...]
    is_bytes: bool
    plan: str
    guarantee: Guarantee

    @property
    def classes(self) -> int:
        return len(self.frequencies)

    def sample(
        self, n: int, seed_or_generator: int | np.random.Generator | None = None, given: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`n` records (n, *shape) and their classes (n,).

        Args:
            seed_or_generator: of the sampling alone; the noise of the fit has nothing to do with it.
            given: the class of all of them; otherwise classes are drawn by their released frequencies.
        """
        checks.count(minimum=0, n=n)
        rng = np.random.default_rng(seed_or_generator)
        if given is None:
            labels = rng.choice(self.classes, size=n, p=self.frequencies)
        elif 0 <= given < self.classes:
            labels = np.full(n, given)
        else:
            raise InvalidArgument(
                f"There is no class {given}.", remedy=f"Classes are numbered from 0 to {self.classes - 1}."
            )
        records = np.empty((n, math.prod(self.shape)), np.uint8 if self.is_bytes else np.float32)
        for start in range(0, n, _AT_ONCE):
            here = slice(start, start + _AT_ONCE)
            pixels = self.basis.pixels(self._coordinates(rng, labels[here]))
            records[here] = np.rint(255 * pixels) if self.is_bytes else pixels
        return records.reshape(n, *self.shape), labels.astype(np.int64)

    def _coordinates(self, rng: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        kept = self.basis.directions.shape[1]
        if self.maker == "network":
            noise = rng.standard_normal((len(labels), NOISE))
            return generate_many(nest(self.tensors), noise, labels, self.classes) * self.basis.scales
        normals = rng.standard_normal((len(labels), kept))
        found = np.empty((len(labels), kept))
        for label in np.unique(labels):
            rows = labels == label
            found[rows] = self.tensors["means"][label] + normals[rows] @ self.tensors["spreads"][label].T
        return found

    def save(self, path: str | Path) -> None:
        """Writes a folder: `generator.safetensors`, then `generator.json`; each whole or not at all.

        The tensors are the release, and come first: their header says all that `generator.json` will say. So
        there is no moment at which something of them is out and they would have to be drawn again, with
        noise that nobody paid for; see `complete`.

        Raises:
            DataError: the folder cannot be written to.
        """
        from safetensors.numpy import save

        folder = Path(path)
        folders.make(folder)
        named = {f"maker/{name}": value for name, value in self.tensors.items()}
        named |= {f"basis/{name}": value for name, value in self.basis._asdict().items()}
        named["frequencies"] = self.frequencies
        said = {
            "version": _VERSION,
            "method": self.method,
            "maker": self.maker,
            "shape": list(self.shape),
            "is_bytes": self.is_bytes,
            "plan": json.loads(self.plan),
            "guarantee": self.guarantee.to_json(),
        }
        content = save(
            {name: np.ascontiguousarray(value, np.float32) for name, value in named.items()},
            metadata={"generator": json.dumps(said, allow_nan=False)},  # one entry: more come in any order
        )
        write_whole(folder / TENSORS, content)
        _write_record(folder, content)


def complete(path: str | Path) -> bool:
    """Completes an interrupted `save` in a folder; False if none had started.

    The rule by which an interrupted run resumes:
    no tensors              nothing is out, and a fit may draw;
    tensors                 they are out, and others would be a second release that nobody paid for; what
                            is missing beside them follows from their header;
    generator.json alone    they were out and are lost: nothing is drawn.

    Raises:
        IntegrityError: it is damaged, the two files do not belong together, or the tensors are gone.
    """
    folder = Path(path)
    if not (folder / TENSORS).exists():
        if (folder / RECORD).exists():
            raise IntegrityError(
                f"{folder / TENSORS} is missing, although {RECORD} describes it.",
                remedy="Restore it from a copy: a new one was not paid for.",
            )
        return False
    if not (folder / RECORD).exists():
        try:
            with misfits_as(_damage_error(folder)):
                _write_record(folder, read_inside(folder, TENSORS, most=_LARGEST))
        except OSError:
            raise _damage_error(folder) from None
    load(folder)
    return True


def _write_record(folder: Path, content: bytes) -> None:
    write_whole(folder / RECORD, json.dumps(_record_of(content), indent=1, allow_nan=False).encode())


def _record_of(content: bytes) -> dict[str, Any]:
    """What `generator.json` says of these tensors: what their header says, and their digest."""
    said = strict_json.parse_object(tensor_files.texts_of(content)["generator"])
    return said | {"sha256": digest_of(content)}


def _damage_error(folder: Path) -> IntegrityError:
    return IntegrityError(
        f"The generator in {folder} is damaged, or of another version.", remedy="Restore it from a copy."
    )


def load(path: str | Path) -> ImageModel:
    """The generator in a folder. Everything is checked, and nothing in it is executed.

    Raises:
        DataError: there is none. IntegrityError: it is damaged, or the two files do not belong together.
    """
    folder = Path(path)
    try:
        text = read_inside(folder, RECORD, most=_LARGEST_RECORD)
        content = read_inside(folder, TENSORS, most=_LARGEST)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _damage_error(folder) from error
        raise DataError(
            f"There is no generator in {folder}: {error.strerror}.", remedy="Name a folder that save wrote."
        ) from error
    with misfits_as(_damage_error(folder)):
        record = strict_json.parse_object(text)
        if record["version"] != _VERSION or record != _record_of(content):
            raise ValueError("the two files do not belong together")
        return _model(record, tensor_files.parse(content).tensors)


def _model(record: dict[str, Any], found: Tensors) -> ImageModel:
    basis = ImageBasis(*(found[f"basis/{name}"] for name in ImageBasis._fields))
    tensors = {name[6:]: value for name, value in found.items() if name.startswith("maker/")}
    frequencies = found["frequencies"].astype(np.float64)
    shape, said = tuple(map(int, record["shape"])), dict(record["guarantee"])
    adjacency, assumptions = Adjacency(said.pop("adjacency")), tuple(said.pop("assumptions"))
    checks.one_of(MAKERS, maker=record["maker"])
    model = ImageModel(
        method=str(record["method"]),
        maker=record["maker"],
        tensors=tensors,
        basis=basis,
        frequencies=frequencies / frequencies.sum(),
        shape=shape,
        is_bytes=bool(record["is_bytes"]),
        plan=json.dumps(record["plan"]),
        guarantee=Guarantee(**said, adjacency=adjacency, assumptions=assumptions),
    )
    if not all(np.isfinite(value).all() for value in found.values()) or frequencies.min() < 0:
        raise ValueError
    for label in range(model.classes):  # whatever does not fit together shows here
        model.sample(1, 0, given=label)
    return model


def released_frequencies(noisy_counts: Any) -> np.ndarray:
    """Class frequencies from noisy counts; a class lost in the noise is rare, not impossible."""
    counts = np.asarray(noisy_counts, np.float64)
    counts = np.maximum(counts, 1e-6 * max(np.max(counts), 1e-3))
    return counts / counts.sum()


def nest(tensors: Tensors) -> dict[str, Tensors]:
    """`{"dense0/w": ...}` as a tree of layers."""
    layers: dict[str, Tensors] = {}
    for name, value in tensors.items():
        layer, _, part = name.partition("/")
        layers.setdefault(layer, {})[part] = value
    return layers


def flatten(params: ArrayTree) -> Tensors:
    """A tree of layers as `{"dense0/w": ...}`."""
    return {
        f"{layer}/{part}": np.asarray(value)
        for layer, parts in params.items()
        for part, value in parts.items()
    }
