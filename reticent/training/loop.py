"""`train`: takes the steps of a plan, many in one compiled call, and says what they cost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee
from reticent.core import trees
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.dataset import Dataset, as_dataset
from reticent.distributed import collectives
from reticent.distributed.consensus import (
    broadcast_tree,
    by_all,
    by_first,
    network,
    require_same,
    shared_keys,
)
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.training.averages import Output, as_average
from reticent.training.checkpoint import Checkpoints
from reticent.training.contributions import Augment, Contribution, first_unit
from reticent.training.devices.feeding import Feed, feed_for
from reticent.training.devices.memory import examples_at_once
from reticent.training.devices.mesh import Layout, chosen_mesh
from reticent.training.elementwise import require_elementwise
from reticent.training.evaluation import Metric, Moment, evaluator, observer
from reticent.training.execution import Execution
from reticent.training.gradients import Loss, clipped_gradient_sum, inputs
from reticent.training.places import ROUNDED_ALIKE, require_declared
from reticent.training.plan import Plan
from reticent.training.programs import kept
from reticent.training.progress import bar
from reticent.training.projection import Projection
from reticent.training.step import Blocks, Step, TrainState, Unreleased, private_step


@dataclass(frozen=True)
class Run:
    """What came out of training.

    Args:
        params: may be published under `guarantee`.
        guarantee: of the whole plan, and of what was released beside it, whether the run is complete or not.
            Who stops a run may do so because of what they saw, and a step chosen by looking is not covered
            by what that many steps cost; the whole plan covers every moment of stopping.
        history: how it went, for whoever holds the data: scores on held-out rows are unreleased.
        is_complete: whether all steps of the plan were taken.
    """

    params: Any
    guarantee: Guarantee
    plan: Plan
    history: tuple[Moment, ...]
    state: TrainState
    is_complete: bool
    seconds: float


def train(
    loss: Loss,
    params: Any,
    data: Dataset | Mapping[str, Any],
    plan: Plan,
    *,
    optimizer: optax.GradientTransformation,
    evaluate: Dataset | Mapping[str, Any] | None = None,
    metrics: Mapping[str, Metric] | None = None,
    project: Projection | None = None,
    output: Output = "last",
    budget: Budget | None = None,
    keys: Keys | None = None,
    checkpoints: Checkpoints | None = None,
    augment: Augment | None = None,
    views: int = 1,
    unreleased: bool = False,
    progress: bool | None = None,
    on_progress: Callable[[Moment], None] | None = None,
    execution: Execution | None = None,
    beside: Event | None = None,
) -> Run:
    """Trains under differential privacy, as the plan says.

    Of several processes, each brings its own records.

    Args:
        loss: a scalar function of the parameters and one example: a row of every array of `data`.
        evaluate: rows that are not in `data`; their mean loss and metrics go into the history, unreleased.
        metrics: functions of the parameters and one example, averaged over `evaluate`.
        project: puts the parameters back into a feasible set after each step.
        output: "last" iterate, "mean" of all, or another of `rt.averages`.
        budget: charged with the whole plan before the first noise is drawn.
        keys: by default, fresh ones from the operating system.
        checkpoints: where to save the state and resume from; a resumed run is not charged again.
        augment: changes an example at random, given a key and the example.
        views: how many changed copies of an example are averaged before clipping.
        unreleased: also record the training loss and the share of clipped gradients. They are private.
        progress: whether to show a bar on stderr; by default, only in a terminal.
        execution: what decides speed and memory: devices, microbatches, buffers.
        beside: what else was released about these records, and charged; every epsilon here includes it.

    Guarantee:
        Releasing the result costs `plan.event`, also if Ctrl-C ends the run early: every iterate is covered,
        and averaging them, projecting them or stopping at one of them is post-processing.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nothing was computed.
        DataError, InvalidArgument: the data and the plan do not fit together.
    """
    started = time.perf_counter()
    keys, how, average = shared_keys(keys), execution or Execution(), as_average(output)
    options = {"divide_params": how.divide_params, "views": views, "output": average, "beside": beside}
    _agree(data, evaluate, plan, checkpoints, budget, **options)
    contribution = Contribution(rows=plan.rows_per_user or 1, augment=augment, views=views)
    params = jax.tree.map(jnp.asarray, params)
    layout = by_all(lambda: _layout(how, params, plan, optimizer, project))
    blocks = by_all(lambda: _blocks(contribution, loss, params, data, plan, how, layout))
    sums = clipped_gradient_sum(contribution.loss(loss), clipping=plan.clipping, strategy=how.strategy)
    at: dict[str, Any] = {"exchange": layout.exchange, "moves_others": _moves_others(plan), "blocks": blocks}
    step = private_step(sums, plan, optimizer, project, average.update, contribution=contribution, **at)
    with closing(_checked_feed(data, plan, layout, keys, how.buffer, checkpoints)) as feed:
        scores = evaluator(loss, evaluate, metrics or {}, how.program)
        look = observer(plan, scores, average, on_progress, unreleased, beside)
        name = _name_of(how, plan, blocks, feed, layout, (output, contribution))
        many, start, is_paid = _started(name, step, params, optimizer, plan, feed, layout, checkpoints)
        by_first(lambda: None if is_paid else _charge(budget, plan))
        assumptions = _assumed(keys, checkpoints, plan)
        save = _saving(checkpoints, layout, is_told=on_progress is not None)
        shown = bar(plan, is_shown=progress if collectives.is_first() else False)
        state, history, is_complete = _take_steps(many, start, feed, plan, layout, look, save, shown)
    promise = plan.guarantee(assumptions=assumptions, beside=beside, numbers=trees.size(params))
    chosen, seconds = average.choose(state.params, state.average), time.perf_counter() - started
    return Run(chosen, promise, plan, tuple(history), state, is_complete, seconds)


def _assumed(keys: Keys, checkpoints: Checkpoints | None, plan: Plan) -> tuple[str, ...]:
    """What the guarantee rests on besides the plan, in all steps, those before a restart too."""
    said = (*keys.assumptions, *network(), *((ROUNDED_ALIKE,) if _moves_others(plan) else ()))
    if checkpoints is None:
        return said
    checkpoints.assume(said)
    return tuple(collectives.broadcast_json(checkpoints.assumptions))


def _moves_others(plan: Plan) -> bool:
    """Several processes keep records in the order they came: one more or less moves those behind it."""
    return collectives.count() > 1 and plan.adjacency is Adjacency.ADD_OR_REMOVE


def _told(plan: Plan) -> str:
    """All of a plan that its guarantee is made of."""
    terms = (plan.adjacency.value, plan.unit, plan.rows_per_user, plan.delta, plan.clipping.sensitivity)
    return json.dumps([events.to_json(plan.event), *terms], sort_keys=True)


def _require_budget_of_first(budget: Budget | None, *, is_there: bool) -> None:
    if budget is not None and not is_there:
        raise InvalidArgument(
            "This process was given a budget, and the first one, which pays for all, was not.",
            remedy="Give it to every process, or to process 0.",
        )


def _charge(budget: Budget | None, plan: Plan) -> None:
    if budget is not None:
        budget.charge(plan.event, adjacency=plan.adjacency, purpose="train", unit=plan.unit)


def _take_steps(
    many: Callable[..., Any],
    state: TrainState,
    feed: Feed,
    plan: Plan,
    layout: Layout,
    look: Callable[[int, TrainState, Unreleased], Moment],
    save: Callable[..., None],
    shown: AbstractContextManager[Callable[[int, str], None]],
) -> tuple[TrainState, list[Moment], bool]:
    """Takes the steps of the plan that are left, or fewer if the user interrupts them."""
    history: list[Moment] = []
    done = int(state.step)
    try:
        save(state, force=True)
        with collectives.watch_peers(), shown as advance:
            while done < plan.steps:
                stop = min(done + feed.steps_at_once, plan.steps)
                then = range(stop, min(stop + feed.steps_at_once, plan.steps))
                served, roots = feed.serve(range(done, stop), then)
                state, private = jax.block_until_ready(many(state, served, np.int32(stop), roots))
                before, done = done, stop
                is_end = _ends_epoch(plan, before, done)
                save(state, force=done == plan.steps, is_looked_at=is_end)
                if is_end:
                    history.append(look(done, layout.copied(state), private))
                advance(done, f"epsilon {history[-1].epsilon:.3f}" if history else "")
    except KeyboardInterrupt:
        if not layout.is_spread_out:  # the others may not be interrupted, and would not bring their part
            save(state, force=True, alone=True)
        return layout.fetched(state), history, False
    return layout.fetched(state), history, True


def _saving(checkpoints: Checkpoints | None, layout: Layout, *, is_told: bool) -> Callable[..., None]:
    """Saves a state as the first process sees it; the others have nothing to write.

    What somebody is told about is saved before, or a crash would draw it anew, and tell it.
    """
    is_told = bool(collectives.gather_arrays(is_told).any())
    if checkpoints is None:
        return lambda state, **how: None

    def save(
        state: TrainState, *, force: bool = False, is_looked_at: bool = False, alone: bool = False
    ) -> None:
        force = force or (is_looked_at and is_told)
        if layout.is_spread_out:  # no process has all of it, and all have to bring theirs together
            state, force = collectives.copy_to_host(state), True
        if not alone:
            by_first(lambda: checkpoints.save(state, force=force))  # where it cannot, nobody goes on
        elif collectives.is_first():
            checkpoints.save(state, force=force)

    return save


def _name_of(
    how: Execution, plan: Plan, blocks: Blocks, feed: Feed, layout: Layout, used: tuple[Hashable, ...]
) -> Hashable | None:
    """All that the steps of a run are compiled from besides shapes; None if its functions have no name."""
    if how.program is None:
        return None
    devices = (layout.mesh, how.divide_params, _moves_others(plan))
    return (how.program, plan, blocks, feed.shape, how.strategy, *devices, *used)


def _started(
    name: Hashable | None,
    step: Step,
    params: Any,
    optimizer: optax.GradientTransformation,
    plan: Plan,
    feed: Feed,
    layout: Layout,
    checkpoints: Checkpoints | None,
) -> tuple[Callable[..., Any], TrainState, bool]:
    """The compiled steps, where to begin, and whether the run was paid for: checkpoints follow the charge."""
    max_norm = jnp.float32(plan.clipping.sensitivity)
    fresh = TrainState(jnp.int32(0), params, optimizer.init(params), max_norm, average=params)
    require_same({"model": str(jax.tree.map(jnp.shape, fresh))})
    saved = None if checkpoints is None else by_first(lambda: checkpoints.load(fresh))
    is_paid = bool(collectives.broadcast_json(saved is not None))
    state = broadcast_tree(fresh if saved is None else saved)
    return _compiled(name, step, feed, layout, state), layout.placed(state), is_paid


def _compiled(
    name: Hashable | None, step: Step, feed: Feed, layout: Layout, state: TrainState
) -> Callable[..., Any]:
    """Many steps in one compiled call: that of an earlier run of this name, if there was one."""
    return kept(name, lambda: layout.compiled(feed.many(step), state))


def _layout(
    how: Execution,
    params: Any,
    plan: Plan,
    optimizer: optax.GradientTransformation,
    project: Projection | None,
) -> Layout:
    mesh = chosen_mesh(how.mesh, plan.sampler.batch_size)
    layout = Layout(mesh, params, is_divided=how.divide_params)
    if how.divide_params:
        require_elementwise(optimizer)
        if project is not None:
            raise InvalidArgument(
                "A projection looks at all parameters at once, and divided ones are updated apart.",
                remedy="Leave out divide_params, or project.",
            )
    return layout


def _blocks(
    contribution: Contribution,
    loss: Loss,
    params: Any,
    data: Dataset | Mapping[str, Any],
    plan: Plan,
    how: Execution,
    layout: Layout,
) -> Blocks:
    """How much of a batch is worked on at once, for a loss that passed all checks."""
    place, seeds = jnp.zeros(1, jnp.int32), contribution.seeds(jax.random.key(0), 1)
    source = first_unit(as_dataset(data, "data"), plan)
    example = inputs.row_of(jax.eval_shape(contribution.fetch, source, place, seeds))
    unit_loss = contribution.loss(loss)
    inputs.check_parameters(params)
    inputs.check_loss(unit_loss, params, example)
    microbatch = how.microbatch or examples_at_once(unit_loss, params, example, how.strategy)
    return Blocks.of(plan, microbatch, layout.devices)


def _checked_feed(
    data: Dataset | Mapping[str, Any],
    plan: Plan,
    layout: Layout,
    keys: Keys,
    buffer: int,
    checkpoints: Checkpoints | None,
) -> Feed:
    """Opens the rows, and checks that the plan was made for as many."""
    order = None if checkpoints is None else checkpoints.mark
    feed = feed_for(as_dataset(data, "data"), plan, layout, keys, buffer, order)
    require_declared(plan, feed.units)
    return feed


def _agree(
    data: Dataset | Mapping[str, Any],
    evaluate: Dataset | Mapping[str, Any] | None,
    plan: Plan,
    checkpoints: Checkpoints | None,
    budget: Budget | None,
    **options: Any,
) -> None:
    """
    Raises:
        DataError, InvalidArgument: on every process, if the rows of one are not in order, or if they
            differ in more than their rows: they would compute different things, or wait for each other.
    """
    by_all(lambda: _check_apart(as_dataset(data, "data"), evaluate))
    by_all(lambda: _require_budget_of_first(budget, is_there=collectives.broadcast_json(budget is not None)))
    if checkpoints is not None:
        checkpoints.belong_to(_told(plan))
    facts = {
        "plan": plan,
        "kind of rows": _kind(as_dataset(data, "data")),
        "kind of rows to evaluate on": None if evaluate is None else _kind(as_dataset(evaluate, "evaluate")),
        "opinion on checkpoints": "none are kept" if checkpoints is None else checkpoints.mark,
        **options,
    }
    require_same({name: str(value) for name, value in facts.items()})


def _kind(rows: Dataset) -> str:
    """Everything about a dataset but its rows."""
    columns = (f"{key}: {rows[key].dtype}{list(rows[key].shape[1:])}" for key in sorted(rows))
    return f"{', '.join(columns)}, of a {rows.unit}"


def _check_apart(data: Dataset | Mapping[str, Any], evaluate: Dataset | Mapping[str, Any] | None) -> None:
    if evaluate is None:
        return
    ours, theirs = as_dataset(data, "data"), as_dataset(evaluate, "evaluate")
    for key in ours:
        if key in theirs.arrays and _share(np.asarray(ours[key]), np.asarray(theirs[key])):
            raise DataError(
                f"The rows to evaluate on share their array '{key}' with the training data.",
                remedy="Hold out rows before training: a metric on training rows would tell about them.",
            )


def _ends_epoch(plan: Plan, before: int, done: int) -> bool:
    """True for the first call that ends in a new epoch, and for the last."""
    per_epoch = -(-plan.sampler.examples // plan.sampler.batch_size)
    return done >= plan.steps or done // per_epoch > before // per_epoch


def _share(ours: np.ndarray, theirs: np.ndarray) -> bool:
    """Whether two arrays have an element in common; where that is hard to say, whether they may have."""
    try:
        return np.shares_memory(ours, theirs, max_work=1_000_000)  # pyright: ignore[reportArgumentType]
    except np.exceptions.TooHardError:
        return True
