"""Every broken trainer is caught, by replay or by audit, and the right one is not."""

from __future__ import annotations

import broken_trainers as planted
import pytest

from reticent.audit.verdict import Outcome


@pytest.mark.parametrize("broken", planted.BROKEN, ids=lambda kind: kind.__name__)
def test_a_replay_catches(broken):
    assert planted.replayed(broken())


@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        (planted.HalfTheNoise, {"size of the noise"}),
        (planted.NoNoiseOnTheBias, {"size of the noise"}),
        (planted.OneKeyForAllSteps, {"noise of other steps"}),
        (planted.OneKeyForAllRuns, {"noise of other seeds"}),
        (planted.OneKeyForAllLeaves, {"noise of other parameters"}),
        (planted.ClipsTheAverage, {"sensitivity"}),
        (planted.MeanOverTheDrawnBatch, {"sensitivity", "control flow"}),
        (planted.ClipsMicrobatches, {"sensitivity"}),
        (planted.ShufflesAndCallsItPoisson, {"sampling"}),
        (planted.ForgetsToClipTheBias, {"sensitivity"}),
        (planted.SkipsEmptyBatches, {"control flow"}),
        (planted.CountsAugmentationsAsExamples, {"sensitivity"}),
        (planted.NormalisesByTheBatch, {"sensitivity"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_replay_names_what_is_wrong(broken, checks: set[str]):
    assert checks <= set(planted.replayed(broken()))


@pytest.mark.parametrize(
    "broken",
    [
        planted.NoNoise,
        planted.ForgetsToClip,
        planted.ClipsTheAverage,
        planted.CountsAugmentationsAsExamples,
    ],
    ids=lambda kind: kind.__name__,
)
def test_an_audit_from_outside_contradicts(broken):
    verdict = planted.audited(broken())
    assert verdict.outcome is Outcome.CONTRADICTED
    assert verdict.exit_code == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_right_trainer_passes(seed: int):
    assert planted.replayed(planted.Trainer(), seed) == ()
    verdict = planted.audited(planted.Trainer(), seed)
    assert verdict.outcome is Outcome.CONSISTENT
    assert 0.5 < verdict.bound < verdict.claim
