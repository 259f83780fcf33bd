"""The small MNIST network on which private training is usually taught."""

from __future__ import annotations

import jax

from reticent.models.initialisers import glorot
from reticent.models.layers import as_image, conv, conv_starts, dense, dense_starts, max_pool
from reticent.models.model import Model, Params


def course_cnn(classes: int = 10) -> Model:
    """Two convolutions and two dense layers with relu, 26,010 parameters, for 28 x 28 images of one channel.

    Example:
        >>> course_cnn()
        Model('course_cnn', 26010 parameters: two convolutions, relu, for 28 x 28 images)

    Reference:
        TensorFlow Privacy, tutorials/mnist_dpsgd_tutorial_common.py, `get_cnn_model` ('same' padding of
        the first convolution is 3 on each side); Opacus, examples/mnist.py, `SampleConvNet`, is the same
        network. Opacus centres pixels with the mean and deviation of the training images; here, as in
        TensorFlow Privacy, bytes become numbers from 0 to 1.
    """

    starts = {
        "conv1": conv_starts(8, 1, 16),
        "conv2": conv_starts(4, 16, 32),
        "dense1": dense_starts(512, 32),
        "dense2": dense_starts(32, classes, glorot),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        x = as_image(x)  # (28, 28, 1)
        x = jax.nn.relu(conv(params["conv1"], x, stride=2, padding=3))  # (14, 14, 16)
        x = max_pool(x, 2, 1)  # (13, 13, 16)
        x = jax.nn.relu(conv(params["conv2"], x, stride=2))  # (5, 5, 32)
        x = max_pool(x, 2, 1)  # (4, 4, 32)
        x = jax.nn.relu(dense(params["dense1"], x.ravel()))  # (32,)
        return dense(params["dense2"], x)  # (classes,)

    description = "two convolutions, relu, for 28 x 28 images"
    return Model(name="course_cnn", description=description, starts=starts, apply=apply)
