"""What a run will cost: decided before a record is seen, from what is public alone."""

from __future__ import annotations

from typing import Any

from reticent.accounting.epsilon import guarantee
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import TRAINING
from reticent.data.preparation import require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.runs.method import Recipe, Terms, Trained
from reticent.runs.methods import table
from reticent.runs.order import Material, Order


def price(order: Order, material: Material, noise: PreparationNoise | None) -> Recipe:
    assert order.delta is not None
    name = material.model if order.model == "auto" else order.model
    terms = Terms(
        rows=material.train_rows,
        records=material.rows,
        model=name,
        epsilon=order.epsilon,
        delta=order.delta,
        beside=noise.event if noise else None,
        target=material.target_kind,
        public=material.public_rows,
        teachers=order.teachers,
    )
    recipe = table.price(order.method, terms)
    if noise is not None and material.table is not None and material.declared is None:
        require_enough_rows(material.table, noise, material.rows)
    return recipe


def event_of(recipe: Recipe, noise: PreparationNoise | None) -> Event:
    """What the whole run releases: the preparation, then what the method does."""
    return recipe.event if noise is None else Composed(events=(noise.event, recipe.event))


def promised(trained: Trained, record: dict[str, Any], event: Event) -> Guarantee:
    """The sentence about a whole run."""
    names = ("the names of the columns are public",) if record["preparation"] is not None else ()
    delta = record["order"]["delta"]
    return guarantee(
        event,
        delta,
        Adjacency.ADD_OR_REMOVE,
        arithmetic=TRAINING * delta if record["recipe"]["method"] in ("sgd", "gd") else 0.0,
        assumptions=tuple(dict.fromkeys((*trained.assumptions, *names, *record["assumptions"]))),
    )
