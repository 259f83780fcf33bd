"""Book-keeping on the models of other libraries, through nothing but a loss of one example."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_oracle import assert_right, random

from reticent.training.gradients.choices import choices

IDS = jnp.asarray(np.random.default_rng(0).integers(0, 11, (4, 6)))
IMAGES = (random(0, 4, 8, 8, 3), jnp.array([0, 1, 2, 3]))
ROUNDING = 3e-5


def rules(loss: Any, params: Any, batch: Any) -> set[str]:
    row = jax.tree.map(lambda leaf: leaf[0], batch)
    return {choice.rule for choice in choices(loss, params, row)}


def cross_entropy(logits: jax.Array, label: jax.Array) -> jax.Array:
    return -jax.nn.log_softmax(logits)[label]


def test_equinox_modules():
    eqx = pytest.importorskip("equinox")
    keys = jax.random.split(jax.random.key(0), 4)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 6, 3, stride=2, padding=1, key=keys[0]),
            eqx.nn.GroupNorm(2, 6),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.MLP(96, 4, 16, 1, key=keys[1]),
        ]
    )
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(params: Any, example: Any) -> jax.Array:
        image, label = example
        return cross_entropy(eqx.combine(params, static)(image.transpose(2, 0, 1)), label)

    assert rules(loss, params, IMAGES) == {"product", "outer", "explicit"}
    assert_right(loss, params, IMAGES, rounding=ROUNDING)


@pytest.mark.thorough
def test_equinox_attention_and_recurrence():
    eqx = pytest.importorskip("equinox")
    keys = jax.random.split(jax.random.key(1), 4)
    model = (
        eqx.nn.Embedding(11, 8, key=keys[0]),
        eqx.nn.MultiheadAttention(2, 8, key=keys[1]),
        eqx.nn.LayerNorm(8),
        eqx.nn.GRUCell(8, 5, key=keys[2]),
    )
    params, static = eqx.partition(model, eqx.is_inexact_array)

    def loss(params: Any, ids: jax.Array) -> jax.Array:
        embed, attend, norm, cell = eqx.combine(params, static)
        hidden = jax.vmap(embed)(ids)
        hidden = jax.vmap(norm)(hidden + attend(hidden, hidden, hidden))
        last, _ = jax.lax.scan(lambda state, x: (cell(x, state), None), jnp.zeros(5), hidden)
        return jnp.sum(last**2)

    assert "rows" in rules(loss, params, IDS)
    assert_right(loss, params, IDS, rounding=ROUNDING)


@pytest.mark.thorough
def test_flax_linen_modules_in_bfloat16_with_checkpoint():
    linen = pytest.importorskip("flax.linen")

    class Network(linen.Module):
        width: Any = jnp.float32

        @linen.compact
        def __call__(self, image: jax.Array) -> jax.Array:
            hidden = linen.Conv(6, (3, 3), strides=2, dtype=self.width)(image)
            hidden = linen.relu(linen.GroupNorm(2, dtype=self.width)(hidden))
            hidden = linen.remat(linen.Dense)(16, dtype=self.width)(hidden.reshape(-1))
            return linen.Dense(4, dtype=self.width)(linen.relu(hidden))

    params = Network().init(jax.random.key(0), IMAGES[0][0])
    for width, rounding in ((jnp.float32, ROUNDING), (jnp.bfloat16, 5e-2)):

        def loss(params: Any, example: Any, width: Any = width) -> jax.Array:
            image, label = example
            return cross_entropy(Network(width).apply(params, image).astype(jnp.float32), label)

        assert rules(loss, params, IMAGES) == {"product", "outer", "explicit"}
        assert_right(loss, params, IMAGES, rounding=rounding)


def test_flax_nnx_modules():
    nnx = pytest.importorskip("flax.nnx")

    class Network(nnx.Module):
        def __init__(self, rngs: Any) -> None:
            self.embed = nnx.Embed(11, 8, rngs=rngs)
            self.attend = nnx.MultiHeadAttention(2, 8, decode=False, rngs=rngs)
            self.norm = nnx.LayerNorm(8, rngs=rngs)
            self.head = nnx.Linear(8, 11, rngs=rngs)

        def __call__(self, ids: jax.Array) -> jax.Array:
            hidden = self.embed(ids)
            return self.head(self.norm(hidden + self.attend(hidden)))

    graph, params, rest = nnx.split(Network(nnx.Rngs(0)), nnx.Param, ...)

    def loss(params: Any, ids: jax.Array) -> jax.Array:
        logits = nnx.merge(graph, params, rest)(ids[:-1])
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(5), ids[1:]])

    assert {"rows", "product"} <= rules(loss, params, IDS)
    assert_right(loss, params, IDS, rounding=ROUNDING)


def test_haiku_modules():
    haiku = pytest.importorskip("haiku")
    network = haiku.without_apply_rng(
        haiku.transform(lambda image: haiku.nets.MLP([16, 4])(image.reshape(-1)))
    )
    params = network.init(jax.random.key(0), IMAGES[0][0])

    def loss(params: Any, example: Any) -> jax.Array:
        return cross_entropy(network.apply(params, example[0]), example[1])

    assert rules(loss, params, IMAGES) == {"outer", "product", "explicit"}
    assert_right(loss, params, IMAGES)
