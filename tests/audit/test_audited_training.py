"""A run with canaries from beginning to end, its verdict, and bugs planted in `train` itself."""

from __future__ import annotations

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent import audit, models
from reticent.audit.canary_training import power_without_noise
from reticent.audit.evidence import Evidence, EvidenceKind
from reticent.audit.verdict import Outcome, judge
from reticent.core.errors import InvalidArgument
from reticent.mechanisms import gaussian
from reticent.training.clipping import per_layer
from reticent.training.projection import onto_ball

ROWS, WIDTH, CANARIES = 2000, 6, 1000
MODEL = models.linear(WIDTH, 3)
LOSS = models.classification_loss(MODEL)


def rows() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.normal(size=(ROWS, WIDTH)).astype(np.float32), "y": rng.integers(0, 3, ROWS)}


def plan(epsilon: float = 1.0, **changes) -> rt.Plan:
    values = {"delta": 1e-5, "examples": ROWS, "batch_size": 500, "steps": 20, "max_norm": 1.0}
    return rt.Plan.for_budget(epsilon=epsilon, **{**values, **changes})


def audited(recipe: rt.Plan | None = None, data: rt.Dataset | None = None, **options) -> audit.Audit:
    given = {"optimizer": optax.sgd(0.5), "canaries": CANARIES, "keys": rt.Keys.seeded(0), **options}
    params = MODEL.init(jax.random.key(0))
    return audit.train_with_canaries(LOSS, params, data or rows(), recipe or plan(), **given)


@pytest.fixture(scope="module")
def correct() -> audit.Audit:
    inputs = {"x": np.random.default_rng(1).uniform(-3, 3, (200, WIDTH)), "y": np.arange(200) % 3}
    held_out = {key: array[:50] for key, array in rows().items()}
    return audited(inputs=inputs, metrics={"accuracy": models.accuracy(MODEL)}, evaluate=held_out)


@pytest.mark.thorough
def test_a_correct_run_is_consistent_and_says_what_could_have_been_seen(correct: audit.Audit):
    found = correct
    assert found.verdict.outcome is Outcome.CONSISTENT
    assert found.verdict.power is not None
    assert found.verdict.bound < found.verdict.claim < found.verdict.power <= found.verdict.ceiling
    kinds = [each.kind for each in found.evidence]
    assert kinds == [EvidenceKind.BOUND] * 2 + [EvidenceKind.CONDITIONAL] * 2 + [EvidenceKind.ESTIMATE] * 2
    assert [each.confidence for each in found.evidence[:2]] == [0.975, 0.975]
    assert found.verdict.confidence == pytest.approx(0.95)
    assert "white box" in str(found)
    assert "black box" in str(found)
    written = json.loads(json.dumps(found.to_json()))
    assert written["verdict"]["outcome"] == "CONSISTENT"
    assert written["canaries"]["gradient_canaries"] == CANARIES


def test_the_model_comes_back_without_canaries_and_with_its_guarantee(correct: audit.Audit):
    found = correct
    assert jax.tree.structure(found.run.params) == jax.tree.structure(MODEL.init(jax.random.key(0)))
    assert found.run.guarantee.epsilon == pytest.approx(1.0, rel=0.02)
    assert {"loss", "accuracy"} <= set(found.run.history[-1].held_out)
    assert found.plan.sampler.examples > ROWS


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling": "full", "batch_size": None},
        {"sampling": "fixed"},
        {"sampling": "shuffled"},
        {"adjacency": rt.Adjacency.REPLACE},
        {"max_norm": None, "clipping": per_layer(1.0)},
    ],
    ids=["full", "fixed", "shuffled", "replace", "per layer"],
)
def test_every_kind_of_plan_can_be_audited(changes: dict):
    canaries = 20 if "clipping" in changes else 300
    found = audited(plan(epsilon=4.0, **changes), canaries=canaries, project=onto_ball(5.0))
    assert found.verdict.outcome is not Outcome.CONTRADICTED


def plant(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """The noise of `train`, times a number."""
    right = gaussian.whole_normals

    def wrong(key, count, **options):
        return jnp.rint(share * right(key, count, **options)).astype(jnp.int32)

    monkeypatch.setattr(gaussian, "whole_normals", wrong)


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_too_little_noise_for_users_is_contradicted(monkeypatch: pytest.MonkeyPatch, share: float):
    """Canaries are users with four rows, whose gradients are clipped together."""
    recipe = plan(unit="user", rows_per_user=4, examples=ROWS // 4, batch_size=None, sampling="full")
    plant(monkeypatch, share)
    found = audited(recipe, data=rt.Dataset(rows(), users=np.arange(ROWS) // 4), canaries=400)
    assert found.plan.rows_per_user == found.record["rows_each"] == 4
    assert (found.verdict.outcome is Outcome.CONTRADICTED) == (share < 1)


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_too_little_noise_in_train_is_contradicted(monkeypatch: pytest.MonkeyPatch, share: float):
    """Without any, what is shown is what the audit said it could show."""
    plant(monkeypatch, share)
    found = audited()
    assert found.verdict.outcome is Outcome.CONTRADICTED
    assert "above the claimed" in str(found.verdict)
    if share == 0:
        assert found.verdict.bound == pytest.approx(found.verdict.power, abs=0.3)


@pytest.mark.thorough
def test_what_is_expected_is_what_a_correct_run_shows():
    found = audited(plan(epsilon=4.0))
    assert found.verdict.expected is not None
    assert found.verdict.bound == pytest.approx(found.verdict.expected, abs=0.7)


def test_an_audit_that_could_not_have_seen_anything_says_so():
    found = audited(plan(epsilon=8.0), canaries=100)
    assert found.verdict.outcome is Outcome.UNINFORMATIVE
    assert "even if there had been no noise at all" in str(found.verdict)
    assert found.verdict.exit_code == 0


def test_a_black_box_alone_does_not_say_what_it_could_have_seen():
    inputs = {"x": np.random.default_rng(1).uniform(-3, 3, (100, WIDTH)), "y": np.arange(100) % 3}
    found = audited(canaries=0, inputs=inputs)
    assert found.verdict.outcome is Outcome.UNINFORMATIVE
    assert found.verdict.power is None
    assert "is not known" in str(found.verdict)


def test_a_canary_that_is_hardly_ever_drawn_leaves_little_to_see():
    rare = plan(epsilon=1.0, batch_size=2, steps=5)
    assert power_without_noise(rare, CANARIES) < 1


# Verdicts


def evidence(epsilon: float, kind: EvidenceKind = EvidenceKind.BOUND, ceiling: float = 5.0) -> Evidence:
    return Evidence(
        epsilon=epsilon,
        kind=kind,
        method="by hand",
        delta=1e-5,
        confidence=None if kind is EvidenceKind.ESTIMATE else 0.95,
        canaries=100,
        guesses=50,
        correct=40,
        selection="none",
        threat="none",
        ceiling=ceiling,
        assumption="it rains" if kind is EvidenceKind.CONDITIONAL else None,
    )


@pytest.mark.parametrize(
    ("bound", "claim", "power_", "outcome"),
    [
        (2.0, 1.0, 4.0, Outcome.CONTRADICTED),
        (0.5, 1.0, 4.0, Outcome.CONSISTENT),
        (0.5, 4.0, 4.0, Outcome.UNINFORMATIVE),
        (0.5, 1.0, 0.8, Outcome.UNINFORMATIVE),
        (0.5, 6.0, 9.0, Outcome.UNINFORMATIVE),  # above the ceiling
        (0.5, float("inf"), 9.0, Outcome.UNINFORMATIVE),
        (0.0, 0.0, 1.0, Outcome.CONSISTENT),
    ],
)
def test_the_three_verdicts(bound: float, claim: float, power_: float, outcome: Outcome):
    found = judge(claim, [evidence(bound)], power=power_)
    assert found.outcome is outcome
    assert found.exit_code == (outcome is Outcome.CONTRADICTED)
    assert str(found).startswith(outcome.value)


def test_what_rests_on_an_assumption_contradicts_nothing():
    others = [evidence(9.0, EvidenceKind.CONDITIONAL), evidence(9.0, EvidenceKind.ESTIMATE)]
    assert judge(1.0, [evidence(0.5), *others], power=4.0).outcome is Outcome.CONSISTENT
    with pytest.raises(InvalidArgument, match="has no bound"):
        judge(1.0, others, power=4.0)
    with pytest.raises(InvalidArgument, match="is not valid"):
        judge(float("nan"), [evidence(0.5)], power=4.0)
