"""A GAN: the discriminator is trained by the plan, and the generator sees nothing but the discriminator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.audit.bounds import many_runs
from reticent.audit.noise_checks import describe_wrong_size
from reticent.audit.replay_training import replay_plan
from reticent.core import trees, words
from reticent.core.errors import BudgetExceeded, CannotMeet, DataError, IntegrityError, InvalidArgument
from reticent.core.keys import Keys
from reticent.mechanisms.events import Composed, Gaussian
from reticent.mechanisms.whole import normal_grid
from reticent.synthetic.images import adversary as adversaries
from reticent.synthetic.images import gan, image_model, networks
from reticent.synthetic.images.adversary import adversary, real_loss
from reticent.synthetic.images.basis import public_basis
from reticent.synthetic.images.gan import GanPlan, fit, noisy_counts, plan
from reticent.training.checkpoint import Checkpoints
from reticent.training.devices import feeding
from reticent.training.gradients import clipped_gradient_sum
from reticent.training.vectorised import private_recipe

CLASSES, KEPT = 2, 5
SMALL: dict[str, Any] = {"prior": "waves", "kept": KEPT, "hidden": (8,), "generator_hidden": (8,)}


@pytest.fixture(autouse=True)
def few_fakes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adversaries, "_FAKES", 16)


def planned(steps: int = 12, **given: Any) -> GanPlan:
    return plan(epsilon=4.0, delta=1e-3, examples=200, batch_size=20, steps=steps, **{**SMALL, **given})


def halves(rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Images of 8 x 8, bright at the left or at the right."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, rows)
    x = rng.integers(0, 60, (rows, 8, 8), dtype=np.uint8)
    for row, label in enumerate(y):
        x[row, :, 4 * label : 4 * label + 4] += 150
    return x, y


def watched_run(monkeypatch: pytest.MonkeyPatch, asked: GanPlan, **given: Any) -> tuple[Any, Any]:
    """The model, and the `Run` of the discriminator behind it."""
    runs: list[Any] = []
    train = gan.train

    def watching(*args: Any, **named: Any) -> Any:
        runs.append(train(*args, **named))
        return runs[-1]

    with monkeypatch.context() as patch:
        patch.setattr(gan, "train", watching)
        model = fit(*halves(), asked, classes=CLASSES, keys=Keys.seeded(5), **given)
    return model, runs[0]


# What the discriminator does


def test_the_steps_that_are_taken_are_those_of_the_event(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = planned(steps=12, each=4)
    told: list[float] = []
    model, run = watched_run(monkeypatch, asked, on_progress=told.append)
    assert run.plan == asked.training
    assert int(run.state.step) == int(run.state.opt_state.taken) == asked.training.steps == 12
    assert int(run.state.opt_state.optimizer[0].count) == 3  # steps of the generator
    assert asked.event == Composed(
        events=(Gaussian(noise_multiplier=asked.count_noise), asked.training.event)
    )
    assert model.guarantee.epsilon <= asked.epsilon
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_a_step_is_clipped_and_noised_as_the_plan_says() -> None:
    """By replay: one record moves the sum by the norm at most, and the noise has the plan's deviation."""
    x, y = halves(60)
    basis = public_basis((8, 8), "waves", KEPT)
    rows = {"x": basis.coordinates(x) / basis.scales, "y": y.astype(np.int32)}
    params = networks.new(jax.random.key(0), networks.discriminator_starts(CLASSES, (8,), KEPT))
    record = {"x": 100 * rows["x"][:1], "y": rows["y"][:1]}
    found = replay_plan(real_loss(CLASSES), params, rows, record, planned().training)
    assert not found.problems, found


def test_a_strange_record_moves_the_sum_by_the_norm_at_most() -> None:
    basis = public_basis((8, 8), "waves", KEPT)
    params = networks.new(jax.random.key(0), networks.discriminator_starts(CLASSES, (8,), KEPT))
    gradient_sum = jax.jit(clipped_gradient_sum(real_loss(CLASSES), max_norm=0.1))
    for value in (np.nan, np.inf, -np.inf, 1e300, -1e38):
        record = basis.coordinates(np.full((1, 8, 8), value)) / basis.scales
        rows = {"x": jnp.asarray(record), "y": jnp.zeros(1, jnp.int32)}
        total, _ = gradient_sum(params, rows, jnp.ones(1, bool))
        assert float(optax.tree.norm(total)) == pytest.approx(0.1, rel=1e-4)  # it is cut, and it counts


# What the generator sees


class Recorded(NamedTuple):
    inner: Any
    released: Any  # every noisy gradient that the optimizer was given


def recording(optimizer: optax.GradientTransformation, steps: int) -> optax.GradientTransformation:
    def init(params: Any) -> Recorded:
        return Recorded(
            optimizer.init(params), jax.tree.map(lambda leaf: jnp.zeros((steps, *leaf.shape)), params)
        )

    def update(mean: Any, state: Recorded, params: Any = None) -> tuple[Any, Recorded]:
        at = state.inner.taken
        released = jax.tree.map(lambda all, one: all.at[at].set(one), state.released, mean)
        updates, inner = optimizer.update(mean, state.inner, params)
        return updates, Recorded(inner, released)

    return optax.GradientTransformation(init, update)  # type: ignore[arg-type]


def follows_from_what_was_released(made_by: Any, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Is the generator what the released gradients make of it, when no data are there?"""
    asked, starts, arguments = planned(steps=6, each=2), [], []

    def watching(*args: Any, **named: Any) -> optax.GradientTransformation:
        arguments.append((args, named))
        return recording(made_by(*args, **named), 6)

    train = gan.train

    def unwrapped(loss: Any, params: Any, *args: Any, **named: Any) -> Any:
        starts.append(params)
        run = train(loss, params, *args, **named)
        starts.append(run.state.opt_state)
        object.__setattr__(run, "state", run.state._replace(opt_state=run.state.opt_state.inner))
        return run

    with monkeypatch.context() as patch:
        patch.setattr(gan, "adversary", watching)
        patch.setattr(gan, "train", unwrapped)
        fit(*halves(), asked, classes=CLASSES, keys=Keys.seeded(5))
    (args, named), (params, recorded) = arguments[0], starts
    honest = adversary(*args, **named)
    state: Any = honest.init(params)
    update = jax.jit(honest.update)
    for step in range(6):
        mean = jax.tree.map(lambda leaf, step=step: leaf[step], recorded.released)
        updates, state = update(mean, state, params)
        params = optax.apply_updates(params, updates)
    pairs = zip(jax.tree.leaves(state.average), jax.tree.leaves(recorded.inner.average), strict=True)
    return all(np.allclose(mine, theirs, atol=1e-5) for mine, theirs in pairs)


def test_the_generator_is_a_function_of_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follows_from_what_was_released(adversary, monkeypatch)

    records = jnp.asarray(public_basis((8, 8), "waves", KEPT).coordinates(halves()[0])[:32])

    def leaking(*args: Any, **named: Any) -> optax.GradientTransformation:
        honest = adversary(*args, **named)

        def update(updates: Any, state: Any, params: Any = None) -> Any:
            updates, state = honest.update(updates, state, params)

            def distance(generator: Any) -> jax.Array:  # the planted bug: real records in its loss
                noise, labels = jnp.zeros((32, networks.NOISE)), jnp.zeros(32, jnp.int32)
                return jnp.mean((networks.generate(generator, noise, labels, CLASSES) - records) ** 2)

            pull = jax.grad(distance)(state.generator)
            moved = jax.tree.map(lambda leaf, by: leaf - 0.1 * by, state.generator, pull)
            return updates, state._replace(generator=moved)

        return optax.GradientTransformation(honest.init, update)

    assert not follows_from_what_was_released(leaking, monkeypatch)


def game(asked: GanPlan, noise: float, runs: int = 160) -> float:
    """A lower bound on epsilon from the generator: the canary is the only one of its class."""
    quiet = planned_with_noise(asked, noise).training
    x = jnp.zeros((20, KEPT)).at[-1].set(3.0)
    y, everybody = jnp.zeros(20, jnp.int32).at[-1].set(1), jnp.ones(20, bool)
    probe, of_canary = jax.random.normal(jax.random.key(3), (16, networks.NOISE)), jnp.ones(16, jnp.int32)
    first = networks.new(jax.random.key(1), networks.generator_starts(CLASSES, (), KEPT))
    inner = adversary(
        first,
        jnp.array([0.5, 0.5]),
        jax.random.key(2),
        clipping=quiet.clipping,
        steps=16,
        each=1,
        rate=0.1,
        generator_rate=0.1,
        penalty=0.1,
    )

    def begin(params: Any) -> Any:
        return inner.init(params["critic"])

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        moved, state = inner.update(updates["critic"], state, params["critic"])
        return {"critic": moved, "generator": trees.subtract(state.generator, params["generator"])}, state

    def start(key: jax.Array) -> Any:
        critic = networks.new(jax.random.key(0), networks.discriminator_starts(CLASSES, (8,), KEPT))
        return {"critic": critic, "generator": first}

    optimizer = optax.GradientTransformation(begin, update)
    recipe = private_recipe(
        lambda params, example: real_loss(CLASSES)(params["critic"], example),
        start,
        quiet,
        optimizer=optimizer,
    )

    def made(key: jax.Array, mask: jax.Array) -> jax.Array:
        found = recipe(key, x, y, mask)
        return networks.generate(found["generator"], probe, of_canary, CLASSES).ravel()

    keys = jax.random.split(jax.random.key(4, impl="threefry2x32"), 2 * runs).reshape(2, runs)
    all_made = jax.jit(jax.vmap(made, in_axes=(0, None)))
    with mock.patch.object(words, "_ALIGNED", 2):  # no more noise than eight weights need
        inside = np.asarray(all_made(keys[0], everybody))
        outside = np.asarray(all_made(keys[1], everybody.at[-1].set(False)))
    half = runs // 2  # of the runs show which way the canary pulls, the others are scored
    way = inside[:half].mean(axis=0) - outside[:half].mean(axis=0)
    scores = (found[half:] @ way for found in (inside, outside))
    return many_runs(*scores, delta=asked.training.delta, confidence=0.99).epsilon


def planned_with_noise(asked: GanPlan, share: float) -> GanPlan:
    quiet = replace(asked.training, noise_multiplier=share * asked.training.noise_multiplier)
    return replace(asked, training=quiet)


@pytest.mark.thorough
def test_no_game_on_the_generator_beats_its_epsilon() -> None:
    asked = plan(epsilon=1.0, delta=1e-2, examples=20, batch_size=10, steps=16, **SMALL)
    assert game(asked, 1.0) <= asked.epsilon
    assert game(asked, 0.01) > asked.epsilon  # the planted bug: a hundredth of the noise


# Class counts


def test_class_counts_have_the_noise_of_the_event_and_are_all_that_fit_uses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, labels = planned(), np.zeros(50, int)
    draws = [noisy_counts(labels, 40, asked, np.random.default_rng(seed)) for seed in range(50)]
    exact = np.bincount(labels, minlength=40)
    assert describe_wrong_size(np.stack(draws) - exact, asked.count_noise) is None
    _, step = normal_grid(40, max_norm=1.0, deviation=asked.count_noise, are_whole=True)
    parts = np.stack(draws) * round(1 / step)
    assert np.abs(parts - np.rint(parts)).max() < 1e-4  # whole numbers of a public part of one
    planted = [exact + 0 * drawn for drawn in draws]  # the planted bug: exact counts
    assert describe_wrong_size(np.stack(planted) - exact, asked.count_noise) is not None
    said = np.array([150.0, 50.0])  # far from the truth: what is released decides, not the labels
    monkeypatch.setattr(gan, "noisy_counts", lambda *given: said)
    model, run = watched_run(monkeypatch, planned(steps=2))
    assert model.frequencies == pytest.approx([0.75, 0.25])
    assert np.asarray(run.state.opt_state.frequencies) == pytest.approx([0.75, 0.25])


# What it costs


@pytest.mark.parametrize("beside", [None, Gaussian(noise_multiplier=2.0)])
def test_the_whole_plan_costs_what_was_asked_for(beside: Gaussian | None) -> None:
    asked = planned(beside=beside, each=7)
    assert 0.99 * 4.0 <= tight(asked.whole, 1e-3).upper <= 4.0
    assert GanPlan.read(asked.to_json()) == asked


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(CannotMeet):
        planned(beside=Gaussian(noise_multiplier=0.1))
    with pytest.raises(InvalidArgument):
        planned(each=0)
    for text in ("", "{}", "[1]", planned().to_json().replace('"each"', '"every"')):
        with pytest.raises(InvalidArgument):
            GanPlan.read(text)


def test_a_budget_is_charged_with_everything_first(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        def charge(self, event, **named):
            assert event == planned().event
            raise BudgetExceeded("There is nothing left.", remedy="Ask for more.")

    monkeypatch.setattr(gan, "noisy_counts", lambda *given: pytest.fail("noise was drawn"))
    with pytest.raises(BudgetExceeded):
        fit(*halves(), planned(), classes=CLASSES, budget=Empty())


# What comes of it


def test_a_run_goes_on_from_its_checkpoint_under_one_plan_with_the_counts_it_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(path=tmp_path / "state", stamp="one", seconds=0)
    first, run = watched_run(monkeypatch, planned(), checkpoints=kept)
    assert int(run.state.step) == 12

    def gone_on(asked: GanPlan) -> Any:
        again = Checkpoints(path=tmp_path / "state", stamp="one")
        return fit(*halves(), asked, classes=CLASSES, keys=Keys.seeded(6), checkpoints=again)

    with pytest.raises(IntegrityError, match="another plan"):  # the counts were drawn with less noise
        gone_on(replace(planned(), count_noise=2 * planned().count_noise))
    again = gone_on(planned())
    assert np.allclose(again.frequencies, first.frequencies)  # not drawn a second time
    assert np.array_equal(again.sample(9, 0)[0], first.sample(9, 0)[0])


class Counting:
    charges = 0

    def charge(self, event: Any, **named: Any) -> None:
        self.charges += 1


def interrupted(checkpoints: Checkpoints | None, budget: Any = None) -> DataError:
    def press_ctrl_c(share: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(DataError, match=r"Interrupted after \d+ of 12 steps") as error:
        fit(
            *halves(), planned(), classes=CLASSES, keys=Keys.seeded(5),
            checkpoints=checkpoints, budget=budget, on_progress=press_ctrl_c,
        )  # fmt: skip
    return error.value


def test_an_interrupted_fit_gives_no_generator_and_says_what_is_kept() -> None:
    assert "Nothing is kept" in interrupted(None).remedy


def test_an_interrupted_fit_goes_on_pays_once_and_remembers_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeding, "_most_steps", lambda plan, at_once: 4)
    budget, path = Counting(), tmp_path / "state"
    error = interrupted(Checkpoints(path=path, stamp="one"), budget)
    assert str(path) in error.remedy
    made = fit(
        *halves(), planned(), classes=CLASSES, budget=budget, checkpoints=Checkpoints(path=path, stamp="one")
    )
    assert budget.charges == 1
    other = Counting()
    checkpoints = Checkpoints(path=path, stamp="one")
    fit(*halves(), planned(), classes=CLASSES, budget=other, checkpoints=checkpoints)
    assert other.charges == 1  # another account has not paid for what is in the checkpoint
    assert made.guarantee.epsilon == planned().guarantee().epsilon
    said = made.guarantee.assumptions
    assert set(Keys.seeded(5).assumptions) <= set(said)
    assert set(planned().training.assumptions) <= set(said)
    assert len(said) == len(set(said))


@pytest.mark.thorough
def test_samples_are_of_their_class_and_survive_saving(tmp_path: Path) -> None:
    asked = plan(
        epsilon=40.0, delta=1e-3, examples=200, batch_size=50, steps=200, **SMALL,
        each=2, rate=1e-2, generator_rate=1e-2,
    )  # fmt: skip
    model = fit(*halves(), asked, classes=CLASSES, keys=Keys.seeded(2))
    made, labels = model.sample(200, 0)
    is_right = made[:, :, 4:].mean(axis=(1, 2)) > made[:, :, :4].mean(axis=(1, 2))
    assert np.mean(is_right == labels) > 0.9
    model.save(tmp_path / "made")
    assert np.array_equal(image_model.load(tmp_path / "made").sample(200, 0)[0], made)


@pytest.mark.thorough
def test_vectors_are_made_from_vectors() -> None:
    x = np.random.default_rng(0).random((200, 4))
    asked = planned(steps=2, prior="none")
    made, labels = fit(x, np.zeros(200, int), asked, classes=1).sample(5, 0)
    assert made.shape == (5, 4)
    assert made.dtype == np.float32
    assert made.min() >= 0
    assert made.max() <= 1
    assert set(labels) == {0}
