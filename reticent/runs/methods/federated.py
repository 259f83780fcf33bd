"""Federated averaging as a method of a run: users of a table are clients, in a simulation on one machine.

Defaults depend on the declared number of users and on the model: on nothing that is private.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import optax

from reticent.accounting.reserve import TRAINING
from reticent.core import checks
from reticent.core.errors import InvalidArgument, suggest
from reticent.mechanisms.events import Event
from reticent.runs.method import Inputs, Method, Terms, Trained, require_enough
from reticent.runs.methods.descent import follow_plan, what_loss_depends_on
from reticent.training.execution import Execution
from reticent.training.local_training import LocalTraining, as_unit_loss, trust_in_server
from reticent.training.plan import Plan
from reticent.training.plan_json import from_json, to_json

ROUNDS, LOCAL_BATCH = 100, 20
_STARTS = {
    "linear": (0.5, 1.0),
    "language": (0.5, 0.5),
    "fourier": (1.0, 0.5),
    **dict.fromkeys(("mlp", "cnn", "wide_resnet", "public-network"), (0.1, 0.5)),
    **dict.fromkeys(("scattering", "patches", "public-features"), (1.0, 0.5)),
}
_ASKED = (
    *("rounds", "clients_per_round", "local_epochs", "local_rate", "local_batch", "max_norm"),
    *("clients", "dirichlet"),
)


class FederatedRecipe(NamedTuple):
    """A plan whose batches are clients, and what a client does in a round.

    Args:
        share: of the users that is expected to be trained on. Means come out so much too small, and are
            scaled back by the server.
    """

    plan: Plan
    local: LocalTraining
    share: float = 1.0

    @property
    def event(self) -> Event:
        return self.plan.event

    @property
    def in_words(self) -> str:
        plan, steps = self.plan, self.local.steps_for(self.plan.rows_per_user or 1)
        return (
            f"{plan.steps} rounds with {round(plan.sampler.batch_size * self.share)} clients, at most "
            f"{steps} local step{'' if steps == 1 else 's'} of each, updates clipped to "
            f"{plan.clipping.sensitivity:g}, noise multiplier {plan.noise_multiplier:.3g}"
        )

    @property
    def optimizer(self) -> optax.GradientTransformation:
        return optax.sgd(1 / self.share)

    def to_json(self) -> dict[str, Any]:
        return {"plan": to_json(self.plan), "local": asdict(self.local), "share": self.share}

    def follow(self, inputs: Inputs) -> Trained:
        name = ("federated", *what_loss_depends_on(inputs), self.local, self.share)
        execution = Execution(program=name, strategy="vmap")
        loss = as_unit_loss(inputs.learner.loss, self.local)
        trained = follow_plan(self.plan, loss, self.optimizer, inputs, execution)
        return trained._replace(assumptions=(*trained.assumptions, *trust_in_server(self.plan.sampler)))


def read(value: Mapping[str, Any]) -> FederatedRecipe:
    return FederatedRecipe(from_json(value["plan"]), LocalTraining(**value["local"]), float(value["share"]))


def averaging(terms: Terms) -> FederatedRecipe:
    """DP-FedAvg: a tenth of the users per round, at least 32, unless something else is asked for."""
    require_enough(terms)
    asked = dict(terms.federated)
    rate, norm = _STARTS[terms.model]
    share = terms.rows / terms.records
    wanted = asked.get("clients_per_round") or max(terms.rows // 10, 32)
    local = LocalTraining(
        learning_rate=asked.get("local_rate") or rate,
        epochs=asked.get("local_epochs") or 1,
        batch_size=asked.get("local_batch") or LOCAL_BATCH,
    )
    plan = Plan.for_budget(
        epsilon=terms.epsilon,
        delta=terms.delta,
        examples=terms.records,
        batch_size=min(round(wanted / share), terms.records),
        steps=asked.get("rounds") or ROUNDS,
        max_norm=asked.get("max_norm") or norm,
        unit="record" if terms.rows_per_user is None else "user",
        rows_per_user=terms.rows_per_user,
        beside=terms.beside,
    )
    return FederatedRecipe(plan, local, share)


def check_asked(asked: Mapping[str, Any], *, method: str, user: str | None) -> None:
    """
    Raises:
        InvalidArgument: rounds of another method, clients without a column, or a setting that cannot be.
    """
    if method != "federated":
        if asked:
            raise InvalidArgument(
                f"Rounds of clients are for the method 'federated', not for '{method}'.",
                remedy="Pass method='federated', or leave them out.",
            )
        return
    if user is None:
        raise InvalidArgument(
            "Federated learning needs the column that names each row's user.",
            remedy="Pass it, and how many rows of each are used: --users patient --rows-per-user 10.",
        )
    for name, value in asked.items():
        if name not in _ASKED:
            raise InvalidArgument(
                f"Federated learning has no setting '{name}'.", remedy=suggest(name, _ASKED)
            )
        if name in ("local_rate", "max_norm", "dirichlet"):
            checks.positive(**{name: value})
        else:
            checks.count(**{name: value})
    if asked.get("dirichlet") is not None and asked.get("clients") is None:
        raise InvalidArgument(
            "A Dirichlet law divides the rows among clients that are made up, and their number is missing.",
            remedy="Pass --clients 100, or --users COLUMN without --dirichlet.",
        )


def method() -> Method:
    """The row of the table of methods."""
    return Method(
        description="DP-FedAvg: users as clients that train on their own rows, clipped updates, noise",
        price=averaging,
        read=read,
        is_for_users=True,
        sampler_share=TRAINING,
    )
