"""A training loop of one's own, from the pieces that `rt.train` is made of.

    python examples/own_training_loop.py

It begins with small batches and ends with large ones, which no single plan says. What keeps it private: the
sampler draws, gradients are clipped one by one, the noise fits the clipped sum, no key is used twice, and
the cost is what the sampler itself says about the steps that were taken.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import optax

import reticent as rt
from reticent.core.keys import Stream, step_key
from reticent.data import catalog
from reticent.data.sampling import Poisson
from reticent.mechanisms.events import Composed, Event, Gaussian
from reticent.mechanisms.gaussian import add_gaussian_noise
from reticent.mechanisms.sensitivity import BoundedSum
from reticent.training.gradients import clipped_gradient_sum

EXAMPLES, MAX_NORM = 1500, 1.0  # the number of records is declared, and public

digits = catalog.load("digits").train
held_out, train_on = digits.take(slice(0, 297)), digits.take(slice(297, None))


def loss(params, example):
    logits = example["x"] @ params["w"] + params["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, example["y"])


gradient_sum = clipped_gradient_sum(loss, max_norm=MAX_NORM)


@partial(jax.jit, static_argnames=("sampler", "release"))
def step(params, data, number, draws, noise, *, sampler: Poisson, release: Gaussian):
    batch = jax.tree.map(lambda leaf: leaf[0], sampler.draw(draws, number[None], len(data["y"])))
    rows = jax.tree.map(lambda column: column[batch.indices], data)
    total, _ = gradient_sum(params, rows, batch.is_real)
    bounded = BoundedSum(value=total, max_norm=MAX_NORM)
    noisy = add_gaussian_noise(step_key(noise, number), bounded, release)
    # Divided by the expected size of a batch: how many were drawn is private.
    return jax.tree.map(lambda old, change: old - 2.0 * change / sampler.batch_size, params, noisy)


data = {name: jnp.asarray(train_on[name]) for name in train_on}
params = {"w": jnp.zeros((64, 10)), "b": jnp.zeros(10)}
keys, done = rt.Keys.from_os(), 0
spent: list[Event] = []
for batch_size, noise_multiplier, steps in ((150, 2.0, 60), (600, 6.0, 30)):
    sampler = Poisson(examples=EXAMPLES, batch_size=batch_size)
    release = Gaussian(noise_multiplier=noise_multiplier)
    numbers = range(done, done + steps)  # keys go by number, so numbers go on
    spent.append(sampler.event(release, steps))  # before any noise is drawn
    draws, noise = (keys.take(stream, steps=numbers) for stream in (Stream.SAMPLING, Stream.NOISE))
    for number in jnp.asarray(numbers):
        params = step(params, data, number, draws, noise, sampler=sampler, release=release)
    done += steps
    print(f"{steps} steps, batches of about {batch_size} of {EXAMPLES}, noise multiplier {noise_multiplier}")

assumptions = (f"the number of records, {EXAMPLES}, is public", *keys.assumptions)
print(rt.guarantee(Composed(events=tuple(spent)), delta=1e-5, assumptions=assumptions))
is_right = jnp.argmax(held_out["x"] @ params["w"] + params["b"], axis=1) == held_out["y"]
print(f"{is_right.mean():.1%} of the held-out digits are read rightly")
