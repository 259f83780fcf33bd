"""What a plan refuses, in words, and what it makes of the names it is given."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from reticent.core import checks
from reticent.core.errors import CannotMeet, InvalidArgument, Unproven
from reticent.data.allocation import Allocation
from reticent.data.cyclic import Cyclic, CyclicPoisson
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Sampler, Shuffled, require_sampler
from reticent.mechanisms.adjacency import Adjacency, AdjacencyName
from reticent.training.clipping import Clipping, flat

SamplingName = Literal["poisson", "fixed", "shuffled", "full", "cyclic", "cyclic-poisson", "allocation"]

_NEARLY = 0.99  # of the epsilon that was asked for; calibration comes within a thousandth


def sampler_for(
    sampling: SamplingName | Sampler,
    examples: int | None,
    batch_size: int | None,
    largest_batch: int | None,
    bands: int = 1,
) -> Sampler:
    """The sampler of this name, or the one that was given.

    Args:
        bands: of the noise; random batches are then drawn from as many parts in turn.

    Raises:
        InvalidArgument: something is missing, or said twice.
    """
    if not isinstance(sampling, str):
        given = {"examples": examples, "batch_size": batch_size, "largest_batch": largest_batch}
        twice = [name for name, value in given.items() if value is not None]
        if twice:
            raise InvalidArgument(
                f"{type(sampling).__name__} says itself how large it is: {', '.join(twice)} cannot be given "
                "beside it.",
                remedy="Leave them out, or name a sampler instead of passing one.",
            )
        return require_sampler(sampling)
    checks.one_of(get_args(SamplingName), sampling=sampling)
    if examples is None:
        raise InvalidArgument(
            "examples is missing.", remedy="Pass the declared, public number of records, or of users."
        )
    if largest_batch is not None and sampling != "poisson":
        raise InvalidArgument(
            f"largest_batch={largest_batch} goes with Poisson batches, not with '{sampling}'.",
            remedy="Leave it out: the other batches have one size.",
        )
    if sampling == "full":
        return FullBatch(examples=examples)
    if batch_size is None:
        raise InvalidArgument("batch_size is missing.", remedy="Pass it, for example batch_size=1024.")
    if bands > 1 and sampling == "poisson" and largest_batch is None:
        sampling = "cyclic-poisson"
    if sampling == "cyclic-poisson":
        return CyclicPoisson(examples=examples, batch_size=batch_size, parts=bands)
    if sampling == "poisson":
        return Poisson(examples=examples, batch_size=batch_size, largest=largest_batch)
    kinds = {"fixed": FixedSize, "shuffled": Shuffled, "cyclic": Cyclic, "allocation": Allocation}
    kind = kinds[sampling]
    return kind(examples=examples, batch_size=batch_size)


def one_clipping(max_norm: float | None, clipping: Clipping | None) -> Clipping:
    """How gradients are clipped, which is said once.

    Raises:
        InvalidArgument: it is said twice, or not at all, or the norm is not positive.
    """
    if clipping is None and max_norm is not None:
        return flat(max_norm)
    if clipping is None or max_norm is not None:
        raise InvalidArgument(
            "Exactly one of max_norm and clipping is needed.", remedy="Pass either max_norm or clipping."
        )
    if not isinstance(clipping, Clipping):
        raise InvalidArgument(
            f"clipping cannot be {clipping!r}.",
            remedy="Pass max_norm, or clipping=rt.training.flat(1.0).",
        )
    return clipping


def as_adjacency(adjacency: Adjacency | AdjacencyName) -> Adjacency:
    """An adjacency, or the one of this name."""
    checks.one_of([item.value for item in Adjacency], adjacency=adjacency)
    return Adjacency(adjacency)


def require_theorem(sampler: Sampler, adjacency: Adjacency | None = None) -> tuple[Adjacency, ...]:
    """The adjacencies of a sampler, of which there is one at least, and this one if it is named.

    Raises:
        Unproven: there is no theorem.
    """
    kind, known = type(sampler).__name__, sampler.adjacencies
    if not known:
        raise Unproven(
            f"There is no theorem for {kind} batches, under any adjacency.",
            remedy=f"Choose another sampling: {', '.join(get_args(SamplingName))}.",
        )
    if adjacency is not None and adjacency not in known:
        named = ", ".join(f"'{item}'" for item in known)
        raise Unproven(
            f"There is no theorem for {kind} batches under '{adjacency}'.", remedy=f"Choose among {named}."
        )
    return known


def require_small_delta(delta: float, units: int, unit: str) -> None:
    """
    Raises:
        InvalidArgument: publishing one unit at random, in full, would satisfy the promise.
    """
    if units > 1 and not delta < 1 / units:
        raise InvalidArgument(
            f"A delta of {delta:g} is not below 1 / {units}, the number of {unit}s: publishing one {unit} in "
            "full, chosen at random, would satisfy such a promise.",
            remedy=f"Use a smaller delta, such as {10.0 ** -(len(str(units)) + 1):g}.",
        )


def require_spent(epsilon: float, bought: float, noise_multiplier: float) -> None:
    """
    Raises:
        CannotMeet: there is no bound near the epsilon that was asked for, only a much lower one.
    """
    if not bought >= _NEARLY * epsilon:
        raise CannotMeet(
            f"No noise is known to cost epsilon {epsilon:g}: a multiplier of {noise_multiplier:.3g} costs "
            f"{bought:.3g}, and for less noise there is no finite bound.",
            remedy=f"Ask for an epsilon of at most {math.floor(bought * 10) / 10:g}, or leave privacy out: "
            "Plan.without_privacy.",
        )


def assumed_of_sampler(sampler: Any) -> tuple[str, ...]:
    """What a guarantee has to say about batches that somebody else's code draws."""
    kind = type(sampler)
    if kind.__module__.partition(".")[0] == __name__.partition(".")[0]:  # ours, each with tests of its law
        return ()
    name = kind.__name__
    return (f"{name} draws batches as its event says (rt.audit.replay_sampling checks its coins)",)


def plan_in_words(plan: Any) -> list[tuple[str, str]]:
    """What decides a run and its cost, each with a name, for somebody who looks at a plan."""
    sampler, clipping = plan.sampler, plan.clipping
    kind = "" if clipping.kind == "flat" else f"{clipping.kind} "
    kind_of_noise = "noise" if plan.noise.name == "independent" else plan.noise.in_words
    noise = f"{kind_of_noise} {plan.noise_multiplier:.4g}" if plan.is_private else "no noise"
    said = [
        ("batches", f"{type(sampler).__name__} {sampler.batch_size} of {sampler.examples}{_parts(sampler)}"),
        ("length", f"{plan.steps} steps"),
        ("noise", noise),
        ("clipping", f"{kind}clipping {clipping.sensitivity:g}"),
        ("protects", f"{plan.adjacency.value} one {plan.unit}"),
        ("delta", f"delta {plan.delta:g}"),
    ]
    if plan.adaptive is not None:
        said.insert(4, ("norm", f"adaptive norm at quantile {plan.adaptive.quantile:g}"))
    if plan.rows_per_user is not None:
        said.insert(-1, ("rows", f"{plan.rows_per_user} rows per user"))
    return said if plan.is_private else [("privacy", "NonPrivate"), *said[:4]]


def _parts(sampler: Any) -> str:
    return f" from {sampler.parts} parts" if hasattr(sampler, "parts") else ""
