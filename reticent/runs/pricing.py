"""What a run will cost: decided before a record is seen, from what is public alone."""

from __future__ import annotations

from typing import Any

from reticent.accounting import calibrate
from reticent.accounting.dominating import Neighbours
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight import guarantee
from reticent.core.keys import Keys
from reticent.data.preparation import require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.runs import methods
from reticent.runs.order import Material, Order
from reticent.runs.recipe import Recipe, Terms, Trained

_PREPARATION = 0.1  # of epsilon, and of delta


def preparation_noise(order: Order, material: Material) -> PreparationNoise | None:
    """Noise for what has to be found privately, at a tenth of the budget; None if all is declared."""
    releases = material.releases()
    if not releases:
        return None
    assert order.delta is not None

    def with_noise(multiplier: float) -> PreparationNoise:
        # Half of preparation's delta is for words that one row alone has.
        hidden = 0.5 * _PREPARATION * (order.delta or 0)
        return PreparationNoise(noise_multiplier=multiplier, delta=hidden, releases=releases)

    multiplier = calibrate.noise_for(
        lambda value: with_noise(value).event,
        Neighbours(Adjacency.ADD_OR_REMOVE),
        epsilon=_PREPARATION * order.epsilon,
        delta=_PREPARATION * order.delta,
        guess=5 / (_PREPARATION * order.epsilon),
    )
    return with_noise(multiplier)


def price(order: Order, material: Material, rows: int, noise: PreparationNoise | None) -> Recipe:
    assert order.delta is not None
    name = material.model if order.model == "auto" else order.model
    terms = Terms(
        rows=rows,
        model=name,
        epsilon=order.epsilon,
        delta=order.delta,
        beside=noise.event if noise else None,
        public=material.public_rows,
        teachers=order.teachers,
    )
    recipe = methods.price(order.method, terms)
    if noise is not None and material.table is not None and material.declared is None:
        require_enough_rows(material.table, noise)
    return recipe


def preparation_record(order: Order, noise: PreparationNoise | None) -> dict[str, float] | None:
    """What preparation alone would cost."""
    if noise is None or order.delta is None:
        return None
    delta = _PREPARATION * order.delta
    alone = guarantee(noise.event, delta, Adjacency.ADD_OR_REMOVE)
    return {"noise_multiplier": noise.noise_multiplier, "epsilon": alone.epsilon, "delta": delta}


def event_of(recipe: Recipe, noise: PreparationNoise | None) -> Event:
    """What the whole run releases: the preparation, then what the method does."""
    return recipe.event if noise is None else Composed(events=(noise.event, recipe.event))


def promised(trained: Trained, record: dict[str, Any], event: Event, keys: Keys) -> Guarantee:
    """The sentence about a whole run."""
    names = ("the names of the columns are public",) if record["preparation"] is not None else ()
    return guarantee(
        event,
        record["order"]["delta"],
        Adjacency.ADD_OR_REMOVE,
        assumptions=tuple(dict.fromkeys((*trained.assumptions, *names, *keys.assumptions))),
    )
