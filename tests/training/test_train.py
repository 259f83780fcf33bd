"""`train` through its public door, jitted: the cases that broke others first."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.core.errors import BudgetExceeded, DataError, InvalidArgument, Unproven
from reticent.core.keys import Keys, Stream
from reticent.data.dataset import Dataset
from reticent.data.sampling import Batch, FullBatch, Poisson, Shuffled
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Gaussian
from reticent.training import loop
from reticent.training.averages import exponential
from reticent.training.clipping import flat
from reticent.training.contributions import Contribution, DeviceRows
from reticent.training.devices import feeding
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.loop import Run, train
from reticent.training.plan import AdaptiveNorm, Plan
from reticent.training.projection import onto_simplex
from reticent.training.step import Blocks, Roots, TrainState, private_step

ROWS, WIDTH = 64, 5
SLOW, WHOLE = optax.sgd(0.1), optax.sgd(1.0)  # a tenth of the way to the minimum with a step, and all of it
QUIET = 1e-6  # a noise multiplier that hides nothing


def loss(params, example):
    return 0.5 * jnp.sum((params["w"] - example["x"]) ** 2)


def start():
    return {"w": jnp.zeros(WIDTH)}


def rows(count: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(seed).normal(1.0, 0.1, (count, WIDTH)).astype(np.float32)}


def plan(**changes) -> Plan:
    values = {
        "sampler": Poisson(examples=ROWS, batch_size=16),
        "clipping": flat(1.0),
        "noise_multiplier": 1.0,
        "steps": 12,
        "delta": 1e-3,
        "adjacency": Adjacency.ADD_OR_REMOVE,
    }
    return Plan(**{**values, **changes})


def run(data=None, recipe: Plan | None = None, **options) -> Run:
    options = {"optimizer": SLOW, "keys": Keys.seeded(0), **options}
    return train(loss, start(), rows() if data is None else data, recipe or plan(), **options)


@pytest.fixture(scope="module")
def usual() -> Run:
    return run()


class InCalls(NamedTuple):
    done: Run
    programs: list[Any]  # one for each function that was compiled


@pytest.fixture(scope="module")
def in_calls() -> InCalls:
    """A run in calls of five steps: of twelve, so the last call is only partly used."""
    made, compiled = [], loop._compiled
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feeding, "MOST_STEPS", 5)
        patch.setattr(loop, "_compiled", lambda *given: made.append(compiled(*given)) or made[-1])
        return InCalls(run(), made)


@pytest.fixture
def without_accounting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Plan, "epsilon_after", lambda *_, **__: 0.0)
    monkeypatch.setattr(Plan, "guarantee", lambda *_, **__: 0.0)


def test_the_guarantee_is_the_plans_and_says_that_it_was_seeded(usual: Run) -> None:
    assert usual.is_complete
    assert usual.guarantee.epsilon == plan().guarantee().epsilon
    assert any("seed" in line for line in usual.guarantee.assumptions)
    assert usual.guarantee.unit == "record"


def test_seeded_runs_repeat_from_datasets_and_plain_arrays_and_others_do_not(usual: Run) -> None:
    assert np.array_equal(run(Dataset(arrays=rows())).params["w"], usual.params["w"])
    fresh = [run(keys=Keys.from_os()).params["w"] for _ in range(2)]
    assert not np.array_equal(*fresh)


def test_batches_that_are_mostly_empty_release_noise() -> None:
    """Of 40 draws that expect one row about 15 are empty, and no gradient here moves anything."""
    recipe = plan(sampler=Poisson(examples=ROWS, batch_size=1), steps=40)
    found = run({"x": np.zeros((ROWS, WIDTH), np.float32)}, recipe).params["w"]
    assert np.isfinite(found).all()
    assert np.abs(found).max() > 0


@pytest.mark.parametrize("microbatch", [None, 1, 15])
def test_a_batch_of_any_size_is_summed_whole(microbatch: int | None) -> None:
    """Of many draws about half are larger than expected; none may lose a record, however it is cut up.

    One that holds nobody releases noise all the same.
    """
    recipe = plan(noise_multiplier=QUIET)
    blocks = Blocks.of(recipe, microbatch)
    values = np.linspace(0.0, 0.4, ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)
    source = DeviceRows({"x": jnp.asarray(values)})
    root = Keys.seeded(5).take(Stream.SAMPLING, steps=range(40))
    batches = recipe.sampler.draw(root, jnp.arange(40), ROWS)
    sizes = np.asarray(batches.is_real).sum(axis=1)
    assert (sizes > 16).any()
    assert (sizes < 16).any()
    take = jax.jit(
        private_step(
            clipped_gradient_sum(loss, max_norm=1.0),
            recipe,
            WHOLE,
            None,
            lambda average, new, step: average,
            contribution=Contribution(),
            blocks=blocks,
        )
    )
    state = TrainState(jnp.int32(0), start(), WHOLE.init(start()), jnp.float32(1.0), start())
    first = jax.tree.map(lambda leaf: leaf[0], batches)
    moved, _ = take(
        state, source, Batch(first.indices, jnp.zeros_like(first.is_real)), Roots(root, root, root)
    )
    assert 0 < np.abs(moved.params["w"]).max() < 10 * QUIET
    for step in range(40):
        batch = jax.tree.map(lambda leaf, at=step: leaf[at], batches)
        moved, seen = take(state, source, batch, Roots(root, root, root))
        assert int(seen.size) == sizes[step]
        wanted = values[np.asarray(batch.indices)[np.asarray(batch.is_real)]].sum(axis=0) / 16
        assert np.allclose(moved.params["w"], wanted, rtol=1e-4, atol=1e-5)


def test_poisoned_records_harm_nobody_else() -> None:
    data = rows()
    data["x"][3:7] = np.array([np.nan, np.inf, -np.inf, 3e38], np.float32)[:, None]
    found = run(data, plan(sampler=FullBatch(examples=ROWS), noise_multiplier=QUIET)).params["w"]
    assert np.isfinite(found).all()
    assert (np.abs(found) > 0.1).all()


def test_one_example_is_enough() -> None:
    recipe = plan(sampler=Poisson(examples=1, batch_size=1), steps=3)
    assert np.isfinite(run({"x": np.ones((1, WIDTH), np.float32)}, recipe).params["w"]).all()


@pytest.mark.parametrize(
    "sampler", [Poisson(examples=ROWS, batch_size=16), FullBatch(examples=ROWS)], ids=["poisson", "full"]
)
def test_a_few_rows_more_or_less_change_no_guarantee_and_too_many_are_refused(sampler: Any) -> None:
    """More than batches have room for are."""
    recipe, most = plan(sampler=sampler), ROWS + sampler.allowed_difference
    promise = recipe.guarantee()
    for count in (ROWS - 1, most):
        done = run(rows(count), recipe)
        assert done.is_complete
        assert np.isfinite(done.params["w"]).all()
        assert done.guarantee.epsilon == promise.epsilon
    with pytest.raises(DataError, match=f"made for 64 examples and the data have {most + 1}"):
        run(rows(most + 1), recipe)


def test_a_sampler_says_how_far_the_number_of_rows_may_be_from_the_declared_one() -> None:
    class Exact(FullBatch):
        @property
        def allowed_difference(self) -> int:
            return 0

    with pytest.raises(DataError, match="made for"):
        run(rows(ROWS - 1), plan(sampler=Exact(examples=ROWS)))


@pytest.mark.filterwarnings("ignore:Unreleased")
def test_rows_that_coins_held_out_are_no_error_and_change_no_divisor() -> None:
    """Whether there are few or many left, a row adds the same to the mean, and zeros add nothing."""
    recipe = plan(sampler=FullBatch(examples=ROWS), noise_multiplier=QUIET, steps=1)
    for count, value in ((1, 0.1), (ROWS // 2, 0.1), (ROWS, 0.0)):
        done = run({"x": np.full((count, WIDTH), value, np.float32)}, recipe, optimizer=WHOLE)
        assert np.allclose(done.params["w"], value * count / ROWS, rtol=1e-3, atol=1e-6)
        assert done.guarantee.epsilon == recipe.guarantee().epsilon


def test_neighbours_differ_by_at_most_the_clipping_norm_before_noise() -> None:
    """The same run with and without one record, same randomness: one step moves by at most C / L."""
    recipe = plan(sampler=FullBatch(examples=ROWS), steps=1)
    data = rows()
    data["x"][-1] = 1e6
    with_it = run(data, recipe, optimizer=WHOLE).params["w"]
    without = run({"x": data["x"][:-1]}, recipe, optimizer=WHOLE).params["w"]
    moved = np.linalg.norm(np.asarray(with_it) - np.asarray(without))
    assert 0.9 / ROWS < moved <= (1 + 1e-5) / ROWS


@pytest.mark.filterwarnings("ignore:Unreleased")
def test_the_divisor_is_the_expected_batch_never_the_drawn_one() -> None:
    # Half the rows are there, the plan says 64: the mean is over 64 all the same.
    recipe = plan(sampler=Poisson(examples=ROWS, batch_size=ROWS), noise_multiplier=2e-6, steps=1)
    data = {"x": np.full((ROWS - 6, WIDTH), 0.1, np.float32)}
    moved = run(data, recipe, optimizer=WHOLE).params["w"]
    assert np.allclose(moved, 0.1 * (ROWS - 6) / ROWS, rtol=1e-4)


def test_a_budget_is_charged_before_anything_else() -> None:
    class Empty:
        def charge(self, event, *, adjacency, purpose, unit):
            raise BudgetExceeded("Nothing is left.", remedy="Stop.")

    with pytest.raises(BudgetExceeded):
        run(budget=Empty())


def test_an_interrupted_run_keeps_what_it_has_and_promises_the_whole_plan(monkeypatch) -> None:
    """Who stops may have looked first, and the cost of so many steps is that of a number fixed in advance."""
    monkeypatch.setattr(feeding, "MOST_STEPS", 5)
    seen = []

    def stop_soon(moment):
        seen.append(moment.epsilon)
        raise KeyboardInterrupt

    done = run(on_progress=stop_soon)
    assert not done.is_complete
    assert 0 < int(done.state.step) < 12
    assert done.guarantee.epsilon == plan().guarantee().epsilon
    assert done.guarantee.epsilon > plan().epsilon_after(int(done.state.step)) == seen[-1]


def test_what_is_released_beside_training_is_in_every_epsilon(in_calls: InCalls, monkeypatch) -> None:
    monkeypatch.setattr(feeding, "MOST_STEPS", 5)
    beside, charged = Gaussian(noise_multiplier=2.0), []

    class Noting:
        def charge(self, event, *, adjacency, purpose, unit):
            charged.append(event)

    alone, both = in_calls.done, run(beside=beside, budget=Noting())
    assert [moment.epsilon for moment in both.history] == [
        plan().epsilon_after(moment.step, beside) for moment in both.history
    ]
    assert all(more.epsilon > less.epsilon for more, less in zip(both.history, alone.history, strict=True))
    whole = tight(Composed(events=(beside, plan().event)), plan().delta)
    assert whole.lower <= both.guarantee.epsilon <= whole.upper * 1.01  # a part of delta is for arithmetic
    assert both.history[-1].epsilon == pytest.approx(both.guarantee.epsilon, rel=1e-3)
    assert both.guarantee.assumptions == alone.guarantee.assumptions
    assert charged == [plan().event]  # whoever released the other has paid for it
    assert np.array_equal(both.params["w"], alone.params["w"])


def test_one_compilation_serves_a_whole_run_and_calls_of_any_length_take_the_same_steps(
    usual: Run, in_calls: InCalls
) -> None:
    (program,) = in_calls.programs
    assert program._cache_size() == 1
    assert np.allclose(in_calls.done.params["w"], usual.params["w"], atol=1e-6)


def test_held_out_rows_must_be_others_and_training_metrics_are_marked_and_asked_for(usual: Run) -> None:
    data = rows()
    with pytest.raises(DataError, match="share their array 'x'"):
        run(data, evaluate={"x": data["x"][:5]})
    metrics = {"distance": lambda p, e: jnp.max(jnp.abs(p["w"] - e["x"]))}
    last = run(data, evaluate=rows(8, seed=9), metrics=metrics, unreleased=True).history[-1]
    assert set(last.held_out) == {"loss", "distance"}
    assert last.unreleased
    assert all(name.startswith("unreleased") for name in last.unreleased)
    assert usual.history[-1].unreleased == {}


def test_the_last_iterate_and_the_averages_are_those_of_plain_descent_where_noise_is_small() -> None:
    quiet = plan(sampler=FullBatch(examples=ROWS), clipping=flat(10.0), noise_multiplier=QUIET, steps=30)
    last, mean, moving = (
        run(recipe=quiet, output=kind).params["w"] for kind in ("last", "mean", exponential(0.9))
    )
    shares = 1 - 0.9 ** np.arange(1, 31)  # of the way to the minimum, after each step of a tenth
    goal = rows()["x"].mean(axis=0)
    decayed = shares[0]
    for share in shares[1:]:
        decayed = 0.9 * decayed + 0.1 * share
    for found, share in ((last, shares[-1]), (mean, shares.mean()), (moving, decayed)):
        assert np.allclose(found, share * goal, atol=1e-4)
    with pytest.raises(InvalidArgument, match="'last', 'mean'"):
        run(output="median")


def test_a_run_ends_in_the_set_that_it_projects_onto(usual: Run) -> None:
    assert sum(usual.params["w"]) != pytest.approx(1, abs=1e-5)
    found = run(project=onto_simplex()).params["w"]
    assert sum(found) == pytest.approx(1, abs=1e-5)
    assert min(found) >= 0


def fixed_gradient(params: Any, example: Any) -> jax.Array:
    """Has a gradient as long as the example says, whatever the parameters."""
    return jnp.sum(params["w"]) * example["x"] / jnp.sqrt(1.0 * WIDTH)


@pytest.mark.usefixtures("without_accounting")
@pytest.mark.parametrize("first_norm", [0.01, 100.0])
@pytest.mark.thorough
def test_an_adaptive_norm_finds_the_median_from_a_hundredth_and_a_hundredfold(first_norm: float) -> None:
    """Gradients of length 1 +- 0.3 that no step can change: the norm must end near 1."""
    lengths = np.random.default_rng(0).uniform(0.7, 1.3, 512).astype(np.float32)
    recipe = plan(
        sampler=Poisson(examples=512, batch_size=256),
        clipping=flat(first_norm),
        steps=120,
        adaptive=AdaptiveNorm(noise_multiplier=5.0),
    )
    done = train(fixed_gradient, start(), {"x": lengths}, recipe, optimizer=SLOW, keys=Keys.seeded(0))
    assert 0.8 < float(done.state.max_norm) < 1.2


def test_an_adaptive_norm_costs_something() -> None:
    assert plan(adaptive=AdaptiveNorm(noise_multiplier=2.0)).epsilon_after(12) > plan().epsilon_after(12)


@pytest.mark.usefixtures("without_accounting")
def test_one_record_moves_the_count_of_an_adaptive_norm_by_a_half() -> None:
    """As its noise and its price assume: with the same noise, the released counts differ by a half."""
    recipe = plan(
        sampler=FullBatch(examples=20),
        noise_multiplier=1e4,
        steps=1,
        adaptive=AdaptiveNorm(quantile=0.5, rate=1.0, noise_multiplier=0.1),
    )
    known = np.array([0.5, 5.0] * 10, np.float32)

    def released(data: np.ndarray) -> float:
        done = train(fixed_gradient, start(), {"x": data}, recipe, optimizer=WHOLE, keys=Keys.seeded(3))
        return -20 * float(jnp.log(done.state.max_norm))

    without = released(known)
    for length in (0.5, 5.0, np.nan):
        moved = 0.5 if length <= 1 else -0.5
        assert released(np.append(known, np.float32(length))) - without == pytest.approx(moved, abs=1e-4)


def test_plans_without_a_theorem_or_with_nonsense_are_refused() -> None:
    with pytest.raises(Unproven):
        plan(adjacency=Adjacency.ADD_OR_REMOVE, sampler=Shuffled(examples=ROWS, batch_size=16))
    for wrong in ({"noise_multiplier": 0.0}, {"steps": -1}, {"steps": 1.5}, {"delta": 0.0}):
        with pytest.raises(InvalidArgument):
            plan(**wrong)
    with pytest.raises(InvalidArgument):
        flat(0.0)


def test_a_loss_that_is_not_scalar_and_integer_parameters_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="must be one number"):
        train(lambda p, e: p["w"] - e["x"], start(), rows(), plan(), optimizer=optax.sgd(0.1))
    with pytest.raises(InvalidArgument):
        train(
            lambda p, e: jnp.sum(p["w"] * 1.0),
            {"w": jnp.arange(3)},
            rows(),
            plan(),
            optimizer=optax.sgd(0.1),
        )


def test_a_bare_array_is_refused_with_what_to_write_instead() -> None:
    with pytest.raises(DataError, match=r"data must be named arrays, got ndarray.*data=\{'x': x"):
        train(loss, start(), rows()["x"], plan(), optimizer=optax.sgd(0.1))


def test_for_budget_spends_what_it_was_given_and_hardly_less() -> None:
    recipe = Plan.for_budget(epsilon=2, delta=1e-5, examples=10_000, batch_size=100, epochs=3, max_norm=1.0)
    assert 2 * (1 - 1e-3) <= recipe.guarantee().epsilon <= 2
    until = Plan.for_budget(
        epsilon=2, delta=1e-5, examples=10_000, batch_size=100, noise_multiplier=1.0, max_norm=1.0
    )
    assert until.epsilon_after(until.steps) <= 2 < until.epsilon_after(until.steps + 1)


@pytest.mark.thorough
def test_runs_under_jit_disabled_take_the_same_step() -> None:
    recipe, data = plan(sampler=Poisson(examples=3, batch_size=2), steps=1), rows(3)
    compiled = run(data, recipe).params["w"]
    with jax.disable_jit():
        plain = run(data, recipe).params["w"]
    assert np.allclose(compiled, plain, atol=1e-5)
