"""Convolutional networks with tanh: bounded activations keep gradients short, so clipping hurts less.

Reference:
    Papernot, Thakurta, Song, Chien and Erlingsson (2021), arXiv:2007.14191v1: tanh is the tempered sigmoid
    2 s(2x) - 1. Paddings and pooling as in Tramèr and Boneh (2021), arXiv:2011.11660v3, and the code they
    published (Handcrafted-DP, models.py, `MNIST_CNN` and `CIFAR10_CNN`).
"""

from __future__ import annotations

from itertools import pairwise

import jax
import jax.numpy as jnp

from reticent.models.initialisers import glorot
from reticent.models.layers import as_image, conv, conv_starts, dense, dense_starts, max_pool
from reticent.models.model import Model, Params

_WIDTHS = (32, 32, 64, 64, 128, 128)  # of the network for colour images; it pools after every second


def tanh_cnn(classes: int = 10) -> Model:
    """The network for MNIST and Fashion-MNIST: 28 x 28 images of one channel, 26,010 parameters.

    Example:
        >>> tanh_cnn()
        Model('tanh_cnn', 26010 parameters: two convolutions, tanh, for 28 x 28 images)
    """

    starts = {
        "conv1": conv_starts(8, 1, 16, glorot),
        "conv2": conv_starts(4, 16, 32, glorot),
        "dense1": dense_starts(512, 32, glorot),
        "dense2": dense_starts(32, classes, glorot),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = as_image(x)  # (28, 28, 1)
        x = jnp.tanh(conv(params["conv1"], x, stride=2, padding=2))  # (13, 13, 16)
        x = max_pool(x, 2, 1)  # (12, 12, 16)
        x = jnp.tanh(conv(params["conv2"], x, stride=2))  # (5, 5, 32)
        x = max_pool(x, 2, 1)  # (4, 4, 32)
        x = jnp.tanh(dense(params["dense1"], x.ravel()))  # (32,)
        return dense(params["dense2"], x)  # (classes,)

    description = "two convolutions, tanh, for 28 x 28 images"
    return Model(name="tanh_cnn", description=description, starts=starts, apply=apply)


def tanh_cnn_colour(classes: int = 10) -> Model:
    """The network for CIFAR-10: 32 x 32 images of three channels, 550,570 parameters.

    Example:
        >>> tanh_cnn_colour()
        Model('tanh_cnn_colour', 550570 parameters: six convolutions, tanh, for 32 x 32 colour images)
    """

    starts = {
        **{
            f"conv{number}": conv_starts(3, inputs, outputs, glorot)
            for number, (inputs, outputs) in enumerate(pairwise((3, *_WIDTHS)), start=1)
        },
        "dense1": dense_starts(2048, 128, glorot),
        "dense2": dense_starts(128, classes, glorot),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = as_image(x)  # (32, 32, 3)
        for number in range(1, len(_WIDTHS) + 1):
            x = jnp.tanh(conv(params[f"conv{number}"], x, padding=1))
            x = max_pool(x, 2, 2) if number % 2 == 0 else x  # (16, 16, 32), (8, 8, 64), (4, 4, 128)
        x = jnp.tanh(dense(params["dense1"], x.ravel()))  # (128,)
        return dense(params["dense2"], x)  # (classes,)

    description = "six convolutions, tanh, for 32 x 32 colour images"
    return Model(name="tanh_cnn_colour", description=description, starts=starts, apply=apply)
