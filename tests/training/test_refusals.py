"""What a newcomer gets wrong ends in a sentence or in a warning to its holder, never in silence."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.errors import BudgetExceeded, CannotMeet, InvalidArgument
from reticent.core.keys import Keys
from reticent.data.sampling import Poisson
from reticent.models import classification_loss, linear
from reticent.training import UnreleasedWarning, explain
from reticent.training.plan_json import from_json, to_json
from reticent.training.programs import has_large_constants

ROWS, WIDTH, CLASSES = 60, 4, 3
MODEL = linear(WIDTH, CLASSES)
LOSS = classification_loss(MODEL)
BUDGET = {"epsilon": 3, "delta": 1e-3, "examples": ROWS, "batch_size": 20, "max_norm": 1.0}


@pytest.fixture(scope="module")
def plan() -> rt.Plan:
    return rt.Plan.for_budget(**BUDGET, steps=3)


def rows(count: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    x = source.normal(size=(count, WIDTH)).astype(np.float32)
    return {"x": x, "y": source.integers(0, CLASSES, count).astype(np.int32)}


def train(plan: rt.Plan, data: Any = None, **options: Any) -> rt.training.Run:
    given = {"optimizer": optax.sgd(0.1), "keys": Keys.seeded(0), **options}
    shared = None if "optimizer" in options else rt.Execution(program="refusals")  # compiled once
    return rt.train(LOSS, MODEL.init(jax.random.key(0)), data or rows(), plan, execution=shared, **given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_norm": 0}, "max_norm"),
        ({"noise_multiplier": 0}, "noise_multiplier must be a positive number, got 0"),
        ({"epsilon": 0}, "epsilon must be a positive number, got 0"),
        ({"delta": 1 / ROWS}, "not below 1 / 60, the number of records"),
        ({"epsilon": 500}, "Noise for epsilon 500 .* is so small.*Ask for an epsilon of at most"),
    ],
)
def test_a_plan_refuses_what_it_would_have_to_replace(change: dict[str, Any], said: str) -> None:
    length = {} if "noise_multiplier" in change else {"steps": 3}
    with pytest.raises(InvalidArgument, match=said):
        rt.Plan.for_budget(**{**BUDGET, **length, **change})


def test_the_largest_epsilon_that_the_error_names_can_be_had() -> None:
    with pytest.raises(CannotMeet) as refused:
        rt.Plan.for_budget(**{**BUDGET, "epsilon": 500}, steps=3)
    most = float(refused.value.remedy.split("at most ")[1].split(",")[0])
    assert rt.Plan.for_budget(**{**BUDGET, "epsilon": most}, steps=3).guarantee().epsilon > 0.98 * most


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keys": 0}, "keys must be rt.Keys, got int"),
        ({"optimizer": optax.sgd}, "Call the function that makes it"),
        ({"optimizer": optax.lbfgs(0.1)}, "needs more than a gradient: 'value', 'grad'"),
        (
            {"optimizer": optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau())},
            "needs more than a gradient: 'value'.*schedule",
        ),
        (
            {"metrics": {"mean": lambda params, example: 1.0}},
            "Metrics .mean. are averages over held-out rows",
        ),
        (
            {"metrics": {"x": lambda params, example: example["x"]}, "evaluate": rows(5, seed=1)},
            r"metric 'x' of one example must be one number, got \(4,\)",
        ),
    ],
)
def test_training_refuses_in_words(options: dict[str, Any], said: str, plan: rt.Plan) -> None:
    with pytest.raises(InvalidArgument, match=said):
        train(plan, **options)


@pytest.mark.parametrize(
    ("data", "evaluate", "said"),
    [
        ({**rows(), "x": rows()["x"] * np.nan}, None, "100% of the examples .* not finite"),
        ({**rows(), "y": rows()["y"] + CLASSES}, None, "labels beyond the last class"),
        (rows(ROWS - 3), None, "made for 60 records, and there are 57"),
        (rows(), {key: column[:9].copy() for key, column in rows().items()}, "9 of 9 rows to evaluate on"),
    ],
    ids=["NaN", "labels", "fewer", "copies"],
)
def test_the_holder_of_suspicious_data_is_warned_and_the_run_goes_on(
    data: Any, evaluate: Any, said: str, plan: rt.Plan
) -> None:
    with pytest.warns(UnreleasedWarning, match=f"Unreleased: .*{said}"):
        assert train(plan, data, evaluate=evaluate).is_complete


def test_leaves_without_gradient_and_batch_normalisation_are_named(plan: rt.Plan) -> None:
    params = {
        **MODEL.init(jax.random.key(0)),
        "batch_stats": {"mean": jnp.zeros(3)},
        "BatchNorm_0": jnp.ones(1),
    }

    def loss(params: Any, example: Any) -> jax.Array:
        used = {key: params[key] for key in params if key not in ("batch_stats", "BatchNorm_0")}
        return LOSS(used, example) * params["BatchNorm_0"][0]

    with pytest.warns(UserWarning, match="leaves|normalisation") as warned:
        rt.train(loss, params, rows(), plan, optimizer=optax.sgd(0.1), keys=Keys.seeded(0))
    said = " ".join(str(each.message) for each in warned)
    assert "no gradient to 'batch_stats/mean' (1 of 4 leaves)" in said
    assert "Batch normalisation ('BatchNorm_0')" in said
    assert "No gradient reaches 'batch_stats/mean'" in explain(
        loss, params, {"x": jnp.ones(4), "y": jnp.int32(0)}
    )


class Weighted(Poisson):
    """Somebody's own sampler, whose event nobody has checked."""


def test_a_sampler_of_your_own_is_an_assumption_of_the_guarantee(plan: rt.Plan) -> None:
    own = rt.Plan.for_budget(
        epsilon=3, delta=1e-3, sampling=Weighted(examples=ROWS, batch_size=20), steps=3, max_norm=1.0
    )
    assert "Weighted draws batches as its event says (rt.audit.replay_sampling" in str(own.guarantee())
    assert "replay_sampling" not in str(plan.guarantee())


def test_a_dry_run_follows_the_plan_without_noise_and_promises_nothing() -> None:
    dry = rt.Plan.without_privacy(examples=ROWS, sampling="full", steps=3, max_norm=100.0)
    done = train(dry, evaluate=rows(5, seed=1))
    params, optimizer = MODEL.init(jax.random.key(0)), optax.sgd(0.1)
    state, batch = optimizer.init(params), jax.tree.map(jnp.asarray, rows())
    for _ in range(3):
        mean = jax.grad(lambda p: jnp.mean(jax.vmap(LOSS, (None, 0))(p, batch)))(params)
        updates, state = optimizer.update(mean, state)
        params = optax.apply_updates(params, updates)
    assert all(
        np.allclose(*pair, atol=1e-4)
        for pair in zip(*map(jax.tree.leaves, (done.params, params)), strict=True)
    )
    assert np.isinf(done.guarantee.epsilon)
    assert np.isinf(done.history[-1].epsilon)
    assert str(done.guarantee) == "No privacy guarantee: epsilon is infinite."
    assert "NonPrivate" in repr(done)
    assert "NonPrivate" in repr(dry)
    assert "NonPrivate" in repr(done.guarantee)
    assert from_json(to_json(dry)) == dry


def test_no_budget_pays_for_a_dry_run(tmp_path: Any) -> None:
    ledger = rt.Ledger.create(str(tmp_path / "ledger.db"))
    ledger.limit("d", epsilon=100.0, delta=1e-3)
    dry = rt.Plan.without_privacy(examples=ROWS, batch_size=20, steps=3, max_norm=1.0)
    with pytest.raises(BudgetExceeded):
        train(dry, budget=ledger.for_dataset("d"))
    with pytest.raises(InvalidArgument, match="loop of your own"):
        rt.training.private_noise(dry, keys=Keys.seeded(0))


def test_frozen_weights_are_arguments_of_what_is_compiled(
    plan: rt.Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As constants, the compiler would compute with them: for minutes, where rows to evaluate on are many."""
    frozen = jnp.asarray(np.random.default_rng(0).normal(size=(WIDTH, 2**17)).astype(np.float32))
    traced = jax.make_jaxpr(lambda x: x @ frozen)(jnp.ones(WIDTH))
    assert has_large_constants(traced)

    def loss(params: Any, example: Any) -> jax.Array:
        return LOSS(params, {**example, "x": jnp.tanh(example["x"] @ frozen)[:WIDTH]})

    programs: list[str] = []
    compile_, given = (
        jax.jit,
        {"optimizer": optax.sgd(0.1), "evaluate": rows(5, seed=1), "keys": Keys.seeded(0)},
    )

    def seen(function: Any, **options: Any) -> Any:
        compiled = compile_(function, **options)

        def call(*args: Any) -> Any:
            programs.append(compiled.lower(*args).as_text())
            return compiled(*args)

        return call

    from reticent.training import programs as module

    monkeypatch.setattr(module.jax, "jit", seen)
    done = rt.train(loss, MODEL.init(jax.random.key(0)), rows(), plan, **given)
    assert done.is_complete
    large = [text for text in programs if "4x131072xf32" in text]
    assert len(large) >= 2
    assert not any(
        "constant dense" in line and "4x131072" in line for text in large for line in text.splitlines()
    )


def test_printed_values_are_short_and_escaped(plan: rt.Plan, tmp_path: Any) -> None:
    done = train(plan, evaluate=rows(5, seed=1))
    ledger = rt.Ledger.create(str(tmp_path / "<ledger>.db"))
    ledger.limit("patients", epsilon=2.0, delta=1e-5)
    for value in (done, plan, done.guarantee, ledger):
        assert len(repr(value)) < 250
        page = value._repr_html_()
        assert page.startswith("<table>")
        assert "<ledger>" not in page
    assert "epsilon <= " in repr(done)
    assert "held out (unreleased): loss" in repr(done)
    assert "Poisson 20 of 60" in repr(plan)
    assert "may spend epsilon 2" in ledger._repr_html_()


def test_orbax_keeps_the_state_of_a_run(plan: rt.Plan, tmp_path: Any) -> None:
    checkpoint = pytest.importorskip("orbax.checkpoint")
    done = train(plan, optimizer=optax.adam(0.1))
    with checkpoint.StandardCheckpointer() as keeper:
        keeper.save(tmp_path / "state", done.state)
        keeper.wait_until_finished()
        found = keeper.restore(tmp_path / "state", jax.tree.map(jnp.zeros_like, done.state))
    assert all(np.array_equal(*pair) for pair in zip(*map(jax.tree.leaves, (found, done.state)), strict=True))
