"""Three ways to fine-tune plain arrays privately: a mask, low-rank factors, and features.

python examples/finetune_plain.py
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.data import catalog

digits = catalog.load("digits").train  # some of them are treated as public
public, held_out, private = (digits.take(part) for part in np.split(np.arange(1797), [300, 597]))
rng = np.random.default_rng(0)
model = {"body": rng.normal(size=(64, 64)).astype(np.float32) / 30, "head": jnp.zeros((64, 10))}


def body(model, pixels):
    return jnp.tanh(pixels @ model["body"])


def loss(model, example):
    logits = body(model, example["x"]) @ model["head"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])


slopes_of = jax.jit(jax.grad(lambda model: jnp.mean(jax.vmap(loss, (None, 0))(model, public.arrays))))
for _ in range(200):  # on public digits, without privacy
    model = jax.tree.map(lambda leaf, slope: leaf - 0.5 * slope, model, slopes_of(model))

plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=1200, batch_size=300, epochs=10, max_norm=1.0)
ways = {"mask": {"body": False, "head": True}, "factors": rt.trainable.lora(rank=2, on=["body"])}
for name, part in ways.items():
    run = rt.train(loss, model, private, plan, optimizer=optax.sgd(0.5), trainable=part)
    found = jnp.argmax(body(run.params, held_out["x"]) @ run.params["head"], axis=1)
    print(f"{name}: {np.mean(found == held_out['y']):.1%} of the held-out digits are classified correctly")

extractor = rt.features.from_jax(lambda pixels: body(model, pixels), name="body", digest="1")
rows = {"x": rt.features.compute(extractor, np.asarray(private["x"])), "y": private["y"]}
test = rt.features.compute(extractor, np.asarray(held_out["x"]))


def head_loss(head, row):
    return optax.softmax_cross_entropy_with_integer_labels(row["x"] @ head, row["y"])


run = rt.train(head_loss, model["head"], rows, plan, optimizer=optax.sgd(0.5))
found = np.argmax(test @ np.asarray(run.params), axis=1)
print(f"features: {np.mean(found == held_out['y']):.1%} of the held-out digits are classified correctly")
print(run.guarantee)
print(f"It assumes that {extractor.assumption}.")
print(f"{plan.steps} steps, noise multiplier {plan.noise_multiplier:.4f}")
