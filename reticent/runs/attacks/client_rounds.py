"""What updates tell about clients: membership and a property, from rounds like those of a federated run.

Rounds are played again from the first model, with the run's plan and other coins. Eight clients are in each
of them: the worst case. What is attacked is what somebody sees: the update of one client, or the sum of a
round, without noise and with the run's. Results are estimates on private rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from reticent.accounting.rounding import at_most
from reticent.attacks.inference.client_updates import (
    cosines,
    descent_directions,
    property_from_updates,
)
from reticent.attacks.metrics import Estimate, auc
from reticent.attacks.scores import Scores
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.observer import NOBODY, Observer
from reticent.data.encoding import has_target
from reticent.runs.attacks.client_rows import rows_from_updates
from reticent.runs.attacks.pool import require_classes
from reticent.runs.federated_tables import MeasuredTable
from reticent.runs.methods import table
from reticent.runs.methods.federated import FederatedRecipe
from reticent.runs.reopen import Again
from reticent.training.local_training import LocalTraining
from reticent.training.plan import Plan
from reticent.training.watched_rounds import WatchedRound, clip_each, updates_of, watch_rounds

WATCHED, ROUNDS = 8, 10
_CANDIDATES, _MADE, _SEEN, _ROWS = 20, 40, 40, 20
MEMBERSHIP, PROPERTY = "which rows a client has", "whether half of them are of one class"


@dataclass(frozen=True, kw_only=True)
class ClientRoundsReport:
    """The AUC of each attack by what the attacker sees; 0.5 is chance level.

    Args:
        found: for each attack, for each view.
        read: the same for attacks that read rows, in their own units; none where the model allows none.
    """

    rounds: int
    clients: int
    epsilon: float
    found: dict[str, dict[str, Estimate]]
    read: dict[str, dict[str, Estimate]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        auc_of = {
            attack: {view: value._asdict() for view, value in views.items()}
            for attack, views in self.found.items()
        }
        read = {
            attack: {view: value._asdict() for view, value in views.items()}
            for attack, views in self.read.items()
        }
        return {"rounds": self.rounds, "clients_per_round": self.clients, "auc": auc_of, "read": read}

    @property
    def in_words(self) -> list[str]:
        said = []
        for attack, views in self.found.items():
            plain, last = views["one client"], views["a sum with noise"]
            verdict = "nothing" if last.low <= 0.5 else "something"
            said.append(
                f"The updates of one client reveal {attack} with an AUC of {plain.value:.2f}; sums with the "
                f"run's noise tell {verdict} ({last.value:.2f}, {last.low:.2f} to {last.high:.2f})."
            )
        return [*said, "A trusted server sees the first; anyone who gets the models sees the last."]

    def as_table(self) -> MeasuredTable:
        views = list(next(iter(self.found.values())))
        in_auc = {f"{attack}, AUC": each for attack, each in self.found.items()}
        return MeasuredTable(
            "inference",
            "Attacks on updates",
            f"From {self.rounds} rounds of {self.clients} clients, played again; {WATCHED} clients were in "
            "every round. An AUC has a chance level of 0.5, a copy of 20 decibels is clear. The guarantee, "
            f"epsilon {at_most(self.epsilon)}, is about the last column.",
            ("attack", *views),
            tuple(
                (attack, *(f"{views_[view].value:.2f} ± {_half(views_[view]):.2f}" for view in views))
                for attack, views_ in {**in_auc, **self.read}.items()
            ),
        )


def _half(value: Estimate) -> float:
    return (value.high - value.low) / 2


def attack_rounds(again: Again, *, observer: Observer = NOBODY) -> ClientRoundsReport:
    """Plays rounds of a federated run again, and attacks what is seen of them.

    Raises:
        InvalidArgument: the run was not federated, or predicts numbers.
        DataError: it has too few clients, or rows that it never saw.
    """
    recipe = table.read(again.record.recipe)
    if not isinstance(recipe, FederatedRecipe) or again.users is None:
        raise InvalidArgument(
            "Attacks on updates are for runs of reticent federate: no client of this run sent any.",
            remedy="Leave out updates, or attack a federated run.",
        )
    require_classes(again, "An attack on updates")
    users = np.asarray(again.users.train_on)
    rows = {name: np.asarray(column) for name, column in again.train_on.items() if name in ("x", "y")}
    outside = {name: np.asarray(column) for name, column in again.held_out.items() if name in ("x", "y")}
    if len(np.unique(users)) < 2 * WATCHED or len(outside["y"]) < 2 * WATCHED:
        raise DataError(
            f"Attacks on updates need {2 * WATCHED} clients and as many held-out rows.",
            remedy="Attack a run with more of them.",
        )
    rounds = min(ROUNDS, recipe.plan.steps)
    with observer.watch("rounds of clients") as on_progress:
        start = again.learner.model.init(jax.random.key(0))
        seen = watch_rounds(
            again.learner.loss,
            start,
            rows,
            users,
            recipe.plan,
            recipe.local,
            watched=WATCHED,
            rounds=rounds,
            seed=0,
        )
        on_progress(0.5)
        found = {
            MEMBERSHIP: _membership(again.learner.loss, seen, rows, users, outside),
            PROPERTY: property_by_view(
                again.learner.loss, seen[-1], recipe.plan, recipe.local, rows, outside
            ),
        }
        on_progress(0.8)
        plan, rate = recipe.plan, recipe.local.learning_rate
        read = rows_from_updates(again.learner.loss, start, plan, rate, rows, outside, watched=WATCHED)
        on_progress(1.0)
    clients = max(min(round(recipe.plan.sampler.batch_size), len(np.unique(users))), WATCHED)
    return ClientRoundsReport(
        rounds=rounds, clients=clients, epsilon=again.record.result.guarantee.epsilon, found=found, read=read
    )


def _membership(
    loss: Any,
    seen: list[WatchedRound],
    rows: dict[str, np.ndarray],
    users: np.ndarray,
    outside: dict[str, np.ndarray],
) -> dict[str, Estimate]:
    names = np.unique(users)[:WATCHED]
    own = [np.flatnonzero(users == name)[:_CANDIDATES] for name in names]
    owner = np.repeat(np.arange(WATCHED), [len(each) for each in own])
    inside = {name: column[np.concatenate(own)] for name, column in rows.items()}
    random = np.random.default_rng(1)
    picked = random.integers(len(outside["y"]), size=len(owner))
    candidates = {
        name: np.concatenate([column, outside[name][picked]]).astype(column.dtype)
        for name, column in inside.items()
    }
    of_whom = np.concatenate([owner, owner])
    scores: dict[str, list[np.ndarray]] = {}
    for each in seen:
        directions = descent_directions(loss, each.params, candidates)
        for view, updates in each.views.items():
            score = np.empty(len(of_whom))
            for client in range(WATCHED):
                at = of_whom == client
                score[at] = cosines(directions[at], updates[client])
            scores.setdefault(view, []).append(score)
    means = {view: np.mean(found, axis=0) for view, found in scores.items()}
    return {
        view: auc(Scores(members=found[: len(owner)], outsiders=found[len(owner) :]))
        for view, found in means.items()
    }


def property_by_view(
    loss: Any,
    last: WatchedRound,
    plan: Plan,
    local: LocalTraining,
    rows: dict[str, np.ndarray],
    outside: dict[str, np.ndarray],
) -> dict[str, Estimate]:
    """For each view of a round, the AUC of whether half of a client's rows are of one class.

    The attacker's clients are made of rows that the run never saw; those it looks at, of others.
    """
    random = np.random.default_rng(2)
    norm = plan.clipping.sensitivity
    size = min(plan.rows_per_user or 1, _ROWS)
    wanted = int(np.bincount(outside["y"][has_target(outside["y"])].astype(int)).argmax())

    def clients(part: dict[str, np.ndarray], count: int, has_it: bool) -> np.ndarray:
        of_class = np.flatnonzero(part["y"] == wanted)
        others = np.flatnonzero((part["y"] != wanted) & has_target(part["y"]))
        if not len(of_class) or not len(others):
            raise DataError("All rows are of one class.", remedy="Leave out the attack on updates.")
        half = -(-size // 2) if has_it else 0
        first = of_class[random.integers(len(of_class), size=(count, half))]
        rest = others[random.integers(len(others), size=(count, size - half))]
        members = np.concatenate([first, rest], axis=1).astype(np.int32)
        update = updates_of(loss, local, part)
        return clip_each(update(last.params, members, np.ones(members.shape, bool), random), norm)

    made = [clients(outside, _MADE, has_it) for has_it in (True, False)]
    seen = np.concatenate([clients(rows, _SEEN, has_it) for has_it in (True, False)])
    cohort = max(round(plan.sampler.batch_size), 2)
    noise = plan.noise_multiplier * norm * random.standard_normal((2, *seen.shape))
    others = last.mean * (cohort - 1)
    views = {
        "one client": seen,
        "one client with noise": seen + noise[0],
        "a sum": seen + others + _other_clients(seen, cohort, random),
        "a sum with noise": seen + others + _other_clients(seen, cohort, random) + noise[1],
    }
    found = {}
    for view, updates in views.items():
        scores = property_from_updates(made[0], made[1], updates)
        found[view] = auc(Scores(members=scores[:_SEEN], outsiders=scores[_SEEN:]))
    return found


def _other_clients(seen: np.ndarray, cohort: int, random: np.random.Generator) -> np.ndarray:
    """How the other clients of a round differ from round to round: sums of updates, drawn anew."""
    centred = seen - seen.mean(axis=0)
    weights = random.multinomial(cohort - 1, np.full(len(seen), 1 / len(seen)), size=len(seen))
    return weights @ centred
