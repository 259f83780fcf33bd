"""Three ways to fine-tune an Equinox model privately: a mask, low-rank factors, and features.

python examples/finetune_equinox.py
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.data import catalog

digits = catalog.load("digits").train  # some of them are treated as public
public, held_out, private = (digits.take(part) for part in np.split(np.arange(1797), [300, 597]))
network = eqx.nn.MLP(64, 10, width_size=64, depth=1, activation=jnp.tanh, key=jax.random.key(0))


def loss(network, example):
    return optax.softmax_cross_entropy_with_integer_labels(network(example["x"]), example["y"])


def mean_loss(network):
    return jnp.mean(jax.vmap(lambda row: loss(network, row))(public.arrays))


for _ in range(200):  # on public digits, without privacy
    slopes = eqx.filter_jit(eqx.filter_grad(mean_loss))(network)
    network = eqx.apply_updates(network, jax.tree.map(lambda slope: -0.5 * slope, slopes))

plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=1200, batch_size=300, epochs=10, max_norm=1.0)
frozen = jax.tree.map(lambda leaf: False, network)
mask = eqx.tree_at(lambda tree: (tree.layers[-1].weight, tree.layers[-1].bias), frozen, (True, True))
for name, part in {"mask": mask, "factors": rt.trainable.lora(rank=2)}.items():
    run = rt.train(loss, network, private, plan, optimizer=optax.sgd(0.5), trainable=part)
    found = jnp.argmax(jax.vmap(run.params)(held_out["x"]), axis=1)
    print(f"{name}: {np.mean(found == held_out['y']):.1%} of the held-out digits are classified correctly")

body = rt.features.from_jax(lambda pixels: jnp.tanh(network.layers[0](pixels)), name="body", digest="1")
rows = {"x": rt.features.compute(body, np.asarray(private["x"])), "y": private["y"]}
head = network.layers[-1]
run = rt.train(loss, head, rows, plan, optimizer=optax.sgd(0.5))
found = jnp.argmax(jax.vmap(run.params)(rt.features.compute(body, np.asarray(held_out["x"]))), axis=1)
print(f"features: {np.mean(found == held_out['y']):.1%} of the held-out digits are classified correctly")
print(run.guarantee)
print(f"It assumes that {body.assumption}.")
print(f"{plan.steps} steps, noise multiplier {plan.noise_multiplier:.4f}")
