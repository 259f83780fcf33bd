"""`train_with_canaries`: a private run that can be audited, and what its audit says."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import optax

from reticent.audit.bounds import gaussian_estimate, gaussian_one_run, one_run
from reticent.audit.canaries import (
    Absence,
    Canaries,
    canaries_for,
    check_pull,
    draw_canaries,
    plan_with,
    require_room,
)
from reticent.audit.canary_scores import log_likelihood_ratio, loss_scores, with_canary_scores
from reticent.audit.claim import curve_of, refutes, require_claim
from reticent.audit.evidence import Evidence
from reticent.audit.verdict import Verdict, judge
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.core.trees import ArrayTree
from reticent.data.dataset import Dataset
from reticent.training.data_warnings import without_data_warnings
from reticent.training.gradients import LossFunction
from reticent.training.loop import Run, train
from reticent.training.loss_keys import key_use
from reticent.training.plan import Plan

WHITE_BOX = "white box, sees every noisy sum"
BLACK_BOX = "black box, sees the loss before and after"

_TRIALS = 5  # simulations of an audit


@dataclass(frozen=True, kw_only=True)
class Audit:
    """An audited run.

    Args:
        verdict: what the evidence says about `plan`'s epsilon.
        evidence: bounds first, then what rests on assumptions, then estimates.
        run: the run; its parameters are the model's, without those of canaries.
        plan: of the audited run, in which canaries are examples.
        record: the coins, and the digest that promised them.
        scores: of the gradient canaries, and of the input canaries.
    """

    verdict: Verdict
    evidence: tuple[Evidence, ...]
    run: Run
    plan: Plan
    record: Mapping[str, Any]
    scores: tuple[np.ndarray, np.ndarray]

    @property
    def input_coins(self) -> np.ndarray:
        """Which of the input canaries joined the training."""
        gradients, inputs = (int(self.record[f"{kind}_canaries"]) for kind in ("gradient", "input"))
        packed = np.frombuffer(bytes.fromhex(self.record["coins"]), np.uint8)
        return np.unpackbits(packed, count=gradients + inputs)[gradients:].astype(bool)

    def __str__(self) -> str:
        return "\n".join([str(self.verdict), *(f"  {each}" for each in self.evidence)])

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict.to_json(),
            "evidence": [each.to_json() for each in self.evidence],
            "guarantee": self.run.guarantee.to_json(),
            "canaries": dict(self.record),
        }


@without_data_warnings()
def train_with_canaries(
    loss: LossFunction,
    params: ArrayTree,
    data: Dataset | Mapping[str, Any],
    plan: Plan,
    *,
    optimizer: optax.GradientTransformation,
    canaries: int | None = None,
    inputs: Mapping[str, Any] | None = None,
    among: bool = False,
    confidence: float = 0.95,
    keys: Keys | None = None,
    project: Callable[[Any], Any] | None = None,
    metrics: Mapping[str, Callable[[Any, Any], Any]] | None = None,
    **options: Any,
) -> Audit:
    """Trains as `train` does, with canaries among the records, and tries to contradict the plan's epsilon.

    The canaries count as examples: the audited plan has more of them, in batches that grow likewise, so that
    every record joins a batch as often as before and the claim is all but the same.

    Args:
        canaries: how many gradient canaries; from the plan, if not given.
        inputs: made-up records for a black-box audit of the same run.
        among: let canary gradients point into the model's own parameters.
        options: of `train`.

    Guarantee:
        The run costs its guarantee, and the audit, which looks only at what the run releases, nothing more. A
        correct trainer is contradicted with probability at most 1 - confidence.

    Raises:
        InvalidArgument: a plan without privacy, or a loss that takes a key.
    """
    checks.inside_unit(confidence=confidence)
    require_claim(plan)
    _require_no_key(loss)
    data = data if isinstance(data, Dataset) else Dataset(arrays=dict(data))
    keys = Keys.from_os() if keys is None else keys
    if canaries is not None:
        checks.count(minimum=0, canaries=canaries)
        require_room(canaries, plan, data)
    gradients = canaries_for(plan) if canaries is None else canaries
    drawn = draw_canaries(params, plan, gradients=gradients, inputs=inputs, among=among, keys=keys)
    check_pull(drawn, loss, params, data)
    audited, placement = plan_with(plan, drawn), drawn.placement
    with warnings.catch_warnings():  # without canary gradients, nothing pulls at what they would be added to
        warnings.filterwarnings("ignore", message=r"The loss gives no gradient to 'canaries' \(")
        run = train(
            drawn.loss(loss),
            placement.wrap(params),
            drawn.rows(data),
            audited,
            optimizer=with_canary_scores(optimizer, drawn, audited),
            keys=keys,
            project=None if project is None else _project_model(project, drawn),
            metrics={name: _model_metric(metric, drawn) for name, metric in (metrics or {}).items()},
            **options,
        )
    scores = (
        np.asarray(run.state.opt_state.scores, np.float64),
        loss_scores(loss, params, placement.model(run.params), dict(drawn.inputs))
        if drawn.inputs
        else np.zeros(0),
    )
    evidence = _evidence(drawn, scores, audited.delta, confidence)
    run = replace(run, params=placement.model(run.params))
    return Audit(
        verdict=_verdict(run, drawn, scores, evidence, audited, confidence),
        evidence=evidence,
        run=run,
        plan=audited,
        record=drawn.record(),
        scores=scores,
    )


def _require_no_key(loss: Callable[..., Any]) -> None:
    if key_use(loss) != "never":
        raise InvalidArgument(
            "The loss takes a key, and canaries are put into losses of two arguments.",
            remedy="Audit the same loss without random numbers: the step that is audited is the same.",
        )


def _evidence(
    drawn: Canaries, scores: tuple[np.ndarray, np.ndarray], delta: float, confidence: float
) -> tuple[Evidence, ...]:
    """Bounds from both kinds of canaries, which share the error; then what is not a bound."""
    kinds = (
        (f"{WHITE_BOX}, {drawn.placement.sentence}", scores[0], drawn.included),
        (BLACK_BOX, scores[1], drawn.inputs_included),
    )
    seen = [each for each in kinds if len(each[1])]
    sure = 1 - (1 - confidence) / len(seen)
    bounds = [
        one_run(values, coins, delta=delta, confidence=sure, threat=threat) for threat, values, coins in seen
    ]
    others = [
        gaussian_one_run(values, coins, delta=delta, confidence=confidence, threat=threat)
        for threat, values, coins in seen
    ]
    estimates = [
        gaussian_estimate(values[coins], values[~coins], delta=delta, threat=threat)
        for threat, values, coins in seen
        if min(coins.sum(), (~coins).sum()) >= 4
    ]
    return (*bounds, *others, *estimates)


def _verdict(
    run: Run,
    drawn: Canaries,
    scores: tuple[np.ndarray, np.ndarray],
    evidence: tuple[Evidence, ...],
    plan: Plan,
    confidence: float,
) -> Verdict:
    claim, count = run.guarantee.epsilon, len(drawn.included)
    if not count:  # what a black box sees without noise depends on the model: it would take another run
        return judge(claim, evidence, power=None)
    sure = 1 - (1 - confidence) / (2 if len(drawn.inputs_included) else 1)
    curve = curve_of(plan, int(run.state.step))
    return judge(
        claim,
        evidence,
        power=power_without_noise(plan, count, absence=drawn.absence, confidence=sure),
        expected=expected_bound(plan, count, absence=drawn.absence, confidence=sure),
        is_plan_refuted=refutes(scores[0], drawn.included, curve, confidence=sure),
    )


def _project_model(project: Callable[[Any], Any], drawn: Canaries) -> Callable[[Any], Any]:
    placement = drawn.placement

    def project_wrapped(params: ArrayTree) -> Any:
        model = project(placement.model(params))
        return params._replace(model=model) if hasattr(params, "canaries") else model

    return project_wrapped


def _model_metric(metric: Callable[[Any, Any], Any], drawn: Canaries) -> Callable[[Any, Any], Any]:
    return lambda params, example: metric(drawn.placement.model(params), example)


# What an audit could have shown: simulated with the numbers of the plan


def power_without_noise(
    plan: Plan, canaries: int, *, absence: Absence = "removed", confidence: float = 0.95
) -> float:
    """Simulates the median bound on a trainer that samples as the plan says and adds no noise.

    This is the power of an audit: if it is not above the claim, no bug could have contradicted the claim. A
    canary is given away by the first batch that it is in; one that is in none cannot be seen.
    """
    rate = plan.sampler.batch_size / plan.sampler.examples
    never = (1 - rate) ** plan.steps
    rng = np.random.default_rng(0)  # a simulation of ours: nothing here is secret

    def trial() -> float:
        included = rng.integers(0, 2, canaries).astype(bool)
        seen = rng.random(canaries) >= never
        sign = np.where(included, 1.0, -1.0 if absence == "opposite" else 0.0)
        scores = sign * seen + 1e-6 * rng.random(canaries)
        return one_run(scores, included, delta=plan.delta, confidence=confidence).epsilon

    return median(trial() for _ in range(_TRIALS))


def expected_bound(
    plan: Plan, canaries: int, *, absence: Absence = "removed", confidence: float = 0.95
) -> float:
    """Simulates the median bound on a trainer that does what the plan says, from white-box scores."""
    rate, noise = plan.sampler.batch_size / plan.sampler.examples, plan.noise_multiplier
    rng = np.random.default_rng(0)

    def trial() -> float:
        included = rng.integers(0, 2, canaries).astype(bool)
        sign = np.where(included, 1.0, -1.0 if absence == "opposite" else 0.0)
        scores = np.zeros(canaries)
        for _ in range(plan.steps):
            noisy = sign * (rng.random(canaries) < rate) + noise * rng.standard_normal(canaries)
            scores += np.asarray(
                log_likelihood_ratio(noisy, rate=rate, noise_multiplier=noise, absence=absence)
            )
        return one_run(scores, included, delta=plan.delta, confidence=confidence).epsilon

    return median(trial() for _ in range(_TRIALS if canaries * plan.steps < 2_000_000 else 1))
