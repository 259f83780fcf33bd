"""A generator inside an optimizer: it sees what a private step releases, and cannot see more.

A GAN plays two networks against each other. Only the discriminator looks at records, so only it is trained
privately, by `rt.train`; the generator learns from the discriminator. Here this is so by construction: an
optimizer is handed noisy gradients and parameters, and the generator lives in the optimizer's state.

    records ─► clipped gradients of "this is real" ─► noise ─┐
                                                             ├─► discriminator ─► generator
    fakes ───► clipped gradients of "this is fake" ──────────┘        ▲               │
      ▲                                                               └───────────────┤
      └───────────────────────────────────────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from reticent.core.trees import ArrayTree
from reticent.models.model import Params
from reticent.synthetic.images import networks
from reticent.training.clipping import Clipping
from reticent.training.gradients import clipped_gradient_sum

_FAKES = 512  # in a step of either network
_MOMENTUM, _SQUARES = 0.5, 0.99  # of Adam: gradients of a game are stale sooner than those of a loss
_AVERAGING = 0.99
_LAST = (
    0.05  # of its rate that an optimizer ends with: a game with noise in it does not come to rest by itself
)


class Adversary(NamedTuple):
    """The state of the optimizer: all of the game but the discriminator's parameters. Holds no record."""

    taken: jax.Array  # steps of the discriminator
    discriminator: Any  # moments of its optimizer
    generator: Params
    optimizer: Any  # moments of the generator's
    average: Params  # of the generator: what is released
    frequencies: jax.Array  # of the classes, as released


def real_loss(classes: int) -> Callable[[Params, Any], jax.Array]:
    """The loss of a discriminator on ONE real record."""

    def loss(params: Params, example: ArrayTree) -> jax.Array:
        return jax.nn.softplus(-networks.discriminate(params, example["x"], example["y"], classes))

    return loss


def adversary(
    generator: Params,
    frequencies: jax.Array,
    key: jax.Array,
    *,
    clipping: Clipping,
    steps: int,
    each: int,
    rate: float,
    generator_rate: float,
    penalty: float,
) -> optax.GradientTransformation:
    """An optimizer of the discriminator that adds the gradients of fakes, and also trains the generator.

    Args:
        generator: parameters to start from.
        frequencies: of the classes among fakes, as released with noise.
        key: of the fakes. They hide nothing; it might be public.
        clipping: that of the records, so that neither side of the game pulls harder.
        steps: of the discriminator, in all; towards the last one both networks move less and less.
        each: steps of the discriminator for one of the generator.
        penalty: on the square of the discriminator's slope at fakes, which keeps it from being so sure that
            the generator learns nothing. At fakes alone: at records it would be one more thing to pay for.

    Guarantee:
        Post-processing. It is a function of the noisy mean gradient of the records, of the
        discriminator's parameters, of released frequencies and of its own randomness. Fakes are made from
        these alone, so their gradients need no noise, and no record changes them other than through
        what was released.
    """
    classes = frequencies.shape[0]
    of_critic = _adam(rate, steps)
    of_generator = _adam(generator_rate, max(steps // each, 1))
    fake_sum = clipped_gradient_sum(_fake_loss(classes), clipping=clipping)

    def init(params: Params) -> Adversary:
        start = generator, of_generator.init(generator), generator
        return Adversary(jnp.int32(0), of_critic.init(params), *start, frequencies)

    def update(mean: Any, state: Adversary, params: Params | None = None) -> tuple[Any, Adversary]:
        assert params is not None
        critic_key, generator_key = jax.random.split(jax.random.fold_in(key, state.taken))
        noise, labels = _draw(critic_key, state.frequencies)
        fakes = {"x": networks.generate(state.generator, noise, labels, classes), "y": labels}
        total, _ = fake_sum(params, fakes, jnp.ones(_FAKES, bool))
        slope = jax.grad(_steepness)(params, fakes, classes, penalty)
        both = jax.tree.map(lambda real, fake, flat: real + fake / _FAKES + flat, mean, total, slope)
        updates, moments = of_critic.update(both, state.discriminator, params)
        state = state._replace(taken=state.taken + 1, discriminator=moments)
        critic = optax.apply_updates(params, updates)
        is_turn = state.taken % each == 0
        return updates, jax.lax.cond(
            is_turn,
            lambda now: _improve(now, critic, generator_key, of_generator),
            lambda now: now,
            state,
        )

    return optax.GradientTransformation(init, update)  # type: ignore[arg-type]


def _steepness(params: Params, fakes: Any, classes: int, penalty: float) -> jax.Array:
    """How steep the discriminator is at fakes: the mean square of its slope, times the penalty."""
    slopes = jax.vmap(jax.grad(networks.discriminate, argnums=1), in_axes=(None, 0, 0, None))
    return penalty / _FAKES * jnp.sum(jnp.square(slopes(params, fakes["x"], fakes["y"], classes)))


def _improve(
    state: Adversary, critic: Any, key: jax.Array, optimizer: optax.GradientTransformation
) -> Adversary:
    """One step of the generator against this discriminator."""
    noise, labels = _draw(key, state.frequencies)
    classes = state.frequencies.shape[0]

    def loss(params: Params) -> jax.Array:
        fakes = networks.generate(params, noise, labels, classes)
        return jnp.mean(jax.nn.softplus(-networks.discriminate(critic, fakes, labels, classes)))

    updates, moments = optimizer.update(jax.grad(loss)(state.generator), state.optimizer)
    found: Any = optax.apply_updates(state.generator, updates)
    average = jax.tree.map(lambda old, new: _AVERAGING * old + (1 - _AVERAGING) * new, state.average, found)
    return state._replace(generator=found, optimizer=moments, average=average)


def _adam(rate: float, steps: int) -> optax.GradientTransformation:
    return optax.adam(optax.linear_schedule(rate, rate * _LAST, steps), b1=_MOMENTUM, b2=_SQUARES)


def _fake_loss(classes: int) -> Callable[[Params, Any], jax.Array]:
    def loss(params: Params, example: ArrayTree) -> jax.Array:
        return jax.nn.softplus(networks.discriminate(params, example["x"], example["y"], classes))

    return loss


def _draw(key: jax.Array, frequencies: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Noise and classes for a batch of fakes."""
    noise_key, label_key = jax.random.split(key)
    noise = jax.random.normal(noise_key, (_FAKES, networks.NOISE))
    return noise, jax.random.categorical(label_key, jnp.log(frequencies), shape=(_FAKES,))
