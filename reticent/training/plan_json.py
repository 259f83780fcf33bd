"""A plan as JSON and back, checked on the way in: the part of a saved run that decides its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from reticent.core import checks
from reticent.core.errors import InvalidArgument, suggest
from reticent.data.allocation import Allocation
from reticent.data.cyclic import Cyclic, CyclicPoisson
from reticent.data.limited import Limited
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.noise.named import from_json as noise_from_json
from reticent.noise.named import independent
from reticent.noise.named import to_json as noise_to_json
from reticent.training.adaptive_norm import AdaptiveNorm
from reticent.training.clipping import Clipping
from reticent.training.plan import Plan

_SAMPLERS = {
    "poisson": Poisson,
    "fixed": FixedSize,
    "shuffled": Shuffled,
    "full": FullBatch,
    "cyclic": Cyclic,
    "cyclic-poisson": CyclicPoisson,
    "allocation": Allocation,
    "limited": Limited,
}
_NAMES = {kind: name for name, kind in _SAMPLERS.items()}


def to_json(plan: Plan) -> dict[str, Any]:
    """Plain JSON values, from which `from_json` makes an equal plan."""
    return {
        "sampler": {"kind": _NAMES[type(plan.sampler)], **asdict(plan.sampler)},  # type: ignore[arg-type]
        "clipping": {**asdict(plan.clipping), "bounds": dict(plan.clipping.bounds)},
        "noise_multiplier": plan.noise_multiplier,
        "steps": plan.steps,
        "delta": plan.delta,
        "adjacency": plan.adjacency.value,
        "unit": plan.unit,
        "rows_a_user": plan.rows_per_user,  # the name it has in every stored run
        "adaptive": None if plan.adaptive is None else asdict(plan.adaptive),
        **({} if plan.is_private else {"is_private": False}),
        **({} if plan.noise == independent() else {"noise": noise_to_json(plan.noise)}),
    }


def from_json(value: Any) -> Plan:
    """The plan that `to_json` wrote.

    Raises:
        InvalidArgument: it is not the JSON of a plan; the message names the field.
    """
    given = dict(_object(value, "a plan"))
    sampler = dict(_object(given.get("sampler"), "'sampler'"))
    kind = sampler.pop("kind", None)
    if kind not in _SAMPLERS:
        raise InvalidArgument(
            f"There is no sampler of kind {kind!r}.", remedy=f"Known: {', '.join(_SAMPLERS)}."
        )
    clipping = dict(_object(given.get("clipping"), "'clipping'"))
    clipping["bounds"] = tuple(_object(clipping.get("bounds"), "'bounds'").items())
    adjacency = str(given.get("adjacency"))
    checks.one_of([item.value for item in Adjacency], adjacency=adjacency)
    checks.one_of(("flat", "per-layer", "automatic", "lipschitz"), kind=str(clipping.get("kind")))
    adaptive = given.get("adaptive")
    if "rows_a_user" in given:
        given["rows_per_user"] = given.pop("rows_a_user")
    given |= {
        "sampler": _make(_SAMPLERS[kind], sampler, "'sampler'"),
        "clipping": _make(Clipping, clipping, "'clipping'"),
        "adjacency": Adjacency(adjacency),
        "adaptive": adaptive and _make(AdaptiveNorm, dict(_object(adaptive, "'adaptive'")), "'adaptive'"),
    }
    if "noise" in given:
        given["noise"] = noise_from_json(given["noise"])
    return _make(Plan, given, "a plan")


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidArgument(
            f"The JSON of {what} is an object, got {value!r}.", remedy="Write it with to_json."
        )
    return value


def _make(kind: Any, given: dict[str, Any], what: str) -> Any:
    known = {item.name for item in fields(kind)}
    if unknown := sorted(set(given) - known):
        raise InvalidArgument(
            f"The JSON of {what} has no field '{unknown[0]}'.", remedy=suggest(unknown[0], known)
        )
    try:
        return kind(**given)
    except TypeError as error:
        raise InvalidArgument(
            f"The JSON of {what} is not complete: {error}.", remedy="Write it with to_json."
        ) from None
