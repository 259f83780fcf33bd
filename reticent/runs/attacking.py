"""Attacks on a finished run: who was in, and what a record's other columns say of a sensitive one.

Shadow models are trained as the run was, noise and all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import softmax

from reticent.attacks import battery
from reticent.attacks.attribute import AttributeReport, Sensitive, infer_attribute
from reticent.attacks.battery import Battery, Target
from reticent.attacks.scores import Outputs
from reticent.attacks.shadow_outputs import Shadows
from reticent.attacks.shadow_recipes import add_noise
from reticent.attacks.shadows import Queries, train_shadows
from reticent.core.errors import DataError, suggest
from reticent.data.encoding import feature_names, has_target
from reticent.runs import methods
from reticent.runs.again import Again
from reticent.runs.arrays import Arrays
from reticent.runs.descent import Descent
from reticent.runs.onlooker import NOBODY, Onlooker
from reticent.runs.scoring import predicted
from reticent.training.many import private_recipe

MOST = 2500  # records on each side: more sharpen nothing that a reader would notice
_DISTURBED = 0.1  # the deviation of the noise on inputs, for the label-only attack


class Pool(NamedTuple):
    """Records to play with, members first, and those that every model is trained on."""

    records: Arrays
    always: Arrays
    is_member: np.ndarray
    members: np.ndarray
    outsiders: np.ndarray


def attack(
    again: Again,
    *,
    shadows: int = 16,
    minutes: float | None = None,
    attacks: Sequence[str] | None = None,
    cache: Path | None = None,
    onlooker: Onlooker = NOBODY,
) -> Battery:
    """Attacks the model of a run, as somebody who knows everything about it but who was in.

    A method without steps has no shadow models yet: then only the attacks that need none are played.

    Raises:
        DataError: the run predicts numbers, or has too few rows.
    """
    if not again.problem.is_classification:
        raise DataError(
            "Membership attacks are about classes, and this run predicts a number.",
            remedy="Attack a run with a class as its target.",
        )
    pool = _pool(again)
    recipe = methods.read(again.record["recipe"])
    if not isinstance(recipe, Descent) or shadows < 1:
        return _without_shadows(again, pool)
    with onlooker.watch("shadow models") as on_progress:
        found = train_shadows(
            private_recipe(
                again.learner.loss, again.learner.model.init, recipe.plan, optimizer=recipe.optimizer
            ),
            again.learner.scores,
            pool.records,
            always=pool.always if len(pool.always["y"]) else None,
            shadows=shadows,
            queries=Queries(disturb=add_noise(_DISTURBED), copies=8),
            minutes=minutes,
            cache=cache,
            name=str(again.record["number"]),
            on_progress=lambda progress: on_progress(progress.fraction),
        )
    target = Target(
        logits=predicted(again.learner, again.params, pool.records["x"]),
        is_member=pool.is_member,
        robustness=_robustness(again, pool),
    )
    with onlooker.watch("attacks") as on_progress:
        return battery.run(
            found, target=target, attacks=attacks, tolerance=_tolerance(found), on_progress=on_progress
        )


def _tolerance(shadows: Shadows) -> float:
    """How far the target may be from the mean shadow: private models differ among themselves."""
    right = shadows.signals.is_right
    each = [float(row[~inside].mean()) for row, inside in zip(right, shadows.is_member, strict=True)]
    return 0.05 + 4 * float(np.std(each))


def infer(again: Again, column: str) -> AttributeReport:
    """Guesses a category of the table from a record's other columns, its class and the model.

    Raises:
        DataError: there is no such column, or it is no category.
    """
    sensitive = _sensitive(again, column)
    pool = _pool(again)
    rest = np.setdiff1d(np.arange(len(again.held_out["y"])), pool.outsiders)
    cut = len(pool.outsiders) // 2 if len(rest) < len(pool.outsiders) // 2 else len(pool.outsiders)
    judged, known = pool.outsiders[:cut], np.concatenate([pool.outsiders[cut:], rest])
    known = known[has_target(again.held_out["y"][known])]
    return infer_attribute(
        lambda x: softmax(predicted(again.learner, again.params, np.asarray(x, np.float32)), axis=1),
        members={key: again.train_on[key][pool.members] for key in ("x", "y")},
        outsiders={key: again.held_out[key][judged] for key in ("x", "y")},
        reference={key: again.held_out[key][known] for key in ("x", "y")},
        sensitive=sensitive,
    )


def _sensitive(again: Again, column: str) -> Sensitive:
    features = () if again.domain is None else feature_names(again.domain)
    places = [place for place, name in enumerate(features) if name.startswith(f"{column} = ")]
    if len(places) < 2:
        known = sorted({name.partition(" = ")[0] for name in features if " = " in name})
        raise DataError(
            f"'{column}' is no category that this run was trained on.", remedy=suggest(column, known)
        )
    names = tuple(features[place].partition(" = ")[2] for place in places)
    return Sensitive(
        name=column, columns=tuple(places), codes=again.problem.scale * np.eye(len(places)), names=names
    )


def _pool(again: Again) -> Pool:
    """As many members as outsiders; the other members are in every shadow model's training set."""
    inside, outside = (np.flatnonzero(has_target(part["y"])) for part in (again.train_on, again.held_out))
    count = min(len(inside), len(outside), MOST)
    chance = np.random.default_rng(0)
    members, outsiders = (np.sort(chance.permutation(rows)[:count]) for rows in (inside, outside))
    others = np.setdiff1d(np.arange(len(again.train_on["y"])), members)
    records = {
        key: np.concatenate([again.train_on[key][members], again.held_out[key][outsiders]])
        for key in ("x", "y")
    }
    always = {key: again.train_on[key][others] for key in ("x", "y")}
    return Pool(records, always, np.repeat([True, False], count), members, outsiders)


def _without_shadows(again: Again, pool: Pool) -> Battery:
    sides = []
    for name, which in (("members", pool.is_member), ("outsiders", ~pool.is_member)):
        logits = predicted(again.learner, again.params, pool.records["x"][which])
        sides.append(Outputs.from_logits(logits, pool.records["y"][which].astype(int), name=name))
    return battery.run_without_shadows(*sides)


def _robustness(again: Again, pool: Pool) -> np.ndarray:
    """How often the label stays right when noise is on the record, as it was asked of the shadow models."""
    x, y = pool.records["x"], pool.records["y"]
    disturb, right = jax.jit(jax.vmap(add_noise(_DISTURBED))), np.zeros(len(y))
    root = jax.random.key(1, impl="threefry2x32")
    for copy in range(8):
        keys = jax.random.split(jax.random.fold_in(root, copy), len(y))
        copies = np.asarray(disturb(keys, x))
        right += predicted(again.learner, again.params, copies).argmax(axis=1) == y
    return right / 8
