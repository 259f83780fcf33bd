"""Audits of every generator: how much of its claimed epsilon the strongest games show, and with less noise.

python -m benchmarks.synthetic_audit                    every game, three seeds
python -m benchmarks.synthetic_audit --only gan         one generator; may be given again
python -m benchmarks.synthetic_audit --seeds 1 --runs 1000 --models 200 --json FILE

The games are those of the tests (tests/synthetic/generator_games.py). Each claims epsilon 2 at delta 0.05,
and its bound holds with 99% confidence: the threshold is chosen on half of the runs and tested on the others.
What is shown of a claim depends on how many runs there are, so they are printed too.

    releases    the attacker sees everything that was charged: counts, choices, sums, noisy gradients
    model       the attacker sees the finished generator: its density, its moments, what it makes
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import jax

from reticent.mechanisms.events import Gaussian
from reticent.synthetic.images import embedding, gan
from reticent.synthetic.tables import table_model
from reticent.training import step as steps_of_training

SHARES = (1.0, 0.5, 0.01)  # of the planned noise
GENERATORS = ("mst", "aim", "moments", "fourier", "gan")


def games() -> Any:
    """The module of the tests in which the games are."""
    folder = str(Path(__file__).resolve().parents[1] / "tests" / "synthetic")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("generator_games")


@contextmanager
def noise_of(share: float) -> Iterator[None]:
    """Every mechanism draws so much of its planned noise, and is charged for all of it."""
    count, release = table_model.measure, embedding.release
    noisy, classes = steps_of_training.add_whole_noise, gan.noisy_counts

    def less(event: Gaussian) -> Gaussian:
        return Gaussian(noise_multiplier=share * event.noise_multiplier)

    def measure(codes: Any, columns: Any, sizes: Any, event: Gaussian, source: Any, **named: Any) -> Any:
        found = count(codes, columns, sizes, less(event), source, **named)
        return found._replace(deviation=event.noise_multiplier)

    def summed(total: Any, plan: embedding.EmbeddingPlan, rng: Any) -> Any:
        return release(total, replace(plan, noise_multiplier=share * plan.noise_multiplier), rng)

    def counted(labels: Any, number: int, plan: gan.GanPlan, rng: Any) -> Any:
        return classes(labels, number, replace(plan, count_noise=share * plan.count_noise), rng)

    def add(key: Any, total: Any, grid: Any, parts: Any = None) -> Any:
        planned = noisy(key, total, grid, parts=parts)
        return jax.tree.map(lambda new, k: k / grid.steps + share * (new - k / grid.steps), planned, total)

    with (
        mock.patch.object(table_model, "measure", measure),
        mock.patch.object(embedding, "release", summed),
        mock.patch.object(gan, "noisy_counts", counted),
        mock.patch.object(steps_of_training, "add_whole_noise", add),
    ):
        yield


def table_games(method: str, runs: int, models: int, seed: int) -> dict[str, float]:
    play = games()
    asked = table_model.plan((2, 2, 2), 60, play.EPSILON, play.DELTA, method)
    found = play.table_scores(play.lonely_table(), asked, runs=runs, seed=seed)
    made = play.table_model_scores(play.lonely_table(), asked, runs=models, seed=seed)
    return {"releases": play.bound(found), "model": play.bound(made)}


def embedding_games(features: Any, runs: int, models: int, seed: int) -> dict[str, float]:
    play = games()
    asked = embedding.plan(
        epsilon=play.EPSILON, delta=play.DELTA, examples=20, features=features, prior="none", radius=1.0
    )
    found = {"releases": play.bound(play.embedding_scores(play.lonely_vector(), asked, runs=runs, seed=seed))}
    if features == "moments":
        made = play.moment_scores(play.lonely_vector(), asked, runs=models, seed=seed)
        found["model"] = play.bound(made)
    return found


def gan_games(runs: int, seed: int) -> dict[str, float]:
    play = games()
    asked = gan.plan(
        epsilon=play.EPSILON, delta=play.DELTA, examples=20, batch_size=10, steps=4, max_norm=0.1,
        prior="none", hidden=(), generator_hidden=(), each=1, rate=0.1, generator_rate=0.1,
    )  # fmt: skip
    found, made = play.gan_scores(play.captured(play.lonely_vector()[0], asked), runs=runs, seed=seed)
    return {"releases": play.bound(found), "model": play.bound(made)}


def game_of(name: str) -> Callable[[int, int, int], dict[str, float]]:
    if name in ("mst", "aim"):
        return lambda runs, models, seed: table_games(name, runs, models, seed)
    if name == "gan":
        return lambda runs, models, seed: gan_games(runs, seed)
    return lambda runs, models, seed: embedding_games(name, runs, models, seed)


def measured(names: Sequence[str], *, runs: int, models: int, seeds: int) -> list[dict[str, Any]]:
    rows = []
    for name in names:
        for share in SHARES:
            with noise_of(share):
                found = [game_of(name)(runs, models, seed) for seed in range(seeds)]
            for attacker in found[0]:
                shown = [each[attacker] for each in found]
                rows.append({"generator": name, "attacker": attacker, "noise": share, "bounds": shown})
                print(rows[-1], file=sys.stderr, flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """One line a game, and a column for each share of the noise."""
    lines = [
        "| generator | the attacker sees | all noise | half of it | a hundredth |",
        "|---|---|---|---|---|",
    ]
    for name, attacker in dict.fromkeys((row["generator"], row["attacker"]) for row in rows):
        cells = [
            ", ".join(f"{value:.2f}" for value in row["bounds"])
            for row in rows
            if (row["generator"], row["attacker"]) == (name, attacker)
        ]
        lines.append(f"| {name} | {attacker} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=GENERATORS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=4000, help="with the canary, and as many without it")
    parser.add_argument("--models", type=int, default=1000, help="finished generators, the same")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    names = asked.only or GENERATORS
    rows = measured(names, runs=asked.runs, models=asked.models, seeds=asked.seeds)
    play = games()
    print(f"Claimed: epsilon {play.EPSILON:g} at delta {play.DELTA:g}. Runs: {asked.runs:,}; finished")
    print(f"generators of tables and embeddings: {asked.models:,}; with the canary, and as many without.\n")
    print(table(rows))
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    honest = [value for row in rows if row["noise"] == 1 for value in row["bounds"]]
    if max(honest) > play.EPSILON:
        sys.exit("a generator shows more than it claims")


if __name__ == "__main__":
    main()
