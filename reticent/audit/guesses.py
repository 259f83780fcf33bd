"""How many canaries to guess, and which: rules that are fixed before the coins are looked at.

Taking the best of many thresholds on the scores that are then tested is how lower bounds come out above the
truth. Here the numbers of guesses are a short list that follows from the number of canaries alone, and either
the error is shared among all of them (Bonferroni), or one is chosen on half the canaries and tested on the
other half (split).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

GuessSide = Literal["both", "top"]
Selection = Literal["bonferroni", "split"]
Test = Callable[..., float]

_MOST = 8192  # guesses of the longest entry: more of them are hardly ever the best
_FEWEST = 32


class GuessRule(NamedTuple):
    """Guess `guesses` coins: the highest scores are in, and with `both` as many of the lowest are out."""

    guesses: int
    side: GuessSide

    def correct(self, order: np.ndarray, included: np.ndarray) -> int:
        """How many guesses are right; `order` holds the canaries from the lowest score to the highest."""
        tops = self.guesses if self.side == "top" else self.guesses - self.guesses // 2
        bottoms = self.guesses - tops
        return int(included[order[len(order) - tops :]].sum() + (~included[order[:bottoms]]).sum())


class Refutation(NamedTuple):
    """The largest epsilon that was refuted, by which rule, and how many guesses were right."""

    epsilon: float
    rule: GuessRule
    correct: int


def rules(canaries: int) -> tuple[GuessRule, ...]:
    """Lists the rules to try, from the number of canaries alone."""
    sizes = [min(canaries, _MOST)]
    while sizes[-1] // 2 >= _FEWEST:
        sizes.append(sizes[-1] // 2)
    both = [GuessRule(size, "both") for size in sizes]
    return (*both, *(GuessRule(size, "top") for size in sizes if size <= canaries // 2))


def by_bonferroni(scores: np.ndarray, included: np.ndarray, test: Test, error: float) -> Refutation:
    """The best rule, each tested with its share of the error."""
    order = np.argsort(scores, kind="stable")
    tried = rules(len(scores))
    found = []
    for rule in tried:
        correct = rule.correct(order, included)
        epsilon = test(canaries=len(scores), guesses=rule.guesses, correct=correct, error=error / len(tried))
        found.append(Refutation(epsilon, rule, correct))
    return max(found, key=lambda each: each.epsilon)


def by_split(scores: np.ndarray, included: np.ndarray, test: Test, error: float) -> Refutation:
    """The rule that is best on every other canary, tested on the rest with the whole error."""
    best = by_bonferroni(scores[::2], included[::2], test, error)
    rest, coins = scores[1::2], included[1::2]
    rule = best.rule._replace(guesses=min(best.rule.guesses, len(rest)))
    return by_rule(rest, coins, test, error, rule)


def by_rule(
    scores: np.ndarray, included: np.ndarray, test: Test, error: float, rule: GuessRule
) -> Refutation:
    """One rule that was fixed in advance."""
    correct = rule.correct(np.argsort(scores, kind="stable"), included)
    epsilon = test(canaries=len(scores), guesses=rule.guesses, correct=correct, error=error)
    return Refutation(epsilon, rule, correct)


def check_scores(scores: ArrayLike, included: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns scores and coins as arrays of one length, after checking them.

    Raises:
        DataError: they do not fit together, a score is NaN, or there are too few of them.
    """
    scores, included = np.asarray(scores, np.float64), np.asarray(included)
    if scores.ndim != 1 or scores.shape != included.shape:
        raise DataError(
            f"There are scores of shape {scores.shape} and coins of shape {included.shape}.",
            remedy="Give one score and one coin per canary.",
        )
    if included.dtype != bool:
        raise DataError(
            f"The coins are {included.dtype}.", remedy="Give True where a canary was in and False elsewhere."
        )
    if np.isnan(scores).any():
        raise DataError(
            f"{int(np.isnan(scores).sum())} of {len(scores)} scores are NaN.",
            remedy="Give such a canary any number that does not depend on its coin, such as 0.",
        )
    if len(scores) < 4:
        raise DataError(f"{len(scores)} canaries are too few for an audit.", remedy="Use a hundred or more.")
    return scores, included


def fixed_rule(guesses: int, canaries: int) -> GuessRule:
    """Makes a rule with a number of guesses that was fixed in advance, half of them on each side."""
    checks.count(guesses=guesses)
    if guesses > canaries:
        raise InvalidArgument(
            f"{guesses} guesses cannot be made about {canaries} canaries.",
            remedy=f"Pass at most {canaries}.",
        )
    return GuessRule(guesses, "both")
