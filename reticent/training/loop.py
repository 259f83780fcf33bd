"""`train`: takes the steps of a plan, many in one compiled call, and says what they cost."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee
from reticent.core import trees
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.data.augmentation import Augment
from reticent.data.dataset import Dataset, RowSource, as_dataset
from reticent.data.sampling import Shuffled
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
from reticent.training.averages import Average, Output, as_average
from reticent.training.checked_loss import CheckedLoss, blocks_for, checked_loss, contribution_of
from reticent.training.checkpoint import Checkpoints
from reticent.training.data_warnings import warn_of_copies, warn_of_few_rows
from reticent.training.devices.feeding import MOST_STEPS, Feed, feed_for
from reticent.training.devices.mesh import Layout, chosen_mesh
from reticent.training.elementwise import require_elementwise
from reticent.training.evaluation import Metric, Moment, evaluator, observer, require_scalars
from reticent.training.execution import Execution
from reticent.training.given import require_numbers, require_options, require_rows
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.gradients.untrained import warn_of_untrained
from reticent.training.loss_keys import AnyLoss
from reticent.training.noise_streams import begin
from reticent.training.payment import pay
from reticent.training.places import (
    ROUNDED_ALIKE,
    SAME_ORDER,
    first_fresh_step,
    has_turns,
    require_declared,
)
from reticent.training.plan import Plan
from reticent.training.preconditions import agree, as_checkpoints, require_gradient_alone, require_kinds
from reticent.training.programs import has_large_constants, kept, quick_options, with_constants_apart
from reticent.training.progress import bar
from reticent.training.projection import Projection
from reticent.training.reporting import Callback, Every, Pace, most_steps, require_every, teller
from reticent.training.run import Run
from reticent.training.step import Blocks, Remembering, Step, TrainState, private_step
from reticent.training.step_noise import noise_stream, structure_of, traced_amounts, with_amounts
from reticent.training.taking_steps import Taken, earlier_history, keeping, take_steps
from reticent.training.trainable.division import Trainable
from reticent.training.trainable.part import TrainedPart, part_of


def train(
    loss: AnyLoss,
    params: ArrayTree,
    data: Dataset | Mapping[str, Any] | RowSource,
    plan: Plan,
    *,
    optimizer: optax.GradientTransformation,
    evaluate: Dataset | Mapping[str, Any] | RowSource | None = None,
    metrics: Mapping[str, Metric] | None = None,
    trainable: Trainable | None = None,
    project: Projection | None = None,
    output: Output = "last",
    budget: Budget | None = None,
    keys: Keys | None = None,
    checkpoints: Checkpoints | Path | str | None = None,
    augment: Augment | None = None,
    views: int = 1,
    unreleased: bool = False,
    progress: bool | None = None,
    on_progress: Callback | Sequence[Callback] | None = None,
    progress_every: Every | None = None,
    execution: Execution | None = None,
    beside: Event | None = None,
) -> Run:
    """Trains under differential privacy, as the plan says. Of several processes, each brings its own records.

    Args:
        loss: a scalar function of the parameters and one example, a row of every array of `data`. If it draws
            at random, as dropout does, its third argument is a key, fresh for every example and step; with
            `key=None` it is called without one on held-out rows.
        data: named arrays, a table, or a source of records with a length and an index (see `rt.Dataset`).
        evaluate: rows that are not in `data`; their mean loss and metrics go into the history, unreleased.
        metrics: functions of the parameters and one example, averaged over `evaluate`.
        trainable: which of the parameters learn, by default all: a mask, a function of a leaf's name, or one
            of `rt.trainable`, such as `rt.trainable.last_layer` or `rt.trainable.lora(rank=8)`. The others
            are constants, without gradient and without noise. `optimizer` and `project` see what learns.
        project: puts the parameters back into a feasible set after each step.
        output: "last" iterate, "mean" of all, or another of `rt.averages`.
        budget: charged with the whole plan before the first noise is drawn.
        keys: by default, fresh ones from the operating system.
        checkpoints: the file to save the state in and resume from. A resumed run is not charged again to the
            same account for the same rows.
        augment: changes an example at random, given a key and the example.
        views: how many changed copies of an example are averaged before clipping.
        unreleased: also record the training loss and the share of clipped gradients. They are private.
        progress: whether to show a bar on stderr; by default, only in a terminal.
        on_progress: one function or several, called with each new `Moment`. One that returns or raises
            `rt.Stop` ends the run; one that raises anything else is not called again. See `rt.callbacks`.
        progress_every: so many steps, or a `datetime.timedelta`; by default, once per epoch.
        execution: what decides speed and memory: devices, microbatches, buffers.
        beside: what else was released about these records, and charged; every epsilon here includes it.

    Guarantee:
        Releasing the result costs `plan.event`, also if Ctrl-C ends the run early: every iterate is covered,
        and averaging them, projecting them or stopping at one of them is post-processing.

    Raises:
        BudgetExceeded: the budget does not cover the plan; nothing was computed.
        DataError, InvalidArgument: the data and the plan do not fit together.
    """
    kept_in, average = as_checkpoints(checkpoints), as_average(output)
    by_all(lambda: require_kinds(plan, keys, optimizer))
    by_all(lambda: require_options(loss, metrics, project, budget, kept_in, execution, beside))
    rows = by_all(lambda: _taken_in(data, evaluate))
    telling = _Telling(metrics or {}, unreleased, progress, on_progress, progress_every)
    part = by_all(lambda: part_of(loss, params, rows.data, trainable, augment))
    learning = _Learning(part, optimizer, project, average, augment, views)
    how = execution or Execution()
    return _follow(plan, rows, learning, telling, how, shared_keys(keys), kept_in, budget, beside)


class _Rows(NamedTuple):
    data: Dataset
    evaluate: Dataset | None


class _Telling(NamedTuple):
    """What is told about a run, and to whom."""

    metrics: Mapping[str, Metric]
    unreleased: bool
    progress: bool | None
    on_progress: Callback | Sequence[Callback] | None
    every: Every | None

    def listener(self, learning: _Learning, evaluate: Dataset | None) -> Callable[[Moment], str | None]:
        """Tells everybody who wants to know, if what they want to know can be told."""
        require_every(self.every)
        model = learning.part.whole(learning.part.params)
        require_scalars(learning.part.loss_of_whole, model, evaluate, self.metrics)
        return teller(self.on_progress)


class _Learning(NamedTuple):
    """What is learned, and how."""

    part: TrainedPart
    optimizer: optax.GradientTransformation
    project: Projection | None
    average: Average
    augment: Augment | None
    views: int


def _follow(
    plan: Plan,
    rows: _Rows,
    learning: _Learning,
    telling: _Telling,
    how: Execution,
    keys: Keys,
    checkpoints: Checkpoints | None,
    budget: Budget | None,
    beside: Event | None,
) -> Run:
    """Checks, pays, and takes the steps."""
    started, (data, evaluate) = time.perf_counter(), rows
    part, optimizer, project, average, augment, views = learning
    loss, params = part.loss, part.params
    if checkpoints is not None:
        checkpoints.belong_to(_told(plan))
    options = {"divide_params": how.divide_params, "views": views, "output": average, "beside": beside}
    agree(data, evaluate, plan, checkpoints, budget, **options, progress_every=telling.every)
    tell = by_all(lambda: telling.listener(learning, evaluate))
    contribution = contribution_of(loss, plan, augment, views)
    layout = by_all(lambda: _layout(how, params, plan, optimizer, project))
    checked = by_all(lambda: checked_loss(contribution, loss, params, data, plan))
    blocks = by_all(lambda: blocks_for(checked, params, plan, how, layout.devices))
    sums = clipped_gradient_sum(checked.loss, clipping=plan.clipping, strategy=how.strategy)
    at: dict[str, Any] = {"exchange": layout.exchange, "moves_others": _moves_others(plan), "blocks": blocks}
    step = private_step(sums, plan, optimizer, project, average.update, contribution=contribution, **at)
    at_once = most_steps(telling.every, MOST_STEPS)
    with closing(_checked_feed(data, plan, layout, keys, how.buffer, checkpoints, at_once)) as feed:
        _warn(rows, plan, feed, params, checked)
        score = evaluator(
            part.loss_of_whole, evaluate, telling.metrics, None if part.is_divided else how.program
        )
        scores = lambda params: score(part.whole(params))  # noqa: E731
        look = observer(plan, scores, average, tell, telling.unreleased, beside)
        # Frozen weights are part of a program, and a name does not tell them apart.
        amounts = traced_amounts(plan, blocks.main, trees.size(params), layout.exchange.devices)
        used = (structure_of(plan, blocks.main, amounts), average, contribution)
        name = None if part.is_divided else _name_of(how, plan, blocks, feed, layout, used)
        begun = _started(name, step, params, optimizer, plan, feed, layout, checkpoints, checked)
        pay(budget, plan, data, checkpoints)
        assumptions = _assumed(keys, checkpoints, plan, data, part, is_resumed=begun.is_resumed)
        keep = keeping(checkpoints, layout, is_told=telling.on_progress is not None)
        shown = bar(plan, is_shown=telling.progress if collectives.is_first() else False)
        pace = Pace(plan, telling.every, feed.steps_at_once)
        many = with_amounts(begun.many, amounts)
        taken = take_steps(many, begun.start, feed, plan, layout, pace, look, keep, shown)
    promise = plan.guarantee(assumptions=assumptions, beside=beside, numbers=trees.size(params))
    return _finished(taken, promise, plan, average, part, time.perf_counter() - started)


def _warn(rows: _Rows, plan: Plan, feed: Feed, params: ArrayTree, checked: CheckedLoss) -> None:
    """What looks wrong and may be right: said once, by the first process."""
    if collectives.is_first():
        warn_of_untrained(checked.program.jaxpr, params)
        warn_of_few_rows(plan, feed.units)
        warn_of_copies(rows.data, rows.evaluate)


def _finished(
    taken: Taken, promise: Guarantee, plan: Plan, average: Average, part: TrainedPart, seconds: float
) -> Run:
    chosen = average.choose(taken.state.params, taken.state.average)
    is_complete, history = not taken.stopped_by, tuple(taken.history)
    learned = chosen if part.is_divided else None
    how = (is_complete, seconds, taken.stopped_by, learned)
    return Run(part.whole(chosen), promise, plan, history, taken.state, *how)


def _taken_in(
    data: Dataset | Mapping[str, Any] | RowSource, evaluate: Dataset | Mapping[str, Any] | RowSource | None
) -> _Rows:
    held_out = None if evaluate is None else require_numbers(as_dataset(evaluate, "evaluate"))
    return _Rows(require_rows(require_numbers(as_dataset(data, "data"))), held_out)


def _assumed(
    keys: Keys,
    checkpoints: Checkpoints | None,
    plan: Plan,
    data: Dataset,
    part: TrainedPart,
    *,
    is_resumed: bool,
) -> tuple[str, ...]:
    """What the guarantee rests on besides the plan, in all steps, those before a restart too."""
    said = (
        *keys.assumptions,
        *data.assumptions,
        *part.assumptions,
        *network(),
        *((ROUNDED_ALIKE,) if _moves_others(plan) else ()),
        *((SAME_ORDER,) if is_resumed and has_turns(plan) else ()),
    )
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


def _name_of(
    how: Execution, plan: Plan, blocks: Blocks, feed: Feed, layout: Layout, used: tuple[Hashable, ...]
) -> Hashable | None:
    """All that the steps of a run are compiled from besides shapes; None if its functions have no name."""
    if how.program is None:
        return None
    # Where parameters are divided, their sizes say which of the noise is whose.
    devices = (layout.mesh, layout.exchange, _moves_others(plan))
    return (how.program, blocks, feed.shape, how.strategy, *devices, *used)


class _Begun(NamedTuple):
    """The compiled steps, and where to begin."""

    many: Callable[..., Any]
    start: Taken
    is_resumed: bool


def _started(
    name: Hashable | None,
    step: Step,
    params: ArrayTree,
    optimizer: optax.GradientTransformation,
    plan: Plan,
    feed: Feed,
    layout: Layout,
    checkpoints: Checkpoints | None,
    checked: CheckedLoss,
) -> _Begun:
    max_norm = jnp.float32(plan.clipping.sensitivity)
    fresh = TrainState(jnp.int32(0), params, optimizer.init(params), max_norm, average=params)
    require_same({"model": str(jax.tree.map(jnp.shape, fresh))})
    saved = None if checkpoints is None else by_first(lambda: checkpoints.load(fresh))
    is_resumed = bool(collectives.broadcast_json(saved is not None))
    state = broadcast_tree(fresh if saved is None else saved)
    history = earlier_history(checkpoints, int(state.step)) if is_resumed else []
    if is_resumed:
        state = state._replace(step=_resumed_at(plan, int(state.step)))
    stream = noise_stream(plan)
    start = state if stream is None else Remembering(state, begin(stream, params, state.step))
    work = trees.size(params) * plan.sampler.batch_size * plan.steps
    many = _compiled(name, step, feed, layout, start, has_large_constants(checked.program), work)
    return _Begun(many, Taken(layout.placed(start), history, ""), is_resumed)


def _resumed_at(plan: Plan, step: int) -> jax.Array:
    """Where a run goes on with other keys: of batches that are drawn together, what is left is left out.

    Except for shuffled rows: the checkpoint decides their order, not the keys.
    """
    fresh = step if isinstance(plan.sampler, Shuffled) else first_fresh_step(plan, step)
    if fresh > step and collectives.is_first():
        warnings.warn(
            f"Steps {step} to {fresh - 1} are left out: their batches were drawn with keys that are not "
            "kept. The run continues with a new round.",
            stacklevel=2,
        )
    return jnp.int32(fresh)


def _compiled(
    name: Hashable | None,
    step: Step,
    feed: Feed,
    layout: Layout,
    state: ArrayTree,
    is_large: bool,
    work: int,
) -> Callable[..., Any]:
    """Many steps in one compiled call: that of an earlier run of this name, if there was one."""
    if layout.mesh is not None:
        return kept(name, lambda: layout.compiled(feed.many(step), state))
    if is_large:
        return kept(name, lambda: with_constants_apart(feed.many(step)))
    return kept(name, lambda: jax.jit(feed.many(step), compiler_options=quick_options(work)))


def _layout(
    how: Execution,
    params: ArrayTree,
    plan: Plan,
    optimizer: optax.GradientTransformation,
    project: Projection | None,
) -> Layout:
    mesh = chosen_mesh(how.mesh, plan.sampler.batch_size)
    layout = Layout(mesh, params, is_divided=how.divide_params)
    require_gradient_alone(optimizer, params)
    if how.divide_params:
        require_elementwise(optimizer)
        if project is not None:
            raise InvalidArgument(
                "A projection looks at all parameters at once, and divided ones are updated apart.",
                remedy="Leave out divide_params, or project.",
            )
    return layout


def _checked_feed(
    data: Dataset,
    plan: Plan,
    layout: Layout,
    keys: Keys,
    buffer: int,
    checkpoints: Checkpoints | None,
    at_once: int | None,
) -> Feed:
    """Opens the rows, and checks that the plan was made for as many."""
    order = None if checkpoints is None else checkpoints.mark
    feed = feed_for(data, plan, layout, keys, buffer, order, at_once)
    require_declared(plan, feed.units)
    return feed
