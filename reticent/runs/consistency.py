"""Whether what a finished record says fits together: its request, its recipe, its event and its promise.

The promise is priced again from the event elsewhere (`folder.read_record`). Here the event is compared with
what the record says beside it, so that a reader is not shown a hundred steps and promised the price of one.
A record that agrees with itself may still be a lie as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from reticent import __version__
from reticent.accounting.tight_epsilon import guarantee, tight
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import ApproximateDp, Composed, Event, Repeated
from reticent.runs.record import PreparationCost, RunRecord

_ROUNDING = 1e-6  # relative
_TIGHTER = 0.01  # by which accounting may have become tighter since a run was priced
_LEAST_SPENT = 0.8  # of its share by a generator, whose noise is searched for until it spends all of it


def contradiction(record: RunRecord) -> str | None:
    """What a finished record says in two ways that differ, as a clause; None if it fits together.

    Raises:
        ReticentError, TypeError, ValueError, KeyError: a part of it is not what it should be.
    """
    return next(_contradictions(record), None)


def _contradictions(record: RunRecord) -> Iterator[str]:
    request, promise, problem = record.request, record.result.guarantee, record.result.problem
    if promise.delta != request.delta:
        yield f"delta {request.delta:g} was requested and {promise.delta:g} is promised"
    if not (promise.epsilon <= request.epsilon * (1 + _ROUNDING) or promise.epsilon == math.inf):
        yield f"epsilon {request.epsilon:.4g} was requested and {promise.epsilon:.4g} is promised"
    if promise.adjacency is not Adjacency.ADD_OR_REMOVE or promise.group != 1:
        yield "a run promises for one person more or less, and this one for another change"
    if (promise.unit, promise.rows_per_user) != (request.unit, request.rows_per_user):
        yield f"a guarantee for one {request.unit} was requested, and the promise is for one {promise.unit}"
    if not (0 < record.rows <= record.records) or (problem is not None and problem.rows != record.rows):
        yield f"it was trained on {record.rows:,} of {record.records:,} rows, and elsewhere on others"
    if record.preparation is not None:
        yield from _about_preparation(record.preparation, _parts(record)[0], record)
    yield from _about_generator(record) if record.is_generator else _about_model(record)


def _parts(record: RunRecord) -> tuple[Event, Event]:
    """What preparation released, and the method after it."""
    if not isinstance(record.event, Composed):
        raise ValueError("there is no preparation in the event")
    first, second = record.event.events
    return first, second


def _about_preparation(said: PreparationCost, event: Event, record: RunRecord) -> Iterator[str]:
    cost = guarantee(event, said.delta, Adjacency.ADD_OR_REMOVE).epsilon
    # A later version may find that the same event costs a little less; what is said has to cover its cost.
    is_near = (1 - _ROUNDING) * cost <= said.epsilon <= (1 + _TIGHTER) * cost
    if not is_near or said.delta > record.request.delta:
        yield f"preparation is said to cost epsilon {said.epsilon:.4g}, and its event costs {cost:.4g}"
    if event not in _preparations(said.noise_multiplier, _delta_of_words(event)):
        yield f"preparation had the noise multiplier {said.noise_multiplier:.4g}, and its event another"


def _preparations(noise_multiplier: float, delta: float) -> Iterator[Event]:
    releases = tuple(PreparationRelease)
    for count in range(1, len(releases) + 1):
        for chosen in combinations(releases, count):
            yield PreparationNoise(noise_multiplier=noise_multiplier, delta=delta, releases=chosen).event


def _delta_of_words(event: Event) -> float:
    events = event.events if isinstance(event, Composed) else ()
    found = [item.event for item in events if isinstance(item, Repeated)]
    return next((item.delta for item in found if isinstance(item, ApproximateDp)), 1e-9)


def _about_model(record: RunRecord) -> Iterator[str]:
    from reticent.runs.methods import table

    recipe, said = table.read(record.recipe), record.recipe
    own = record.event if record.preparation is None else _parts(record)[1]
    if table.choose(record.request.method) != said.method:
        yield f"the method '{record.request.method}' was requested and '{said.method}' followed"
    if recipe.event != own:
        yield f"its recipe ({recipe.in_words}) does not release what its event says"
    if said.in_words != recipe.in_words and record.versions.get("reticent") == __version__:
        yield f"its recipe is '{recipe.in_words}' and is described as something else"
    plan = getattr(recipe, "plan", None)
    each = getattr(recipe, "rows_per_user", 1) if plan is None else plan.rows_per_user
    if (each or 1) != (record.request.rows_per_user or 1):
        yield f"its recipe is for {each or 1} rows per user, and the request for something else"
    if plan is not None and plan.sampler.examples != record.records:
        yield f"its plan is for {plan.sampler.examples:,} rows, and there are {record.records:,}"


def _about_generator(record: RunRecord) -> Iterator[str]:
    epsilon, delta = map(float, record.recipe.settings["share"])
    if record.request.method not in ("auto", record.recipe.method):
        yield f"the method '{record.request.method}' was requested and '{record.recipe.method}' followed"
    if record.preparation is None:
        if (epsilon, delta) != (record.request.epsilon, record.request.delta):
            yield f"epsilon {record.request.epsilon:.4g} was requested and {epsilon:.4g} planned"
        cost = tight(record.event, delta, Adjacency.ADD_OR_REMOVE).upper
        if not (_LEAST_SPENT * epsilon <= cost <= epsilon * (1 + _ROUNDING)):
            yield f"its recipe spends epsilon {epsilon:.4g}, and its event costs {cost:.4g}"
    elif _parts(record)[1] != ApproximateDp(epsilon=epsilon, delta=delta):
        yield f"its recipe spends epsilon {epsilon:.4g}, and its event something else"
