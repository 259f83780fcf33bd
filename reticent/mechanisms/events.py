"""What was released: a closed set of descriptions that accountants interpret later.

An event says nothing about how it was computed and holds nothing private. Noise is always given
relative to the largest contribution of one record (`noise_multiplier`); how far neighbours move the
released value is then a matter of the adjacency, and no caller ever passes a factor of two.

    Gaussian, Laplace, RandomizedResponse, ExponentialMechanism      one noisy release
    PureDp, ApproximateDp                                            a guarantee proved elsewhere
    PoissonSampled, TruncatedPoissonSampled, FixedSizeSampled        a release computed on a random batch
    Allocated                                                        releases of which a record is in a few
    Repeated, Composed                                               several releases, chosen adaptively
    BestOfTrials                                                     the best of a random number of runs
    NonPrivate                                                       a release without protection

Every event is written to JSON and read back unchanged; an unknown one is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

from reticent.core import checks, strict_json
from reticent.core.errors import InvalidArgument, suggest
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.batch_events import (
    Allocated,
    FixedSizeSampled,
    PoissonSampled,
    TruncatedPoissonSampled,
)


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """A sum plus Gaussian noise of `noise_multiplier` times the largest L2 contribution of one record.

    Example:
        >>> Gaussian(noise_multiplier=1.1)
        Gaussian(noise_multiplier=1.1)
        >>> Gaussian(noise_multiplier=float("nan"))
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: noise_multiplier must be a positive number, got nan.
        Pass another noise_multiplier.
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class Laplace:
    """A sum plus Laplace noise of `noise_multiplier` times the largest L1 contribution of one record.

    Example:
        >>> Laplace(noise_multiplier=2.0)  # costs epsilon = 1 / 2
        Laplace(noise_multiplier=2.0)
    """

    noise_multiplier: float

    def __post_init__(self) -> None:
        checks.positive(noise_multiplier=self.noise_multiplier)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """One answer among `choices`: the true one with probability `truth`, otherwise any other, all alike.

    Example:
        >>> round(RandomizedResponse(truth=0.75).epsilon, 4)  # ln 3
        1.0986
    """

    truth: float
    choices: int = 2

    def __post_init__(self) -> None:
        checks.count(minimum=2, choices=self.choices)
        checks.probability(truth=self.truth)
        if self.truth < 1 / self.choices:
            raise InvalidArgument(
                f"truth={self.truth} is below an even guess among {self.choices} choices.",
                remedy="Pass a truth of at least 1 / choices.",
            )

    @property
    def epsilon(self) -> float:
        lie = (1 - self.truth) / (self.choices - 1)
        return math.log(self.truth / lie) if lie > 0 else math.inf


@dataclass(frozen=True, kw_only=True)
class ExponentialMechanism:
    """A choice with probability proportional to exp(epsilon * utility / (2 * sensitivity)).

    Pure `epsilon`, and of bounded range `epsilon`, which is why it composes better than pure DP. The
    sensitivity is that of the utility under this adjacency.

    Example:
        >>> ExponentialMechanism(epsilon=0.5).epsilon
        0.5
    """

    epsilon: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        checks.positive(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class PureDp:
    """Something proved elsewhere to be `epsilon`-DP under this adjacency."""

    epsilon: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        checks.not_negative(epsilon=self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ApproximateDp:
    """Something proved elsewhere to be (`epsilon`, `delta`)-DP under this adjacency."""

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE

    def __post_init__(self) -> None:
        checks.not_negative(epsilon=self.epsilon)
        checks.probability(delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """The same kind of release, `times` times, each chosen with the earlier ones in view.

    Example:
        >>> Repeated(event=Gaussian(noise_multiplier=1.0), times=100).times
        100
    """

    event: Event
    times: int

    def __post_init__(self) -> None:
        checks.count(minimum=0, times=self.times)


@dataclass(frozen=True, kw_only=True)
class Composed:
    """Several releases about the same data, each chosen with the earlier ones in view.

    Example:
        >>> two = Composed(events=(Gaussian(noise_multiplier=2.0), PureDp(epsilon=0.1)))
        >>> from_json(to_json(two)) == two
        True
    """

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))


@dataclass(frozen=True, kw_only=True)
class BestOfTrials:
    """The best of K independent runs of `event`, by a score that is part of it; nothing else is seen of them.

    K is at least 1 and drawn from a negative binomial distribution: of shape 1 it is the geometric
    one, of shape 0 the logarithmic one. The smaller `gamma`, the more runs.

    Example:
        >>> round(BestOfTrials(shape=1.0, gamma=0.1, event=PureDp(epsilon=0.1)).mean, 6)
        10.0
    """

    shape: float
    gamma: float
    event: Event

    def __post_init__(self) -> None:
        checks.finite(shape=self.shape)
        checks.positive(shape_above_minus_one=self.shape + 1)
        checks.inside_unit(gamma=self.gamma)

    @property
    def mean(self) -> float:
        """How many runs there are on average."""
        return self.mean_of(self.shape, self.gamma)

    @staticmethod
    def mean_of(shape: float, gamma: float) -> float:
        """shape (1 - gamma) / (gamma (1 - gamma^shape)), and its limit (1/gamma - 1) / ln(1/gamma) at 0."""
        log = math.log(gamma)
        return (1 / gamma - 1) * (shape / -math.expm1(shape * log) if shape else -1 / log)


@dataclass(frozen=True, kw_only=True)
class NonPrivate:
    """A release without any protection: it costs infinity.

    Example:
        >>> from reticent.accounting import epsilon
        >>> epsilon(NonPrivate(), 1e-5)
        inf
    """


Event = (
    Gaussian
    | Laplace
    | RandomizedResponse
    | ExponentialMechanism
    | PureDp
    | ApproximateDp
    | PoissonSampled
    | TruncatedPoissonSampled
    | FixedSizeSampled
    | Allocated
    | Repeated
    | Composed
    | BestOfTrials
    | NonPrivate
)

_NAMES: dict[str, type[Any]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "randomized_response": RandomizedResponse,
    "exponential_mechanism": ExponentialMechanism,
    "pure_dp": PureDp,
    "approximate_dp": ApproximateDp,
    "poisson_sampled": PoissonSampled,
    "truncated_poisson_sampled": TruncatedPoissonSampled,
    "fixed_size_sampled": FixedSizeSampled,
    "allocated": Allocated,
    "repeated": Repeated,
    "composed": Composed,
    "best_of_trials": BestOfTrials,
    "non_private": NonPrivate,
}
_KINDS = {kind: name for name, kind in _NAMES.items()}


def to_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values.

    >>> to_json(PoissonSampled(rate=0.5, event=Gaussian(noise_multiplier=1.0)))
    {'kind': 'poisson_sampled', 'rate': 0.5, 'event': {'kind': 'gaussian', 'noise_multiplier': 1.0}}
    """
    values = {item.name: getattr(event, item.name) for item in fields(event)}
    if values.get("parts") == 1:
        del values["parts"]  # as in records that were written before batches came from parts
    return {"kind": _KINDS[type(event)], **{name: _value_to_json(value) for name, value in values.items()}}


def from_json(value: Any) -> Event:
    """The event that `to_json` wrote. Everything is checked: the file may be a stranger's.

    Raises:
        InvalidArgument: an unknown kind, a field too many or too few, a value outside its range.

    Example:
        >>> from_json({"kind": "gaussian", "noise_multiplier": 1.0})
        Gaussian(noise_multiplier=1.0)
    """
    try:
        return _read(value)
    except RecursionError:
        raise InvalidArgument(
            "The event is nested too deeply.", remedy="Write it with fewer levels of composition."
        ) from None


def read(text: str | bytes) -> Event:
    """The event in a JSON text.

    Example:
        >>> read('{"kind": "gaussian", "noise_multiplier": 1.0}')
        Gaussian(noise_multiplier=1.0)
    """
    try:
        value = strict_json.parse(text)
    except ValueError as error:
        raise InvalidArgument(f"This is not an event: {error}.", remedy="Write it as to_json does.") from None
    return from_json(value)


def _read(value: Any) -> Event:
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise InvalidArgument(
            f"An event is an object with a 'kind', got {type(value).__name__}.",
            remedy=f"The kinds are: {', '.join(_NAMES)}.",
        )
    name = value["kind"]
    if name not in _NAMES:
        raise InvalidArgument(f"There is no event of kind '{name}'.", remedy=suggest(name, _NAMES))
    kind = _NAMES[name]
    types = {item.name: item.type for item in fields(kind)}
    given = {key: _value_from_json(key, item, types.get(key)) for key, item in value.items() if key != "kind"}
    known = set(types)
    if unknown := sorted(set(given) - known):
        raise InvalidArgument(f"A '{name}' has no field '{unknown[0]}'.", remedy=suggest(unknown[0], known))
    try:
        return kind(**given)
    except TypeError:
        missing = ", ".join(sorted(known - set(given)))
        raise InvalidArgument(f"A '{name}' lacks: {missing}.", remedy="Add it to the JSON.") from None


def _value_to_json(value: Any) -> Any:
    if isinstance(value, Adjacency):
        return value.value
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    return to_json(value) if type(value) in _KINDS else value


def _value_from_json(key: str, value: Any, kind: Any) -> Any:
    if kind == "float" and type(value) is int and abs(value) < 2**63:
        return float(value)  # JSON does not tell 1 from 1.0
    if key == "adjacency":
        named: Any = value
        checks.one_of([item.value for item in Adjacency], adjacency=named)
        return Adjacency(named)
    if key == "event":
        return _read(value)
    if key == "events":
        if not isinstance(value, list):
            raise InvalidArgument("'events' is a list of events.", remedy="Write it in square brackets.")
        return tuple(_read(item) for item in value)
    return value
