"""Audits: honest attempts to contradict a claimed epsilon, and tests of training code.

train_with_canaries(loss, params, data, plan, optimizer=...)   a run, its bounds and a verdict
one_run(scores, included, delta=1e-5)                          a bound from any trainer's scores
replay(train_step, data, record, max_norm=..., noise_multiplier=...)   a unit test of a training step
arithmetic(train_step, data, max_norm=..., noise_multiplier=...)       the same, to the last bit
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.audit.arithmetic import Arithmetic as Arithmetic
    from reticent.audit.arithmetic import arithmetic as arithmetic
    from reticent.audit.arithmetic_training import arithmetic_plan as arithmetic_plan
    from reticent.audit.bounds import gaussian_estimate as gaussian_estimate
    from reticent.audit.bounds import gaussian_one_run as gaussian_one_run
    from reticent.audit.bounds import many_runs as many_runs
    from reticent.audit.bounds import many_runs_ceiling as many_runs_ceiling
    from reticent.audit.bounds import one_run as one_run
    from reticent.audit.bounds import one_run_ceiling as one_run_ceiling
    from reticent.audit.canaries import Canaries as Canaries
    from reticent.audit.canary_training import Audit as Audit
    from reticent.audit.canary_training import train_with_canaries as train_with_canaries
    from reticent.audit.claim import curve_of as curve_of
    from reticent.audit.claim import refutes as refutes
    from reticent.audit.evidence import Evidence as Evidence
    from reticent.audit.evidence import EvidenceKind as EvidenceKind
    from reticent.audit.finding import Finding as Finding
    from reticent.audit.replay import Replay as Replay
    from reticent.audit.replay import ReplayProblem as ReplayProblem
    from reticent.audit.replay import replay as replay
    from reticent.audit.replay_training import replay_plan as replay_plan
    from reticent.audit.replay_training import replay_run as replay_run
    from reticent.audit.replay_training import replay_sampling as replay_sampling
    from reticent.audit.verdict import Outcome as Outcome
    from reticent.audit.verdict import Verdict as Verdict
    from reticent.audit.verdict import judge as judge

open_page(__name__)
