"""The audit of arithmetic for the steps of `train`: with your loss, and with one for every rule it uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reticent.audit.arithmetic import CANCELLING, POWERS, Arithmetic, farthest_of
from reticent.audit.distances import judge_distances
from reticent.audit.finding import Claim
from reticent.audit.own_step import own_step, require_replayable
from reticent.audit.replay import arrays_of
from reticent.audit.rule_probes import Probe, probe_for
from reticent.audit.strange_records import strange_records
from reticent.audit.watched import WatchedStep
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.training.clipping import flat
from reticent.training.gradients import LossFunction
from reticent.training.gradients.choices import choices
from reticent.training.plan import Plan


def arithmetic_plan(
    loss: LossFunction,
    params: ArrayTree,
    data: Mapping[str, Any],
    plan: Plan,
    *,
    confidence: float = 0.95,
    seeds: int | None = None,
    seed: int = 0,
) -> Arithmetic:
    """The audit of `train`'s own step, with the clipping, noise, grid and blocks of a plan.

    Args:
        data: rows of an ordinary batch.
        confidence, seeds, seed: as in `arithmetic`.

    Raises:
        InvalidArgument: a plan with an adaptive norm, of users, or that cuts nothing.
    """
    checks.inside_unit(confidence=confidence)
    require_replayable(plan)
    if plan.clipping.kind == "lipschitz":
        raise InvalidArgument(
            "A plan with lipschitz clipping cuts nothing: gradient lengths are declared, not enforced.",
            remedy="Audit a plan that clips.",
        )
    arrays, rng = arrays_of(data, "data"), np.random.default_rng(seed)
    example = {key: array[0] for key, array in arrays.items()}
    found = choices(loss, params, example, examples=plan.sampler.capacity)
    rules = sorted({choice.rule for choice in found} - {"unused"})
    step = WatchedStep(own_step(loss, params, plan), _claim(plan), arrays, plan.sampler.capacity)
    probes = [_watch_probe(probe, plan) for rule in rules if (probe := probe_for(rule, rng)) is not None]
    tried = strange_records(arrays, seed=seed)
    moved = step.measure_moves(tried)
    farthest = farthest_of(tried, moved, step.claim)
    by_rule = [each for watched, probe in probes for each in watched.measure_moves(probe.records)]
    near = step.near_powers([*tried[:1], farthest])
    for watched, probe in probes:
        near += watched.near_powers([probe.scalable]) if probe.scalable else []
    records = f"{len(moved)} records, and {len(by_rule)} against {_list_rules(rules)}, were tried"
    findings = (
        step.look_at_bits(farthest, confidence=confidence, seeds=seeds),
        judge_distances(CANCELLING, [*moved, *by_rule], step.claim, records),
        judge_distances(POWERS, near, step.claim, f"{len(near)} pairs of neighbours were tried"),
    )
    problems = [each for watched in (step, *(watched for watched, _ in probes)) for each in watched.problems]
    return Arithmetic(findings=(*findings, *problems))


def _claim(plan: Plan) -> Claim:
    return Claim(plan.clipping.sensitivity, plan.noise_multiplier, plan.sampler.batch_size, plan.adjacency)


def _watch_probe(probe: Probe, plan: Plan) -> tuple[WatchedStep, Probe]:
    """The plan's own step with another loss, whose parameters have no layers to be clipped by."""
    plan = replace(plan, clipping=flat(plan.clipping.sensitivity))
    step = own_step(probe.loss, probe.params, plan, strategy=probe.strategy)
    return WatchedStep(step, _claim(plan), probe.data, plan.sampler.capacity), probe


def _list_rules(rules: list[str]) -> str:
    return f"the rule{'s' if len(rules) > 1 else ''} {', '.join(rules)}"
