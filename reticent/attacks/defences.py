"""Defences side by side: what each leaves to membership attacks, and what it costs.

A defence of the outputs, a mask, is a function from probabilities to probabilities that keeps the label: it
hides scores and changes nothing that was learned. A defence of the training (early stopping, regularisation,
differential privacy) is another model. Both become rows of the same table.

    compare({"as it is": predict, "epsilon 8": private}, members, outsiders)

Whoever attacks a masked model knows that it is masked, so shadow models are masked as well before they teach
or calibrate anything (`compare_shadows`). An attack on labels alone passes every mask.

Reference:
    Jia et al. (2019), MemGuard, arXiv:1909.10594; Choquette-Choo et al. (2021), arXiv:2007.14321.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, softmax

from reticent.attacks.battery import Battery, run, run_without_shadows
from reticent.attacks.predictors import Predict, Records, outputs_of
from reticent.attacks.scores import Outputs
from reticent.attacks.shadows.outputs import Shadows
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

Defence = Callable[[np.ndarray], np.ndarray]  # from probabilities (records, classes) to others

_LEAST_PROBABILITY = 1e-12


# Masks


def label_only(probabilities: Float[np.ndarray, "records classes"]) -> Float[np.ndarray, "records classes"]:
    """Puts all probability on the predicted label.

    Example:
        >>> label_only(np.array([[0.2, 0.5, 0.3]])).tolist()
        [[0.0, 1.0, 0.0]]
    """
    return np.eye(probabilities.shape[1])[probabilities.argmax(axis=1)]


def top(count: int) -> Defence:
    """Keeps the largest few, and spreads the rest evenly over the other classes.

    Example:
        >>> top(1)(np.array([[0.2, 0.6, 0.2], [0.5, 0.2, 0.3]])).tolist()
        [[0.2, 0.6, 0.2], [0.5, 0.25, 0.25]]
    """
    checks.count(count=count)

    def defence(probabilities: np.ndarray) -> np.ndarray:
        classes = probabilities.shape[1]
        if count >= classes:
            return probabilities
        order = np.argsort(-probabilities, axis=1, kind="stable")
        masked = np.empty_like(probabilities)
        kept = np.take_along_axis(probabilities, order[:, :count], axis=1)
        np.put_along_axis(masked, order[:, :count], kept, axis=1)
        rest = np.maximum(1 - kept.sum(axis=1, keepdims=True), 0) / (classes - count)
        np.put_along_axis(masked, order[:, count:], np.broadcast_to(rest, order[:, count:].shape), axis=1)
        return masked

    return defence


def rounding(digits: int) -> Defence:
    """Cuts every probability to some digits; what is cut off goes to the label, which stays the largest.

    Example:
        >>> rounding(1)(np.array([[0.28, 0.39, 0.33]])).round(3).tolist()
        [[0.2, 0.5, 0.3]]
    """
    checks.count(digits=digits)

    def defence(probabilities: np.ndarray) -> np.ndarray:
        labels = probabilities.argmax(axis=1)
        cut = np.floor(probabilities * 10**digits + 1e-9) / 10**digits
        rows = np.arange(len(labels))
        cut[rows, labels] = 0
        cut[rows, labels] = 1 - cut.sum(axis=1)
        return cut

    return defence


def temperature(degrees: float) -> Defence:
    """Softens answers above 1 degree, and sharpens them below.

    Example:
        >>> temperature(2.0)(np.array([[0.8, 0.2]])).round(3).tolist()
        [[0.667, 0.333]]
    """
    checks.positive(degrees=degrees)

    def defence(probabilities: np.ndarray) -> np.ndarray:
        return softmax(_logs(probabilities) / degrees, axis=1)

    return defence


def masking(
    members: Outputs, outsiders: Outputs, *, budget: float = 1.0, candidates: int = 64, seed: int = 0
) -> Defence:
    """Adds noise to the scores that makes a member look like an outsider, in the manner of MemGuard.

    The defender plays an attacker: a classifier learns to tell members from outsiders by sorted scores. For
    each answer, of several noises that keep the label, it takes the one that leaves this classifier least
    sure. The same answer always gets the same noise, so that asking again averages nothing out.

    Args:
        members, outsiders: what the undefended model says of records that the defender knows.
        budget: the largest change of an answer, as the sum of absolute differences; from 0 to 2.

    Example:
        >>> rng, labels = np.random.default_rng(0), np.arange(40) % 3
        >>> sure, vague = (
        ...     Outputs.from_logits(rng.normal(size=(40, 3)) * size, labels) for size in (9, 1)
        ... )
        >>> mask = masking(sure, vague, candidates=8)
        >>> mask(np.array([[0.1, 0.9, 0.0]])).argmax().item()  # the label stays
        1
    """
    checks.not_negative(budget=budget)
    checks.count(candidates=candidates)
    classifier = _fit_guard(members, outsiders)
    random = np.random.default_rng(seed)
    directions = random.normal(0, 1, (candidates, members.classes))
    sizes = np.geomspace(0.1, 10, candidates)[:, None]
    noises = np.concatenate([np.zeros((1, members.classes)), sizes * directions])

    def defence(probabilities: np.ndarray) -> np.ndarray:
        logs = _logs(probabilities)
        labels = probabilities.argmax(axis=1)
        best, least = probabilities.copy(), np.full(len(labels), np.inf)
        for noise in noises:
            changed = softmax(logs + noise, axis=1)
            allowed = changed.argmax(axis=1) == labels
            allowed &= np.abs(changed - probabilities).sum(axis=1) <= budget + 1e-12
            sureness = np.abs(classifier.decision_function(_sorted_logs(changed)))
            is_better = allowed & (sureness < least)
            best[is_better], least[is_better] = changed[is_better], sureness[is_better]
        return best

    return defence


def standard_masks(classes: int) -> dict[str, Defence]:
    """Makes the masks that need nothing but the number of classes.

    Example:
        >>> list(standard_masks(10))
        ['temperature 4', 'rounded to 1 digit', 'top 3', 'label only']
    """
    return {
        "temperature 4": temperature(4.0),
        "rounded to 1 digit": rounding(1),
        f"top {min(3, classes - 1)}": top(min(3, classes - 1)),
        "label only": label_only,
    }


def _fit_guard(members: Outputs, outsiders: Outputs) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.concatenate([_sorted_logs(np.exp(side.log_probabilities)) for side in (members, outsiders)])
    truth = np.repeat([1, 0], [len(members), len(outsiders)])
    guard = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=1000))
    return guard.fit(rows, truth)


def _logs(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities, _LEAST_PROBABILITY))


def _sorted_logs(probabilities: np.ndarray) -> np.ndarray:
    """The largest probabilities as bounded logarithms, in order."""
    largest = -np.sort(-probabilities, axis=1)[:, : min(5, probabilities.shape[1])]
    return np.log(np.maximum(largest, 1e-6))


# The table


@dataclass(frozen=True, kw_only=True)
class Defended:
    """What one defence leaves to attacks, and what it costs.

    Args:
        changed: the mean change of an answer, as the sum of absolute differences: what users pay.
        kept: the share of answers whose label stayed.
        battery: all attacks that could be played, with the accuracies of the model.
    """

    name: str
    changed: float
    kept: float
    battery: Battery

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, lists and words."""
        return {
            "defence": self.name,
            "changed": self.changed,
            "labels_kept": self.kept,
            **self.battery.to_json(),
        }


def compare(
    predictors: Mapping[str, Predict],
    members: Records,
    outsiders: Records,
    *,
    masks: Mapping[str, Defence] | None = None,
    budget: float = 1.0,
) -> tuple[Defended, ...]:
    """Attacks each model, and each mask on the first of them, without shadow models.

    Args:
        predictors: functions from records to probabilities by name: the undefended model first, then models
            that were trained otherwise (stopped early, regularised, private).
        members, outsiders: `x` and `y`; all models were trained on the same members.
        masks: `standard_masks` and `masking` unless given.
        budget: of `masking`, if no masks are given.

    Raises:
        DataError: a model fails, or members and outsiders overlap or differ in their labels.
    """
    if not predictors:
        raise InvalidArgument("There is no model to defend.", remedy="Pass at least one, by name.")
    rows = []
    for number, (name, predict) in enumerate(predictors.items()):
        inside = outputs_of(predict, members, name="members")
        outside = outputs_of(predict, outsiders, name="outsiders")
        rows.append(Defended(name=name, changed=0.0, kept=1.0, battery=run_without_shadows(inside, outside)))
        if number == 0:
            chosen = masks
            if chosen is None:
                noise = {f"noise up to {budget:g}": masking(inside, outside, budget=budget)}
                chosen = standard_masks(inside.classes) | noise
            rows += [_attack_masked(mask, defence, inside, outside) for mask, defence in chosen.items()]
    return tuple(rows)


def compare_shadows(
    shadows: Mapping[str, Shadows],
    *,
    masks: Mapping[str, Defence] | None = None,
    attacks: Sequence[str] | None = None,
) -> tuple[Defended, ...]:
    """Compares defences with shadow models, each attacked by the others: the attacker knows the defence.

    Args:
        shadows: named, the undefended first; those of other recipes beside them.
        attacks: as for `battery.run`.
    """
    if not shadows:
        raise InvalidArgument(
            "There are no shadow models to defend.", remedy="Give at least one set, by name."
        )
    rows = []
    for number, (name, models) in enumerate(shadows.items()):
        rows.append(Defended(name=name, changed=0.0, kept=1.0, battery=run(models, attacks=attacks)))
        if number == 0:
            chosen = standard_masks(models.logits.shape[2]) if masks is None else masks
            for mask, defence in chosen.items():
                masked, changed, kept = defend_shadows(models, defence, name=mask)
                rows.append(
                    Defended(name=mask, changed=changed, kept=kept, battery=run(masked, attacks=attacks))
                )
    return tuple(rows)


def defend_shadows(shadows: Shadows, defence: Defence, *, name: str = "mask") -> tuple[Shadows, float, float]:
    """Masks shadow models; returns them, the mean change of an answer, and the share of labels kept.

    The robustness of disturbed copies is left alone: a mask that keeps labels cannot change it.

    Example:
        >>> from reticent.attacks.shadows.outputs import balanced_halves
        >>> labels = np.arange(20) % 2
        >>> shadows = Shadows(
        ...     logits=np.ones((2, 20, 2)) * [1.0, 0.0],
        ...     is_member=balanced_halves(20, 2, seed=0),
        ...     labels=labels,
        ... )
        >>> _, changed, kept = defend_shadows(shadows, label_only)
        >>> round(changed, 3), kept
        (0.538, 1.0)
    """
    masked, changed, kept = [], [], []
    for logits in shadows.logits:
        before = softmax(np.asarray(logits, float), axis=1)
        after = _apply(defence, before, name)
        masked.append(_logs(after).astype(np.float32))
        changed.append(np.abs(after - before).sum(axis=1).mean())
        kept.append(np.mean(after.argmax(axis=1) == before.argmax(axis=1)))
    defended = replace(shadows, logits=np.stack(masked), fingerprint=f"{shadows.fingerprint} {name}")
    return defended, float(np.mean(changed)), float(np.mean(kept))


def _attack_masked(name: str, defence: Defence, members: Outputs, outsiders: Outputs) -> Defended:
    sides, changes, kept = [], [], []
    for side in (members, outsiders):
        before = np.exp(log_softmax(side.logits, axis=1))
        after = _apply(defence, before, name)
        sides.append(Outputs.from_probabilities(after, side.labels, features=side.features, name=side.name))
        changes.append(np.abs(after - before).sum(axis=1))
        kept.append(after.argmax(axis=1) == before.argmax(axis=1))
    return Defended(
        name=name,
        changed=float(np.concatenate(changes).mean()),
        kept=float(np.concatenate(kept).mean()),
        battery=run_without_shadows(*sides),
    )


def _apply(defence: Defence, probabilities: np.ndarray, name: str) -> np.ndarray:
    masked = np.asarray(defence(probabilities), float)
    is_probability = masked.shape == probabilities.shape and np.allclose(masked.sum(axis=1), 1, atol=1e-3)
    if not is_probability or (masked < -1e-9).any():
        raise DataError(
            f"The mask '{name}' returned shape {masked.shape} instead of probabilities "
            f"of shape {probabilities.shape}.",
            remedy="Return as many probabilities as were given, with rows that sum to one.",
        )
    return masked
