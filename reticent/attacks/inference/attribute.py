"""Attribute inference: infers a sensitive column of a record from all others, its label and the model.

The simple attack tries every value and takes the one that makes the model surest of the true label. Most of
what it finds could be guessed without any model, since columns depend on each other. So every attack is
compared with imputation, a classifier that learned the column from outsiders and never saw the model, and
what counts is the excess over it. Where members have a larger excess than outsiders, the model remembers
them.

    confidence   the value with the highest confidence in the true label
    csmia        the same among values that are predicted right; else the least sure of the wrong ones
    lomia        labels only: learns from records that only one value makes right
    informed     confidence times the probability that imputation gives

Reference:
    Fredrikson et al. (2014), Privacy in pharmacogenetics; Mehnaz et al. (2022), arXiv:2201.09370;
    Jayaraman and Evans (2022), on imputation, arXiv:2209.01292.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Int, Num
from scipy.stats import norm

from reticent.attacks.inference.imputation import Imputer, fit_imputer, logistic
from reticent.attacks.metrics import Estimate, clopper_pearson
from reticent.attacks.predictors import Predict, Records, ask, check_records
from reticent.attacks.scores import FEWEST, Outputs
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

ATTACKS = ("confidence", "csmia", "lomia", "informed")


@dataclass(frozen=True, kw_only=True)
class Sensitive:
    """A sensitive column: the features that encode it, and the code of each of its values.

    Args:
        columns: positions among the features.
        codes: (values, columns), the code of each value.
        names: of the values.

    Example:
        >>> married = Sensitive.single("married", column=1, values=(0.0, 1.0))
        >>> married.values_of(np.array([[0.3, 1.0], [0.5, 0.0]])).tolist()
        [1, 0]
        >>> married.with_value(np.array([[0.3, 1.0]]), 0).tolist()
        [[0.3, 0.0]]
    """

    name: str
    columns: tuple[int, ...]
    codes: np.ndarray = field(repr=False)
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = (len(self.names), len(self.columns))
        if np.shape(self.codes) != shape or len(self.names) < 2 or not self.columns:
            raise InvalidArgument(
                f"'{self.name}' has {len(self.names)} values in {len(self.columns)} columns and "
                f"codes of shape {np.shape(self.codes)}.",
                remedy="Give at least two values, and a code of all its columns for each.",
            )
        object.__setattr__(self, "codes", np.asarray(self.codes, float))

    @classmethod
    def one_hot(cls, name: str, columns: Sequence[int], names: Sequence[str] | None = None) -> Sensitive:
        """A category encoded as one feature per value."""
        names = tuple(names or (str(number) for number in range(len(columns))))
        return cls(name=name, columns=tuple(columns), codes=np.eye(len(columns)), names=names)

    @classmethod
    def single(cls, name: str, column: int, values: Sequence[float]) -> Sensitive:
        """A number with few values, in one feature."""
        names = tuple(f"{value:g}" for value in values)
        return cls(name=name, columns=(column,), codes=np.reshape(values, (-1, 1)), names=names)

    def values_of(self, x: Num[np.ndarray, "records features"]) -> Int[np.ndarray, " records"]:
        """Finds the value of each record.

        Raises:
            DataError: a record has none of them.
        """
        self._check_columns(x)
        distance = np.abs(x[:, None, list(self.columns)] - self.codes).max(axis=-1)  # (records, values)
        if len(x) and distance.min(axis=1).max() > 1e-6:
            row = int(np.argmax(distance.min(axis=1)))
            raise DataError(
                f"Row {row} has none of the {len(self.names)} values of '{self.name}': "
                f"{x[row, list(self.columns)].tolist()}.",
                remedy="Give a code for every value, or leave such records out.",
            )
        return np.argmin(distance, axis=1)

    def with_value(
        self, x: Num[np.ndarray, "records features"], value: int
    ) -> Num[np.ndarray, "records features"]:
        """Copies the records with this value in all of them."""
        changed = np.array(x)
        changed[:, list(self.columns)] = self.codes[value]
        return changed

    def other_features(self, x: Num[np.ndarray, "records features"]) -> Num[np.ndarray, "records others"]:
        """Returns all other features."""
        self._check_columns(x)
        return np.delete(x, list(self.columns), axis=1)

    def _check_columns(self, x: np.ndarray) -> None:
        if x.ndim != 2 or max(self.columns) >= x.shape[1] or min(self.columns) < 0:
            raise DataError(
                f"'{self.name}' is in features {self.columns}, and the records have shape {x.shape}.",
                remedy="Give records as rows of features, and positions counted from 0.",
            )


@dataclass(frozen=True, kw_only=True)
class AttributeRow:
    """How well one attack did on one side.

    Args:
        excess: the accuracy of the attack less that of imputation, on the same records.
    """

    attack: str
    side: str  # "members" or "outsiders"
    accuracy: Estimate
    imputation: Estimate
    excess: Estimate
    records: int


@dataclass(frozen=True, kw_only=True)
class AttributeReport:
    """All attacks on both sides.

    Args:
        of_membership: for each attack, the excess among members less that among outsiders: what the model
            gives away because it was trained on a record.
        majority: the accuracy of guessing the most frequent value, on members.
        left_out: attacks that could not be played, and why.
    """

    sensitive: str
    values: tuple[str, ...]
    rows: tuple[AttributeRow, ...]
    of_membership: dict[str, Estimate]
    majority: float
    left_out: dict[str, str]

    def row(self, attack: str, side: str = "members") -> AttributeRow:
        return next(row for row in self.rows if (row.attack, row.side) == (attack, side))

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, lists and words."""
        return {
            "sensitive": self.sensitive,
            "values": list(self.values),
            "majority": self.majority,
            "rows": [_plain(vars(row)) for row in self.rows],
            "of_membership": _plain(self.of_membership),
            "left_out": self.left_out,
        }


def infer_attribute(
    predict: Predict,
    *,
    members: Records,
    outsiders: Records,
    reference: Records,
    sensitive: Sensitive,
    attacks: Sequence[str] = ATTACKS,
    imputer: Imputer = logistic,
    confidence: float = 0.95,
    seed: int = 0,
) -> AttributeReport:
    """Infers the sensitive column of members and outsiders, by each attack and by imputation.

    Args:
        predict: from records, one per row, to probabilities (records, classes).
        members, outsiders: `x` with the sensitive column in it, and `y`.
        reference: other outsiders, to fit imputation on. Values that none of them has are not guessed.
        imputer: makes a fresh scikit-learn classifier with `predict_proba`. A weak one flatters the attacks.
        seed: breaks ties at random.

    Raises:
        DataError: the records, their labels or the model's answers cannot be used.

    Example:
        >>> x = np.column_stack([np.random.default_rng(0).random(300), np.arange(300) % 2])
        >>> members, outsiders, reference = (
        ...     {"x": rows, "y": rows[:, 1].astype(int)} for rows in np.split(x, [50, 100])
        ... )
        >>> found = infer_attribute(
        ...     lambda x: np.column_stack([1 - x[:, 1], x[:, 1]]),
        ...     members=members,
        ...     outsiders=outsiders,
        ...     reference=reference,
        ...     sensitive=Sensitive.single("married", column=1, values=(0.0, 1.0)),
        ... )
        >>> found.majority
        0.5
    """
    checks.inside_unit(confidence=confidence)
    for attack in attacks:
        checks.one_of(ATTACKS, attack=attack)
    sides = {"members": check_records(members, name="members")}
    sides["outsiders"] = check_records(outsiders, name="outsiders")
    known = check_records(reference, name="reference records")
    _check_apart(known[0], sides)
    impute = fit_imputer(
        imputer, sensitive.other_features(known[0]), known[1], sensitive.values_of(known[0]), sensitive.names
    )
    truth = {side: sensitive.values_of(x) for side, (x, _) in sides.items()}
    # A value that no record of this kind has ("other", "missing") would only be a wrong guess.
    occurs = np.bincount(sensitive.values_of(known[0]), minlength=len(sensitive.names)) > 0
    answers = {
        side: _ask_with_each_value(predict, x, y, sensitive, side, occurs) for side, (x, y) in sides.items()
    }
    log_priors = {side: impute(sensitive.other_features(x), y) for side, (x, y) in sides.items()}
    random = np.random.default_rng(seed)
    rows, left_out = [], {}
    for attack in attacks:
        guesses = _guess_values(attack, answers, log_priors, sides, sensitive, imputer, random)
        if isinstance(guesses, str):
            left_out[attack] = guesses
            continue
        for side in sides:
            imputed = np.argmax(log_priors[side], axis=1)
            rows.append(_attribute_row(attack, side, guesses[side], imputed, truth[side], confidence))
    most_frequent = np.bincount(sensitive.values_of(known[0])).argmax()
    return AttributeReport(
        sensitive=sensitive.name,
        values=sensitive.names,
        rows=tuple(rows),
        of_membership=_excess_of_members(rows),
        majority=float(np.mean(truth["members"] == most_frequent)),
        left_out=left_out,
    )


def excess_of(attack_right: np.ndarray, baseline_right: np.ndarray, *, confidence: float = 0.95) -> Estimate:
    """The difference of two accuracies on the same records, with its interval.

    Reference:
        Bonett and Price (2012), Adjusted Wald confidence interval for a difference of binomial proportions
        based on paired data.
    """
    count = len(attack_right)
    gained = int(np.sum(attack_right & ~baseline_right))
    lost = int(np.sum(~attack_right & baseline_right))
    up, down = (gained + 1) / (count + 2), (lost + 1) / (count + 2)
    reach = float(norm.isf((1 - confidence) / 2)) * math.sqrt((up + down - (up - down) ** 2) / (count + 2))
    value = (gained - lost) / count
    return Estimate(value, max(min(up - down - reach, value), -1.0), min(max(up - down + reach, value), 1.0))


# How they are played


class _Answers:
    """What the model says of each record with each value: every array is (records, values).

    Args:
        occurs: (values,) which values some record has. The others are never guessed.
    """

    def __init__(self, outputs: Sequence[Outputs], occurs: np.ndarray) -> None:
        log_p = np.stack([each.log_probabilities for each in outputs], axis=1)  # (records, values, classes)
        labels = outputs[0].labels
        self.log_true = log_p[np.arange(len(labels)), :, labels]
        self.log_top = log_p.max(axis=-1)
        self.is_right = (log_p.argmax(axis=-1) == labels[:, None]) & occurs
        self.occurs = occurs


def _ask_with_each_value(
    predict: Predict, x: np.ndarray, y: np.ndarray, sensitive: Sensitive, side: str, occurs: np.ndarray
) -> _Answers:
    asked = []
    for value, name in enumerate(sensitive.names):
        answers = ask(predict, sensitive.with_value(x, value), name=side)
        asked.append(Outputs.from_probabilities(answers, y, name=f"{side} with {sensitive.name} {name}"))
    return _Answers(asked, occurs)


def _guess_values(
    attack: str,
    answers: Mapping[str, _Answers],
    log_priors: Mapping[str, np.ndarray],
    sides: Mapping[str, tuple[np.ndarray, np.ndarray]],
    sensitive: Sensitive,
    imputer: Imputer,
    random: np.random.Generator,
) -> dict[str, np.ndarray] | str:
    """Guesses the values on each side, or says why it cannot."""
    if attack == "lomia":
        return _guess_by_labels(answers, sides, sensitive, imputer)
    scores = {}
    for side, said in answers.items():
        if attack == "confidence":
            scores[side] = said.log_true
        elif attack == "informed":
            scores[side] = said.log_true + log_priors[side]
        else:
            scores[side] = np.where(said.is_right, 1, -1) * np.exp(said.log_top)
        scores[side] = np.where(said.occurs, scores[side], -np.inf)
    return {side: _pick_best(score, random) for side, score in scores.items()}


def _guess_by_labels(
    answers: Mapping[str, _Answers],
    sides: Mapping[str, tuple[np.ndarray, np.ndarray]],
    sensitive: Sensitive,
    imputer: Imputer,
) -> dict[str, np.ndarray] | str:
    is_right = np.concatenate([said.is_right for said in answers.values()])
    x = np.concatenate([sensitive.other_features(rows) for rows, _ in sides.values()])
    y = np.concatenate([labels for _, labels in sides.values()])
    is_telling = is_right.sum(axis=1) == 1
    values = is_right.argmax(axis=1)
    if is_telling.sum() < FEWEST or len(np.unique(values[is_telling])) < 2:
        return (
            f"The model is right for exactly one value on {is_telling.sum()} records: too few, or too alike."
        )
    learned = fit_imputer(imputer, x[is_telling], y[is_telling], values[is_telling], sensitive.names)
    guesses = np.where(is_telling, values, np.argmax(learned(x, y), axis=1))
    first = len(sides["members"][1])
    return {"members": guesses[:first], "outsiders": guesses[first:]}


def _pick_best(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The value with the highest score, ties broken at random."""
    is_best = scores >= scores.max(axis=1, keepdims=True) - 1e-9
    return np.argmax(is_best * random.uniform(0.5, 1, scores.shape), axis=1)


def _attribute_row(
    attack: str, side: str, guesses: np.ndarray, imputed: np.ndarray, truth: np.ndarray, confidence: float
) -> AttributeRow:
    right, imputed_right = guesses == truth, imputed == truth
    return AttributeRow(
        attack=attack,
        side=side,
        accuracy=clopper_pearson(int(right.sum()), len(truth), confidence=confidence),
        imputation=clopper_pearson(int(imputed_right.sum()), len(truth), confidence=confidence),
        excess=excess_of(right, imputed_right, confidence=confidence),
        records=len(truth),
    )


def _excess_of_members(rows: Sequence[AttributeRow]) -> dict[str, Estimate]:
    inside = {row.attack: row.excess for row in rows if row.side == "members"}
    outside = {row.attack: row.excess for row in rows if row.side == "outsiders"}
    return {attack: _difference(inside[attack], outside[attack]) for attack in inside}


def _difference(one: Estimate, other: Estimate) -> Estimate:
    """The difference of two independent estimates, with Newcombe's interval (method 10)."""
    value = one.value - other.value
    low = math.hypot(one.value - one.low, other.high - other.value)
    high = math.hypot(one.high - one.value, other.value - other.low)
    return Estimate(value, value - low, value + high)


def _check_apart(reference: np.ndarray, sides: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    seen = {row.tobytes() for row in np.ascontiguousarray(reference, float)}
    is_telling = len(seen) > 0.9 * len(reference)  # where few records are possible, equal ones prove nothing
    for side, (x, _) in sides.items():
        if len(x) < FEWEST:
            raise DataError(
                f"{len(x)} {side} are too few to tell an attack from luck.",
                remedy=f"Give at least {FEWEST}, better 1,000.",
            )
        shared = sum(row.tobytes() in seen for row in np.ascontiguousarray(x, float))
        if is_telling and 2 * shared > len(x):
            raise DataError(
                f"{shared} of {len(x)} {side} are also among the {len(reference)} reference records.",
                remedy="Fit imputation on other records: on these it knows the answers.",
            )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value._asdict() if isinstance(value, Estimate) else value for name, value in values.items()}
