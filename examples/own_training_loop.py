"""A training loop of your own, from the parts that `rt.train` is made of.

    python examples/own_training_loop.py

Four parts keep it private: batches that the plan draws, gradients that are clipped one by one, noise as the
first link of an optax chain, and keys that are never used twice. The plan knows what all steps cost together.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

import reticent as rt

digits = rt.data.catalog.load("digits").train
held_out, train_on = digits.take(slice(0, 297)), digits.take(slice(297, None))


def loss(params, example):
    logits = example["x"] @ params["w"] + params["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])


# The number of records is declared, and public.
plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=1500, batch_size=300, steps=100, max_norm=1.0)
keys = rt.Keys.from_os()
gradient_sum = rt.clipped_gradient_sum(loss, clipping=plan.clipping)
optimizer = optax.chain(rt.training.private_noise(plan, keys=keys), optax.sgd(2.0))


@jax.jit
def step(params, state, rows, is_real):
    total, _ = gradient_sum(params, rows, is_real)  # what is left out here is private
    updates, state = optimizer.update(total, state, params)
    return optax.apply_updates(params, updates), state


params = {"w": jnp.zeros((64, 10)), "b": jnp.zeros(10)}
state = optimizer.init(params)
for rows, is_real in rt.training.private_batches(train_on, plan, keys=keys):
    params, state = step(params, state, rows, is_real)

size, examples = plan.sampler.batch_size, plan.sampler.examples
print(
    f"{plan.steps} steps, batches of about {size} of {examples}, noise multiplier {plan.noise_multiplier:.4f}"
)
print(plan.guarantee(assumptions=(*keys.assumptions, rt.training.OWN_LOOP), numbers=650))
is_right = jnp.argmax(held_out["x"] @ params["w"] + params["b"], axis=1) == held_out["y"]
print(f"{is_right.mean():.1%} of the held-out digits are classified correctly")
