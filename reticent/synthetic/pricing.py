"""What a generator will cost: decided before a record is seen, from what is public alone."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

from scipy.special import betainc

from reticent.data.domain import Domain
from reticent.data.preparation import require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.data.sampling import Poisson
from reticent.mechanisms.events import ApproximateDp, Composed, Event
from reticent.runs.payment import claim_beside, preparation_noise
from reticent.synthetic.images import embedding, gan
from reticent.synthetic.ordering import SynthMaterial
from reticent.synthetic.tables import planning
from reticent.synthetic.tables.codes import Coder

_NEVER = 1e-25  # a probability small enough to be part of no delta anybody would ask for

WORDS = {
    "mst": "noisy counts of columns and of a tree of pairs",
    "aim": "noisy counts of columns and of pairs, chosen round by round",
    "embedding": "one noisy sum of features",
    "gan": "a discriminator trained by DP-SGD, and a generator that sees only it",
}


def preparation(material: SynthMaterial) -> PreparationNoise | None:
    order = material.order
    assert order.delta is not None
    return preparation_noise(material.releases(), epsilon=order.epsilon, delta=order.delta)


def event_of(
    material: SynthMaterial, rows: int, noise: PreparationNoise | None, share: tuple[float, float]
) -> Event:
    """Everything that will be released, decided from what is public."""
    epsilon, delta = share
    if noise is not None:
        _require_enough(material, rows, noise, share)
        return Composed(events=(noise.event, ApproximateDp(epsilon=epsilon, delta=delta)))
    if material.is_images:
        return image_plan(material, rows, share).event
    assert material.declared is not None
    return table_plan(coder_of(material, material.declared), rows, share, material.order.method).event


def event_for(material: SynthMaterial, rows: int, epsilon: float) -> Event:
    """What the same generator would release if it were asked for with another epsilon."""
    other = copy(material)
    other.order = replace(material.order, epsilon=epsilon)
    noise = preparation(other)
    assert other.order.delta is not None
    share = claim_beside(noise.event if noise else None, epsilon=epsilon, delta=other.order.delta)
    return event_of(other, rows, noise, share)


def _require_enough(
    material: SynthMaterial, rows: int, noise: PreparationNoise, share: tuple[float, float]
) -> None:
    """Refuses, before it is paid for, what would drown in noise however few values the columns have."""
    assert material.table is not None
    if material.declared is None:
        require_enough_rows(material.table, noise, material.rows)
    columns = len(material.table.names) - len(material.order.ignore)
    planning.plan((2,) * max(columns, 1), rows, share[0], share[1], material.method)


def coder_of(material: SynthMaterial, domain: Domain) -> Coder:
    return Coder(domain, ignore=material.order.ignore)


def table_plan(coder: Coder, rows: int, share: tuple[float, float], method: str) -> planning.TablePlan:
    return planning.plan(
        coder.sizes, rows, share[0], share[1], method, target=coder.target, ordered=coder.ordered
    )


def image_plan(
    material: SynthMaterial, rows: int, share: tuple[float, float]
) -> embedding.EmbeddingPlan | gan.GanPlan:
    epsilon, delta = share
    assert material.splits is not None
    shape = material.splits.train["x"].shape[1:]
    # Directions in which drawings that nobody made differ; for what is no square picture, others.
    prior = "strokes" if len(shape) == 2 and shape[0] == shape[1] else "waves" if len(shape) > 1 else "none"
    if material.order.method == "gan":
        declared = _declared(material.rows, rows)
        return gan.plan(epsilon=epsilon, delta=delta, examples=declared, prior=prior)
    return embedding.plan(epsilon=epsilon, delta=delta, examples=rows, prior=prior)


def _declared(records: int, rows: int) -> int:
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
