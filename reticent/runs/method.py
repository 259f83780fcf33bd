"""What a method of training is to a run: priced before a record is seen, and then followed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from reticent.accounting.guarantee import Unit
from reticent.core.errors import CannotMeet
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.mechanisms.events import Event
from reticent.runs.learners import Learner
from reticent.runs.problem import Problem
from reticent.runs.record import HistoryPoint
from reticent.training.checkpoint import Checkpoints
from reticent.training.plan_noise import NoiseChoice

TargetKind = Literal["classes", "number"]
SamplingOfRows = Literal["poisson", "allocation"]

_SMALLEST = 20  # rows, below which there is nothing to learn privately


class Terms(NamedTuple):
    """What a method may know before it is paid for.

    Args:
        rows: how many can be expected to be trained on.
        records: how many the table has, some of which are held out by coins: never are there more.
        epsilon, delta: what the whole run may cost.
        beside: what else the run releases: its preparation.
        target: what is predicted, where that is declared; None if preparation has to find it.
        public: how many unlabelled rows there are that may be used without cost.
        teachers: how many were asked for.
        sampling: how the batches of `sgd` are drawn.
        rows_per_user: the most rows of a user that are used, where that is more than one: then `rows` and
            `records` count users.
        noise: of descent, if it is not independent.
        federated: what was asked for about rounds and clients.
        views: of an image, before its gradient is clipped; None to choose.
        has_features: rows are what a public model says, and have length 1.
        unit: what `rows` and `records` count.

    Example:
        >>> terms = Terms(rows=800, records=1000, model="linear", epsilon=1.0, delta=1e-5, beside=None)
        >>> require_enough(terms)
    """

    rows: int
    records: int
    model: str
    epsilon: float
    delta: float
    beside: Event | None
    target: TargetKind | None = None
    public: int = 0
    teachers: int | None = None
    sampling: SamplingOfRows = "poisson"
    rows_per_user: int | None = None
    noise: NoiseChoice | None = None
    federated: Mapping[str, Any] = {}
    views: int | None = None
    has_features: bool = False
    unit: Unit = "record"


class Inputs(NamedTuple):
    """What a recipe is followed with.

    Args:
        train_on, held_out: `x` as the learner takes it, and `y`.
        checkpoints: where the state of an unfinished run is kept; a method without steps has no use for it.
        public: inputs of unlabelled rows that may be used without cost.
        beside: what else the run releases: its preparation.
        users: (rows,) whose each row to train on is, where a user may have several.
    """

    learner: Learner
    problem: Problem
    train_on: Mapping[str, np.ndarray]
    held_out: Mapping[str, np.ndarray]
    keys: Keys
    checkpoints: Checkpoints
    public: np.ndarray | None = None
    observer: Observer = NOBODY
    beside: Event | None = None
    users: np.ndarray | None = None


class Trained(NamedTuple):
    """Parameters, and how they came about.

    Args:
        assumptions: what the guarantee rests on.
        history: how it went. The scores in it are unreleased.
        unreleased: what was seen on the way and is private: for whoever holds the data.

    Example:
        >>> Trained(params=None, assumptions=("the number of records is public",)).history
        ()
    """

    params: Any
    assumptions: tuple[str, ...]
    history: tuple[HistoryPoint, ...] = ()
    unreleased: Mapping[str, Any] = {}


class Recipe(Protocol):
    """A priced run."""

    @property
    def event(self) -> Event:
        """What will be released, whatever the data are."""
        ...

    @property
    def in_words(self) -> str: ...

    def to_json(self) -> dict[str, Any]: ...

    def follow(self, inputs: Any) -> Any:
        """Learns from `Inputs`, and returns `Trained`; costs `event`. Generators have their own types."""
        ...


@dataclass(frozen=True, kw_only=True)
class Method:
    """One way to learn privately: a row of the table of methods.

    Args:
        price: the recipe that spends what the terms allow: `Terms` for a model; generators have their own.
        read: a recipe from its JSON.
        needs_classes: a target that is a number is refused, before anybody pays where that is known.
        has_shadows: a recipe can be followed again on some of the rows alone, for attacks: in the steps of
            `Descent`, or without public rows and checkpoints.
        is_shared: several processes can follow it together, each with its own rows.
        is_for_users: its cost is proved for users who have several rows each.
        claims_delta: its event is a claim with a delta of its own, which takes that much of every budget.
        sampler_share: the share of delta that pays for samplers a little off their law.
        most_features: more are refused; 0 for any number.
    """

    description: str
    price: Callable[[Any], Recipe]
    read: Callable[[Mapping[str, Any]], Recipe]
    needs_classes: bool = False
    has_shadows: bool = False
    is_shared: bool = False
    is_for_users: bool = False
    claims_delta: bool = False
    sampler_share: float = 0.0
    most_features: int = 0


def require_enough(terms: Terms) -> None:
    """Checks that there are enough rows to learn anything but the people in them.

    Raises:
        CannotMeet: fewer rows than any method learns from.

    Example:
        >>> require_enough(
        ...     Terms(rows=3, records=4, model="linear", epsilon=1.0, delta=1e-5, beside=None)
        ... )
        Traceback (most recent call last):
            ...
        reticent.core.errors.CannotMeet: 3 rows are too few: what is learned from so few people is
        about them. Collect at least 20 rows, and expect little below a thousand.
    """
    if not (terms.rows >= _SMALLEST):
        counted = "users" if terms.unit == "user" else "rows"
        raise CannotMeet(
            f"{terms.rows} {counted} are too few: what is learned from so few people is about them.",
            remedy=f"Collect at least {_SMALLEST} {counted}, and expect little below a thousand.",
        )
