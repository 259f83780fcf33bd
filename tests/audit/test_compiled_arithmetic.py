"""Compiled as for a user: noise of floats is found by its bits, and the step of `train` passes."""

from __future__ import annotations

from functools import partial

import float_steps as steps
import jax.numpy as jnp
import pytest
from arithmetic_audits import EIGHTS, NUMBERS, POSITIONS, VECTORS, audited, blamed, plan, seen

from reticent.audit import bits
from reticent.audit.arithmetic import CANCELLING, POWERS
from reticent.audit.own_step import own_step
from reticent.audit.verdict import Outcome
from reticent.training.gradients import explain

pytestmark = pytest.mark.usefixtures(
    "compiled_as_shipped"
)  # what a compiler does to a sum is half of the story


@pytest.mark.parametrize(
    ("noise", "look"),
    [
        (steps.word_noise, "float32 noise, added in float32"),
        (steps.jax_noise, "normal numbers of jax.random"),
        (steps.float64_noise, "float64 noise, added in float64"),
        (steps.whole_noise_on_floats, "noise on a grid"),
    ],
    ids=["words of 32 bits", "jax.random", "float64", "a sum off the grid"],
)
def test_noise_that_cannot_have_come_from_both_neighbours_is_found(noise, look: str):
    found = audited(partial(steps.mean, noise), VECTORS)
    assert blamed(found) == {bits.CHECK}, found
    assert found.exit_code == 1
    told = seen(found, bits.CHECK)
    assert told["look"] == look
    assert told["right"] >= 0.9 * told["guesses"] > 40
    assert told["allowed_share"] < 0.56


def _products(w, e):
    x = e["x"]
    return (
        jnp.sum(w * x[4] * x[6])
        - jnp.sum(w * x[0] * x[2])
        + jnp.sum(w * x[3] * x[2])
        - jnp.sum(w * x[7] * x[6])
    )


OURS = {
    "noise": (lambda w, e: jnp.sum(w * e["x"]), jnp.zeros(50), VECTORS, 64),
    "gram": (lambda w, e: jnp.sum(e["c"] * (e["x"] @ w)), jnp.zeros((2, 8192)), POSITIONS, 32),
    "sums": (lambda w, e: w * e["x"], jnp.float32(0), NUMBERS, (1 << 17) - 2),
    "fusions": (_products, jnp.full(2, 0.7), EIGHTS, 64),
}


@pytest.mark.parametrize("case", OURS)
def test_the_step_of_train_keeps_what_each_of_them_breaks(case: str):
    loss, params, data, examples = OURS[case]
    recipe = plan(examples)
    if case == "gram":
        assert "gram" in explain(loss, params, {key: array[0] for key, array in data.items()})
    found = audited(
        own_step(loss, params, recipe), data, divisor=examples, rows=recipe.sampler.capacity, seeds=24
    )
    assert found.outcome is Outcome.CONSISTENT, found
    assert all(seen(found, check)["moved"] <= 1 for check in (CANCELLING, POWERS))
