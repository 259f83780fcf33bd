"""Audits of additive models: canaries in every noisy sum.

An audit makes a whole fit (`additive.fit`) and puts canaries into every sum that the fit releases. A canary
is a made-up row with cells of its own in every column. It adds to each sum as much as a row may, in places
that no other row reaches, so that what is released there is its coin and noise. The fit decides how often,
and with how much noise. The cells and residuals of a canary are given to it, not computed from features and
a target: how a row gets them is the subject of the audit of arithmetic. The fitted model is thrown away.

Where users are protected, a canary is a user, with as many rows as one may have, all in the same cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from reticent.accounting.guarantee import Guarantee, Unit
from reticent.accounting.tight_epsilon import guarantee
from reticent.additive import sums
from reticent.additive.columns import Columns
from reticent.additive.fit import fit
from reticent.additive.plan import AdditivePlan
from reticent.additive.targets import MOST, AdditiveTarget
from reticent.audit.bounds import gaussian_estimate, gaussian_one_run, one_run
from reticent.audit.claim import curve_of_event, refutes
from reticent.audit.evidence import Evidence
from reticent.audit.verdict import Verdict, judge
from reticent.core import checks
from reticent.core.generators import generator
from reticent.core.keys import Keys, Stream
from reticent.mechanisms.adjacency import Adjacency

THREAT = "white box, sees every noisy sum, canaries in cells of their own"

_FEWEST, _MOST = 200, 1000  # canaries
_TRIALS = 5  # simulations of an audit
_ADJACENCY = Adjacency.ADD_OR_REMOVE


class AdditiveRows(NamedTuple):
    """Rows of an additive model, as its fit takes them.

    Args:
        x, y: features within [-1, 1], and targets.
        users, rows_per_user: whose each row is, if users are protected, and how many each may have.
    """

    x: np.ndarray
    y: np.ndarray
    target: AdditiveTarget
    columns: Columns
    users: np.ndarray | None = None
    rows_per_user: int = 1


@dataclass(frozen=True, kw_only=True)
class AdditiveAudit:
    """An audit of an additive model.

    Args:
        verdict: what the evidence says about the plan's epsilon.
        evidence: a bound first, then what rests on an assumption, then an estimate.
        promise: what the plan claims.
        scores, included: of the canaries, and how their coins fell.
    """

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    promise: Guarantee
    scores: np.ndarray
    included: np.ndarray

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.to_json(),
            "evidence": [each.to_json() for each in self.evidence],
            "guarantee": self.promise.to_json(),
            "canaries": {"gradients": len(self.included), "included": int(self.included.sum())},
        }


def audit_additive(
    rows: AdditiveRows,
    plan: AdditivePlan,
    *,
    delta: float,
    examples: int | None = None,
    canaries: int | None = None,
    confidence: float = 0.95,
    keys: Keys | None = None,
) -> AdditiveAudit:
    """Fits by a plan with canaries among the rows, and tries to contradict its epsilon.

    The fit is `additive.fit`, from the first count to the last pass: bins, curves, residuals and weights are
    its own. The canaries join where it releases.

    Args:
        delta: at which the plan claims an epsilon.
        examples: the declared number of rows, or of users; how many there are, if not given.
        canaries: how many; from the claim, if not given.

    Guarantee:
        Releases that cost what the plan says are contradicted with probability at most 1 - confidence.
    """
    checks.inside_unit(confidence=confidence)
    unit: Unit = "record" if rows.users is None else "user"
    promise = guarantee(
        plan.event,
        delta,
        _ADJACENCY,
        unit=unit,
        rows_per_user=None if rows.users is None else rows.rows_per_user,
        distance=plan.distance,
    )
    count = _enough(promise.epsilon) if canaries is None else canaries
    checks.count(canaries=count)
    keys = Keys.from_os() if keys is None else keys
    included = generator(keys, stream=Stream.ATTACKS).integers(0, 2, count).astype(bool)
    seen = _CanarySums(included, 1 if rows.users is None else rows.rows_per_user)
    fit(
        rows.x,
        rows.y,
        rows.target,
        columns=rows.columns,
        plan=plan,
        examples=_units(rows) if examples is None else examples,
        delta=delta,
        keys=keys,
        releases=seen,
        users=rows.users,
    )
    evidence = _evidence(seen.scores, included, delta, confidence)
    curve = curve_of_event(plan.event, delta, _ADJACENCY)
    return AdditiveAudit(
        verdict=judge(
            promise.epsilon,
            evidence,
            power=_simulate_bounds(
                lambda coins, rng: coins + 1e-6 * rng.random(count), count, delta, confidence
            ),
            expected=_simulate_bounds(
                lambda coins, rng: seen.apart * coins + rng.standard_normal(count), count, delta, confidence
            ),
            is_plan_refuted=refutes(seen.scores, included, curve, confidence=confidence),
        ),
        evidence=evidence,
        promise=promise,
        scores=seen.scores,
        included=included,
    )


class _CanarySums(sums.Releases):
    """The releases of a fit with canaries in each, and how much each release speaks for every canary.

    The fit is handed back its own part. Every other canary adds a negative residual, so that together they
    hardly move the constant.

    Args:
        included: how the coins fell.
        rows: of each canary: more than one where users are protected.

    Attributes:
        scores: (canaries,) log-likelihood ratios, up to a constant.
    """

    def __init__(self, included: np.ndarray, rows: int = 1) -> None:
        self._inside = np.repeat(np.flatnonzero(included), rows)  # of each row of those that are in
        self._signs = np.where(np.arange(len(included)) % 2, -1, 1)
        self._square = 0.0
        self.scores = np.zeros(len(included))

    @property
    def apart(self) -> float:
        """How many deviations the scores of canaries that are in lie above the others'."""
        return math.sqrt(self._square)

    def _see(self, values: np.ndarray, added: float, deviation: float) -> None:
        """Takes in what was released where only canaries are.

        Args:
            added: what one that is in adds there.
            deviation: of the noise.
        """
        self.scores = self.scores + values * (added / deviation**2)
        self._square += (added / deviation) ** 2

    def counts(
        self,
        source: np.random.Generator,
        places: Sequence[np.ndarray],
        sizes: Sequence[int],
        multiplier: float,
        siblings: np.ndarray | None = None,
    ) -> list[sums.Noisy]:
        own = [np.append(place, size + self._inside) for place, size in zip(places, sizes, strict=True)]
        wider = [size + len(self.scores) for size in sizes]
        released = super().counts(source, own, wider, multiplier, self._with_canaries(siblings))
        for noisy, size in zip(released, sizes, strict=True):
            self._see(noisy.values[size:], 1.0, noisy.deviation)
        return [
            noisy._replace(values=noisy.values[:size]) for noisy, size in zip(released, sizes, strict=True)
        ]

    def start(
        self,
        source: np.random.Generator,
        parts: np.ndarray,
        multiplier: float,
        siblings: np.ndarray | None = None,
    ) -> sums.Noisy:
        wide, count = parts.shape[1], len(self.scores)
        canaries = np.zeros((len(self._inside), wide + count), np.int64)
        canaries[np.arange(len(self._inside)), wide + self._inside] = MOST
        own = np.concatenate([np.pad(np.asarray(parts, np.int64), ((0, 0), (0, count))), canaries])
        noisy = super().start(source, own, multiplier, self._with_canaries(siblings))
        self._see(noisy.values[wide:], MOST, noisy.deviation)
        return noisy._replace(values=noisy.values[:wide])

    def one_pass(
        self,
        source: np.random.Generator,
        bins: Sequence[np.ndarray],
        tables: Sequence[np.ndarray],
        residuals: np.ndarray,
        is_inside: np.ndarray,
        multiplier: float,
        constant: int,
        siblings: np.ndarray | None = None,
    ) -> sums.PassSums:
        count, inside = len(self.scores), self._inside
        longest = [math.isqrt(int(np.square(table).sum(axis=1).max())) for table in tables]
        own_tables = [
            np.block([
                [table, np.zeros((len(table), count), np.int64)],
                [np.zeros((count, table.shape[1]), np.int64), weight * np.eye(count, dtype=np.int64)],
            ])
            for table, weight in zip(tables, longest, strict=True)
        ]  # fmt: skip
        own_bins = [np.append(at, len(table) + inside) for at, table in zip(bins, tables, strict=True)]
        added = np.zeros((len(inside), residuals.shape[1]))
        added[:, 0] = MOST * self._signs[inside]
        released = super().one_pass(
            source,
            own_bins,
            own_tables,
            np.concatenate([residuals, added]),
            np.append(is_inside, np.ones(len(inside), bool)),
            multiplier,
            constant,
            self._with_canaries(siblings),
        )
        for part, table, weight in zip(released.columns, tables, longest, strict=True):
            self._see(self._signs * part[table.shape[1] :, 0], weight / sums.WEIGHT, released.deviation)
        own = [part[: table.shape[1]] for part, table in zip(released.columns, tables, strict=True)]
        return released._replace(columns=own)

    def _with_canaries(self, siblings: np.ndarray | None) -> np.ndarray | None:
        """How many rows the user of each row has, canaries' rows too."""
        return None if siblings is None else np.append(siblings, sums.rows_of_own_user(self._inside))


def _evidence(
    scores: np.ndarray, included: np.ndarray, delta: float, confidence: float
) -> tuple[Evidence, ...]:
    terms: Mapping[str, Any] = {"delta": delta, "threat": THREAT}
    found = [
        one_run(scores, included, confidence=confidence, **terms),
        gaussian_one_run(scores, included, confidence=confidence, **terms),
    ]
    if min(included.sum(), (~included).sum()) >= 4:
        found.append(gaussian_estimate(scores[included], scores[~included], **terms))
    return tuple(found)


def _simulate_bounds(
    score: Callable[[np.ndarray, np.random.Generator], np.ndarray],
    count: int,
    delta: float,
    confidence: float,
) -> float:
    """The median bound that simulated scores show."""
    rng = np.random.default_rng(0)  # a simulation of ours: nothing here is secret

    def trial() -> float:
        coins = rng.integers(0, 2, count).astype(bool)
        return one_run(score(coins, rng), coins, delta=delta, confidence=confidence).epsilon

    return median(trial() for _ in range(_TRIALS))


def _units(rows: AdditiveRows) -> int:
    return len(rows.x) if rows.users is None else len(np.unique(rows.users))


def _enough(epsilon: float) -> int:
    """Enough canaries to contradict the claim by far if all are guessed."""
    return int(min(max(40 * math.exp(min(epsilon, 10.0)), _FEWEST), _MOST))
