"""The audit of arithmetic: what floats make of steps that are right on paper is found."""

from __future__ import annotations

import json

import float_steps as steps
import jax.numpy as jnp
import numpy as np
import pytest
from arithmetic_audits import EIGHTS, NUMBERS, POSITIONS, VECTORS, audited, blamed, plan, seen
from scipy.special import ndtr

import reticent as rt
from reticent import audit
from reticent.audit import bits, suspects
from reticent.audit.arithmetic import CANCELLING, POWERS
from reticent.audit.finding import Claim
from reticent.audit.verdict import Outcome
from reticent.core.errors import DataError, InvalidArgument
from reticent.training.clipping import lipschitz


def test_a_step_that_is_right_to_the_last_bit_passes():
    found = audited(steps.right, VECTORS)
    assert found.outcome is Outcome.CONSISTENT, found
    assert found.exit_code == 0
    assert [each.check for each in found.findings] == [bits.CHECK, CANCELLING, POWERS]
    assert json.loads(json.dumps(found.to_json()))["outcome"] == "CONSISTENT"


def test_a_slack_that_knows_no_dimension_is_found():
    found = audited(steps.wide_layer, POSITIONS, rows=32, seeds=24)
    assert blamed(found) == {CANCELLING}, found
    assert seen(found, CANCELLING)["moved"] > 2


def test_a_running_sum_in_float32_is_found():
    found = audited(steps.running_sum, NUMBERS, rows=1 << 17)
    assert blamed(found) == {POWERS}, found
    assert seen(found, POWERS)["moved"] == pytest.approx(17, abs=0.1)
    few = audited(steps.running_sum, NUMBERS)  # 4,096 rows: less, and found as well
    assert blamed(few) == {POWERS}
    assert 1.01 < seen(few, POWERS)["moved"] < 1.1


def test_one_gradient_rounded_twice_is_found():
    found = audited(steps.two_roundings, EIGHTS)
    assert blamed(found) == {CANCELLING}, found
    assert seen(found, CANCELLING)["moved"] > 1e8


def test_a_plan_is_audited_with_a_loss_for_every_rule_that_its_model_uses():
    def loss(params, e):
        words = e["weights"] @ params["bag"][e["ids"]] + jnp.sum(
            e["weights"][:, None] * jnp.sin(params["rows"][e["ids"]])
        )
        return jnp.sum(jnp.tanh(words @ params["dense"] + params["bias"]))

    params = {
        "bag": jnp.full((30, 12), 0.1),
        "rows": jnp.full((30, 12), 0.1),
        "dense": jnp.full((12, 12), 0.1),
        "bias": jnp.zeros(12),
    }
    rng = np.random.default_rng(1)
    data = {
        "ids": rng.integers(0, 30, (20, 4)),
        "weights": rng.normal(size=(20, 4)).astype(np.float32),
    }
    found = audit.arithmetic_plan(loss, params, data, plan(adjacency=rt.Adjacency.REPLACE))
    assert found.outcome is Outcome.CONSISTENT, found
    assert "against the rules bag, explicit, outer, rows" in str(found)
    assert 1 < seen(found, CANCELLING)["moved"] <= 2 == seen(found, CANCELLING)["allowed"]


def test_claims_that_no_game_of_this_length_refutes_are_called_so():
    found = audit.arithmetic(steps.right, VECTORS, max_norm=1.0, noise_multiplier=0.1, seeds=30)
    outcomes = {each.check: each.outcome for each in found.findings}
    assert outcomes[bits.CHECK] is Outcome.UNINFORMATIVE
    assert found.outcome is Outcome.UNINFORMATIVE
    assert "cannot show more" in str(found)


def test_a_step_that_fails_on_a_record_or_on_nobody_is_blamed():
    def proud(batch, seed, at):
        if not np.isfinite(batch["x"]).all():
            raise ValueError("bad row")
        return steps.right(batch, seed, at)

    assert blamed(audited(proud, VECTORS, seeds=24)) == {CANCELLING, "control flow"}
    never = audited(lambda batch, seed, at: None, VECTORS)
    assert "control flow" in blamed(never)
    assert next(each for each in never.findings if each.check == bits.CHECK).outcome is Outcome.UNINFORMATIVE


def test_a_record_of_ones_own_is_tried_too():
    def trusts_seven(batch, seed, at):
        """Seven is let through unclipped."""
        rows = np.where((batch["x"] == 7).all(axis=1, keepdims=True), 0, batch["x"])
        sevens = 49 * (batch["x"] == 7).all(axis=1).sum()
        return steps.whole_noise(
            np.asarray(steps.mean(lambda total, _: total, {"x": rows}, 0, 0)) + sevens, seed
        )

    assert blamed(audited(trusts_seven, VECTORS, seeds=24)) == set()
    record = {"x": np.full((1, 50), 7, np.float32)}
    assert CANCELLING in blamed(audited(trusts_seven, VECTORS, record, seeds=24))


def test_what_cannot_be_audited_is_refused():
    with pytest.raises(InvalidArgument, match="gradient lengths are declared"):
        audit.arithmetic_plan(lambda w, e: w * e["x"], jnp.float32(0), NUMBERS, plan(clipping=lipschitz(1.0)))
    with pytest.raises(InvalidArgument, match="rows"):
        audited(steps.right, VECTORS, rows=1)
    with pytest.raises(DataError, match="one row per record"):
        audited(steps.right, {"x": np.asarray(np.float32(1))})


# The parts


def test_right_guesses_of_a_right_step_are_contradicted_as_rarely_as_promised():
    """The best guesses that Gaussian noise allows, 4,000 games: 6% false alarms have probability 1e-2."""
    rng = np.random.default_rng(0)
    for mu in (0.1, 0.5, 2.0):
        count = bits._enough_guesses(mu, 0.05)
        hits, alarms = (rng.binomial(count, ndtr(side * mu / 2), 4000) for side in (1, -1))
        claim = Claim(1.0, 1 / mu, 1.0, rt.Adjacency.ADD_OR_REMOVE)
        outcomes = [
            bits._finding("", claim, int(h), int(a), count, 0.95).outcome
            for h, a in zip(hits, alarms, strict=True)
        ]
        assert np.mean([each is Outcome.CONTRADICTED for each in outcomes]) < 0.06
        sure = bits._finding("", claim, count, 0, count, 0.95)
        assert sure.outcome is Outcome.CONTRADICTED


def test_normal_numbers_of_words_end_and_have_holes_that_tell_neighbours_apart():
    """Numbers beyond four deviations, of which a large release has a few."""
    ends = steps.normals_of_words(np.array([0, 1], np.uint32))
    assert abs(ends).max() == pytest.approx(6.338, abs=1e-3)
    clean = np.random.default_rng(2).normal(size=1_000_000).astype(np.float32)
    other = (clean + np.float32(1e-3)).astype(np.float32)
    released = steps.word_noise(clean, 1)
    could = [suspects._could_be_from_words(steps.NOISE, total, released) for total in (clean, other)]
    assert could[0].all()
    assert (~could[1]).sum() >= 5


def test_a_grid_is_found_in_rounded_multiples_and_in_nothing_else():
    rng = np.random.default_rng(0)
    rounding = suspects.roundings(np.dtype(np.float32))
    for step in (2.0**-15, 3.17e-5, 0.004):
        noise = (step * np.rint(rng.normal(size=(16, 700)) / step)).astype(np.float32)
        assert suspects.grid_of(noise, rounding) == pytest.approx(step, rel=1e-6)
    assert suspects.grid_of(rng.normal(size=5000).astype(np.float32), rounding) is None
    assert suspects.grid_of(rng.normal(size=5), rounding) is None
