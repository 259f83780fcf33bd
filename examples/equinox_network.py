"""A convolutional network of Equinox, trained under differential privacy.

    python examples/equinox_network.py

An Equinox model is a tree of arrays and of everything else. `rt.train` is given the arrays, and the loss puts
the two together again. A loss sees one example, so nothing in the model can mix people: group normalisation
takes the place of batch normalisation.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import reticent as rt
from reticent.data import catalog


class Network(eqx.Module):
    """8 x 8 images to 10 classes."""

    conv: eqx.nn.Conv2d
    norm: eqx.nn.GroupNorm
    head: eqx.nn.Linear

    def __init__(self, key: jax.Array) -> None:
        conv_key, head_key = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 16, kernel_size=3, stride=2, padding=1, key=conv_key)
        self.norm = eqx.nn.GroupNorm(groups=4, channels=16)
        self.head = eqx.nn.Linear(16 * 4 * 4, 10, key=head_key)

    def __call__(self, pixels: jax.Array) -> jax.Array:  # (64,)
        hidden = jnp.tanh(self.norm(self.conv(pixels.reshape(1, 8, 8))))  # (16, 4, 4)
        return self.head(hidden.ravel())


arrays, rest = eqx.partition(Network(jax.random.key(0)), eqx.is_inexact_array)


def loss(arrays, example):
    logits = eqx.combine(arrays, rest)(example["x"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])


def accuracy(arrays, example):
    return jnp.argmax(eqx.combine(arrays, rest)(example["x"])) == example["y"]


digits = catalog.load("digits").train
held_out, train_on = digits.take(slice(0, 297)), digits.take(slice(297, None))

plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=1500, batch_size=300, epochs=20, max_norm=1.0)
run = rt.train(
    loss,
    arrays,
    train_on,
    plan,
    optimizer=optax.sgd(1.0, momentum=0.5),
    evaluate=held_out,
    metrics={"accuracy": accuracy},
)
model = eqx.combine(run.params, rest)  # a Network again, to be saved or used like any other

print(run.guarantee)
print(f"{plan.steps} steps, noise multiplier {plan.noise_multiplier:.4f}")
print(f"{run.history[-1].held_out['accuracy']:.1%} of the held-out digits are classified correctly")
print(f"the first of them is a {held_out['y'][0]}, read as a {jnp.argmax(model(held_out['x'][0]))}")
