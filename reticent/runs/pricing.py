"""What a model will cost: decided before a record is seen, from what is public alone."""

from __future__ import annotations

from reticent.data.preparation import require_enough_rows
from reticent.data.preparation.noise import PreparationNoise
from reticent.runs.method import Recipe, Terms
from reticent.runs.methods import table
from reticent.runs.request import noise_of
from reticent.runs.source import Source
from reticent.runs.users import several_rows


def price(source: Source, noise: PreparationNoise | None) -> Recipe:
    """The recipe that spends what the request allows."""
    request = source.request
    assert request.delta is not None
    terms = Terms(
        rows=source.train_rows,
        records=source.rows,
        model=request.model,
        epsilon=request.epsilon,
        delta=request.delta,
        beside=noise.event if noise else None,
        target=source.target_kind,
        public=source.public_rows,
        teachers=request.teachers,
        sampling=request.sampling,
        rows_per_user=several_rows(request.rows_per_user),
        noise=noise_of(request),
        federated=request.federated,
        views=request.views,
        has_features=source.features is not None,
        unit="record" if request.user is None else "user",
    )
    recipe = table.price(request.method, terms)
    if noise is not None and source.table is not None:
        require_enough_rows(source.table, noise, source.rows, source.declared)
    return recipe
