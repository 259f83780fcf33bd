"""The whole curve of a plan: refuted no more often than it says, and oftener than one point of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent import audit
from reticent.accounting.theorems import gaussian_dp
from reticent.audit.tradeoff import gaussian, is_refuted, smallest_epsilon
from reticent.core.errors import InvalidArgument


def plan(steps: int = 1) -> rt.Plan:
    return rt.Plan.for_budget(epsilon=2, delta=1e-5, examples=100, sampling="full", steps=steps, max_norm=1.0)


def scores(canaries: int, noise: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    included = rng.integers(0, 2, (count, canaries)).astype(bool)
    return included + noise * rng.standard_normal(included.shape), included


def refuted(share: float, canaries: int, count: int, seed: int = 0) -> float:
    """How often one Gaussian release with so much of its noise is refuted."""
    curve = audit.curve_of(plan())
    noisy, included = scores(canaries, share * plan().noise_multiplier, count, seed)
    return float(np.mean([audit.refutes(s, i, curve) for s, i in zip(noisy, included, strict=True)]))


def test_a_plan_that_is_kept_is_refuted_no_more_often_than_said():
    """In 5% of runs at most: more than 33 of 400 have a probability of 0.2%."""
    assert refuted(1.0, 200, 400) <= 33 / 400


def test_too_little_noise_is_refuted_where_one_epsilon_is_not():
    assert refuted(0.55, 5000, 4, seed=1) == 1.0
    noisy, included = scores(5000, 0.55 * plan().noise_multiplier, 4, 1)
    bounds = [audit.one_run(s, i, delta=1e-5).epsilon for s, i in zip(noisy, included, strict=True)]
    assert min(bounds) < 2.0


def test_the_curve_of_one_gaussian_release_is_gaussian():
    mu = 1 / plan().noise_multiplier
    chances = np.array([1e-4, 0.01, 0.1, 0.3, 0.6, 0.9])
    ours = audit.curve_of(plan())(chances)
    exact = np.concatenate([gaussian(np.array([mu]))(np.array([chance])) for chance in chances])
    assert (ours <= exact + 1e-9).all()  # the claimed curve lies outside: fewer refutations
    assert np.allclose(ours, exact, rtol=0.25, atol=1e-3)


def test_a_bound_above_the_claim_implies_that_the_curve_is_refuted():
    """So that looking at both costs no confidence."""
    curve, claim = audit.curve_of(plan()), gaussian_dp.epsilon(1 / plan().noise_multiplier, 1e-5)
    noisy, included = scores(500, 0.2 * plan().noise_multiplier, 20, 2)
    above = [audit.one_run(s, i, delta=1e-5).epsilon > claim for s, i in zip(noisy, included, strict=True)]
    assert any(above)
    for s, i, is_above in zip(noisy, included, above, strict=True):
        assert audit.refutes(s, i, curve) or not is_above


@pytest.mark.parametrize("correct", [60, 70, 80, 99])
def test_one_point_of_a_curve_refutes_less_than_the_curve(correct: int):
    given = {"canaries": 100, "guesses": 100, "correct": correct, "error": 0.01}
    claim = plan().guarantee().epsilon
    if smallest_epsilon(delta=1e-5, **given) > claim:
        assert is_refuted(audit.curve_of(plan()), **given)[0]


def loss(params: Any, example: Any) -> Any:
    return jnp.sum((params - example["x"]) ** 2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda rows, dry: audit.curve_of(dry),
        lambda rows, dry: audit.train_with_canaries(loss, jnp.zeros(1), rows, dry, optimizer=optax.sgd(0.1)),
        lambda rows, dry: audit.replay_plan(loss, jnp.zeros(1), rows, {"x": rows["x"][0]}, dry),
        lambda rows, dry: audit.arithmetic_plan(loss, jnp.zeros(1), rows, dry),
    ],
    ids=["curve", "canaries", "replay", "arithmetic"],
)
def test_a_dry_run_claims_nothing_that_could_be_refuted(ask: Callable[[Any, rt.Plan], Any]):
    dry = rt.Plan.without_privacy(examples=64, sampling="full", steps=3, max_norm=1.0)
    with pytest.raises(InvalidArgument, match="claims nothing, so there is nothing to audit"):
        ask({"x": np.ones((64, 1), np.float32)}, dry)
