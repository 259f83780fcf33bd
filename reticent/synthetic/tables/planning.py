"""The plan of what will be released about a table, and how noisy: made before anyone looks at it.

    plan = planning.plan(coder.sizes, rows=30_000, epsilon=1.0, delta=1e-9, target=coder.target)
    plan.event                        # everything that `tables.fit` will draw, in its order
    TablePlan.read(plan.to_json())    # the same

Each column is counted; each together with the target, if there is one; then pairs are chosen and counted in
rounds. How many of each there are, and their noise, depends on sizes and on the budget, never on the data.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING, delta_left
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import tight
from reticent.core import checks, strict_json
from reticent.core.errors import CannotMeet, InvalidArgument
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, ExponentialMechanism, Gaussian, Repeated
from reticent.synthetic.tables.column_pairs import candidates

METHODS = ("auto", "mst", "aim")
_PAIRS_A_COLUMN = 1.5  # that the adaptive method chooses
_ROUNDS = 6  # of the adaptive method
_ANNEALING = 1.1  # how much less noise each round has than the one before
# How the budget is divided, in squares of sensitivity over noise.
_SINGLES, _TARGET, _CHOICES, _PAIRS = 0.17, 0.30, 0.03, 0.50
_LOUDEST = 0.25  # of the rows: more noise than that on each count, and nothing would be learned


@dataclass(frozen=True, kw_only=True)
class Round:
    """A number of pairs, each chosen at `epsilon` and then counted with noise of `deviation`."""

    choices: int
    epsilon: float
    deviation: float

    def __post_init__(self) -> None:
        checks.count(choices=self.choices)
        checks.positive(epsilon=self.epsilon, deviation=self.deviation)


@dataclass(frozen=True, kw_only=True)
class TablePlan:
    """Everything that decides the cost of a synthetic table. Public.

    Args:
        sizes: how many codes each column has.
        ordered: whether neighbouring codes are neighbouring values, for each column.
        rows: how many the table has: taken to be public, and need not be exact.
        target: a column of which every pair is measured, without a choice.
        single_deviation, target_deviation: of the noise on counts of columns, and of pairs with the target.
        beside: what else the same budget pays for, such as preparation.
        rows_per_user: the most rows of one user, if users are protected. Counts move by that much at most, so
            their noise is so many times the deviations above, which are for one row.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    rows: int
    target: int | None
    method: str
    epsilon: float
    delta: float
    single_deviation: float
    target_deviation: float
    rounds: tuple[Round, ...]
    beside: Event | None = None
    rows_per_user: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))
        object.__setattr__(self, "ordered", tuple(self.ordered))
        object.__setattr__(self, "rounds", tuple(self.rounds))
        checks.count(**{f"sizes[{at}]": size for at, size in enumerate(self.sizes)})
        checks.count(rows=self.rows, columns=len(self.sizes), rows_per_user=self.rows_per_user)
        checks.one_of(METHODS[1:], method=self.method)
        checks.positive(epsilon=self.epsilon, single_deviation=self.single_deviation)
        checks.positive(target_deviation=self.target_deviation)
        checks.inside_unit(delta=self.delta)
        if len(self.ordered) != len(self.sizes):
            raise InvalidArgument("ordered and sizes differ in length.", remedy="Give one for each column.")
        if self.target is not None and not 0 <= self.target < len(self.sizes):
            raise InvalidArgument(f"There is no column {self.target}.", remedy="Give a column's position.")

    @property
    def releases(self) -> list[Event]:
        """Every single release in the order in which it is drawn."""
        columns = len(self.sizes)
        listed: list[Event] = [Gaussian(noise_multiplier=self.single_deviation)] * columns
        if self.target is not None:
            listed += [Gaussian(noise_multiplier=self.target_deviation)] * (columns - 1)
        for item in self.rounds:
            listed += [ExponentialMechanism(epsilon=item.epsilon)] * item.choices
            listed += [Gaussian(noise_multiplier=item.deviation)] * item.choices
        return listed

    @property
    def event(self) -> Event:
        """All that is released about the records, under add-or-remove. Without `beside`."""
        groups = itertools.groupby(self.releases)
        parts = [Repeated(event=event, times=sum(1 for _ in group)) for event, group in groups]
        return Composed(events=tuple(parts))

    @property
    def whole(self) -> Event:
        """`event` and what was planned beside it: this is what costs (epsilon, delta)."""
        return self.event if self.beside is None else Composed(events=(self.event, self.beside))

    def to_json(self) -> str:
        beside = None if self.beside is None else events.to_json(self.beside)
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        rounds = [asdict(item) for item in self.rounds]
        return json.dumps(plain | {"rounds": rounds, "beside": beside}, allow_nan=False)

    @classmethod
    def read(cls, text: str) -> TablePlan:
        """The plan that `to_json` wrote. Everything is checked: the file may not be trusted.

        Raises:
            InvalidArgument: it is not JSON, or a field is missing, unknown or out of its range.
        """
        try:
            found = strict_json.parse_object(text)
            found["rounds"] = tuple(Round(**item) for item in found["rounds"])
            if found["beside"] is not None:
                found["beside"] = events.from_json(found["beside"])
            return cls(**found)
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(
                "This is not a plan of a synthetic table.", remedy="Write one with to_json."
            ) from None


def plan(
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    method: str = "auto",
    *,
    target: int | None = None,
    ordered: Sequence[bool] | None = None,
    beside: Event | None = None,
    rows_per_user: int = 1,
) -> TablePlan:
    """The plan whose whole cost is (epsilon, delta), by the tight accountant.

    Args:
        method: "mst" chooses a tree of pairs at once, "aim" chooses in rounds and may choose more than a
            tree; "auto" is "aim".

    Raises:
        CannotMeet: the noise would drown the counts; the message says what would fit.
    """
    checks.one_of(METHODS, method=method)
    checks.count(rows=rows, columns=len(sizes))
    method = "aim" if method == "auto" else method
    ordered = [False] * len(sizes) if ordered is None else ordered
    draft = TablePlan(
        sizes=tuple(sizes),
        ordered=tuple(ordered),
        rows=rows,
        target=target,
        method=method,
        epsilon=epsilon,
        delta=delta,
        single_deviation=1.0,
        target_deviation=1.0,
        rounds=(),
        beside=beside,
        rows_per_user=rows_per_user,
    )
    noise = calibrate.noise_for(
        lambda scale: _scale(draft, scale).whole,
        Neighbours(Adjacency.ADD_OR_REMOVE),
        epsilon=epsilon,
        delta=delta_left(
            delta, TRAINING * delta
        ),  # the rest pays for samplers that are a little off their law
        guess=gaussian_dp.noise_multiplier(epsilon, delta),
        accountant=lambda event, delta, near: tight(event, delta, near.adjacency).upper,
    )
    found = _scale(draft, noise)
    _require_audible(found, noise)
    return found


def _scale(draft: TablePlan, scale: float) -> TablePlan:
    """The plan whose releases are together about as loud as one with noise multiplier `scale`.

    A choice at epsilon e counts as a Gaussian of noise 2 / e: both have e^2 / 8 of concentrated privacy.
    """
    columns = len(draft.sizes)
    counts = _choices(draft)
    shares = {"singles": _SINGLES, "target": _TARGET * (draft.target is not None and columns > 1)}
    shares |= {"choices": _CHOICES * bool(counts), "pairs": _PAIRS * bool(counts)}
    unit = sum(shares.values())
    loud = {name: share / unit / scale**2 for name, share in shares.items()}
    weights = [_ANNEALING ** (2 * at) * times for at, times in enumerate(counts)]
    rounds = [
        Round(
            choices=times,
            epsilon=2 * math.sqrt(loud["choices"] / sum(counts)),
            deviation=math.sqrt(times * sum(weights) / (loud["pairs"] * weight)),
        )
        for times, weight in zip(counts, weights, strict=True)
    ]
    return replace(
        draft,
        single_deviation=math.sqrt(columns / loud["singles"]),
        target_deviation=math.sqrt((columns - 1) / loud["target"]) if loud["target"] else 1.0,
        rounds=tuple(rounds),
    )


def _choices(draft: TablePlan) -> list[int]:
    """How many pairs each round chooses."""
    columns = len(draft.sizes) - (draft.target is not None)
    pairs = len(candidates(len(draft.sizes), draft.target if draft.method == "mst" else None))
    if not pairs:
        return []
    if draft.method == "mst":
        return [columns - 1]
    wanted = min(pairs, round(_PAIRS_A_COLUMN * columns))
    rounds = min(_ROUNDS, wanted)
    return [wanted // rounds + (at < wanted % rounds) for at in range(rounds)]


def _require_audible(found: TablePlan, noise: float) -> None:
    """
    Raises:
        CannotMeet: the noise on each column's counts is a large part of all rows.
    """
    loudest = _LOUDEST * found.rows / found.rows_per_user
    if found.single_deviation <= loudest:
        return
    columns = len(found.sizes)
    share = columns * (noise / found.single_deviation) ** 2
    fits = int(share * (loudest / noise) ** 2)
    needed = gaussian_dp.epsilon(min(1 / (loudest * math.sqrt(share / columns)), 1e3), found.delta)
    heard = found.rows_per_user * found.single_deviation
    fewer = f", or keep at most {fits} columns" if fits > 0 else ""
    raise CannotMeet(
        f"At epsilon {found.epsilon:g} and delta {found.delta:g} the noise on each count of {columns} "
        f"columns would be {heard:.0f}, and there are {found.rows} rows.",
        remedy=f"Use an epsilon of about {needed:.2g} or more{fewer}, or more rows.",
    )
