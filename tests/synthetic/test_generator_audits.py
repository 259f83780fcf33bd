"""Every generator against the strongest attacker we know, at its claimed noise and with planted bugs.

Each game claims epsilon 2 at delta 0.05 and bounds epsilon from below with 99% confidence: on other seeds
an honest generator would fail once in a hundred times, and the seeds are fixed. An audit that finds nothing
proves little unless it would have found something, so each also has to show a good part of the claim where
the noise is as it should be, and more than the claim where it is halved.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from generator_games import (
    DELTA,
    EPSILON,
    Game,
    Scores,
    bound,
    captured,
    embedding_scores,
    frequency_scores,
    gan_scores,
    lonely_table,
    lonely_vector,
    ratio_bound,
    table_model_scores,
    table_of_users,
    table_scores,
)

from reticent import synthetic
from reticent.core.keys import Keys
from reticent.mechanisms.events import Gaussian
from reticent.synthetic.images import basis, embedding, gan
from reticent.synthetic.tables import table_model
from reticent.synthetic.tables.bins import bins_for
from reticent.synthetic.tables.marginals import Marginal, count, measure
from reticent.synthetic.tables.planning import TablePlan
from reticent.training import step_noise as steps_of_training

SHOWN = 0.4  # of the claim, at least: a game that shows nothing of an honest generator proves nothing
RUNS, FEW = 600, 120  # with the canary, and as many without; few are enough where a bug gives it away
LEFT = [(0.5, RUNS), (0.01, FEW)]  # of the noise, where a bug takes some away
MANY = 2500  # where a bug releases twice what is charged once
TWICE = (2.0, 2.5)  # thresholds for the sum of two ratios

METHODS = ("mst", "aim")
FEATURES = ("moments", "fourier")


def table_plan(method: str, *, target: int | None = None, columns: int = 3) -> TablePlan:
    return table_model.plan((2,) * columns, 60, EPSILON, DELTA, method, target=target)


def embedding_plan(features: Any) -> embedding.EmbeddingPlan:
    return embedding.plan(
        epsilon=EPSILON, delta=DELTA, examples=20, features=features, prior="none", radius=1.0
    )


def gan_plan(*, examples: int = 20, batch_size: int = 10, steps: int = 4) -> gan.GanPlan:
    return gan.plan(
        epsilon=EPSILON, delta=min(DELTA, 0.99 / examples), examples=examples, batch_size=batch_size,
        steps=steps, max_norm=0.1,
        prior="none", hidden=(), generator_hidden=(), each=1, rate=0.1, generator_rate=0.1,
    )  # fmt: skip


PLAYED = gan_plan()


def quieter_measure(share: float) -> Callable[..., Marginal]:
    def quiet(codes: Any, columns: Any, sizes: Any, event: Gaussian, source: Any, **named: Any) -> Marginal:
        less = Gaussian(noise_multiplier=share * event.noise_multiplier)
        found = measure(codes, columns, sizes, less, source, **named)
        return found._replace(deviation=event.noise_multiplier)

    return quiet


def quieter_release(share: float) -> Callable[..., np.ndarray]:
    honest = embedding.release

    def quiet(total: Any, plan: embedding.EmbeddingPlan, rng: Any) -> np.ndarray:
        return honest(total, replace(plan, noise_multiplier=share * plan.noise_multiplier), rng)

    return quiet


def quieter_steps(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """On a grid for less noise the same whole numbers are less."""
    honest = steps_of_training.noise_grid
    monkeypatch.setattr(
        steps_of_training,
        "noise_grid",
        lambda noise, *given, **named: honest(share * noise, *given, **named),
    )


# The claimed noise: no more than the claim is shown, and a good part of it


@pytest.mark.parametrize(("method", "target"), [("mst", None), ("mst", 0), ("aim", None)])
@pytest.mark.thorough
def test_a_table_shows_most_of_its_epsilon_and_no_more(method: str, target: int | None) -> None:
    played = table_scores(lonely_table(), table_plan(method, target=target), runs=800)
    found = ratio_bound(played, thresholds=(1.0,))
    assert SHOWN * EPSILON <= found <= EPSILON


@pytest.mark.parametrize("method", METHODS)
def test_all_rows_of_a_user_are_hidden_together(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    each, rows = 4, 600
    worlds = table_of_users(each, rows)
    asked = table_model.plan((2, 2), rows, EPSILON, DELTA, method, rows_per_user=each)
    found = ratio_bound(table_scores(worlds, asked, runs=RUNS), thresholds=(1.0,))
    assert SHOWN * EPSILON <= found <= EPSILON

    def for_one_row(*given: Any, rows_per_user: int) -> Marginal:  # the planted bug
        return measure(*given, rows_per_user=1)

    monkeypatch.setattr(table_model, "measure", for_one_row)
    assert ratio_bound(table_scores(worlds, asked, runs=FEW)) > EPSILON


@pytest.mark.parametrize("features", FEATURES)
def test_an_embedding_shows_most_of_its_epsilon_and_no_more(features: str) -> None:
    found = ratio_bound(embedding_scores(lonely_vector(), embedding_plan(features), runs=RUNS))
    assert SHOWN * EPSILON <= found <= EPSILON


@pytest.fixture(scope="module")
def honest_gan() -> tuple[Scores, Scores]:
    return gan_scores(captured(lonely_vector()[0], PLAYED), runs=1000)


@pytest.mark.thorough
def test_the_gradients_of_a_discriminator_show_most_of_its_epsilon_and_no_more(honest_gan: Any) -> None:
    assert SHOWN * EPSILON <= ratio_bound(honest_gan[0]) <= EPSILON


def test_what_a_gan_makes_shows_no_more_than_its_epsilon(honest_gan: Any) -> None:
    """A black box, far weaker than the gradients: how little it shows is measured in the benchmark."""
    assert bound(honest_gan[1]) <= ratio_bound(honest_gan[0])


@pytest.mark.thorough
def test_finished_tables_show_no_more_than_their_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    """One column, so that the model's density is nearly all that was released. The whole fit is run."""
    worlds, asked = lonely_table(columns=1), table_plan("mst", columns=1)
    assert bound(table_model_scores(worlds, asked, runs=FEW)) <= EPSILON
    monkeypatch.setattr(table_model, "measure", quieter_measure(0.01))
    assert bound(table_model_scores(worlds, asked, runs=FEW)) > EPSILON


# Too little noise is caught


@pytest.mark.parametrize(("share", "runs"), LEFT)
@pytest.mark.parametrize("method", METHODS)
def test_a_table_with_too_little_noise_is_caught(
    method: str, share: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_model, "measure", quieter_measure(share))
    worlds, asked = lonely_table(columns=2), table_plan(method, columns=2)
    assert ratio_bound(table_scores(worlds, asked, runs=runs)) > EPSILON


@pytest.mark.parametrize(("share", "runs"), LEFT)
@pytest.mark.parametrize("features", FEATURES)
def test_an_embedding_with_too_little_noise_is_caught(
    features: str, share: float, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "release", quieter_release(share))
    assert ratio_bound(embedding_scores(lonely_vector(), embedding_plan(features), runs=runs)) > EPSILON


def test_a_discriminator_with_half_of_its_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    quieter_steps(monkeypatch, 0.5)
    transcript, _ = gan_scores(captured(lonely_vector()[0], PLAYED), runs=1000)
    assert ratio_bound(transcript) > EPSILON


# Exact frequencies are caught


def test_exact_counts_of_a_table_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def exact(codes: Any, columns: Any, sizes: Any, event: Gaussian, source: Any, **named: Any) -> Marginal:
        found = measure(codes, columns, sizes, event, source, **named)
        return found if len(columns) > 1 else found._replace(counts=count(codes, columns, sizes))

    monkeypatch.setattr(table_model, "measure", exact)
    assert ratio_bound(table_scores(lonely_table(), table_plan("aim"), runs=FEW)) > EPSILON


def embedded(x: Any, y: Any, keys: Keys) -> Any:
    return embedding.fit(x, y, embedding_plan("moments"), classes=2, keys=keys)


def of_embedding(world: Any, keys: Keys) -> np.ndarray:
    return embedded(world[0], world[1], keys).frequencies


def of_gan(world: Any, keys: Keys) -> np.ndarray:
    """As both networks get them, before the first step."""
    seen: list[np.ndarray] = []

    def players(counts: np.ndarray, *given: Any) -> Any:
        seen.append(gan.released_frequencies(counts))
        raise InterruptedError

    with mock.patch.object(gan, "_players", players), suppress(InterruptedError):
        gan.fit(world[0], world[1], PLAYED, classes=2, keys=keys)
    return seen[0]


def exact_frequencies(labels: np.ndarray) -> np.ndarray:
    return np.bincount(labels, minlength=2) / len(labels)


def test_exact_frequencies_of_an_embedding_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound(frequency_scores(lonely_vector(), of_embedding, runs=FEW)) <= EPSILON
    labels: list[np.ndarray] = []
    checked = embedding.check_records

    def watched(x: Any, y: Any, *given: Any) -> Any:
        labels.append(np.asarray(y))
        return checked(x, y, *given)

    monkeypatch.setattr(embedding, "check_records", watched)
    monkeypatch.setattr(embedding, "released_frequencies", lambda noisy: exact_frequencies(labels[-1]))
    assert bound(frequency_scores(lonely_vector(), of_embedding, runs=FEW)) > EPSILON


def test_exact_class_counts_of_a_gan_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bound(frequency_scores(lonely_vector(), of_gan, runs=FEW)) <= EPSILON
    monkeypatch.setattr(gan, "noisy_counts", lambda labels, *given: np.bincount(labels, minlength=2) * 1.0)
    assert bound(frequency_scores(lonely_vector(), of_gan, runs=FEW)) > EPSILON


# What is fitted on data is caught


def coded(numbers: np.ndarray, *, bounds: tuple[float, float]) -> np.ndarray:
    return bins_for(bounds, is_whole=False, bins=2).encode(numbers)[:, None].astype(np.int32)


def test_bins_that_follow_the_data_are_caught() -> None:
    numbers = np.append(np.full(59, 6.0), 20.0)  # the canary is out of the declared bounds, and is clipped
    asked = table_plan("mst", columns=1)
    worlds = numbers, numbers[:-1]
    declared = [coded(rows, bounds=(0.0, 10.0)) for rows in worlds]
    assert ratio_bound(table_scores((declared[0], declared[1]), asked, runs=FEW)) <= EPSILON
    fitted = [coded(rows, bounds=(0.0, rows.max())) for rows in worlds]
    assert ratio_bound(table_scores((fitted[0], fitted[1]), asked, runs=FEW)) > EPSILON


def grey_vectors(rows: int = 20) -> Any:
    """All alike, with and without one that is two hundred times as long."""
    (x, y), _ = lonely_vector(rows)
    x[:-1], x[-1] = 0.5, 100.0
    return (x, y), (x[:-1], y[:-1])


def scaled_by_themselves(x: Any, y: Any, *given: Any) -> Any:
    """The planted bug: records are divided by the largest of them before anything else."""
    records, labels = basis.check_records(x, y, *given)
    return records / records.max(axis=0), labels


def test_a_scaler_fitted_on_records_is_caught_in_an_embedding(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = embedding_plan("moments")
    assert ratio_bound(embedding_scores(grey_vectors(), asked, runs=FEW)) <= EPSILON
    monkeypatch.setattr(embedding, "check_records", scaled_by_themselves)
    assert ratio_bound(embedding_scores(grey_vectors(), asked, runs=FEW)) > EPSILON


def others_are_seen_alike() -> bool:
    """Whether the discriminator is given the same of all other records, with the canary and without it."""
    with_it, without = (captured(world, PLAYED).data["x"] for world in grey_vectors())
    return np.array_equal(with_it[:-1], without)


def test_a_scaler_fitted_on_records_is_caught_in_a_gan(monkeypatch: pytest.MonkeyPatch) -> None:
    assert others_are_seen_alike()
    monkeypatch.setattr(gan, "check_records", scaled_by_themselves)
    assert not others_are_seen_alike()


def test_the_basis_of_images_knows_of_no_records() -> None:
    assert list(inspect.signature(basis.public_basis).parameters) == ["shape", "prior", "kept"]


# What is drawn twice and charged once is caught


@pytest.fixture(scope="module")
def one_step() -> Game:
    """One step, from which most records are taken: a second one is half of everything."""
    return captured(lonely_vector(rows=19)[0], gan_plan(examples=19, batch_size=14, steps=1))


@pytest.fixture(scope="module")
def two_discriminators(one_step: Game) -> list[Scores]:
    """Of that one step each, with noise of their own."""
    of_all, _ = gan_scores(one_step, runs=2 * MANY)
    return [Scores(*(side[at::2] for side in of_all)) for at in (0, 1)]


def test_a_budget_that_is_checked_after_the_step_is_caught(one_step: Game, two_discriminators: Any) -> None:
    """Whoever looks at the budget after a step takes one more than it covers."""
    assert ratio_bound(two_discriminators[0]) <= EPSILON
    late = one_step._replace(training=replace(one_step.training, steps=2))
    assert ratio_bound(gan_scores(late, runs=MANY)[0], thresholds=TWICE) > EPSILON


def test_two_discriminators_that_share_records_are_caught(two_discriminators: Any) -> None:
    """Where teachers are trained, each has records of its own, and one charge is enough for all of them.

    Here are no teachers: `fit` trains one discriminator by one call of `train`, on all records. What would
    go wrong with several is played: two of them see the same record, and are charged as one.
    """
    both = Scores(*(one + other for one, other in zip(*two_discriminators, strict=True)))
    assert ratio_bound(two_discriminators[1]) <= EPSILON < ratio_bound(both, thresholds=TWICE)


def test_a_gan_has_one_discriminator_and_no_teachers() -> None:
    folder = Path(inspect.getfile(synthetic)).parent
    trees = {path.stem: ast.parse(path.read_text(encoding="utf-8")) for path in folder.rglob("[a-z]*.py")}
    called = [
        (name, node.func.id)
        for name, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    assert called.count(("gan", "train")) == 1
    assert [name for name, what in called if what == "real_loss"] == ["gan"]
    imported = {
        node.module for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
    }
    assert not [name for name in imported if name and name.startswith("reticent.pate")]


def test_a_count_that_is_drawn_three_times_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def thrice(codes: Any, columns: Any, sizes: Any, event: Gaussian, source: Any, **named: Any) -> Marginal:
        draws = [measure(codes, columns, sizes, event, source, **named) for _ in range(3)]
        return draws[0]._replace(counts=sum(draw.counts for draw in draws) / 3)

    monkeypatch.setattr(table_model, "measure", thrice)
    worlds, asked = lonely_table(columns=1), table_plan("mst", columns=1)
    assert ratio_bound(table_scores(worlds, asked, runs=1000)) > EPSILON
