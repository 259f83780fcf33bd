"""A finished record whose parts contradict each other is noticed: each part is forged alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reticent import __version__
from reticent.accounting.tight_epsilon import guarantee
from reticent.data.preparation.noise import PreparationRelease
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Repeated
from reticent.runs.consistency import contradiction
from reticent.runs.method import Terms
from reticent.runs.methods import descent
from reticent.runs.payment import preparation_cost, preparation_noise
from reticent.runs.problem import Problem
from reticent.runs.record import ModelFile, RecipeRecord, RunRecord, RunResult, as_requested
from reticent.runs.request import Request

EPSILON, DELTA, ROWS, RECORDS = 1.0, 1e-5, 800, 1000


@pytest.fixture(scope="module")
def record() -> RunRecord:
    """Of DP-SGD after private preparation, as a run writes it."""
    noise = preparation_noise(tuple(PreparationRelease), epsilon=EPSILON, delta=DELTA)
    assert noise is not None
    terms = Terms(
        rows=ROWS, records=RECORDS, model="linear", epsilon=EPSILON, delta=DELTA, beside=noise.event
    )
    recipe = descent.stochastic(terms)
    event = Composed(events=(noise.event, recipe.event))
    return RunRecord(
        kind="model",
        state="finished",
        number="17",
        request=as_requested(Request(source="t.csv", target="y", epsilon=EPSILON, delta=DELTA)),
        records=RECORDS,
        rows=ROWS,
        recipe=RecipeRecord(method="sgd", in_words=recipe.in_words, settings=recipe.to_json()),
        preparation=preparation_cost(noise, delta=DELTA),
        event=event,
        versions={"reticent": __version__},
        outcome=RunResult(
            model=ModelFile(name="linear", digest="abc"),
            guarantee=guarantee(event, DELTA, Adjacency.ADD_OR_REMOVE),
            seconds=1.0,
            problem=Problem(rows=ROWS, shape=(3,), classes=("no", "yes")),
        ),
    )


def with_plan(record: RunRecord, **changes: Any) -> RunRecord:
    settings = dict(record.recipe.settings)
    settings["plan"] = settings["plan"] | changes
    return replace(record, recipe=replace(record.recipe, settings=settings))


def with_steps(record: RunRecord, steps: int) -> RunRecord:
    """The same recipe, beside an event of so many steps."""
    assert isinstance(record.event, Composed)
    first, second = record.event.events
    assert isinstance(second, Repeated)
    return replace(record, event=Composed(events=(first, replace(second, times=steps))))


def with_preparation(record: RunRecord, **changes: Any) -> RunRecord:
    assert record.preparation is not None
    return replace(record, preparation=replace(record.preparation, **changes))


def test_a_record_as_a_run_writes_it_fits_together(record: RunRecord) -> None:
    assert contradiction(record) is None


@pytest.mark.parametrize(
    ("forge", "says"),
    [
        (lambda record: with_steps(record, 1), "does not release what its event says"),
        (lambda record: with_plan(record, steps=1), "does not release what its event says"),
        (lambda record: with_plan(record, noise_multiplier=99.0), "does not release what its event says"),
        (lambda record: with_preparation(record, epsilon=0.001), "preparation is said to cost epsilon 0.001"),
        (lambda record: with_preparation(record, noise_multiplier=900.0), "the noise multiplier 900"),
        (lambda record: with_preparation(record, delta=1e-3), "preparation is said to cost"),
        (lambda record: replace(record, records=RECORDS + 1), "its plan is for 1,000 rows"),
        (lambda record: replace(record, rows=RECORDS + 1), "trained on 1,001 of 1,000 rows"),
        (
            lambda record: replace(record, recipe=replace(record.recipe, in_words="one step")),
            "described as something else",
        ),
    ],
)
def test_a_forged_part_is_noticed(record: RunRecord, forge: Any, says: str) -> None:
    found = contradiction(forge(record))
    assert found is not None
    assert says in found


def test_words_of_another_version_are_left_alone(record: RunRecord) -> None:
    older = replace(record, versions={"reticent": "0"}, recipe=replace(record.recipe, in_words="200 steps"))
    assert contradiction(older) is None
