"""How well an attack works: each number with its interval, the one that matters first.

An attack that finds a tenth of the members without error does more harm than one that is right about
everybody 60 times in 100. So true-positive rates at small false-positive rates come first, then the area
under the curve (AUC). Intervals assume independent games; those of pooled models share their records, so
their intervals are somewhat too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import expit, logit
from scipy.stats import beta as beta_distribution
from scipy.stats import betabinom, binom, norm, rankdata

from reticent.attacks.scores import FEWEST, Scores
from reticent.core import checks
from reticent.core.errors import InvalidArgument

FALSE_POSITIVE_RATES = (0.001, 0.01)


class Estimate(NamedTuple):
    """A number and the interval in which the truth lies, at the stated confidence.

    Example:
        >>> print(Estimate(0.731, 0.702, 0.758))
        0.731 [0.702, 0.758]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, kw_only=True)
class RateAt:
    """The true-positive rate at a false-positive rate.

    Args:
        is_resolved: False where there are too few outsiders for one false positive: the value is then the
            rate without any, and only the interval says what is known.
        note: the same in words, or empty.
    """

    false_positive_rate: float
    true_positive_rate: Estimate
    is_resolved: bool
    note: str


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What follows from calling every record above a threshold a member."""

    threshold: float
    precision: Estimate
    recall: Estimate
    false_positive_rate: Estimate
    balanced_accuracy: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """All numbers about an attack, in the order in which they should be read."""

    tpr_at_fpr: tuple[RateAt, ...]
    auc: Estimate
    advantage: Estimate
    members: int
    outsiders: int
    confidence: float

    def to_json(self) -> dict[str, Any]:
        """Plain numbers, lists and words."""
        return {
            "tpr_at_fpr": [
                {**asdict(rate), "true_positive_rate": rate.true_positive_rate._asdict()}
                for rate in self.tpr_at_fpr
            ],
            "auc": self.auc._asdict(),
            "advantage": self.advantage._asdict(),
            "members": self.members,
            "outsiders": self.outsiders,
            "confidence": self.confidence,
        }


def measure(
    scores: Scores, *, rates: Sequence[float] = FALSE_POSITIVE_RATES, confidence: float = 0.95
) -> Measured:
    """Measures an attack: true-positive rates at small false-positive rates, then AUC and advantage.

        fewer than ten members or outsiders    DataError, from `Scores`
        a score that is NaN or infinite        DataError, from `Scores`
        all scores equal                       rates of 0, AUC 0.5, advantage 0
        too few outsiders for a rate           `is_resolved` is False, and a note says how many it takes

    Example:
        >>> import numpy as np
        >>> from reticent.attacks.scores import Scores
        >>> constant = Scores(members=np.zeros(2000), outsiders=np.zeros(2000))
        >>> found = measure(constant)
        >>> found.auc.value, found.advantage.value, found.tpr_at_fpr[0].true_positive_rate.value
        (0.5, 0.0, 0.0)
    """
    return Measured(
        tpr_at_fpr=tuple(tpr_at_fpr(scores, rate, confidence=confidence) for rate in rates),
        auc=auc(scores, confidence=confidence),
        advantage=advantage(scores, confidence=confidence),
        members=len(scores.members),
        outsiders=len(scores.outsiders),
        confidence=confidence,
    )


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> Estimate:
    """A share with its exact interval; without trials, 0 with the interval from 0 to 1.

    Example:
        >>> print(clopper_pearson(5, 10))
        0.5 [0.1871, 0.8129]

    Reference:
        Clopper and Pearson (1934), The use of confidence or fiducial limits.
    """
    checks.inside_unit(confidence=confidence)
    tail = (1 - confidence) / 2
    if trials == 0:
        return Estimate(0.0, 0.0, 1.0)
    low = beta_distribution.ppf(tail, hits, trials - hits + 1) if hits else 0.0
    high = beta_distribution.isf(tail, hits + 1, trials - hits) if hits < trials else 1.0
    return Estimate(hits / trials, float(low), float(high))


def tpr_at_fpr(scores: Scores, rate: float, *, confidence: float = 0.95) -> RateAt:
    """The share of members above the threshold that only this share of outsiders passes.

    Guarantee:
        The interval covers the rate of the attack itself, not of these outsiders: half of the error goes to
        where the threshold truly lies (order statistics), half to the members above it (Clopper-Pearson).

    Example:
        >>> scores = Scores(members=np.arange(100) + 50.0, outsiders=np.arange(100.0))
        >>> found = tpr_at_fpr(scores, 0.01)
        >>> found.true_positive_rate.value, found.is_resolved
        (0.51, True)
        >>> tpr_at_fpr(scores, 0.001).is_resolved  # it would take 1,000 outsiders
        False
    """
    checks.inside_unit(rate=rate, confidence=confidence)
    outsiders = np.sort(scores.outsiders)[::-1]
    count = len(outsiders)
    allowed = math.floor(rate * count + 1e-9)  # false positives
    value = _share_above(scores.members, outsiders[allowed])
    tail = (1 - confidence) / 4
    # The true threshold lies between two of the outsiders, counted from the highest.
    highest = int(binom.ppf(tail, count, rate)) - 1
    lowest = int(binom.isf(tail, count, rate))
    above_high = 0 if highest < 0 else int(np.sum(scores.members > outsiders[highest]))
    above_low = len(scores.members)
    if lowest < count:
        above_low = int(np.sum(scores.members > outsiders[lowest]))
    inner = 1 - (1 - confidence) / 2
    low = 0.0 if highest < 0 else clopper_pearson(above_high, len(scores.members), confidence=inner).low
    high = clopper_pearson(above_low, len(scores.members), confidence=inner).high
    is_resolved = allowed >= 1
    note = ""
    if not is_resolved:
        needed = math.ceil(1 / rate)
        note = (
            f"Not enough outsiders: {count} cannot resolve a false-positive rate of {100 * rate:g}%. "
            f"Give at least {needed:,}, better {10 * needed:,}."
        )
    return RateAt(
        false_positive_rate=rate,
        true_positive_rate=Estimate(value, min(low, value), max(high, value)),
        is_resolved=is_resolved,
        note=note,
    )


def auc(scores: Scores, *, confidence: float = 0.95) -> Estimate:
    """The probability that a member scores above an outsider, ties counting half.

    The interval is DeLong's on the scale of log odds, where it does not leave (0, 1). If no pair is in the
    wrong order, the variance is 0 and says nothing: the interval then ends at the smallest area at which so
    few records would still all be in order.

    Example:
        >>> import numpy as np
        >>> from reticent.attacks.scores import Scores
        >>> print(auc(Scores(members=np.arange(1.0, 21.0), outsiders=np.arange(20.0))))
        0.5487 [0.3683, 0.7172]

    Reference:
        DeLong, DeLong and Clarke-Pearson (1988); by ranks as in Sun and Xu (2014), Theorem 1.
    """
    checks.inside_unit(confidence=confidence)
    ours, theirs = scores.members, scores.outsiders
    ranks = rankdata(scores.values)
    above = (ranks[: len(ours)] - rankdata(ours)) / len(theirs)  # for each member, outsiders below it
    below = 1 - (ranks[len(ours) :] - rankdata(theirs)) / len(ours)  # for each outsider, members above it
    value = float(above.mean())
    if value in (0.0, 1.0):
        reach = ((1 - confidence) / 2) ** (1 / min(len(ours), len(theirs)))
        return Estimate(value, reach if value else 0.0, 1.0 if value else 1 - reach)
    variance = above.var(ddof=1) / len(ours) + below.var(ddof=1) / len(theirs)
    reach = norm.isf((1 - confidence) / 2) * math.sqrt(variance) / (value * (1 - value))
    return Estimate(value, float(expit(logit(value) - reach)), float(expit(logit(value) + reach)))


def advantage(scores: Scores, *, confidence: float = 0.95) -> Estimate:
    """The largest difference of true- and false-positive rate over all thresholds (Yeom's advantage).

    The best threshold is chosen on the same scores, which flatters the value. The interval holds for every
    threshold at once (Dvoretzky, Kiefer and Wolfowitz, with Massart's constant), so it is not flattered.

    Example:
        >>> advantage(Scores(members=np.arange(100) + 50.0, outsiders=np.arange(100.0))).value
        0.5
    """
    checks.inside_unit(confidence=confidence)
    false_positives, true_positives = roc(scores)
    value = float(np.max(true_positives - false_positives))
    tail = math.log(4 / (1 - confidence)) / 2
    reach = math.sqrt(tail / len(scores.members)) + math.sqrt(tail / len(scores.outsiders))
    return Estimate(value, max(value - reach, 0.0), min(value + reach, 1.0))


def decide(scores: Scores, threshold: float, *, confidence: float = 0.95) -> Decision:
    """Calls every record above the threshold a member, and counts how often that is right.

    Example:
        >>> found = decide(
        ...     Scores(members=np.arange(100) + 50.0, outsiders=np.arange(100.0)), threshold=74.5
        ... )
        >>> found.recall.value, found.false_positive_rate.value, found.balanced_accuracy
        (0.75, 0.25, 0.75)
    """
    checks.finite(threshold=threshold)
    right = int(np.sum(scores.members > threshold))
    wrong = int(np.sum(scores.outsiders > threshold))
    recall = clopper_pearson(right, len(scores.members), confidence=confidence)
    false_positive_rate = clopper_pearson(wrong, len(scores.outsiders), confidence=confidence)
    return Decision(
        threshold=threshold,
        precision=clopper_pearson(right, right + wrong, confidence=confidence),
        recall=recall,
        false_positive_rate=false_positive_rate,
        balanced_accuracy=(recall.value + 1 - false_positive_rate.value) / 2,
    )


def per_class(scores: Scores, *, confidence: float = 0.95) -> dict[int, Measured]:
    """Measures an attack on each label that has at least ten members and ten outsiders.

    Example:
        >>> labels = np.arange(100) % 2
        >>> scores = Scores(
        ...     members=np.arange(100) + 50.0,
        ...     outsiders=np.arange(100.0),
        ...     member_labels=labels,
        ...     outsider_labels=labels,
        ... )
        >>> {label: found.members for label, found in per_class(scores).items()}
        {0: 50, 1: 50}
    """
    if scores.member_labels is None or scores.outsider_labels is None:
        raise InvalidArgument(
            "These scores have no labels.", remedy="Give Scores member_labels and outsider_labels."
        )
    found = {}
    for label in np.intersect1d(scores.member_labels, scores.outsider_labels).tolist():
        members = scores.members[scores.member_labels == label]
        outsiders = scores.outsiders[scores.outsider_labels == label]
        if min(len(members), len(outsiders)) >= FEWEST:
            found[label] = measure(Scores(members=members, outsiders=outsiders), confidence=confidence)
    return found


def per_record(
    scores: Float[np.ndarray, "models records"], is_member: Bool[np.ndarray, "models records"]
) -> Float[np.ndarray, " records"]:
    """How often, for each record, a model trained on it scores it above a model that was not: (records,).

    Args:
        scores, is_member: (models, records). A record that is never in, or never out, gets NaN.

    A record without risk has one half. With few models this is noisy: 16 give steps of 1/64. Pass signals,
    such as the confidence, rather than scores for which the models were each other's shadows: the games of
    one record then depend on each other, and the result is too small.

    Example:
        >>> scores = np.array([[5.0, 1.0], [1.0, 1.0], [4.0, 2.0], [0.0, 2.0]])
        >>> per_record(scores, np.array([[1, 1], [0, 0], [1, 0], [0, 1]], bool)).tolist()
        [1.0, 0.5]
    """
    scores, is_member = np.asarray(scores, float), np.asarray(is_member, bool)
    ranks = rankdata(scores, axis=0)
    inside = is_member.sum(axis=0)
    outside = len(is_member) - inside
    wins = np.where(is_member, ranks, 0).sum(axis=0) - inside * (inside + 1) / 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((inside > 0) & (outside > 0), wins / (inside * outside), np.nan)


def rarity(scores: Scores) -> Float[np.ndarray, " members"]:
    """The share of outsiders that score at least as high as each member: small for members that are found.

    One more outsider is counted than there were, so that no share is 0.

    Example:
        >>> rarity(Scores(members=np.arange(10) + 100.0, outsiders=np.arange(19.0)))[0].item()
        0.05
    """
    outsiders = np.sort(scores.outsiders)
    as_high = len(outsiders) - np.searchsorted(outsiders, scores.members, side="left")
    return (as_high + 1) / (len(outsiders) + 1)


def roc(scores: Scores) -> tuple[Float[np.ndarray, " thresholds"], Float[np.ndarray, " thresholds"]]:
    """False- and true-positive rates over all thresholds, from (0, 0) to (1, 1); ties are one step.

    Example:
        >>> false_positives, true_positives = roc(
        ...     Scores(members=np.arange(10) + 5.0, outsiders=np.arange(10.0))
        ... )
        >>> false_positives[5].item(), true_positives[5].item()
        (0.0, 0.5)
    """
    order = np.argsort(-scores.values, kind="stable")
    values, is_member = scores.values[order], scores.is_member[order]
    is_last = np.append(values[1:] != values[:-1], True)
    true = np.cumsum(is_member)[is_last] / len(scores.members)
    false = np.cumsum(~is_member)[is_last] / len(scores.outsiders)
    return np.concatenate([[0.0], false]), np.concatenate([[0.0], true])


def curve(scores: Scores, *, points: int = 60) -> dict[str, Any]:
    """Samples the ROC curve at evenly spaced points of a logarithmic axis, as plain numbers to draw.

    The band in which an attack without signal lies comes with it.

    Example:
        >>> sorted(curve(Scores(members=np.arange(10) + 5.0, outsiders=np.arange(10.0))))
        ['false_positive_rate', 'no_signal', 'true_positive_rate']
    """
    checks.count(minimum=2, points=points)
    false, true = roc(scores)
    grid = np.geomspace(max(1 / len(scores.outsiders), 1e-5), 1, points)
    at = np.searchsorted(false, grid, side="right") - 1  # the last threshold that stays below each rate
    low, high = no_signal_band(len(scores.members), len(scores.outsiders), grid)
    return {
        "false_positive_rate": grid.tolist(),
        "true_positive_rate": true[at].tolist(),
        "no_signal": {"low": low.tolist(), "high": high.tolist()},
    }


def no_signal_band(
    members: int, outsiders: int, false_positives: Float[np.ndarray, " rates"], *, confidence: float = 0.95
) -> tuple[Float[np.ndarray, " rates"], Float[np.ndarray, " rates"]]:
    """The true-positive rates between which an attack without signal lies, at each false-positive rate.

    Above the threshold that k outsiders pass, the number of members is beta-binomial: all orders of all
    records are equally likely.

    Example:
        >>> low, high = no_signal_band(1000, 1000, np.array([0.1]))
        >>> round(low.item(), 3), round(high.item(), 3)
        (0.076, 0.128)
    """
    checks.count(members=members, outsiders=outsiders)
    checks.inside_unit(confidence=confidence)
    passed = np.clip(np.round(np.asarray(false_positives) * outsiders), 0, outsiders)
    tail = (1 - confidence) / 2
    shape = (members, passed + 1, outsiders - passed + 1e-9)
    return betabinom.ppf(tail, *shape) / members, betabinom.isf(tail, *shape) / members


def _share_above(members: np.ndarray, threshold: float) -> float:
    return float(np.mean(members > threshold))
