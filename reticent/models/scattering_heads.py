"""What is trained on top of scattering features: a dense layer, or a small convolutional network.

Reference:
    Tramèr and Boneh (2021), arXiv:2011.11660v3, and the code they published (Handcrafted-DP, models.py).
    Their normalisation comes first; here it is done once, with the features
    (`scattering_features(images, groups=27)`).
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from reticent.models.initialisers import glorot
from reticent.models.layers import conv, conv_starts, dense, dense_starts, max_pool
from reticent.models.linear import linear
from reticent.models.model import Model, Params


def scattering_linear(shape: tuple[int, int, int] = (7, 7, 81), classes: int = 10) -> Model:
    """One dense layer on features of this shape: 39,700 parameters for MNIST, 155,530 for CIFAR-10.

    Example:
        >>> scattering_linear((7, 7, 81)).size
        39700
    """
    layer = linear(math.prod(shape), classes)
    description = f"one dense layer on {' x '.join(map(str, shape))} scattering features"
    return Model(name="scattering_linear", description=description, starts=layer.starts, apply=layer.apply)


def scattering_cnn(classes: int = 10) -> Model:
    """The network on 7 x 7 x 81 features (MNIST, Fashion-MNIST): 33,066 parameters.

    Example:
        >>> jax.eval_shape(scattering_cnn().init, jax.random.key(0))["dense2"]["b"].shape
        (10,)
    """

    starts = {
        "conv1": conv_starts(3, 81, 16, glorot),
        "conv2": conv_starts(3, 16, 32, glorot),
        "dense1": dense_starts(512, 32, glorot),
        "dense2": dense_starts(32, classes, glorot),
    }

    def apply(params: Params, features: jax.Array) -> jax.Array:
        x = jnp.tanh(conv(params["conv1"], features, stride=2, padding=1))  # (4, 4, 16)
        x = jnp.tanh(conv(params["conv2"], x, padding=1))  # (4, 4, 32)
        x = jnp.tanh(dense(params["dense1"], x.ravel()))  # (32,)
        return dense(params["dense2"], x)  # (classes,)

    description = "two convolutions, tanh, on 7 x 7 x 81 scattering features"
    return Model(name="scattering_cnn", description=description, starts=starts, apply=apply)


def scattering_cnn_colour(classes: int = 10) -> Model:
    """The network on 8 x 8 x 243 features (CIFAR-10): 187,210 parameters.

    Example:
        >>> scattering_cnn_colour().name
        'scattering_cnn_colour'
    """

    starts = {
        "conv1": conv_starts(3, 243, 64, glorot),
        "conv2": conv_starts(3, 64, 64, glorot),
        "dense": dense_starts(1024, classes, glorot),
    }

    def apply(params: Params, features: jax.Array) -> jax.Array:
        x = jnp.tanh(conv(params["conv1"], features, padding=1))  # (8, 8, 64)
        x = max_pool(x, 2, 2)  # (4, 4, 64)
        x = jnp.tanh(conv(params["conv2"], x, padding=1))  # (4, 4, 64)
        return dense(params["dense"], x.ravel())  # (classes,)

    description = "two convolutions, tanh, on 8 x 8 x 243 scattering features"
    return Model(name="scattering_cnn_colour", description=description, starts=starts, apply=apply)
