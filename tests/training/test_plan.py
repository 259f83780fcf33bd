"""Plans: what they assume, how they are written down, what the theory makes of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.accounting.calibrate import first_analysis
from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import CannotMeet, InvalidArgument, ReticentError, Unproven
from reticent.core.keys import Keys
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Gaussian, Repeated
from reticent.training import theory
from reticent.training.clipping import automatic, flat, lipschitz, per_layer
from reticent.training.devices import memory
from reticent.training.execution import Execution
from reticent.training.loop import train
from reticent.training.plan import AdaptiveNorm, Plan
from reticent.training.plan_json import from_json, to_json
from reticent.training.projection import onto_ball

PLAN = Plan(
    sampler=Poisson(examples=1000, batch_size=50, largest=120),
    clipping=flat(0.5),
    noise_multiplier=1.5,
    steps=40,
    delta=1e-5,
    adjacency=Adjacency.ADD_OR_REMOVE,
)
SGD = optax.sgd(1.0)
BUDGET = {"epsilon": 0.9, "delta": 1e-5, "examples": 1000, "max_norm": 1.0}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sampler": FixedSize(examples=9, batch_size=3), "adjacency": Adjacency.REPLACE},
        {"sampler": Shuffled(examples=9, batch_size=3), "adjacency": Adjacency.ZERO_OUT},
        {"sampler": FullBatch(examples=9), "unit": "user", "rows_per_user": 3},
        {"clipping": per_layer(2.0)},
        {"clipping": per_layer({"a": 1.0, "b/c": 3.0})},
        {"clipping": automatic(stability=0.1)},
        {"clipping": lipschitz(3.0)},
        {"adaptive": AdaptiveNorm(quantile=0.7)},
    ],
)
def test_a_plan_survives_json(changes) -> None:
    plan = replace(PLAN, **changes)
    found = from_json(json.loads(json.dumps(to_json(plan))))
    assert found == plan
    assert found.event == plan.event


def test_a_plan_that_was_stored_in_a_run_folder_is_still_read():
    plan = replace(PLAN, unit="user", rows_per_user=3)
    stored = to_json(plan)
    assert stored["rows_a_user"] == 3  # the name that files have had from the start
    assert from_json(stored) == plan


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda value: value.update(nosie=1), "no field 'nosie'"),
        (lambda value: value.pop("steps"), "steps"),
        (lambda value: value["sampler"].update(kind="importance"), "'importance'"),
        (lambda value: value["sampler"].update(batch_size=10**9), "cannot be drawn"),
        (lambda value: value["clipping"].update(kind="none"), "kind"),
        (lambda value: value["clipping"]["bounds"].update({"": -1}), "max_norm"),
        (lambda value: value.update(noise_multiplier="much"), "noise_multiplier"),
        (lambda value: value.update(adjacency="nearby"), "adjacency"),
        (lambda value: value.update(clipping=[1]), "clipping"),
        (lambda value: value.update(delta=2), "delta"),
    ],
)
def test_a_damaged_plan_is_refused_by_field(change, said: str) -> None:
    value = to_json(PLAN)
    change(value)
    with pytest.raises(ReticentError, match=said):
        from_json(value)
    with pytest.raises(InvalidArgument, match="a plan is an object"):
        from_json([value])


def product(w: Any, example: Any) -> jax.Array:
    return jnp.sum(w * example["x"])


@pytest.mark.parametrize("strategy", ["vmap", "book-keeping"])
def test_an_asserted_constant_is_enforced_where_it_is_wrong(strategy: Any) -> None:
    plan = replace(PLAN, sampler=FullBatch(examples=10), clipping=lipschitz(1.0), steps=1)
    for length, wanted in ((0.5, 0.5), (30.0, 1.0)):
        done = train(
            product,
            jnp.zeros(2),
            {"x": np.full((10, 2), length / np.sqrt(2), np.float32)},
            replace(plan, noise_multiplier=1e-6),
            optimizer=SGD,
            keys=Keys.seeded(1),
            execution=Execution(strategy=strategy),
        )
        assert np.linalg.norm(done.params) == pytest.approx(wanted, rel=1e-3)
        assert "longer than" not in str(done.guarantee)


def test_an_asserted_constant_still_drops_what_is_not_finite() -> None:
    clipped = lipschitz(1.0).clip({"w": jnp.array([1.0, jnp.nan])})
    assert np.array_equal(clipped["w"], [0, 0])
    assert np.array_equal(lipschitz(1.0).factor(jnp.array([0.5, jnp.inf]), 1.0), [1, 0])


def test_better_analyses_need_less_noise_and_all_keep_the_promise() -> None:
    names: list[Any] = ["first", "basic", "advanced", "rdp", "tight"]
    plans = [
        Plan.for_budget(**BUDGET, sampling="full", steps=100, adjacency=Adjacency.REPLACE, analysis=name)
        for name in names
    ]
    noises = [plan.noise_multiplier for plan in plans]
    assert noises == sorted(noises, reverse=True)
    assert noises[0] == first_analysis(steps=100, epsilon=0.9, delta=1e-5)
    assert all(plan.guarantee().epsilon <= 0.9 for plan in plans)
    assert plans[-1].guarantee().epsilon > 0.899


@pytest.mark.parametrize("name", ["basic", "advanced", "zcdp", "moments", "rdp", "pld"])
def test_older_analyses_serve_sampled_batches_too(name: Any) -> None:
    tight = Plan.for_budget(**BUDGET, batch_size=50, steps=100)
    older = Plan.for_budget(**BUDGET, batch_size=50, steps=100, analysis=name)
    assert older.noise_multiplier >= tight.noise_multiplier * (1 - 1e-3)


def test_a_largest_batch_is_paid_for() -> None:
    given = {**BUDGET, "batch_size": 50, "steps": 20}
    free, cut = Plan.for_budget(**given), Plan.for_budget(**given, largest_batch=100)
    assert cut.sampler.capacity == 100 < free.sampler.capacity
    assert cut.noise_multiplier > free.noise_multiplier
    assert cut.guarantee().epsilon <= 0.9
    with pytest.raises(InvalidArgument, match="largest_batch"):
        Plan.for_budget(**BUDGET, sampling="full", steps=3, largest_batch=5)


class InTurns(FullBatch):
    """A sampler from outside: each record is in every second batch."""

    @property
    def batch_size(self) -> int:
        return self.examples // 2

    def event(self, release: Event, steps: int) -> Event:
        return Repeated(event=release, times=-(-steps // 2))


def test_a_budget_takes_a_sampler_from_outside() -> None:
    given: dict[str, Any] = {"epsilon": 0.9, "delta": 1e-5, "max_norm": 1.0}
    mine = Plan.for_budget(**given, sampling=InTurns(examples=1000), epochs=10)
    half = Plan.for_budget(**given, sampling="full", examples=1000, steps=10)
    assert mine.sampler == InTurns(examples=1000)
    assert mine.steps == 20
    assert mine.adjacency is Adjacency.ADD_OR_REMOVE
    assert mine.noise_multiplier == pytest.approx(half.noise_multiplier)
    named = Plan.for_budget(**BUDGET, batch_size=50, steps=20)
    passed = Plan.for_budget(**given, sampling=Poisson(examples=1000, batch_size=50), steps=20)
    assert named == passed


@pytest.mark.parametrize("beside", [{"examples": 1000}, {"batch_size": 500}, {"largest_batch": 600}])
def test_a_sampler_says_its_sizes_itself(beside: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=f"says itself how large it is: {next(iter(beside))}"):
        Plan.for_budget(epsilon=1, delta=1e-5, max_norm=1, steps=9, sampling=InTurns(examples=1000), **beside)


def test_what_is_no_sampler_is_refused_with_what_it_lacks() -> None:
    class Older:
        examples = batch_size = capacity = 9
        adjacencies = (Adjacency.REPLACE,)

        def event(self, release: Event, steps: int) -> Event:
            return release

    for made in (
        lambda: Plan.for_budget(epsilon=1, delta=1e-5, max_norm=1, steps=9, sampling=Older()),  # type: ignore[arg-type]
        lambda: replace(PLAN, sampler=Older()),
    ):
        with pytest.raises(
            InvalidArgument, match="Older is not a sampler: it has no allowed_difference, draw"
        ):
            made()
    with pytest.raises(InvalidArgument, match="examples is missing"):
        Plan.for_budget(epsilon=1, delta=1e-5, max_norm=1, steps=9, batch_size=3)


def test_a_sampler_without_a_theorem_is_refused_and_no_choice_is_offered() -> None:
    class HardestFirst(InTurns):
        @property
        def adjacencies(self) -> tuple[Adjacency, ...]:
            return ()

    guess = HardestFirst(examples=1000)
    for made in (
        lambda: Plan.for_budget(epsilon=1, delta=1e-5, max_norm=1, steps=9, sampling=guess),
        lambda: replace(PLAN, sampler=guess),
    ):
        with pytest.raises(Unproven, match="no theorem for HardestFirst batches, under any") as refused:
            made()
        assert "among ." not in str(refused.value)
    with pytest.raises(Unproven, match="Choose among 'replace'"):
        replace(PLAN, sampler=FixedSize(examples=9, batch_size=3))


def test_what_is_released_beside_training_is_paid_from_the_same_budget() -> None:
    given = {**BUDGET, "batch_size": 50, "steps": 20}
    beside = Gaussian(noise_multiplier=10.0)
    alone, both = Plan.for_budget(**given), Plan.for_budget(**given, beside=beside)
    assert both.noise_multiplier > 1.02 * alone.noise_multiplier
    assert 0.898 < tight(Composed(events=(beside, both.event)), 1e-5).upper <= 0.9
    longer = Plan.for_budget(**BUDGET, batch_size=50, noise_multiplier=3.0)
    shorter = Plan.for_budget(**BUDGET, batch_size=50, noise_multiplier=3.0, beside=beside)
    assert 0 < shorter.steps < longer.steps
    with pytest.raises(CannotMeet, match="beside training costs epsilon"):
        Plan.for_budget(**given, beside=Gaussian(noise_multiplier=1.0))


def test_the_first_analysis_is_of_full_batches() -> None:
    with pytest.raises(Unproven, match="full-batch"):
        Plan.for_budget(**BUDGET, batch_size=50, steps=100, analysis="first")
    with pytest.raises(InvalidArgument, match="analysis"):
        Plan.for_budget(**BUDGET, batch_size=50, steps=100, analysis="magic")  # type: ignore[arg-type]


def test_the_step_size_of_the_theorem() -> None:
    quiet = replace(PLAN, sampler=FullBatch(examples=1000), noise_multiplier=1e-9, steps=100)
    assert math.isclose(theory.step_size(quiet, radius=3.0, parameters=7), 3 / (0.5 * 10))
    assert math.isclose(theory.excess_risk(quiet, radius=3.0, parameters=7), 3 * 0.5 / 10)
    loud = replace(quiet, noise_multiplier=2000.0)  # deviation 1 on each of 12 entries
    assert math.isclose(theory.step_size(loud, radius=1.0, parameters=12), 1 / (math.sqrt(12.25) * 10))


def test_projected_noisy_descent_keeps_the_theorems_promise() -> None:
    """The course's noisy PGD on a convex 1-Lipschitz loss: the mean over runs stays below the bound."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 2)).astype(np.float32)
    data = {"x": points}

    def distance(w, example):
        return jnp.sqrt(jnp.sum((w - example["x"]) ** 2) + 1e-12)

    plan = Plan.for_budget(
        epsilon=1.0, delta=1e-4, examples=200, sampling="full", steps=50, clipping=lipschitz(1.0)
    )
    slow = optax.sgd(theory.step_size(plan, radius=2.0, parameters=2))
    losses = [
        float(np.mean(np.linalg.norm(points - np.asarray(done.params), axis=1)))
        for done in (
            train(
                distance,
                jnp.array([1.5, -1.0]),
                data,
                plan,
                optimizer=slow,
                project=onto_ball(2.0),
                output="mean",
                keys=Keys.seeded(seed),
            )
            for seed in range(2)
        )
    ]
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-0.5, 0.5, 41)]), axis=-1).reshape(-1, 2)
    least = np.linalg.norm(points[None] - grid[:, None], axis=2).mean(axis=1).min()
    assert np.mean(losses) - least <= theory.excess_risk(plan, radius=2.0, parameters=2)


def test_memory_decides_how_much_is_worked_on_at_once(monkeypatch) -> None:
    params = {"w": jnp.zeros((100, 50))}
    example = jax.ShapeDtypeStruct((100,), jnp.float32)

    def loss(params, x):
        return jnp.sum(jnp.tanh(x @ params["w"]))

    monkeypatch.setattr(memory, "memory_of_device", lambda: 8 * 10**6)
    by_book = memory.examples_at_once(loss, params, example, "auto")
    by_vmap = memory.examples_at_once(loss, params, example, "vmap")
    assert by_vmap < 10**6 / (2 * 4 * 5000)  # an example's gradient and its clipped copy
    assert 10**6 / (4 * 100 * 20) < by_book < 10**6 / (4 * 200)
    monkeypatch.setattr(memory, "memory_of_device", lambda: 1000)
    assert memory.examples_at_once(loss, params, example, "vmap") == 16


def test_memory_of_this_machine_is_a_number() -> None:
    assert 10**8 < memory.memory_of_device() < 10**15


@pytest.mark.parametrize("batch_size", [18, 20])
def test_hardly_any_records_can_be_planned_for_and_cost_no_more_than_everybody_in_every_step(batch_size: int):
    few = Plan.for_budget(epsilon=2.0, delta=1e-3, examples=20, batch_size=batch_size, steps=10, max_norm=1.0)
    all_of_them = Plan.for_budget(
        epsilon=2.0, delta=1e-3, examples=20, sampling="full", steps=10, max_norm=1.0
    )
    assert few.noise_multiplier <= all_of_them.noise_multiplier * 1.001
    assert few.noise_multiplier > 0.8 * all_of_them.noise_multiplier
