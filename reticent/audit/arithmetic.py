"""An audit of the arithmetic: whether what is proved for real numbers holds for floating-point numbers.

Three checks of one step, each of which has broken a library that was right on paper:

    bits of a release           could these bits have come from both of two neighbours?
    cancelling records          does a record whose terms cancel move the sum by no more than its bound?
    sums near powers of two     do neighbours' sums stay together where floats become coarser?

    found = arithmetic(train_step, data, max_norm=1.0, noise_multiplier=1.1)
    assert found.outcome is not Outcome.CONTRADICTED, found
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reticent.audit.distances import Distance, judge_distances
from reticent.audit.finding import Claim, Finding
from reticent.audit.replay import TrainStep, arrays_of, cut, length_of
from reticent.audit.strange_records import Strange, strange_records
from reticent.audit.verdict import Outcome
from reticent.audit.watched import WatchedStep
from reticent.core import checks
from reticent.mechanisms.adjacency import Adjacency

CANCELLING, POWERS = "cancelling records", "sums near powers of two"


@dataclass(frozen=True, kw_only=True)
class Arithmetic:
    """What an audit of arithmetic found: one finding per check."""

    findings: tuple[Finding, ...]

    @property
    def outcome(self) -> Outcome:
        """CONTRADICTED if one check says so; CONSISTENT only if all do."""
        outcomes = {each.outcome for each in self.findings}
        worst = (Outcome.CONTRADICTED, Outcome.UNINFORMATIVE, Outcome.CONSISTENT)
        return next((each for each in worst if each in outcomes), Outcome.UNINFORMATIVE)

    @property
    def exit_code(self) -> int:
        """1 where the claim is contradicted, for a terminal."""
        return 1 if self.outcome is Outcome.CONTRADICTED else 0

    @property
    def sentence(self) -> str:
        said = {
            Outcome.CONTRADICTED: "what the step computes is not what was proved.",
            Outcome.CONSISTENT: "nothing in the arithmetic of the step contradicts what was proved.",
            Outcome.UNINFORMATIVE: "nothing contradicts what was proved, but some checks could not tell.",
        }[self.outcome]
        return f"{self.outcome}: {said}"

    def __str__(self) -> str:
        return "\n".join([self.sentence, *(f"  {each}." for each in self.findings)])

    def to_json(self) -> dict[str, Any]:
        return {
            "outcome": self.outcome.value,
            "sentence": self.sentence,
            "findings": [each.to_json() for each in self.findings],
        }


def arithmetic(
    train_step: TrainStep,
    data: Mapping[str, Any],
    record: Mapping[str, Any] | None = None,
    *,
    max_norm: float,
    noise_multiplier: float,
    divisor: float = 1.0,
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE,
    rows: int = 4096,
    confidence: float = 0.95,
    seeds: int | None = None,
    seed: int = 0,
) -> Arithmetic:
    """Checks whether the computed sums and bits of a training step keep what is proved for real numbers.

    Args:
        train_step: as `replay` takes it: of a batch, a seed and the number of the step, the noisy sum.
        data: rows of an ordinary batch; strange records are made from their shapes.
        record: rows of your own to try beside those.
        max_norm: what one record may move the sum by, as claimed.
        noise_multiplier: the noise over `max_norm`, as claimed.
        divisor: what the sum was divided by before it was returned.
        rows: the most in a batch that the step takes.
        seeds: the number of releases of each neighbour to guess; as many as the claim needs unless given.
        seed: of the strange records.

    Guarantee:
        None for a step that passes. If the release is post-processing of a sum that a record moves by at most
        `max_norm`, with Gaussian noise as claimed, it is contradicted with probability at most
        1 - confidence; excesses of one part in 100,000 are tolerated.
    """
    checks.positive(max_norm=max_norm, noise_multiplier=noise_multiplier, divisor=divisor)
    checks.inside_unit(confidence=confidence)
    checks.count(minimum=8, rows=rows)
    if seeds is not None:
        checks.count(seeds=seeds)
    arrays = arrays_of(data, "data")
    tried = strange_records(arrays, seed=seed)
    if record is not None:
        own = arrays_of(record, "record")
        tried += [Strange(f"record {at}", cut(own, 1, at)) for at in range(length_of(own))]
    step = WatchedStep(train_step, Claim(max_norm, noise_multiplier, divisor, adjacency), arrays, rows)
    moved = step.measure_moves(tried)
    farthest = farthest_of(tried, moved, step.claim)
    near = step.near_powers([*tried[:1], farthest])
    findings = (
        step.look_at_bits(farthest, confidence=confidence, seeds=seeds),
        judge_distances(CANCELLING, moved, step.claim, f"{len(moved)} records were tried"),
        judge_distances(POWERS, near, step.claim, f"{len(near)} pairs of neighbours were tried"),
    )
    return Arithmetic(findings=(*findings, *step.problems))


def farthest_of(tried: Sequence[Strange], moved: Sequence[Distance], claim: Claim) -> Strange:
    """The record that moves the sum most, of those that move it by no more than they may."""
    kept = [at for at, each in enumerate(moved) if not each.breaks(claim)]
    return tried[max(kept, key=lambda at: moved[at].least, default=0)]
