"""Three ways to fine-tune a Flax model privately: a mask, low-rank factors, and features.

python examples/finetune_flax.py
"""

# pyright: reportArgumentType=false
from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.data import catalog

digits = catalog.load("digits").train  # some of them are treated as public
public, held_out, private = (digits.take(part) for part in np.split(np.arange(1797), [300, 597]))


class Network(nn.Module):
    @nn.compact
    def __call__(self, pixels, *, is_body=False):
        hidden = jnp.tanh(nn.Dense(64, name="body")(pixels))
        return hidden if is_body else nn.Dense(10, name="head")(hidden)


network = Network()
params = network.init(jax.random.key(0), digits["x"][0])


def loss(params, row):
    return optax.softmax_cross_entropy_with_integer_labels(network.apply(params, row["x"]), row["y"])


slopes_of = jax.jit(jax.grad(lambda params: jnp.mean(jax.vmap(loss, (None, 0))(params, public.arrays))))
for _ in range(200):  # on public digits, without privacy
    params = jax.tree.map(lambda leaf, slope: leaf - 0.5 * slope, params, slopes_of(params))
plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=1200, batch_size=300, epochs=10, max_norm=1.0)
for name, part in [("mask", lambda name: "head" in name), ("factors", rt.trainable.lora(rank=2))]:
    run = rt.train(loss, params, private, plan, optimizer=optax.sgd(0.5), trainable=part)
    right = jnp.argmax(network.apply(run.params, held_out["x"]), axis=1) == held_out["y"]
    print(f"{name}: {np.mean(right):.1%} of the held-out digits are classified correctly")

body = rt.features.from_jax(lambda row: network.apply(params, row, is_body=True), name="body", digest="1")
rows = {"x": rt.features.compute(body, np.asarray(private["x"])), "y": private["y"]}


def head_loss(params, row):
    return optax.softmax_cross_entropy_with_integer_labels(nn.Dense(10).apply(params, row["x"]), row["y"])


run = rt.train(head_loss, {"params": params["params"]["head"]}, rows, plan, optimizer=optax.sgd(0.5))
test = rt.features.compute(body, np.asarray(held_out["x"]))
right = jnp.argmax(nn.Dense(10).apply(run.params, test), axis=1) == held_out["y"]
print(f"features: {np.mean(right):.1%} of the held-out digits are classified correctly")
print(run.guarantee)
print(f"It assumes that {body.assumption}. {plan.steps} steps, noise multiplier {plan.noise_multiplier:.4f}")
