"""Noisy gradient descent as a method of a run, on random batches or on everybody.

Defaults depend on the declared number of rows, on the model and on epsilon: on nothing that is private.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from reticent.core.errors import Interrupted
from reticent.core.keys import Stream
from reticent.core.trees import ArrayTree
from reticent.data.augmentation import chain, random_flip, random_shift
from reticent.data.dataset import Dataset
from reticent.mechanisms.events import Event
from reticent.runs.folder import WHOLE_PLAN
from reticent.runs.learners import Learner
from reticent.runs.method import Inputs, Terms, Trained, require_enough
from reticent.runs.methods import recipes
from reticent.runs.record import HistoryPoint
from reticent.training import averages
from reticent.training.data_warnings import without_data_warnings
from reticent.training.evaluation import Moment
from reticent.training.execution import Execution
from reticent.training.loop import train
from reticent.training.loss_keys import AnyLoss
from reticent.training.plan import Plan
from reticent.training.plan_json import from_json, to_json

_CHANGE = chain(random_flip, random_shift(4))  # of an image, for each of its views


class Descent(NamedTuple):
    """A plan, and the learning rate from which a line falls to zero.

    The plan is for all records of the table, so that batches have room for everybody, whatever the coins by
    which rows are held out. Sums are divided by its batch size, a public number.

    Args:
        share: of the records that is expected to be trained on. Means come out so much too small, and are
            scaled back by the learning rate.
        views: how many changed copies of an image are averaged before clipping.
        decay: of an exponential average of the iterates, which comes out; with 0 the last one does.
        is_adam: the optimizer is Adam, which does not care how large means are.
        reason: why these settings were chosen; nothing where they are the same for everybody.
    """

    plan: Plan
    learning_rate: float
    share: float = 1.0
    views: int = 1
    decay: float = 0.0
    reason: str = ""
    is_adam: bool = False

    @property
    def event(self) -> Event:
        return self.plan.event

    @property
    def in_words(self) -> str:
        plan = self.plan
        return (
            f"{plan.steps} steps with batches of {round(plan.sampler.batch_size * self.share)}"
            f"{' users' if plan.unit == 'user' else ''}, clipped to "
            f"{plan.clipping.sensitivity:g}, noise multiplier {plan.noise_multiplier:.3g}{_noise_words(plan)}"
            f"{f', {self.views} views of each image' if self.views > 1 else ''}"
        )

    @property
    def optimizer(self) -> optax.GradientTransformation:
        if self.is_adam:
            return optax.adam(optax.linear_schedule(self.learning_rate, 0.0, self.plan.steps))
        rate = self.learning_rate / self.share
        return optax.sgd(optax.linear_schedule(rate, 0.0, self.plan.steps), momentum=0.9)

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": to_json(self.plan),
            "learning_rate": self.learning_rate,
            "share": self.share,
            **({"views": self.views} if self.views > 1 else {}),
            **({"decay": self.decay} if self.decay else {}),
            **({"reason": self.reason} if self.reason else {}),
            **({"is_adam": True} if self.is_adam else {}),
        }

    def follow(self, inputs: Inputs) -> Trained:
        name = ("descent", *what_loss_depends_on(inputs), self.learning_rate, self.share, self.is_adam)
        execution = Execution(program=name)
        shown = _train_options(self.views, self.decay)
        return follow_plan(self.plan, inputs.learner.loss, self.optimizer, inputs, execution, **shown)


def _train_options(views: int, decay: float) -> dict[str, Any]:
    """How images are changed on the way, and which iterate comes out: options of `train`."""
    changed = {"augment": _CHANGE, "views": views} if views > 1 else {}
    return {**changed, "output": averages.exponential(decay) if decay else averages.last()}


def follow_plan(
    plan: Plan,
    loss: AnyLoss,
    optimizer: optax.GradientTransformation,
    inputs: Inputs,
    execution: Execution,
    **shown: Any,
) -> Trained:
    """Takes the steps of a plan on the rows of a run.

    Args:
        shown: options of `train` that change what is seen of an example, or which iterate comes out.
    """
    learner, keys = inputs.learner, inputs.keys
    is_scored = inputs.problem.is_classification and inputs.held_out is not None
    with without_data_warnings():  # rows were held out by coins, and are looked at elsewhere
        run = train(
            loss,
            learner.model.init(keys.take(Stream.INITIALISATION)),
            Dataset(arrays=dict(inputs.train_on), users=inputs.users),
            plan,
            optimizer=optimizer,
            evaluate=inputs.held_out,
            metrics={"accuracy": _is_right(learner)} if is_scored else {},
            keys=keys,
            checkpoints=inputs.checkpoints,
            beside=inputs.beside,
            execution=execution,
            **shown,
        )
    if not run.is_complete:
        raise _interruption(int(run.state.step), plan.steps)
    return Trained(
        run.params, run.guarantee.assumptions, tuple(_history_point(moment) for moment in run.history)
    )


def what_loss_depends_on(inputs: Inputs) -> tuple[Hashable, ...]:
    """All that the loss and the metrics of a run are made from, as a part of the name of its program."""
    problem = inputs.problem
    return inputs.learner.program, problem.shape, problem.outputs, problem.bounds, problem.class_weights


def read(value: Mapping[str, Any]) -> Descent:
    return Descent(
        from_json(value["plan"]),
        float(value["learning_rate"]),
        float(value["share"]),
        int(value.get("views", 1)),
        float(value.get("decay", 0.0)),
        str(value.get("reason", "")),
        bool(value.get("is_adam", False)),
    )


def stochastic(terms: Terms) -> Descent:
    """Batches of a thirteenth of the rows (at least 64, at most 4096), and as many steps as noise allows."""
    require_enough(terms)
    return _for_all(terms, recipes.for_batches(_kind(terms), terms.rows, terms.epsilon, terms.views))


def full(terms: Terms) -> Descent:
    """Everybody in every step; every iterate is covered."""
    require_enough(terms)
    return _for_all(terms, recipes.for_everybody(_kind(terms), terms.rows, terms.epsilon, terms.views))


def _kind(terms: Terms) -> str:
    """What settings are chosen for: the model, or a linear one on rows of length 1."""
    return "public-features" if terms.has_features and terms.model == "linear" else terms.model


def _for_all(terms: Terms, chosen: recipes.DescentSettings) -> Descent:
    """For batches of so many of the rows that are expected to be trained on."""
    share = terms.rows / terms.records
    drawn = None if chosen.batch is None else min(round(chosen.batch / share), terms.records)
    plan = _plan(terms, chosen.max_norm, chosen.steps, drawn)
    return Descent(plan, chosen.rate, share, chosen.views, chosen.decay, chosen.why, chosen.is_adam)


def _plan(terms: Terms, max_norm: float, steps: int, batch: int | None) -> Plan:
    return Plan.for_budget(
        epsilon=terms.epsilon,
        delta=terms.delta,
        examples=terms.records,
        batch_size=batch,
        sampling="full" if batch is None else terms.sampling,
        steps=steps,
        max_norm=max_norm,
        unit="record" if terms.rows_per_user is None else "user",
        rows_per_user=terms.rows_per_user,
        beside=terms.beside,
        noise=terms.noise,
    )


def _interruption(done: int, steps: int) -> Interrupted:
    if not done:
        return Interrupted(f"Interrupted before the first of {steps} steps.", remedy=WHOLE_PLAN)
    return Interrupted(
        f"Interrupted after {done} of {steps} steps.", remedy=f"What was done is kept. {WHOLE_PLAN}"
    )


def _noise_words(plan: Plan) -> str:
    return "" if plan.noise.name == "independent" else f", {plan.noise.in_words}"


def _is_right(learner: Learner) -> Callable[[Any, Any], jax.Array]:
    """The share of the places of an example, mostly one, whose class is predicted."""

    def is_right(params: ArrayTree, example: ArrayTree) -> jax.Array:
        found = jnp.argmax(learner.scores(params, example["x"]), axis=-1)
        return jnp.sum(found == example["y"]) / jnp.maximum(jnp.sum(example["y"] >= 0), 1)

    return is_right


def _history_point(moment: Moment) -> HistoryPoint:
    return HistoryPoint(epoch=moment.epoch, epsilon=moment.epsilon, held_out=dict(moment.held_out))
