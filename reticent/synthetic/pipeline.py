"""Generators: what a run does that makes one. The way there is that of every run: see `runs.lifecycle`.

run.json        the record, as any run has it
domain.toml     what is public about the table
generator...    the model: safetensors and JSON, without a seed
private         which rows were kept away from the generator, if any were: never to be shared
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reticent.core.errors import IntegrityError
from reticent.core.files import digest_of_file
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Column, Domain
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed.consensus import require_alone
from reticent.mechanisms import events
from reticent.runs import folder as folders
from reticent.runs import lifecycle
from reticent.runs.lifecycle import FinishedRun
from reticent.runs.method import Method, Recipe
from reticent.runs.open_run import OpenRun
from reticent.runs.payment import delta_of
from reticent.runs.private_part import HISTORY, PRIVATE, read_split
from reticent.runs.record import ModelFile, RecipeRecord, RunKind, RunRecord
from reticent.runs.table_format import TableFormat
from reticent.runs.users import split_of
from reticent.runs.work import Learned, Work
from reticent.synthetic.images import image_model
from reticent.synthetic.pricing import GENERATORS, GeneratorInputs, SynthTerms, coder_of
from reticent.synthetic.request import SynthRequest, SynthSource, request_of, usable
from reticent.synthetic.tables import table_model
from reticent.synthetic.tables.codes import Coder
from reticent.synthetic.tables.plausibility import noise_warnings
from reticent.training.checkpoint import Checkpoints, stamp_of

_LOST = "is left out: free text, an identifier, or too few rows. Declare it in a domain file if it matters."
GENERATOR = "generator.model"  # of a table: a file. Of images: generator.json and generator.safetensors


def make(
    request: SynthRequest, folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY
) -> FinishedRun:
    """Makes the generator that the request asks for, in a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    require_alone("A generator")
    return lifecycle.start(GENERATOR_PRODUCT, request, folder, keys=keys, observer=observer)


def resume(
    folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY, data: Path | str | None = None
) -> FinishedRun:
    """Resumes a run that was stopped, as it was requested; a finished generator is returned as it is."""
    require_alone("A generator")
    return lifecycle.resume(GENERATOR_PRODUCT, folder, keys=keys, observer=observer, data=data)


class SynthRows(NamedTuple):
    """All rows as a generator takes them, those that are held out included.

    Args:
        coder: of a table; None for images.
        left_out: names of columns that cannot be made.
    """

    arrays: dict[str, np.ndarray]
    coder: Coder | None = None
    left_out: tuple[str, ...] = ()


class GeneratorProduct:
    """A generator: see `runs.lifecycle.Product`."""

    kind: RunKind = "generator"
    says_what_is_left_out = True

    def open(self, request: SynthRequest, folder: Path | None = None) -> SynthSource:
        source = SynthSource(request)
        delta = delta_of(request, source.rows, claims=True)
        source.request = replace(request, delta=delta, method=source.method)
        return source

    def request_of(self, record: RunRecord) -> SynthRequest:
        return request_of(record)

    def method_name(self, request: SynthRequest) -> str:
        return request.method

    def why(self, source: SynthSource) -> str:
        return ""

    def method_of(self, recipe: RecipeRecord) -> Method:
        if recipe.method not in GENERATORS:
            raise _unknown()
        return GENERATORS[recipe.method]

    def price(self, source: SynthSource, noise: PreparationNoise | None) -> Recipe:
        return GENERATORS[source.request.method].price(SynthTerms(source, noise))

    def read(self, recipe: RecipeRecord, source: SynthSource, noise: PreparationNoise | None) -> Recipe:
        try:
            found = self.method_of(recipe).read(recipe.settings)
        except (KeyError, TypeError, ValueError):
            raise _unknown() from None
        return found.for_terms(SynthTerms(source, noise))  # type: ignore[attr-defined]  # a GeneratorRecipe

    def check_rows(self, source: SynthSource, observer: Observer, scratch: Path) -> None:
        """Nothing can be wrong with rows that `read_rows` does not find."""

    def read_rows(
        self, source: SynthSource, domain: Domain | None, observer: Observer, scratch: Path
    ) -> SynthRows:
        if source.splits is not None:
            images = {name: np.asarray(source.splits.train[name]) for name in ("x", "y")}
            source.take_in(images)
            return SynthRows(images)
        assert source.table is not None
        assert domain is not None
        kept, left_out = usable(domain, source.request.ignore)
        coder = coder_of(source, kept)
        with observer.watch("encoding") as on_progress:
            codes = coder.encode(source.table, on_progress=on_progress)
        source.take_in({"codes": codes})
        return SynthRows({"codes": codes}, coder, left_out)

    def require_usable(self, run: OpenRun, rows: SynthRows) -> None:
        """Whatever columns were found can be generated; `read_rows` refuses none at all."""

    def table_format(self, source: SynthSource) -> TableFormat | None:
        return None if source.table is None else TableFormat.of_table(source.table)

    def learn(self, work: Work) -> Learned:
        folder, source, rows = work.run.folder, work.source, work.rows
        if not _is_out(folder, source):
            inputs = GeneratorInputs(
                source=source,
                coder=rows.coder,
                rows=_keep_training_rows(source, rows.arrays),
                keys=work.keys,
                checkpoints=_checkpoints(work),
                observer=work.observer,
            )
            model = work.recipe.follow(inputs)
            model.save(folder if source.is_images else folder / GENERATOR)
        warnings = _warnings(folder, source, rows)
        path = folder / (image_model.TENSORS if source.is_images else GENERATOR)
        shape = rows.arrays["x"].shape[1:] if rows.coder is None else (len(rows.coder.sizes),)
        name = f"{source.request.method} generator"
        return Learned(
            model=ModelFile(name=name, digest=digest_of_file(path), shape=tuple(map(int, shape))),
            assumptions=(f"the number of records, {source.rows}, is public",),
            warnings=warnings,
        )


GENERATOR_PRODUCT = GeneratorProduct()


def _unknown() -> IntegrityError:
    return IntegrityError(
        "The recipe of this generator is not one that this version can follow.",
        remedy="Restore run.json from a copy, or start a new run in another folder.",
    )


def _warnings(folder: Path, source: SynthSource, rows: SynthRows) -> tuple[str, ...]:
    """What will not come out well, by the domain and by what was released."""
    if rows.coder is None:
        return ()
    model = table_model.TableModel.load(folder / GENERATOR)
    declared = {} if source.declared is None else source.declared.columns
    said = noise_warnings(model, rows.coder, {name for name, c in declared.items() if not _is_open(c)})
    return (*rows.coder.warnings, *(f"'{name}' {_LOST}" for name in rows.left_out), *said)


def _is_open(column: Column) -> bool:
    """Whether the bounds of a column were left for preparation to find."""
    return getattr(column, "bounds", None) is None or "bounds" in getattr(column, "looked_up", ())


def _is_out(folder: Path, source: SynthSource) -> bool:
    """Whether a process wrote the generator before it was stopped: it is out, and is not drawn again.

    Raises:
        IntegrityError: it was written, and is damaged or gone.
    """
    if source.is_images:
        return image_model.complete(folder)
    if not (folder / GENERATOR).exists():
        return False
    table_model.TableModel.load(folder / GENERATOR)
    return True


def _checkpoints(work: Work) -> Checkpoints:
    record = work.run.record
    stamp = stamp_of(events.to_json(record.event), record.number)
    folder = work.run.folder
    return Checkpoints(path=folder / folders.CHECKPOINT, stamp=stamp, history=folder / PRIVATE / HISTORY)


def _keep_training_rows(source: SynthSource, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The rows that the generator may see."""
    if source.split is None:
        return arrays
    rows = len(next(iter(arrays.values())))
    split = source.split if source.table is None else split_of(source.split, source.table)
    kept = ~split.is_held_out(0, rows)
    return {name: array[kept] for name, array in arrays.items()}


def is_held_out(folder: Path, source: SynthSource) -> np.ndarray:
    """The rows that were kept away from the generator, each by its own coin or its user's: (rows,) bool.

    Raises:
        DataError: the folder was shared without its private part.
    """
    if not source.request.test:
        return np.zeros(source.rows, bool)
    split = read_split(folder, source.request.test)
    return (split if source.table is None else split_of(split, source.table)).is_held_out(0, source.rows)
