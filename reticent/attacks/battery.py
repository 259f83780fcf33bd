"""Runs every membership attack, on every shadow model in turn or on one target, and measures each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reticent.attacks.membership import threshold
from reticent.attacks.membership.games import ATTACKS, Attack, Game
from reticent.attacks.metrics import Decision, Measured, decide, measure, per_class, per_record
from reticent.attacks.scores import FEWEST, Outputs, Scores, check_apart
from reticent.attacks.shadows.outputs import Accuracies, Shadows, check_alike
from reticent.attacks.signals import Signals, signals_of
from reticent.attacks.strength import is_alarming, strongest_attack
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument


@dataclass(frozen=True, kw_only=True)
class Target:
    """A model to attack, asked about the records that the shadow models were trained and asked about.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> target = Target(logits=rng.normal(size=(40, 3)), is_member=np.arange(40) < 20)
        >>> target.logits.shape, int(target.is_member.sum())
        ((40, 3), 20)
    """

    logits: np.ndarray = field(repr=False)  # (records, classes)
    is_member: np.ndarray = field(repr=False)
    robustness: np.ndarray | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True)
class Result:
    """How well one attack did. `decision` is at the attack's own threshold, if it has one."""

    name: str
    what: str
    measured: Measured
    decision: Decision | None
    seconds: float
    scores: Scores = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        decision = None
        if self.decision is not None:
            decision = {
                name: value._asdict() if hasattr(value, "_asdict") else value
                for name, value in vars(self.decision).items()
            }
        return {
            "name": self.name,
            "what": self.what,
            **self.measured.to_json(),
            "decision": decision,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, kw_only=True)
class Battery:
    """What all attacks found, in the order of the table `ATTACKS`.

    Args:
        left_out: attacks that could not be played, and why.
        risks: (records,) how often a model trained on the record is surer of it than one that was not, over
            all shadow models: one half for a record without risk. None without shadow models.
    """

    results: tuple[Result, ...]
    accuracies: Accuracies  # of the attacked models
    models: int  # that were attacked
    shadows: int
    left_out: dict[str, str]
    seconds: float
    risks: np.ndarray | None = field(default=None, repr=False)

    def __getitem__(self, name: str) -> Result:
        checks.one_of([result.name for result in self.results], attack=name)
        return next(result for result in self.results if result.name == name)

    def per_class(self, name: str) -> dict[int, Measured]:
        """Measures an attack on the records of each label."""
        return per_class(self[name].scores)

    @property
    def strongest(self) -> Result:
        """The strongest attack, by `strongest_attack`.

        Raises:
            InvalidArgument: no attack was played.
        """
        name = strongest_attack(self._measurements)
        if name is None:
            raise InvalidArgument("No attack was run.", remedy="Choose attacks that these outputs allow.")
        return self[name]

    @property
    def is_alarming(self) -> bool:
        """Whether an attack found enough to warn of publishing the model, by `strength.is_alarming`."""
        return is_alarming(self._measurements)

    @property
    def _measurements(self) -> dict[str, dict[str, Any]]:
        return {result.name: result.measured.to_json() for result in self.results}

    def to_json(self) -> dict[str, Any]:
        return {
            "attacks": {result.name: result.to_json() for result in self.results},
            "strongest": strongest_attack(self._measurements),
            "is_alarming": self.is_alarming,
            "accuracies": self.accuracies._asdict(),
            "models": self.models,
            "shadows": self.shadows,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }


def run(
    shadows: Shadows,
    *,
    target: Target | None = None,
    attacks: Sequence[str] | None = None,
    tolerance: float = 0.05,
    on_progress: Callable[[float], None] | None = None,
) -> Battery:
    """Attacks the target with the shadow models; without a target, each shadow model with the others.

    Args:
        attacks: names from `ATTACKS`; all unless given.
        tolerance: how far the target's accuracies may be from the mean of the shadows'.
        on_progress: called with the fraction that is done.

    Raises:
        DataError: the shadow models are not like the target, or too few.

    Example:
        >>> from reticent.attacks.shadows.outputs import balanced_halves
        >>> is_member = balanced_halves(60, 8, seed=0)
        >>> labels = np.arange(60) % 3
        >>> sure = np.eye(3)[labels] * (1 + 4 * is_member[..., None])  # members are remembered
        >>> found = run(Shadows(logits=sure, is_member=is_member, labels=labels), attacks=["threshold"])
        >>> found["threshold"].measured.auc.value
        1.0
    """
    started = time.perf_counter()
    names = _check_names(attacks)
    games = _Games(shadows, target, tolerance)
    results, left_out = [], {}
    for number, name in enumerate(names):
        began = time.perf_counter()
        scores = games.play(ATTACKS[name])
        if scores is None:
            left_out[name] = "The shadow models were not asked about disturbed records."
        else:
            results.append(_measure_result(name, scores, time.perf_counter() - began))
        if on_progress is not None:
            on_progress((number + 1) / len(names))
    return Battery(
        results=tuple(results),
        accuracies=games.accuracies,
        models=games.count,
        shadows=shadows.models,
        left_out=left_out,
        seconds=time.perf_counter() - started,
        risks=per_record(shadows.signals.confidence, shadows.is_member),
    )


def run_without_shadows(
    members: Outputs, outsiders: Outputs, *, attacks: Sequence[str] | None = None
) -> Battery:
    """Plays the attacks that need nothing but the outputs of one model, from any framework.

    The threshold on the loss is the members' mean, which is often published with a model.

    Args:
        attacks: names from `ATTACKS`; all that can be played unless given.

    Raises:
        InvalidArgument: an attack that was asked for needs shadow models.
        DataError: members and outsiders overlap or have different labels, or there are too few.

    Example:
        >>> labels = np.arange(30) % 3
        >>> members = Outputs.from_logits(9 * np.eye(3)[labels], labels)
        >>> outsiders = Outputs.from_logits(np.eye(3)[labels], labels)
        >>> run_without_shadows(members, outsiders, attacks=["threshold"])[
        ...     "threshold"
        ... ].measured.auc.value
        1.0
    """
    started = time.perf_counter()
    names = _check_names(attacks)
    if attacks is not None:
        _require_playable(names)
    check_apart(members, outsiders)
    labels = np.concatenate([members.labels, outsiders.labels])
    signals = signals_of(np.concatenate([members.logits, outsiders.logits]), labels)
    is_member = np.repeat([True, False], [len(members), len(outsiders)])
    nobody = signals.take(np.zeros((0, len(labels)), int))
    game = Game(signals, is_member, labels, nobody, np.zeros((0, len(labels)), bool))
    mean_loss = -float(signals.log_probability[is_member].mean())
    known = {"threshold": threshold.from_training_loss(mean_loss)}  # which is often published
    results = []
    for name in names:
        attack = ATTACKS[name]
        if not attack.needs_shadows:
            began = time.perf_counter()
            found = attack.play(game, known.get(name))
            if found is not None:
                scores = Scores.of_games(found, is_member, labels)
                decides = attack.teach is None or name in known
                seconds = time.perf_counter() - began
                results.append(_measure_result(name, scores, seconds, decides=decides, has_shadows=False))
    right = signals.is_right
    return Battery(
        results=tuple(results),
        accuracies=Accuracies(float(right[is_member].mean()), float(right[~is_member].mean())),
        models=1,
        shadows=0,
        left_out={name: "It needs shadow models." for name in names if ATTACKS[name].needs_shadows},
        seconds=time.perf_counter() - started,
    )


# How they are played


class _Games:
    """One game for the target, or one for every shadow model, which share what attacks learned."""

    def __init__(self, shadows: Shadows, target: Target | None, tolerance: float) -> None:
        self._shadows, self._target = shadows, target
        fewest = 6 if target is not None else 8
        if shadows.models < fewest:
            raise DataError(
                f"{shadows.models} shadow models are too few to attack with.",
                remedy=f"Train at least {fewest}; 16 show most of what there is to see, 64 are better.",
            )
        self.accuracies = shadows.accuracies
        self.count = shadows.models
        if target is not None:
            self._signals = _target_signals(target, shadows)
            right = self._signals.is_right
            self.accuracies = Accuracies(
                float(right[target.is_member].mean()), float(right[~target.is_member].mean())
            )
            self.count = 1
            check_alike(shadows, self.accuracies, tolerance=tolerance)

    def play(self, attack: Attack) -> Scores | None:
        if self._target is not None:
            every = np.arange(self._shadows.models)
            found = attack.play(
                self._game(self._signals, self._target.is_member, every), self._teach(attack, every)
            )
            return (
                None
                if found is None
                else Scores.of_games(found, self._target.is_member, self._shadows.labels)
            )
        pairs = np.arange(self._shadows.models) // 2
        lessons = [self._teach(attack, np.flatnonzero(pairs % 2 != half)) for half in (0, 1)]
        rows = []
        for model, is_member in enumerate(self._shadows.is_member):
            game = self._game(self._shadows.signals.take(model), is_member, self._shadows.others(model))
            found = attack.play(game, lessons[pairs[model] % 2])
            if found is None:
                return None
            rows.append(found)
        return Scores.of_games(np.stack(rows), self._shadows.is_member, self._shadows.labels)

    def _game(self, target: Signals, is_member: np.ndarray, others: np.ndarray) -> Game:
        shadows = self._shadows
        return Game(
            target, is_member, shadows.labels, shadows.signals.take(others), shadows.is_member[others]
        )

    def _teach(self, attack: Attack, teachers: np.ndarray) -> Any:
        if attack.teach is None:
            return None
        shadows = self._shadows
        return attack.teach(shadows.signals.take(teachers), shadows.is_member[teachers], shadows.labels)


def _target_signals(target: Target, shadows: Shadows) -> Signals:
    if target.logits.shape != shadows.logits.shape[1:] or target.is_member.shape != (shadows.records,):
        raise DataError(
            f"The target has outputs {target.logits.shape} and membership {target.is_member.shape}; the "
            f"shadow models have {shadows.logits.shape[1:]} for {shadows.records} records.",
            remedy="Ask the target about the same records, in the same order.",
        )
    # A target that gives NaN, or knows members only, is found here.
    Outputs.from_logits(target.logits, shadows.labels, name="records of the target")
    if min(target.is_member.sum(), (~target.is_member).sum()) < FEWEST:
        raise DataError(
            f"The target has {target.is_member.sum()} members among {shadows.records} records.",
            remedy=f"Give at least {FEWEST} members and {FEWEST} outsiders.",
        )
    return signals_of(target.logits, shadows.labels, target.robustness)


def _measure_result(
    name: str, scores: Scores, seconds: float, *, decides: bool = True, has_shadows: bool = True
) -> Result:
    attack = ATTACKS[name]
    return Result(
        name=name,
        what=attack.in_words(has_shadows=has_shadows),
        measured=measure(scores),
        decision=decide(scores, attack.threshold) if decides and attack.threshold is not None else None,
        seconds=seconds,
        scores=scores,
    )


def _require_playable(names: Sequence[str]) -> None:
    """Refuses attacks that need disturbed copies or other models, which outputs alone do not have."""
    lacking = [name for name in names if ATTACKS[name].needs_shadows or name == "label_only"]
    if lacking:
        able = [name for name, attack in ATTACKS.items() if not attack.needs_shadows and name != "label_only"]
        raise InvalidArgument(
            f"The attack {', '.join(lacking)} needs shadow models.",
            remedy=f"Train some, or choose among {', '.join(able)}.",
        )


def _check_names(attacks: Sequence[str] | None) -> list[str]:
    if attacks is None:
        return list(ATTACKS)
    for name in attacks:
        checks.one_of(ATTACKS, attack=name)
    return list(attacks)
