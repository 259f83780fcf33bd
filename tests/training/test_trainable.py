"""Which parameters learn: frozen leaves stay bit for bit, and clipping and noise see only what learns."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import reticent as rt
from reticent.core.errors import InvalidArgument
from reticent.training.gradients.choices import choices

KEY = jax.random.key(0)
MODEL = {
    "w1": jax.random.normal(KEY, (6, 16)) / 2,
    "b1": jnp.zeros(16),
    "scale": jnp.ones(16),
    "w2": jax.random.normal(jax.random.key(1), (16, 3)),
    "b2": jnp.zeros(3),
    "seen": jnp.int32(7),
}
ROW = {"x": jnp.linspace(-1, 1, 6), "y": jnp.int32(1)}


def loss(params: Any, row: Any) -> jax.Array:
    inner = jnp.tanh(row["x"] @ params["w1"] + params["b1"]) * params["scale"]
    return optax.softmax_cross_entropy_with_integer_labels(inner @ params["w2"] + params["b2"], row["y"])


def rows(count: int = 40, seed: int = 0) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    x = source.normal(size=(count, 6)).astype(np.float32)
    return {"x": x, "y": (x[:, 0] > 0).astype(np.int32)}


def full_plan(steps: int = 3, **given: Any) -> rt.Plan:
    return rt.Plan.for_budget(
        epsilon=8, delta=1e-3, examples=40, sampling="full", steps=steps, max_norm=1.0, **given
    )


@pytest.mark.parametrize(
    ("trainable", "learns"),
    [
        (rt.trainable.biases, {"b1", "b2"}),
        (rt.trainable.norms_and_biases, {"b1", "b2", "scale"}),
        (rt.trainable.last_layer, {"w2", "b2"}),
        (lambda name: name.startswith("w"), {"w1", "w2"}),
        ({**dict.fromkeys(MODEL, False), "b1": np.bool_(True)}, {"b1"}),
        ({**dict.fromkeys(MODEL), "w2": MODEL["w2"]}, {"w2"}),
    ],
    ids=["biases", "norms", "last", "names", "mask", "divided"],
)
def test_what_is_chosen_learns(trainable: Any, learns: set[str]) -> None:
    part = rt.trainable.divide(loss, MODEL, ROW, trainable)
    assert set(part.params) == learns
    assert part.numbers + part.frozen == sum(leaf.size for name, leaf in MODEL.items() if name != "seen")


def test_what_is_frozen_stays_bit_for_bit() -> None:
    run = rt.train(loss, MODEL, rows(), full_plan(), optimizer=optax.sgd(0.5), trainable=rt.trainable.biases)
    assert set(run.learned) == {"b1", "b2"}
    for name, start in MODEL.items():
        is_same = np.array_equal(np.asarray(run.params[name]), np.asarray(start))
        assert is_same == (name not in run.learned)
    assert "learned without these records" in str(run.guarantee)


def test_a_mask_of_a_model_that_can_be_called_is_a_mask() -> None:
    model = eqx.nn.Linear(6, 3, key=KEY)
    mask = eqx.tree_at(lambda tree: tree.bias, jax.tree.map(lambda leaf: False, model), True)

    def called(model: Any, row: Any) -> jax.Array:
        return jnp.sum(model(row["x"]))

    assert list(rt.trainable.divide(called, model, ROW, mask).params) == ["bias"]


def test_clipping_and_noise_see_what_learns_alone() -> None:
    """The frozen weights have gradients of length 1e6: they must not shorten those of the bias."""

    def steep(params: Any, row: Any) -> jax.Array:
        return 1e6 * jnp.sum(params["w"] * row["x"]) + 0.25 * (params["b"] + 1) ** 2

    model = {"w": jnp.ones(6), "b": jnp.zeros(())}
    plan = rt.Plan.without_privacy(examples=40, sampling="full", steps=1, max_norm=1.0)
    run = rt.train(steep, model, rows(), plan, optimizer=optax.sgd(1.0), trainable=lambda name: name == "b")
    np.testing.assert_allclose(run.params["b"], -0.5, rtol=1e-4)


def test_frozen_leaves_have_no_rule_and_adapters_need_no_gradient_of_a_whole_weight() -> None:
    part = rt.trainable.divide(loss, MODEL, ROW, rt.trainable.lora(2, also=rt.trainable.last_layer))
    found = {choice.parameter: choice for choice in choices(part.loss, part.params, ROW)}
    assert set(found) == {"b2", "w1/down", "w1/up", "w2"}
    assert found["w1/down"].rule == found["w1/up"].rule == "product"
    assert "Frozen: 128 numbers" in part.explain(ROW)
    assert found["w1/up"].norm_cost + found["w1/down"].norm_cost < 10 * part.numbers


def shaken(params: Any) -> Any:
    leaves, structure = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(3), len(leaves))
    return jax.tree.unflatten(
        structure,
        [leaf + jax.random.normal(key, leaf.shape) / 3 for key, leaf in zip(keys, leaves, strict=True)],
    )


class Attention(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(2)(nn.MultiHeadDotProductAttention(num_heads=2, qkv_features=8)(x))


def plain_model() -> tuple[Any, Any, Any]:
    return loss, MODEL, ROW


def flax_model() -> tuple[Any, Any, Any]:
    row, model = jax.random.normal(KEY, (5, 8)), Attention()
    return (
        (lambda params, x: jnp.sum(jnp.tanh(jnp.asarray(model.apply(params, x))))),
        model.init(KEY, row),
        row,
    )


def equinox_model() -> tuple[Any, Any, Any]:
    layers = [
        eqx.nn.Conv2d(3, 4, 3, padding=1, stride=2, key=KEY),
        eqx.nn.Lambda(jax.nn.relu),
        eqx.nn.Conv2d(4, 6, 1, key=KEY),
        eqx.nn.Lambda(jnp.ravel),
        eqx.nn.Linear(96, 5, key=KEY),
    ]
    return (
        (lambda model, x: jnp.sum(jnp.tanh(model(x)))),
        eqx.nn.Sequential(layers),
        jax.random.normal(KEY, (3, 8, 8)),
    )


@pytest.mark.parametrize("make", [plain_model, flax_model, equinox_model])
def test_factors_give_the_gradients_of_the_merged_model(make: Any) -> None:
    """The second derivation: W + A B formed, and differentiated by JAX."""
    loss, model, row = make()
    part = rt.trainable.divide(loss, model, row, rt.trainable.lora(2, scale=0.7))
    assert float(part.loss(part.params, row)) == pytest.approx(float(loss(model, row)), abs=1e-5)
    params = shaken(part.params)
    ours, gradient = jax.jit(jax.value_and_grad(part.loss))(params, row)
    merged = jax.value_and_grad(lambda params: loss(part.whole(params), row))
    other, expected = jax.jit(merged)(params)
    assert float(ours) == pytest.approx(float(other), abs=2e-5)
    for found, wanted in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(found, wanted, atol=3e-5)


def test_merging_and_unmerging_lead_back_to_the_start() -> None:
    part = rt.trainable.divide(loss, MODEL, ROW, rt.trainable.lora(2, also=rt.trainable.biases))
    params = shaken(part.params)
    whole = part.whole(params)
    assert float(jnp.max(jnp.abs(whole["w1"] - MODEL["w1"]))) > 0.01
    back = part.without(whole, params)
    for name, start in MODEL.items():
        np.testing.assert_allclose(back[name], start, atol=1e-6)
    assert back["b1"].tolist() == MODEL["b1"].tolist()


def test_training_factors_learns_and_a_loss_with_a_key_keeps_it() -> None:
    def with_dropout(params: Any, row: Any, key: Any = None) -> jax.Array:
        x = row["x"] if key is None else row["x"] * jax.random.bernoulli(key, 0.9, (6,))
        return loss(params, {**row, "x": x})

    run = rt.train(
        with_dropout,
        MODEL,
        rows(),
        full_plan(8),
        optimizer=optax.sgd(0.5),
        trainable=rt.trainable.lora(2, also=rt.trainable.last_layer),
        evaluate=rows(64, seed=1),
    )
    assert set(run.learned) == {"w1", "w2", "b2"}
    assert run.params["w1"].shape == MODEL["w1"].shape
    assert run.history[-1].held_out["loss"] < run.history[0].held_out["loss"] + 1
    assert "trained parameters" in repr(run)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lambda name: False, "Nothing is left to learn"),
        (lambda: "last_layer", "trainable='last_layer' is text"),
        (lambda: dict.fromkeys(MODEL, False), "Nothing is left to learn: the mask"),
        (lambda: {"w9": True}, "names 'w9', which the model does not have"),
        (lambda: {**dict.fromkeys(MODEL), "w2": jnp.zeros((3, 3))}, "has shape"),
        (lambda: rt.trainable.lora(2, on=["w9"]), "'w9' chooses no leaf"),
        (lambda: rt.trainable.lora(2, on=["b1"]), "cannot stand beside 'b1'"),
        (lambda: rt.trainable.lora(0), "rank"),
    ],
)
def test_what_cannot_learn_is_refused_by_name(make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        rt.trainable.divide(loss, MODEL, ROW, make())


def test_an_adapter_on_a_weight_that_is_used_twice_is_refused() -> None:
    def tied(params: Any, row: Any) -> jax.Array:
        return jnp.sum(jnp.tanh(row @ params["w"]) @ params["w"].T)

    with pytest.raises(InvalidArgument, match="uses it 2 times"):
        rt.trainable.divide(tied, {"w": jnp.ones((9, 9))}, jnp.ones(9), rt.trainable.lora(2, on=["w"]))
