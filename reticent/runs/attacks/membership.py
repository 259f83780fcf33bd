"""Attacks on a finished run: who was in its training set, and what can be inferred of a sensitive column.

Shadow models are trained as the run was, with the same noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.special import softmax

from reticent.attacks import battery
from reticent.attacks.battery import Battery, Target
from reticent.attacks.inference.attribute import AttributeReport, Sensitive, infer_attribute
from reticent.attacks.scores import Outputs
from reticent.attacks.shadows.one_by_one import train_one_by_one
from reticent.attacks.shadows.outputs import Shadows
from reticent.attacks.shadows.pace import Progress
from reticent.attacks.shadows.recipes import add_noise
from reticent.attacks.shadows.training import Queries, train_shadows
from reticent.core.errors import DataError, suggest
from reticent.core.observer import NOBODY, Observer
from reticent.data.encoding import feature_names, has_target
from reticent.runs.attacks.pool import COPIES, DISTURBED, Pool, ask_about_pool, pool_of, require_classes
from reticent.runs.attacks.recipes import has_shadows, shadow_recipe
from reticent.runs.attacks.view import require_cells
from reticent.runs.reopen import Again
from reticent.runs.scoring import predict_scores
from reticent.runs.users import several_rows


def attack_run(
    again: Again,
    *,
    shadows: int = 16,
    minutes: float | None = None,
    attacks: Sequence[str] | None = None,
    cache: Path | None = None,
    observer: Observer = NOBODY,
) -> Battery:
    """Attacks the model of a run, as somebody who knows everything about it except who its members are.

    Args:
        shadows: the number of models to train like the run. With 0, or for a method that has none, only the
            attacks that need none are played.
        minutes: stop training them after this time.
        cache: of shadow models that are trained in steps; see `train_shadows`.

    Raises:
        DataError: the run predicts numbers, or has too few rows.
    """
    require_classes(again, "A membership attack")
    pool = pool_of(again)
    if shadows < 1 or not has_shadows(again):
        if shadows >= 1:
            several = several_rows(again.record.request.rows_per_user) is not None
            why = "users with several rows" if several else f"the method '{again.record.recipe.method}'"
            observer.say(f"There are no shadow models for {why}: only attacks that need none are run.")
        return _attack_without_shadows(again, pool, attacks)
    found = _train_shadows(again, pool, shadows, minutes, cache, observer)
    logits, robustness = ask_about_pool(again, pool)(again.params)
    target = Target(logits=logits, is_member=pool.is_member, robustness=robustness)
    with observer.watch("attacks") as on_progress:
        return battery.run(
            found, target=target, attacks=attacks, tolerance=_tolerance(found), on_progress=on_progress
        )


def _train_shadows(
    again: Again, pool: Pool, count: int, minutes: float | None, cache: Path | None, observer: Observer
) -> Shadows:
    recipe, is_traceable = shadow_recipe(again)
    always = pool.always if len(pool.always["y"]) else None
    with observer.watch("shadow models") as show_fraction:

        def on_progress(progress: Progress) -> None:
            show_fraction(progress.fraction)

        if not is_traceable:
            return train_one_by_one(
                recipe,
                ask_about_pool(again, pool),
                pool.records,
                always=always,
                shadows=count,
                minutes=minutes,
                on_progress=on_progress,
            )
        return train_shadows(
            recipe,
            again.learner.scores,
            pool.records,
            always=always,
            shadows=count,
            queries=Queries(disturb=add_noise(DISTURBED), copies=COPIES),
            minutes=minutes,
            cache=cache,
            name=again.record.number,
            on_progress=on_progress,
        )


def _tolerance(shadows: Shadows) -> float:
    """How far the target's accuracy may be from the shadows' mean: private models differ among themselves."""
    right = shadows.signals.is_right
    each = [float(row[~inside].mean()) for row, inside in zip(right, shadows.is_member, strict=True)]
    return 0.05 + 4 * float(np.std(each))


def _attack_without_shadows(again: Again, pool: Pool, attacks: Sequence[str] | None) -> Battery:
    sides = []
    for name, which in (("members", pool.is_member), ("outsiders", ~pool.is_member)):
        logits = predict_scores(again.learner, again.params, pool.records["x"][which])
        sides.append(Outputs.from_logits(logits, pool.records["y"][which].astype(int), name=name))
    return battery.run_without_shadows(*sides, attacks=attacks)


def infer_column(again: Again, column: str) -> AttributeReport:
    """Infers a category of the table from a record's other columns, its class and the model.

    Raises:
        DataError: there is no such column, or it is not a category.
    """
    sensitive = sensitive_column(again, column)
    pool = pool_of(again)
    rest = np.setdiff1d(np.arange(len(again.held_out["y"])), pool.outsiders)
    cut = len(pool.outsiders) // 2 if len(rest) < len(pool.outsiders) // 2 else len(pool.outsiders)
    judged, known = pool.outsiders[:cut], np.concatenate([pool.outsiders[cut:], rest])
    known = known[has_target(again.held_out["y"][known])]
    return infer_attribute(
        lambda x: softmax(predict_scores(again.learner, again.params, np.asarray(x, np.float32)), axis=1),
        members={key: again.train_on[key][pool.members] for key in ("x", "y")},
        outsiders={key: again.held_out[key][judged] for key in ("x", "y")},
        reference={key: again.held_out[key][known] for key in ("x", "y")},
        sensitive=sensitive,
    )


def categories(again: Again) -> list[str]:
    """Names the categorical columns that the run was trained on; none for images."""
    features = () if again.domain is None else feature_names(again.domain)
    return sorted({name.partition(" = ")[0] for name in features if " = " in name})


def sensitive_column(again: Again, column: str) -> Sensitive:
    """Finds the features that a category was encoded as.

    Raises:
        DataError: there is no such column, it is not a category, or the run predicts a number.
    """
    require_cells(again, "Attribute inference")
    require_classes(again, "Attribute inference")
    features = () if again.domain is None else feature_names(again.domain)
    places = [place for place, name in enumerate(features) if name.startswith(f"{column} = ")]
    if len(places) < 2:
        raise DataError(
            f"'{column}' is not a category that this run was trained on.",
            remedy=suggest(column, categories(again)),
        )
    names = tuple(features[place].partition(" = ")[2] for place in places)
    return Sensitive(
        name=column, columns=tuple(places), codes=again.problem.scale * np.eye(len(places)), names=names
    )
