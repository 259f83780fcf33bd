"""Layers: functions of one layer's parameters and one example.

Images are (height, width, channels). A layer's parameters are a dictionary: `w` and `b` of a product,
`scale` and `shift` of a normalisation. Nothing here looks at more than one example, so no layer moves
information between records: batch normalisation has no place in private training.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp

from reticent.core.errors import InvalidArgument
from reticent.models.initialisers import Start, he, ones, zeros

Layer = dict[str, jax.Array]
Starts = dict[str, Start]
Spread = Callable[..., Start]  # `he` or `glorot`

_TINY = 1e-5  # added to variances, as published


# Inputs


def as_image(x: Any) -> jax.Array:  # (height, width[, channels]) -> (height, width, channels)
    """Bytes as numbers from 0 to 1, other numbers as they are; a missing channel axis is added."""
    x = as_numbers(x)
    return x[..., None] if x.ndim == 2 else x


def as_numbers(x: Any) -> jax.Array:
    """Bytes as numbers from 0 to 1, other numbers as they are.

    The divisor is a public constant. A mean and a deviation of the training images would be two
    statistics of private data.
    """
    x = jnp.asarray(x)
    return x.astype(jnp.float32) / 255 if x.dtype == jnp.uint8 else x.astype(jnp.float32)


# Products


def dense_starts(inputs: int, outputs: int, start: Spread = he) -> Starts:
    return {"w": start(inputs, outputs), "b": zeros(outputs)}


def dense(layer: Layer, x: jax.Array) -> jax.Array:
    return x @ layer["w"] + layer["b"]  # (..., inputs) -> (..., outputs)


def conv_starts(side: int, inputs: int, outputs: int, start: Spread = he, *, has_bias: bool = True) -> Starts:
    """Initial parameters of a square convolution."""
    weights = {"w": start(side, side, inputs, outputs)}
    return {**weights, "b": zeros(outputs)} if has_bias else weights


def conv(layer: Layer, x: jax.Array, *, stride: int = 1, padding: int = 0) -> jax.Array:
    """A convolution with as much zero padding on all four sides."""
    out = jax.lax.conv_general_dilated(
        x[None],
        layer["w"],
        window_strides=(stride, stride),
        padding=[(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0]  # (height, width, outputs)
    return out + layer["b"] if "b" in layer else out


def standardised_conv(layer: Layer, x: jax.Array, *, stride: int = 1, padding: int = 0) -> jax.Array:
    """A convolution whose filters have mean zero and one size, whatever the optimizer did to them.

    Reference:
        Qiao, Wang, Liu, Shen and Yuille (2019), arXiv:1903.10520v2.
    """
    weights = layer["w"]
    fan_in = weights[..., 0].size
    return conv({**layer, "w": standardise(weights) / fan_in**0.5}, x, stride=stride, padding=padding)


def standardise(weights: jax.Array) -> jax.Array:
    """Each filter (the last axis counts them) with mean 0 and variance 1 over its weights."""
    axes = tuple(range(weights.ndim - 1))
    centred = weights - jnp.mean(weights, axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + _TINY**2)


# Normalisation within one example


def norm_starts(channels: int) -> Starts:
    return {"scale": ones(channels), "shift": zeros(channels)}


def group_norm(layer: Layer, x: jax.Array, groups: int) -> jax.Array:
    """`normalise_groups`, then a learned scale and shift for each channel.

    Reference:
        Wu and He (2018), Section 3, arXiv:1803.08494v3.
    """
    return normalise_groups(x, groups) * layer["scale"] + layer["shift"]


def normalise_groups(x: jax.Array, groups: int) -> jax.Array:
    """Mean 0 and variance 1 over every group of neighbouring channels, at all places of one image."""
    *places, channels = x.shape
    if channels % groups:
        raise InvalidArgument(
            f"{channels} channels cannot be cut into {groups} equal groups.",
            remedy=f"Choose groups among the divisors of {channels}.",
        )
    grouped = x.reshape(*places, groups, channels // groups)
    axes = (*range(len(places)), len(places) + 1)
    return _normalise(grouped, axes).reshape(x.shape)


def layer_norm(layer: Layer, x: jax.Array) -> jax.Array:
    """Mean 0 and variance 1 over the last axis, then a learned scale and shift.

    Reference:
        Ba, Kiros and Hinton (2016), Section 3, arXiv:1607.06450v1.
    """
    return _normalise(x, (-1,)) * layer["scale"] + layer["shift"]


def _normalise(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    centred = x - jnp.mean(x, axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + _TINY)


# Pooling, by slices: XLA's own window reductions are slow on CPU, and their gradients slower


def max_pool(x: jax.Array, size: int, stride: int) -> jax.Array:
    """The largest value of each window. Windows that would leave the image are left out.

    Where values tie, their gradient is shared; it has the same length or a shorter one.
    """
    for axis in (0, 1):  # rows first, then columns: 2 (size - 1) comparisons of images, not size^2 - 1
        if x.shape[axis] < size:
            raise InvalidArgument(
                f"A window of {size} does not fit into an image of {x.shape[0]} x {x.shape[1]}.",
                remedy="Use larger images, or pool less.",
            )
        last = x.shape[axis] - size + 1
        shifted = [
            jax.lax.slice_in_dim(x, start, start + last, stride=stride, axis=axis) for start in range(size)
        ]
        x = reduce(jnp.maximum, shifted)
    return x
