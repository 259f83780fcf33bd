"""A convolutional network of Flax, trained under differential privacy.

    python examples/flax_network.py

`nnx.split` takes the parameters out of a module and `nnx.merge` puts them back: that is all `rt.train` needs.
With linen it is less: the loss calls `model.apply(params, example["x"])`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from flax import nnx

import reticent as rt
from reticent.data import catalog


class Network(nnx.Module):
    """8 x 8 images to 10 classes."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.conv = nnx.Conv(1, 16, kernel_size=(3, 3), strides=2, rngs=rngs)
        self.norm = nnx.GroupNorm(16, num_groups=4, rngs=rngs)  # batch normalisation would mix people
        self.head = nnx.Linear(4 * 4 * 16, 10, rngs=rngs)

    def __call__(self, pixels: jax.Array) -> jax.Array:  # (64,)
        hidden = jnp.tanh(self.norm(self.conv(pixels.reshape(8, 8, 1))))  # (4, 4, 16)
        return self.head(hidden.ravel())


graph, params = nnx.split(Network(nnx.Rngs(0)), nnx.Param)


def loss(params, example):
    logits = nnx.merge(graph, params)(example["x"])
    return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])


def accuracy(params, example):
    return jnp.argmax(nnx.merge(graph, params)(example["x"])) == example["y"]


digits = catalog.load("digits").train
held_out, train_on = digits.take(slice(0, 297)), digits.take(slice(297, None))

plan = rt.Plan.for_budget(epsilon=3, delta=1e-5, examples=1500, batch_size=300, epochs=20, max_norm=1.0)
run = rt.train(
    loss,
    params,
    train_on,
    plan,
    optimizer=optax.sgd(1.0, momentum=0.5),
    evaluate=held_out,
    metrics={"accuracy": accuracy},
)
model = nnx.merge(graph, run.params)  # a Network again, to be saved or used like any other

print(run.guarantee)
print(f"{plan.steps} steps, noise multiplier {plan.noise_multiplier:.4f}")
print(f"{run.history[-1].held_out['accuracy']:.1%} of the held-out digits are classified correctly")
print(f"the first of them is a {held_out['y'][0]}, read as a {jnp.argmax(model(held_out['x'][0]))}")
