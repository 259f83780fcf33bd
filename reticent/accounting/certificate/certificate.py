"""What a certificate says, as JSON that a stranger may have written.

claim      event, adjacency, group, epsilon, delta
distance   of the samplers of all noise from their laws, in total variation: (1 + e^epsilon) of it is in delta
proof      bits, and a lattice for each direction: losses are composed on it, in multiples of 2^-bits
sha256     of all that, so that an accident is told from a wrong claim
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from reticent.accounting.certificate.measure import Cells
from reticent.accounting.certificate.releases import LARGEST_GROUP, Released
from reticent.core import checks, strict_json
from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event

FORMAT = "reticent certificate 1"
_MOST_BITS = 2048
_FARTHEST = 2**40  # points from 0
_LONGEST = 2**21  # points
_REMEDY = "Ask its author for a new one: reticent account --certify FILE."
_FIELDS = frozenset(("format", "epsilon", "delta", "adjacency", "group", "event", "distance", "bits")) | {
    "removed",
    "added",
}


class Span(NamedTuple):
    """The lattice of one release: the losses offset + i spacing from i = first to last."""

    offset: float
    first: int
    last: int


class LossLattice(NamedTuple):
    """One spacing, and the points of each kind of release. All of its losses are exact fractions."""

    spacing: float
    spans: tuple[Span, ...]

    def cells(self) -> list[Cells]:
        spacing = Fraction(self.spacing)
        return [Cells(spacing, Fraction(span.offset), span.first, span.last) for span in self.spans]


NO_LATTICE = LossLattice(1.0, ())  # a single release needs none


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """An upper bound with what its proof needs. `check` says whether it is one.

    removed, added: the lattices with the records removed and with them added.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    group: int
    event: Event
    distance: float
    bits: int
    removed: LossLattice = NO_LATTICE
    added: LossLattice = NO_LATTICE

    def __post_init__(self) -> None:
        checks.not_negative(epsilon=self.epsilon, distance=self.distance)
        checks.inside_unit(delta=self.delta)
        for lattice in (self.removed, self.added):
            checks.positive(spacing=lattice.spacing)
        checks.count(group=self.group, bits=self.bits)
        most = {"group": (self.group, LARGEST_GROUP), "bits": (self.bits, _MOST_BITS)}
        for name, (value, limit) in most.items():
            if value > limit:
                raise InvalidArgument(f"{name} is {value}, above {limit}.", remedy=f"Use a smaller {name}.")
        for span in (*self.removed.spans, *self.added.spans):
            checks.finite(offset=span.offset)
            if not (-_FARTHEST < span.first < span.last < min(_FARTHEST, span.first + _LONGEST)):
                raise InvalidArgument(
                    f"A lattice goes from {span.first} to {span.last}.", remedy="Use one of a usual size."
                )

    def __str__(self) -> str:
        unit = "record" if self.group == 1 else f"group of {self.group} records"
        laws = (
            "with noise of its exact law"
            if self.distance == 0
            else f"with noise within {self.distance:.1g} of its law in total variation"
        )
        return (
            f"({self.epsilon!r}, {self.delta!r})-differential privacy for "
            f"{self.adjacency.sentence.format(unit=unit)}, {laws}"
        )

    @property
    def released(self) -> Released:
        return Released(self.event, self.adjacency, self.group)

    def to_json(self) -> dict[str, Any]:
        said = {
            "format": FORMAT,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency.value,
            "group": self.group,
            "event": events.to_json(self.event),
            "distance": self.distance,
            "bits": self.bits,
            "removed": _lattice_to_json(self.removed),
            "added": _lattice_to_json(self.added),
        }
        return {**said, "sha256": _hash(said)}

    def write(self) -> str:
        """The certificate as the text of a file."""
        return json.dumps(self.to_json(), indent=1, allow_nan=False) + "\n"


def read(text: str | bytes) -> Certificate:
    """The certificate in a JSON text, which may be a stranger's.

    Raises:
        DataError: it is not a certificate.
        IntegrityError: it was changed after it was written.
    """
    try:
        said = strict_json.parse_object(text)
        found = said.pop("sha256", None)
        if said.get("format") != FORMAT or set(said) != _FIELDS:
            raise ValueError(f"it lacks the fields of '{FORMAT}', or has others")
        certificate = Certificate(
            epsilon=_real(said["epsilon"]),
            delta=_real(said["delta"]),
            adjacency=Adjacency(said["adjacency"]),
            group=said["group"],
            event=events.from_json(said["event"]),
            distance=_real(said["distance"]),
            bits=said["bits"],
            removed=_lattice(said["removed"]),
            added=_lattice(said["added"]),
        )
    except (ValueError, TypeError) as error:
        why = error.happened if isinstance(error, InvalidArgument) else f"{error}."
        raise DataError(f"This is not a certificate: {why}", remedy=_REMEDY) from None
    if found != _hash(said):
        raise IntegrityError(
            "The certificate was changed after it was written: its hash is not that of its content.",
            remedy=_REMEDY,
        )
    return certificate


def _lattice_to_json(lattice: LossLattice) -> dict[str, Any]:
    return {"spacing": lattice.spacing, "spans": [list(span) for span in lattice.spans]}


def _lattice(value: Any) -> LossLattice:
    if (
        not isinstance(value, dict)
        or set(value) != {"spacing", "spans"}
        or not isinstance(value["spans"], list)
    ):
        raise ValueError("a lattice has a spacing and spans")
    spans = value["spans"]
    if not all(isinstance(item, list) and list(map(type, item[1:])) == [int, int] for item in spans):
        raise ValueError("a span is a list of an offset and two whole numbers")
    return LossLattice(
        _real(value["spacing"]), tuple(Span(_real(item[0]), item[1], item[2]) for item in spans)
    )


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("a number is missing")
    return float(value)


def _hash(said: dict[str, Any]) -> str:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
