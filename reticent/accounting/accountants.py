"""One row per accountant: what each theorem of the course says about the same event."""

from __future__ import annotations

import math
from collections.abc import Callable

from reticent.accounting.loss_distribution import dominating
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.refusal import or_infinite
from reticent.accounting.theorems import amplification, composition, gaussian_dp, moments, renyi, zcdp
from reticent.accounting.tight_epsilon import bracket_event
from reticent.core import checks
from reticent.core.errors import Unproven
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

Accountant = Callable[[Event, float, Neighbours], float]


def basic(event: Event, delta: float, neighbours: Neighbours) -> float:
    """Every release made (epsilon, delta / T)-DP on its own, amplified by sampling, then added up."""
    checks.inside_unit(delta=delta)
    steps = _steps(event, delta, neighbours)
    if not _is_bounded(steps):
        return math.inf
    return or_infinite(composition.basic([(times * cost, times * own) for (cost, own), times in steps])[0])


def advanced(event: Event, delta: float, neighbours: Neighbours) -> float:
    """The same with half of delta for advanced composition of all releases."""
    checks.inside_unit(delta=delta)
    steps = _steps(event, delta / 2, neighbours)
    if not _is_bounded(steps):
        return basic(event, delta, neighbours)
    together = composition.advanced_heterogeneous(
        [step for step, _ in steps], delta / 2, times=[times for _, times in steps]
    )
    return min(or_infinite(together[0]), basic(event, delta, neighbours))


def moments_accountant(event: Event, delta: float, neighbours: Neighbours) -> float:
    """Abadi's accountant, for one kind of Poisson-sampled (or full-batch) Gaussian step."""
    counts = dominating.flatten(event)
    if not counts:
        return 0.0
    if len(counts) != 1 or neighbours != Neighbours(Adjacency.ADD_OR_REMOVE):
        raise Unproven("The moments accountant covers one kind of step.", remedy="Use 'rdp' or 'pld'.")
    step, times = next(iter(counts.items()))
    if isinstance(step, events.Gaussian):
        return moments.epsilon(1.0, step.noise_multiplier, times, delta)
    if isinstance(step, events.PoissonSampled) and isinstance(step.event, events.Gaussian):
        return moments.epsilon(step.rate, step.event.noise_multiplier, times, delta)
    raise Unproven("The moments accountant covers sampled Gaussian steps.", remedy="Use 'rdp' or 'pld'.")


def loss_distribution(event: Event, delta: float, neighbours: Neighbours) -> float:
    checks.inside_unit(delta=delta)
    return bracket_event(event, delta, neighbours).upper


ACCOUNTANTS: dict[str, Accountant] = {
    "basic": basic,
    "advanced": advanced,
    "zcdp": zcdp.epsilon,
    "moments": moments_accountant,
    "rdp": renyi.epsilon,
    "pld": loss_distribution,
}


def account(event: Event, delta: float, neighbours: Neighbours) -> dict[str, float | None]:
    """Epsilon by every accountant; None where one has no theorem for the event.

    Example:
        >>> from reticent.mechanisms.events import Gaussian
        >>> costs = account(Gaussian(noise_multiplier=1.0), 1e-5, Neighbours(Adjacency.ADD_OR_REMOVE))
        >>> {name: round(epsilon, 2) for name, epsilon in costs.items()}
        {'basic': 4.38, 'advanced': 4.38, 'zcdp': 4.73, 'moments': 5.3, 'rdp': 4.73, 'pld': 4.38}
    """
    checks.inside_unit(delta=delta)
    values: dict[str, float | None] = {}
    is_open = any(isinstance(item, events.NonPrivate) for item in dominating.flatten(event))
    for name, accountant in ACCOUNTANTS.items():
        try:
            values[name] = math.inf if is_open else accountant(event, delta, neighbours)
        except Unproven:
            values[name] = None
    return values


def _steps(event: Event, delta: float, neighbours: Neighbours) -> list[tuple[tuple[float, float], int]]:
    """Each kind of release as (epsilon, its share of delta), and how often it is made.

    Claims bring their own delta; the others share what those leave. Where nothing is left, the cost is
    infinite.
    """
    dominating.flatten(event)  # refuses counts beyond measure
    counts = _count_unmerged(event)
    left = delta - math.fsum(times * _claimed_delta(item, neighbours) for item, times in counts.items())
    if not left > 0:
        return [((math.inf, delta), 1)]
    share = left / max(sum(counts.values()), 1)
    return [(_step(item, share, neighbours), times) for item, times in counts.items()]


def claimed_delta(event: Event, neighbours: Neighbours) -> float:
    """The delta that the claims in an event take from any budget, whatever is left for the rest of it."""
    counts = _count_unmerged(event)
    return math.fsum(times * _claimed_delta(item, neighbours) for item, times in counts.items())


def _claimed_delta(event: Event, neighbours: Neighbours) -> float:
    match event:
        case events.ApproximateDp(epsilon=epsilon, delta=delta, adjacency=adjacency):
            return dominating.claim(event, epsilon, delta, adjacency, neighbours)[1]
        case events.PoissonSampled(rate=rate, event=inner) | events.FixedSizeSampled(rate=rate, event=inner):
            return rate * _claimed_delta(dominating.sampled_base(inner), neighbours)
        case _:
            return 0.0


def _is_bounded(steps: list[tuple[tuple[float, float], int]]) -> bool:
    return all(math.isfinite(epsilon) for (epsilon, _), _ in steps)


def _count_unmerged(event: Event) -> dict[Event, int]:
    """Single releases, without the exact composition of Gaussians: that is not a theorem of these rows."""
    counts: dict[Event, int] = {}
    stack: list[tuple[Event, int]] = [(event, 1)]
    while stack:
        item, times = stack.pop()
        if isinstance(item, events.Repeated):
            stack.append((item.event, times * item.times))
        elif isinstance(item, events.Composed):
            stack += [(inner, times) for inner in item.events]
        elif times:
            counts[item] = counts.get(item, 0) + times
    return counts


def _step(event: Event, delta: float, neighbours: Neighbours) -> tuple[float, float]:
    reach = neighbours.adjacency.reach * neighbours.group
    match event:
        case events.Gaussian(noise_multiplier=noise):
            return gaussian_dp.epsilon(reach / noise, delta), delta
        case events.Laplace(noise_multiplier=noise):
            return reach / noise, 0.0
        case events.PureDp(epsilon=cost, adjacency=adjacency):
            return dominating.claim(event, cost, 0.0, adjacency, neighbours)
        case events.ExponentialMechanism(epsilon=cost, adjacency=adjacency):
            return dominating.claim(event, cost, 0.0, adjacency, neighbours)
        case events.ApproximateDp(epsilon=cost, delta=own, adjacency=adjacency):
            return dominating.claim(event, cost, own, adjacency, neighbours)
        case events.RandomizedResponse(epsilon=cost):
            dominating.directions(event, neighbours)  # refuses what has no theorem
            return cost, 0.0
        case events.PoissonSampled(rate=rate, event=inner):
            is_covered = neighbours.adjacency is not Adjacency.REPLACE and neighbours.group == 1
            return _amplify(event, inner, rate, delta, neighbours, is_covered=is_covered)
        case events.FixedSizeSampled(rate=rate, event=inner):
            is_covered = neighbours == Neighbours(Adjacency.REPLACE)
            return _amplify(event, inner, rate, delta, neighbours, is_covered=is_covered)
        case _:
            raise Unproven(
                f"No row-by-row theorem for {type(event).__name__}.", remedy="Use the loss distribution."
            )


def _amplify(
    event: Event, inner: Event, rate: float, delta: float, neighbours: Neighbours, *, is_covered: bool
) -> tuple[float, float]:
    if not is_covered:
        raise Unproven(
            f"No amplification theorem for {type(event).__name__} under '{neighbours.adjacency}'.",
            remedy="Use add-or-remove with Poisson sampling, or replace with batches of a fixed size.",
        )
    if rate == 0:
        return 0.0, 0.0
    dominating.directions(event, neighbours)  # refuses what has no theorem
    base = _step(dominating.sampled_base(inner), min(delta / rate, 0.5), neighbours)
    return amplification.poisson(*base, rate)
