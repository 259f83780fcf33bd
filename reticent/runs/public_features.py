"""What a public model makes of the texts or images of a run: opened, computed once, kept, whitened.

The model never saw a private record: the guarantee says so, with the digest of the model. Its features are
unit rows, each made of one record alone, so that they cost no privacy. They may be whitened by public
records, and by no others; the map is kept beside the model of the run.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import misfits_as, write_whole
from reticent.core.observer import NOBODY, Observer
from reticent.data.kinds import Featured, quote
from reticent.features.computing import AskedRecords, compute
from reticent.features.extractor import Extractor
from reticent.features.isolation import require_alone
from reticent.models.whitening import Whitening, unit_rows, whitening
from reticent.runs.private_part import PRIVATE, make_private

WHITENING = "whitening.safetensors"

MOST_PUBLIC = 5000  # public records that are looked at
_KEPT = 512  # directions
_PER_DIRECTION = 4  # public records, at least
_RIDGE = 1e-4


@dataclass(kw_only=True)
class PublicFeatures:
    """A public model for the records of a run, and the whitening behind it.

    Args:
        holds: what it is asked about: texts or images.
        public: public records, to whiten by; None for none, or where the whitening is known already.
        known: the whitening that a run keeps.
        cache: where features are kept; in memory alone where it is None.
    """

    extractor: Extractor
    holds: str
    public: AskedRecords | None = None
    public_name: str = ""
    known: Whitening | None = None
    cache: Path | None = None
    observer: Observer = NOBODY

    @cached_property
    def raw_width(self) -> int:
        """How many numbers the model makes of a record; it is asked about made-up ones."""
        return require_alone(self.extractor, _made_up(self.holds))

    @cached_property
    def whiten(self) -> Whitening | None:
        """The map that makes public records vary alike; None where there are none."""
        if self.known is not None or self.public is None:
            return self.known
        rows = self._raw(self.public, "public records", cache=None)
        kept = min(_KEPT, self.raw_width, len(rows) // _PER_DIRECTION)
        return whitening(rows, kept=kept, ridge=_RIDGE)

    @cached_property
    def digest(self) -> str:
        """The digest of the model, its settings and the whitening."""
        digest = hashlib.blake2b(self.extractor.digest.encode(), digest_size=20)
        if self.whiten is not None:
            digest.update(self.whiten.centre.tobytes() + self.whiten.directions.tobytes())
        return digest.hexdigest()

    @property
    def column(self) -> Featured:
        """What a domain says of the column that holds the records."""
        width = self.raw_width if self.whiten is None else self.whiten.directions.shape[1]
        return Featured(model=self.extractor.name, digest=self.digest, width=width)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes for granted."""
        if not self.extractor.is_model:
            return ()
        if self.public is None and self.known is None:
            return (self.extractor.assumption,)
        return (self.extractor.assumption, "the records that features are whitened by are public")

    def rows(self, records: AskedRecords) -> np.ndarray:
        """The features of records, (records, width): rows of length 1."""
        found = self._raw(records, self.holds, cache=self.cache)
        return found if self.whiten is None else self.whiten(found)

    def _raw(self, records: AskedRecords, what: str, *, cache: Path | None) -> np.ndarray:
        with self.observer.watch(f"features of {what} by {self.extractor.name}") as on_progress:
            found = compute(self.extractor, records, cache=cache, on_progress=on_progress)
        if found.shape[1] != self.raw_width:
            raise DataError(
                f"'{self.extractor.name}' makes {found.shape[1]} numbers of these records, and made "
                f"{self.raw_width} of made-up ones.",
                remedy="Give a model that makes as many of each.",
            )
        return unit_rows(np.asarray(found))

    def keep(self, folder: Path) -> None:
        """Puts what was computed where the run is: features into its private part.

        Raises:
            DataError: it cannot be written.
        """
        if self.whiten is not None and not (folder / WHITENING).exists():
            from safetensors.numpy import save

            write_whole(folder / WHITENING, save(self.whiten._asdict()))
        make_private(folder)
        private = folder / PRIVATE
        for path in [] if self.cache in (None, private) else self.cache.glob("features-*.npy"):
            write_whole(private / path.name, path.read_bytes(), is_private=True)
        self.cache = private


def read_whitening(folder: Path) -> Whitening | None:
    """The whitening that a run keeps; None if it has none.

    Raises:
        IntegrityError: it is damaged.
    """
    from reticent.core import tensors
    from reticent.core.files import read_inside

    damaged = IntegrityError(f"{folder / WHITENING} is damaged.", remedy="Restore it from a copy.")
    try:
        with misfits_as(damaged):
            found = tensors.parse(read_inside(folder, WHITENING, most=1 << 30)).tensors
            white = Whitening(centre=found["centre"], directions=found["directions"])
            rows, _ = white.directions.shape
            parts = (white.centre, white.directions)
            if white.centre.shape != (rows,) or not all(np.isfinite(part).all() for part in parts):
                raise ValueError("other shapes, or numbers that are not finite")
            return white
    except FileNotFoundError:
        return None
    except OSError:
        raise damaged from None


def spread(count: int, most: int = MOST_PUBLIC) -> np.ndarray:
    """Which of so many public records are looked at: evenly spread."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).astype(int))


def require_apart(private: AskedRecords, public: AskedRecords, *, name: str) -> None:
    """
    Raises:
        DataError: a public record is one of the private ones.
    """
    known = {_identity(public, at): at for at in range(len(public))}
    shared = {known[found] for at in range(len(private)) if (found := _identity(private, at)) in known}
    if shared:
        first = min(shared)
        named = getattr(public, "names", None)
        which = quote(str(named[first] if named is not None else public[first]))
        which = f"number {first + 1:,}" if "array" in which else which
        raise DataError(
            f"{len(shared):,} of the {len(public):,} public records of {name} are among the private ones "
            f"(the first: {which}). What is made of public records is not protected.",
            remedy="Take them out of one of the two, or say that they are public: --overlap-is-public.",
        )


def _identity(records: AskedRecords, at: int) -> bytes:
    """A hash of what a record shows: of an image its pixels, of a text its words and signs."""
    record = records[at]
    if isinstance(record, np.ndarray):
        content = f"{record.shape}".encode() + np.ascontiguousarray(record).tobytes()
    else:
        content = " ".join(str(record).casefold().split()).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=16).digest()


def _made_up(holds: str) -> Any:
    if holds == "texts":
        return ("", "a", "The quick brown fox jumps over the lazy dog.", "0 1 2 3", "à bientôt")
    return np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3)).astype(np.uint8)
