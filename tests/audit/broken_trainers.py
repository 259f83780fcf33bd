"""A small trainer that is right, and others that are each wrong in one way that somebody once shipped.

Plain NumPy, written as a user would write it: the auditor knows nothing of how they work. The model is
linear, with several outputs and a bias; rows may be canaries, each with a parameter of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from reticent import audit
from reticent.audit.canary_scores import log_likelihood_ratio
from reticent.audit.canary_training import power_without_noise
from reticent.audit.replay import Replay
from reticent.audit.verdict import Verdict, judge
from reticent.training.plan import Plan

FEATURES, OUTPUTS, USERS, CANARIES = 8, 24, 200, 4000
MAX_NORM, PULL, STEP_SIZE = 0.5, 2.0, 0.1

Batch = dict[str, np.ndarray]
Tree = dict[str, np.ndarray]


@cache
def plan() -> Plan:
    """What every trainer here claims to do."""
    examples = USERS + CANARIES // 2
    return Plan.for_budget(
        epsilon=4, delta=1e-5, examples=examples, batch_size=examples // 5, steps=25, max_norm=MAX_NORM
    )


def start(canaries: int = 0) -> Tree:
    rng = np.random.default_rng(0)
    weights = 0.3 * rng.normal(size=(FEATURES, OUTPUTS))
    return {"b": np.zeros(OUTPUTS), "canaries": np.zeros(canaries), "w": weights}


def users(count: int = USERS) -> Batch:
    rng = np.random.default_rng(1)
    return {
        "x": rng.normal(size=(count, FEATURES)),
        "y": rng.normal(size=(count, OUTPUTS)),
        "canary": np.full(count, -1),
    }


def strange_records() -> Batch:
    """Records as unlike the others as can be: large, opposite, blank, not finite."""
    x = np.stack([np.full(FEATURES, value) for value in (1e4, -30.0, 1.0, 1e-3)])
    y = np.stack([np.full(OUTPUTS, value) for value in (-1e6, 1e3, 50.0, -40.0)])
    return {"x": x, "y": y, "canary": np.full(len(x), -1)}


@dataclass(frozen=True)
class Trainer:
    """DP-SGD, done right. Each method is a place for one mistake."""

    def draw(self, examples: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng([seed, 1])
        return rng.random((plan().steps, examples)) < self.rate

    @property
    def rate(self) -> float:
        return plan().sampler.batch_size / plan().sampler.examples

    def noise(self, seed: int, step: int, like: Tree) -> Tree:
        rng = np.random.default_rng([seed, 2, step])
        deviation = plan().noise_multiplier * MAX_NORM
        return {name: deviation * rng.normal(size=leaf.shape) for name, leaf in like.items()}

    def gradients(self, params: Tree, batch: Batch) -> Tree:
        """One gradient a row."""
        is_canary = batch["canary"] >= 0
        error = batch["x"] @ params["w"] + params["b"] - batch["y"]
        error[is_canary] = 0
        apart = np.zeros((len(error), len(params["canaries"])))
        apart[is_canary, batch["canary"][is_canary]] = PULL
        return {"b": error, "canaries": apart, "w": batch["x"][:, :, None] * error[:, None, :]}

    def factors(self, gradients: Tree) -> dict[str, np.ndarray]:
        """What each row's gradient is multiplied by, leaf by leaf."""
        shrink = MAX_NORM / np.maximum(lengths(gradients), MAX_NORM)
        return dict.fromkeys(gradients, shrink)

    def total(self, gradients: Tree) -> Tree:
        factors = self.factors(gradients)
        return {name: np.tensordot(factors[name], leaf, 1) for name, leaf in gradients.items()}

    def divisor(self, batch: Batch) -> float:
        return plan().sampler.batch_size

    def step(self, params: Tree, batch: Batch, seed: int, step: int) -> Tree | None:
        total = self.total(self.gradients(params, batch))
        noise = self.noise(seed, step, total)
        return {name: (total[name] + noise[name]) / self.divisor(batch) for name in total}

    def run(self, data: Batch, seed: int, canaries: int = 0) -> list[Tree | None]:
        params, released = start(canaries), []
        for step, joins in enumerate(self.draw(len(data["x"]), seed)):
            batch = {name: array[joins] for name, array in data.items()}
            released.append(self.step(params, batch, seed, step))
            if released[-1] is not None:
                params = {name: params[name] - STEP_SIZE * released[-1][name] for name in params}
        return released


def lengths(gradients: Tree) -> np.ndarray:
    squares = [np.square(leaf).sum(axis=tuple(range(1, leaf.ndim))) for leaf in gradients.values()]
    return np.sqrt(np.sum(squares, axis=0))


class HalfTheNoise(Trainer):
    def noise(self, seed, step, like):
        return {name: leaf / 2 for name, leaf in super().noise(seed, step, like).items()}


class NoNoiseOnTheBias(Trainer):
    def noise(self, seed, step, like):
        return {**super().noise(seed, step, like), "b": np.zeros(OUTPUTS)}


class OneKeyForAllSteps(Trainer):
    def noise(self, seed, step, like):
        return super().noise(seed, 0, like)


class OneKeyForAllRuns(Trainer):
    def noise(self, seed, step, like):
        return super().noise(0, step, like)


class OneKeyForAllLeaves(Trainer):
    def noise(self, seed, step, like):
        one = super().noise
        return {name: one(seed, step, {name: leaf})[name] for name, leaf in like.items()}


class ClipsTheAverage(Trainer):
    def total(self, gradients):
        rows = max(len(gradients["b"]), 1)
        mean = {name: leaf.sum(axis=0, keepdims=True) / rows for name, leaf in gradients.items()}
        return {name: leaf * self.divisor({}) for name, leaf in super().total(mean).items()}


class MeanOverTheDrawnBatch(Trainer):
    def divisor(self, batch):
        return len(batch["x"])


class ClipsMicrobatches(Trainer):
    def total(self, gradients):
        groups = [slice(at, at + 4) for at in range(0, len(gradients["b"]), 4)]
        summed = {
            name: np.stack([leaf[group].sum(axis=0) for group in groups]) if groups else leaf
            for name, leaf in gradients.items()
        }
        return super().total(summed)


class ShufflesAndCallsItPoisson(Trainer):
    def draw(self, examples, seed):
        rng, size = np.random.default_rng([seed, 1]), round(self.rate * examples)
        joins = np.zeros((plan().steps, examples), bool)
        batches = -(-examples // size)
        orders = [rng.permutation(examples) for _ in range(plan().steps // batches + 1)]
        for step in range(plan().steps):
            at = step % batches * size
            joins[step, orders[step // batches][at : at + size]] = True
        return joins


class ForgetsToClipTheBias(Trainer):
    def factors(self, gradients):
        without = {name: leaf for name, leaf in gradients.items() if name != "b"}
        return {**super().factors(without), "b": np.ones(len(gradients["b"]))}


class ClipsEachLeafToTheWholeNorm(Trainer):
    def factors(self, gradients):
        return {name: super(ClipsEachLeafToTheWholeNorm, self).factors({name: leaf})[name]
                for name, leaf in gradients.items()}  # fmt: skip


class SkipsEmptyBatches(Trainer):
    def step(self, params, batch, seed, step):
        return super().step(params, batch, seed, step) if len(batch["x"]) else None


class CountsAugmentationsAsExamples(Trainer):
    def gradients(self, params, batch):
        copies = {name: np.concatenate([array] * 4) for name, array in batch.items()}
        copies["x"] = copies["x"] * np.repeat([1.0, 0.9, 1.1, 0.8], len(batch["x"]))[:, None]
        return super().gradients(params, copies)


class NormalisesByTheBatch(Trainer):
    def gradients(self, params, batch):
        if not len(batch["x"]):
            return super().gradients(params, batch)
        centre, spread = batch["x"].mean(axis=0), batch["x"].std(axis=0) + 1e-3
        return super().gradients(params, {**batch, "x": (batch["x"] - centre) / spread})


class NoiseGrowsWithTheBatch(Trainer):
    def step(self, params, batch, seed, step):
        total = self.total(self.gradients(params, batch))
        noise = self.noise(seed, step, total)
        grown = np.sqrt(max(len(batch["x"]), 1))
        return {name: (total[name] + grown * noise[name]) / self.divisor(batch) for name in total}


class NoNoise(Trainer):
    def noise(self, seed, step, like):
        return {name: np.zeros_like(leaf) for name, leaf in like.items()}


class DrawsBatchesTwiceAsLarge(Trainer):
    def draw(self, examples, seed):
        return np.random.default_rng([seed, 1]).random((plan().steps, examples)) < 2 * self.rate


class ForgetsToClip(Trainer):
    def factors(self, gradients):
        return dict.fromkeys(gradients, np.ones(len(gradients["b"])))


BROKEN = [
    HalfTheNoise,
    NoNoiseOnTheBias,
    OneKeyForAllSteps,
    OneKeyForAllRuns,
    OneKeyForAllLeaves,
    ClipsTheAverage,
    MeanOverTheDrawnBatch,
    ClipsMicrobatches,
    ShufflesAndCallsItPoisson,
    ForgetsToClipTheBias,
    ClipsEachLeafToTheWholeNorm,
    SkipsEmptyBatches,
    CountsAugmentationsAsExamples,
    NormalisesByTheBatch,
    NoiseGrowsWithTheBatch,
    NoNoise,
    DrawsBatchesTwiceAsLarge,
    ForgetsToClip,
]


def replayed(trainer: Trainer, seed: int = 0) -> tuple[str, ...]:
    """What replays of a trainer find: of its step, its sampling and its whole run."""
    params, data = start(), users(40)

    def step(batch: Batch, other: int, at: int) -> Any:
        return trainer.step(params, batch, 1000 * seed + other, at)

    found: list[Replay] = [
        audit.replay(
            step,
            data,
            strange_records(),
            max_norm=MAX_NORM,
            noise_multiplier=plan().noise_multiplier,
            divisor=plan().sampler.batch_size,
        ),
        audit.replay_sampling(
            lambda examples, other: trainer.draw(examples, 1000 * seed + other),
            examples=USERS,
            rate=trainer.rate,
        ),
        audit.replay_run(
            lambda rows, other: trainer.run(rows, 1000 * seed + other),
            users(8),
            strange_records(),
            steps=plan().steps,
        ),
    ]
    return tuple(problem.check for each in found for problem in each.problems)


@cache
def _curve() -> Any:
    return audit.curve_of(plan())


@cache
def _power() -> float:
    return power_without_noise(plan(), CANARIES)


def audited(trainer: Trainer, seed: int = 0) -> Verdict:
    """The verdict of a white-box audit in one run, from outside: only what each step releases is seen."""
    included = np.random.default_rng([seed, 3]).integers(0, 2, CANARIES).astype(bool)
    inside = np.flatnonzero(included)
    rows = users()
    data = {
        "x": np.concatenate([rows["x"], np.zeros((len(inside), FEATURES))]),
        "y": np.concatenate([rows["y"], np.zeros((len(inside), OUTPUTS))]),
        "canary": np.concatenate([rows["canary"], inside]),
    }
    noisy = np.stack([each["canaries"] for each in trainer.run(data, seed, CANARIES) if each is not None])
    scores = log_likelihood_ratio(
        noisy * (plan().sampler.batch_size / MAX_NORM),
        rate=trainer.rate,
        noise_multiplier=plan().noise_multiplier,
        absence="removed",
    )
    whole = np.asarray(scores, np.float64).sum(axis=0)
    found = audit.one_run(whole, included, delta=plan().delta)
    is_refuted = audit.refutes(whole, included, _curve())
    return judge(plan().guarantee().epsilon, [found], power=_power(), is_plan_refuted=is_refuted)
