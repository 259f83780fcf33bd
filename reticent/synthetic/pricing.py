"""The ways to make a generator, one row per method, and what each will cost.

That is decided before a record is seen, from what is public alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc

from reticent.accounting.reserve import TRAINING
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain
from reticent.data.preparation import require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.data.sampling import Poisson
from reticent.mechanisms.events import ApproximateDp, Event
from reticent.runs.method import Method
from reticent.runs.payment import claim_beside
from reticent.runs.users import units_of
from reticent.synthetic.images import embedding, gan
from reticent.synthetic.images.image_model import ImageModel
from reticent.synthetic.request import SynthSource
from reticent.synthetic.tables import planning, table_model
from reticent.synthetic.tables.codes import Coder
from reticent.synthetic.tables.table_model import TableModel
from reticent.training.checkpoint import Checkpoints

_NEVER = 1e-25  # a probability small enough to be part of no delta anybody would ask for


class SynthTerms(NamedTuple):
    """What a generator is priced from: all of it public."""

    source: SynthSource
    noise: PreparationNoise | None


class GeneratorRecipe(NamedTuple):
    """A priced generator.

    Args:
        share: the (epsilon, delta) that it may claim, beside the preparation if there is one.
        event: what will be released; the claim alone, where preparation has to find the columns first.
    """

    method: str
    share: tuple[float, float]
    event: Event

    @property
    def in_words(self) -> str:
        return GENERATORS[self.method].description

    def to_json(self) -> dict[str, Any]:
        return {"share": list(self.share)}

    def for_terms(self, terms: SynthTerms) -> GeneratorRecipe:
        """The same with the event that it has for this source."""
        return self._replace(event=_event(terms, self.share))

    def follow(self, inputs: GeneratorInputs) -> TableModel | ImageModel:
        """Fits the generator; costs `event`."""
        source = inputs.source
        if source.is_images:
            return self._fit_images(inputs)
        plan = table_plan(inputs.coder, source, self.share, self.method)
        with inputs.observer.watch("measuring and modelling") as on_progress:
            return table_model.fit(inputs.rows["codes"], plan, keys=inputs.keys, on_progress=on_progress)

    def _fit_images(self, inputs: GeneratorInputs) -> ImageModel:
        source, (x, y) = inputs.source, (inputs.rows[name] for name in ("x", "y"))
        plan = image_plan(source, source.train_rows, self.share)
        given: dict[str, Any] = {"classes": source.classes, "keys": inputs.keys}
        with inputs.observer.watch(f"training the {self.method}") as on_progress:
            if isinstance(plan, gan.GanPlan):
                return gan.fit(x, y, plan, checkpoints=inputs.checkpoints, on_progress=on_progress, **given)
            return embedding.fit(x, y, plan, on_progress=on_progress, **given)


class GeneratorInputs(NamedTuple):
    """What a generator is fitted with.

    Args:
        coder: of a table; None for images.
        rows: `codes` of a table, or `x` and `y` of images, without those that are held out.
    """

    source: SynthSource
    coder: Coder | None
    rows: Mapping[str, np.ndarray]
    keys: Keys
    checkpoints: Checkpoints
    observer: Observer = NOBODY


def _method(name: str, description: str) -> Method:
    def price(terms: SynthTerms) -> GeneratorRecipe:
        request, noise = terms.source.request, terms.noise
        assert request.delta is not None
        # The columns are not known before preparation: beside it, the generator gets a claim.
        share = claim_beside(noise.event if noise else None, epsilon=request.epsilon, delta=request.delta)
        return GeneratorRecipe(name, share, _event(terms, share))

    def read(value: Mapping[str, Any]) -> GeneratorRecipe:
        epsilon, delta = map(float, value["share"])
        return GeneratorRecipe(name, (epsilon, delta), ApproximateDp(epsilon=epsilon, delta=delta))

    return Method(description=description, price=price, read=read, sampler_share=TRAINING)


GENERATORS: dict[str, Method] = {
    "mst": _method("mst", "noisy counts of columns and of a tree of pairs"),
    "aim": _method("aim", "noisy counts of columns and of pairs, chosen round by round"),
    "embedding": _method("embedding", "one noisy sum of features"),
    "gan": _method("gan", "a discriminator trained by DP-SGD, and a generator that sees only it"),
}


def _event(terms: SynthTerms, share: tuple[float, float]) -> Event:
    """What the generator itself will release, decided from what is public."""
    source, noise = terms
    epsilon, delta = share
    if noise is not None:
        _require_enough(source, noise, share)
        return ApproximateDp(epsilon=epsilon, delta=delta)
    if source.is_images:
        return image_plan(source, source.train_rows, share).event
    assert source.declared is not None
    return table_plan(coder_of(source, source.declared), source, share, source.request.method).event


def _require_enough(source: SynthSource, noise: PreparationNoise, share: tuple[float, float]) -> None:
    """Refuses, before it is paid for, what would drown in noise however few values the columns have."""
    assert source.table is not None
    require_enough_rows(source.table, noise, units_of(source.table), source.declared)
    columns = len(source.table.names) - len(source.request.ignore)
    planning.plan(
        (2,) * max(columns, 1),
        source.train_rows,
        share[0],
        share[1],
        source.request.method,
        rows_per_user=source.request.rows_per_user or 1,
    )


def coder_of(source: SynthSource, domain: Domain) -> Coder:
    return Coder(domain, ignore=source.request.ignore)


def table_plan(
    coder: Coder | None, source: SynthSource, share: tuple[float, float], method: str
) -> planning.TablePlan:
    assert coder is not None
    return planning.plan(
        coder.sizes,
        source.train_rows,
        share[0],
        share[1],
        method,
        target=coder.target,
        ordered=coder.ordered,
        rows_per_user=source.request.rows_per_user or 1,
    )


def image_plan(
    source: SynthSource, rows: int, share: tuple[float, float]
) -> embedding.EmbeddingPlan | gan.GanPlan:
    epsilon, delta = share
    assert source.splits is not None
    shape = source.splits.train["x"].shape[1:]
    # Directions in which drawings that nobody made differ; for what is not a square picture, others.
    prior = "strokes" if len(shape) == 2 and shape[0] == shape[1] else "waves" if len(shape) > 1 else "none"
    if source.request.method == "gan":
        declared = _declared_records(source.rows, rows)
        return gan.plan(epsilon=epsilon, delta=delta, examples=declared, prior=prior)
    return embedding.plan(epsilon=epsilon, delta=delta, examples=rows, prior=prior)


def _declared_records(records: int, rows: int) -> int:
    """How many records batches are planned for: as many as are expected to be learned from, or a few more.

    So many that whatever coins leave has room: never does a draw of the coins stop a run.
    """
    declared = rows
    while declared < records and not _leaves_room(declared, records, rows):
        declared += max(declared // 64, 1)
    return min(declared, records)


def _leaves_room(declared: int, records: int, rows: int) -> bool:
    room = Poisson(examples=declared, batch_size=1).most
    return room >= records or betainc(room + 1, records - room, rows / records) <= _NEVER
