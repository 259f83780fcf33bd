"""No example of a batch moves what another one adds, whatever XLA makes of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from gradient_oracle import random
from jax import lax

import reticent as rt
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.training.gradients import Strategy, clipped_gradient_sum

STRATEGIES = ("vmap", "book-keeping")
SIZE = (5, 6, 2)  # of an image


def convolution(
    padding: list[tuple[int, int]], *, window: int = 2, stride: int = 1, apart: int = 1, spread: int = 1
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The loss of a layer whose kernel has shape (window, window, 2, 3)."""

    def loss(kernel: jax.Array, image: jax.Array) -> jax.Array:
        found = lax.conv_general_dilated(
            image[None],
            kernel[:window, :window],
            (stride, stride),
            padding,
            rhs_dilation=(apart, apart),
            lhs_dilation=(spread, spread),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return jnp.sum(jnp.tanh(found) ** 2)

    return loss


def norms(loss: Callable[..., Any], images: jax.Array, strategy: Strategy) -> np.ndarray:
    kernel = random(0, 3, 3, 2, 3)
    function = jax.jit(clipped_gradient_sum(loss, max_norm=1.0, strategy=strategy))
    return np.asarray(function(kernel, images, jnp.ones(len(images), bool))[1].norms)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "loss",
    [
        convolution([(0, 0), (0, 0)]),
        convolution([(1, 1), (1, 1)], window=3),
        convolution([(0, 1), (0, 2)], stride=2),
        convolution([(2, 1), (2, 2)], apart=2),
        convolution([(1, 1), (1, 1)], spread=2),
        convolution([(0, 0), (-1, 0)]),
        convolution([(-1, -1), (-2, 0)], stride=2),
        convolution([(1, -1), (2, -1)], window=3),
        convolution([(1, 1), (1, 1)], window=1),
    ],
)
def test_what_an_example_adds_does_not_depend_on_the_others(loss: Any, strategy: Strategy):
    images = random(1, 4, *SIZE)
    before = norms(loss, images, strategy)
    for other in (100.0, np.nan):
        after = norms(loss, images.at[1].set(other).at[3].set(-other), strategy)
        assert after[[0, 2]].tolist() == before[[0, 2]].tolist()


cropped = convolution([(0, 0), (-1, 1)])


def in_a_loop(kernel: jax.Array, image: jax.Array) -> jax.Array:
    return lax.scan(lambda total, row: (total + cropped(kernel, row), None), jnp.float32(0), image[None])[0]


def in_a_branch(kernel: jax.Array, image: jax.Array) -> jax.Array:
    return lax.cond(image[0, 0, 0] > 0, cropped, convolution([(0, 0), (0, 0)]), kernel, image)


@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto"])
@pytest.mark.parametrize(
    "loss",
    [
        cropped,
        jax.jit(cropped),
        jax.checkpoint(cropped),
        in_a_loop,
        in_a_branch,
        convolution([(-2, 1), (0, 0)], stride=2),
        # Harmless forwards, but the gradient by the image is a convolution with padding (-2, 1).
        lambda kernel, image: convolution([(0, 0), (2, 0)], window=1, stride=3)(
            kernel, image * kernel[0, 0, 0, 0]
        ),
    ],
)
def test_a_convolution_that_would_read_other_examples_is_refused(loss: Any, strategy: Strategy):
    with pytest.raises(InvalidArgument, match=r"reads the memory of other examples.*[Cc]rop the image"):
        norms(loss, random(1, 4, *SIZE), strategy)


def test_training_refuses_it_before_anything_is_drawn():
    keys = Keys.seeded(0)
    plan = rt.Plan.for_budget(
        epsilon=1.0, delta=1e-5, examples=40, batch_size=10, noise_multiplier=2.0, max_norm=1.0
    )
    data = {"image": np.asarray(random(1, 40, *SIZE))}
    with pytest.raises(InvalidArgument, match="memory of other examples"):
        rt.train(
            lambda kernel, row: cropped(kernel, row["image"]),
            random(0, 3, 3, 2, 3),
            data,
            plan,
            optimizer=optax.sgd(0.1),
            keys=keys,
        )
    keys.take(Stream.NOISE)  # which is refused if a part of it was taken
