"""A generator in its folder: as many rows as anybody likes, at no further cost."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError, IntegrityError, InvalidArgument, suggest
from reticent.core.files import digest_of_file, write_whole
from reticent.runs import folder as folders
from reticent.runs.table_format import TableFormat
from reticent.synthetic.images import image_model
from reticent.synthetic.pipeline import GENERATOR
from reticent.synthetic.request import request_of, usable
from reticent.synthetic.tables import writing
from reticent.synthetic.tables.codes import Coder
from reticent.synthetic.tables.plausibility import quantiles
from reticent.synthetic.tables.table_model import TableModel

_AT_ONCE = 50_000  # rows


class Generator:
    """A finished generator, read with everything checked. Nothing in it is executed, and no seed is in it.

    Example:
        >>> Generator(Path("nowhere"))
        Traceback (most recent call last):
        ...
        reticent.core.errors.DataError: nowhere holds no run: there is no run.json in it. ...
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = folders.read_record(folder)
        if self.record.state == "failed":
            folders.require_finished(folder, self.record)
        if not self.record.is_generator or self.record.state != "finished":
            raise DataError(
                f"{folder} holds no finished generator.",
                remedy=f"Make one: reticent synth TABLE --epsilon 1 -o FILE; or: --resume {folder}.",
            )
        self.request = request_of(self.record)
        self.is_images = (folder / image_model.TENSORS).exists()
        self._check(folder / (image_model.TENSORS if self.is_images else GENERATOR))
        if self.is_images:
            self.images = image_model.load(folder)
        else:
            domain = folders.read_domain(folder)
            if domain is None:
                raise IntegrityError(
                    f"{folder / folders.DOMAIN} is missing.", remedy="Restore it from a copy."
                )
            self.domain, _ = usable(domain, self.request.ignore)
            self.coder = Coder(self.domain)
            self.model = TableModel.load(folder / GENERATOR)
            if tuple(self.model.plan.sizes) != self.coder.sizes:
                raise IntegrityError(
                    f"The model and the domain in {folder} do not belong together.",
                    remedy="Restore both from the same copy.",
                )

    def _check(self, path: Path) -> None:
        try:
            found = digest_of_file(path)
        except OSError as error:
            raise DataError(f"Cannot read {path}: {error.strerror}.", remedy="Restore it.") from error
        if found != self.record.result.model.digest:
            raise IntegrityError(
                f"{path} is not the generator that {folders.RUN} describes.",
                remedy="Restore both files from the same copy.",
            )

    def sample(
        self,
        n: int,
        *,
        seed: int | np.random.Generator | None = None,
        given: Mapping[str, str] | None = None,
    ) -> dict[str, list[str]]:
        """The cells of `n` rows, column by column, as text.

        Args:
            seed: of the sampling alone; the noise in the generator has nothing to do with it.
            given: words that some columns shall have: {"readmitted": "yes"}.
        """
        if self.is_images:
            raise InvalidArgument("This generator makes images.", remedy="Use .images.sample(n).")
        source = np.random.default_rng(seed)
        return self.coder.decode(self.model.sample(n, source, self._codes(given or {})), source)

    def _codes(self, given: Mapping[str, str]) -> dict[int, int]:
        found = {}
        for name, word in given.items():
            if name not in self.coder.names:
                raise InvalidArgument(f"There is no column '{name}'.", remedy=suggest(name, self.coder.names))
            place = self.coder.names.index(name)
            words = self.coder.columns[place].words
            if word not in words:
                raise InvalidArgument(
                    f"'{word}' is not a value of '{name}'.",
                    remedy=suggest(word, words or ("none: it is a number",)),
                )
            found[place] = words.index(word)
        return found

    def write(self, path: Path, n: int, *, seed: int | None = None) -> None:
        """Writes `n` rows as the original is written, whole or not at all; the card says what differs.

        Images go into an .npz file with `x` and `y`.
        """
        checks.count(rows=n)
        write_whole(path, self._npz(n, seed) if self.is_images else self._write_delimited(n, seed))
        card = path.with_name(f"{path.name}.card.json")
        write_whole(card, (json.dumps(self.card(n), indent=2) + "\n").encode())

    def card(self, n: int) -> dict[str, Any]:
        """What goes beside synthetic rows: what they are, and what they promise."""
        return {
            "what": "synthetic rows: nobody in them is a person of the original",
            "rows": n,
            "guarantee": self.record.result.guarantee.to_json(),
            "sentence": str(self.record.result.guarantee),
            "method": f"{self.request.method}: {self.record.recipe.in_words}",
            "generator": self.record.number,
            "left out": self._left_out(),
            **({} if self.is_images else {"quantiles": quantiles(self.model, self.coder)}),
            "warnings": list(self.record.result.warnings),
            "differs from the original's file": self._differences(),
            "caution": "Statistics of few rows are mostly noise; a missing cell is empty; '(other)' stands "
            "for words that are not in the domain.",
        }

    def _differences(self) -> list[str]:
        """How these rows are written in another way than the original."""
        return [] if self.is_images else writing.differences(self._format, self.coder)

    def _left_out(self) -> list[str]:
        """The columns of the original that these rows do not have, for whatever reason."""
        if self.is_images:
            return []
        return [name for name in self._format.names if name not in self.coder.names]

    @property
    def _format(self) -> TableFormat:
        """How the original is written.

        Raises:
            IntegrityError: the record does not say.
        """
        if self.record.written_as is None:
            raise folders.damage_error(self.folder)
        return self.record.written_as

    def _npz(self, n: int, seed: int | None) -> bytes:
        x, y = self.images.sample(n, seed)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, x=x, y=y)
        return buffer.getvalue()

    def _write_delimited(self, n: int, seed: int | None) -> bytes:
        source = np.random.default_rng(seed)
        sizes = (min(_AT_ONCE, n - start) for start in range(0, n, _AT_ONCE))
        return writing.write_delimited(
            self._format, self.coder, (self.sample(size, seed=source) for size in sizes)
        )
