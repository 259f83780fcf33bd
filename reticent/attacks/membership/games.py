"""Every membership attack by name, in a form that can be played on a game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from reticent.attacks.membership import (
    entropy,
    gap,
    label_only,
    likelihood,
    population,
    relative,
    shadow_classifier,
    threshold,
)
from reticent.attacks.scores import FEWEST
from reticent.attacks.signals import Signals
from reticent.core.errors import DataError


class Game(NamedTuple):
    """One model to attack, and what the attacker has."""

    target: Signals  # (records,) each
    is_member: np.ndarray  # (records,): the truth; an attacker knows some outsiders at most
    labels: np.ndarray
    shadows: Signals  # (models, records) each
    shadow_members: np.ndarray


class Attack(NamedTuple):
    """A way to score the records of a game.

    Args:
        play: scores of the records, higher for members; None if the game lacks what it needs.
        threshold: above which the attack itself would say "member"; None if it has none.
        teach: learns once from half of the shadow models; the result is passed to `play`, so that 64 games do
            not each learn the same. The attacked model is in the other half.
        alone: what it does without shadow models, if that differs.
    """

    what: str
    play: Callable[[Game, Any], np.ndarray | None]
    threshold: float | None = None
    teach: Callable[[Signals, np.ndarray, np.ndarray], Any] | None = None
    needs_shadows: bool = True
    alone: str | None = None

    def in_words(self, *, has_shadows: bool) -> str:
        return self.what if has_shadows or self.alone is None else self.alone


def _population(game: Game, taught: Any) -> np.ndarray:
    """Each half of the records is judged with the outsiders of the other half."""
    scores = np.zeros(len(game.labels))
    halves = np.random.default_rng(0).permutation(len(game.labels)) % 2
    for half in (0, 1):
        judged, known = halves == half, (halves != half) & ~game.is_member
        if known.sum() < FEWEST:
            raise DataError(
                f"{known.sum()} outsiders are too few to compare with.",
                remedy=f"Give at least {3 * FEWEST} outsiders.",
            )
        signal = game.target.confidence
        scores[judged] = population.deviations_above(
            signal[judged], game.labels[judged], signal[known], game.labels[known]
        )
    return scores


def _label_only(game: Game, taught: Any) -> np.ndarray | None:
    if game.target.robustness is None:
        return None
    return label_only.break_ties(game.target.robustness, game.target.is_right)


def _label_only_likelihood(game: Game, taught: Any) -> np.ndarray | None:
    if game.target.robustness is None or game.shadows.robustness is None:
        return None
    ours, theirs = (label_only.log_odds(each) for each in (game.target.robustness, game.shadows.robustness))
    return likelihood.lira(ours, theirs, game.shadow_members, variance="fixed")


ATTACKS: dict[str, Attack] = {
    "gap": Attack(
        "the label is right", lambda game, _: gap.scores(game.target.is_right), gap.THRESHOLD, None, False
    ),
    "threshold": Attack(
        "the loss is below a threshold, the best on shadow models",
        lambda game, cut: game.target.log_probability - (0.0 if cut is None else cut),
        0.0,
        lambda signals, is_member, _: threshold.from_shadows(signals.log_probability, is_member),
        False,
        "the loss is below a threshold, the mean training loss",
    ),
    "entropy": Attack(
        "the modified entropy is below a threshold of its label",
        lambda game, cuts: entropy.spread(game.target.certainty) - (0.0 if cuts is None else cuts),
        0.0,
        lambda signals, is_member, labels: entropy.label_thresholds(
            entropy.spread(signals.certainty), is_member, labels
        ),
        False,
        "the modified entropy is small",
    ),
    "population": Attack(
        "the model is surer than of outsiders with the same label", _population, needs_shadows=False
    ),
    "label_only": Attack("the label stays right when the record is disturbed", _label_only, None, None),
    "label_only_likelihood": Attack(
        "the label stays right as often as for models trained on the record",
        _label_only_likelihood,
        likelihood.THRESHOLD,
    ),
    "shadow_classifier": Attack(
        "a classifier for each label, trained on shadow models",
        lambda game, taught: taught.log_odds(game.target.answers, game.labels),
        shadow_classifier.THRESHOLD,
        lambda signals, is_member, labels: shadow_classifier.fit(signals.answers, labels, is_member),
    ),
    "likelihood_offline": Attack(
        "the model is surer than models that never saw the record",
        lambda game, _: likelihood.lira_offline(
            game.target.confidence, game.shadows.confidence, game.shadow_members
        ),
    ),
    "likelihood": Attack(
        "the answer is more like that of models trained on the record than of others",
        lambda game, _: likelihood.lira(game.target.confidence, game.shadows.confidence, game.shadow_members),
        likelihood.THRESHOLD,
    ),
    "relative_offline": Attack(
        "gains more over models that never saw it than other records do",
        lambda game, _: relative.offline(
            game.target.log_probability, game.shadows.log_probability, game.shadow_members
        ),
    ),
    "relative": Attack(
        "gains more over reference models than other records do",
        lambda game, _: relative.online(
            game.target.log_probability, game.shadows.log_probability, game.shadow_members
        ),
    ),
}
