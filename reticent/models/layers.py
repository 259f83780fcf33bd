"""Layers: functions of one layer's parameters and one example.

Images are (height, width, channels). A layer's parameters are a dictionary: `w` and `b` of a product,
`scale` and `shift` of a normalisation. Nothing here looks at more than one example, so no layer moves
information between records: batch normalisation has no place in private training.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from reticent.core.errors import InvalidArgument
from reticent.models.initialisers import Start, he, ones, zeros

LayerParams = dict[str, jax.Array]
Starts = dict[str, Start]
WeightSpread = Callable[..., Start]  # `he` or `glorot`

_TINY = 1e-5  # added to variances, as published


# Inputs


def as_image(x: ArrayLike) -> Float[Array, "height width channels"]:
    """Bytes as numbers from 0 to 1, other numbers as they are; a missing channel axis is added.

    Example:
        >>> as_image(jnp.zeros((2, 2), jnp.uint8)).shape
        (2, 2, 1)
    """
    x = as_numbers(x)
    return x[..., None] if x.ndim == 2 else x


def as_numbers(x: ArrayLike) -> Float[Array, " ..."]:
    """Bytes as numbers from 0 to 1, other numbers as they are.

    The divisor is a public constant. A mean and a deviation of the training images would be two
    statistics of private data.

    Example:
        >>> as_numbers(jnp.array([0, 255], jnp.uint8)).tolist()
        [0.0, 1.0]
    """
    x = jnp.asarray(x)
    return x.astype(jnp.float32) / 255 if x.dtype == jnp.uint8 else x.astype(jnp.float32)


# Products


def dense_starts(inputs: int, outputs: int, start: WeightSpread = he) -> Starts:
    """Initial parameters of a dense layer.

    Example:
        >>> {name: start.shape for name, start in dense_starts(4, 3).items()}
        {'w': (4, 3), 'b': (3,)}
    """
    return {"w": start(inputs, outputs), "b": zeros(outputs)}


def dense(layer: LayerParams, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
    """A product with the weights, plus the bias.

    Example:
        >>> dense({"w": jnp.eye(2), "b": jnp.array([1.0, 0.0])}, jnp.array([3.0, 4.0])).tolist()
        [4.0, 4.0]
    """
    return x @ layer["w"] + layer["b"]  # (..., inputs) -> (..., outputs)


def conv_starts(
    side: int, inputs: int, outputs: int, start: WeightSpread = he, *, has_bias: bool = True
) -> Starts:
    """Initial parameters of a square convolution.

    Example:
        >>> {name: start.shape for name, start in conv_starts(3, 1, 8).items()}
        {'w': (3, 3, 1, 8), 'b': (8,)}
    """
    weights = {"w": start(side, side, inputs, outputs)}
    return {**weights, "b": zeros(outputs)} if has_bias else weights


def conv(
    layer: LayerParams, x: Float[Array, "height width inputs"], *, stride: int = 1, padding: int = 0
) -> Float[Array, "new_height new_width outputs"]:
    """A convolution with as much zero padding on all four sides.

    Example:
        >>> conv({"w": jnp.ones((2, 2, 1, 1))}, jnp.ones((3, 3, 1)))[..., 0].tolist()
        [[4.0, 4.0], [4.0, 4.0]]
    """
    out = jax.lax.conv_general_dilated(
        x[None],
        layer["w"],
        window_strides=(stride, stride),
        padding=[(padding, padding)] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0]  # (height, width, outputs)
    return out + layer["b"] if "b" in layer else out


def standardised_conv(
    layer: LayerParams, x: Float[Array, "height width inputs"], *, stride: int = 1, padding: int = 0
) -> Float[Array, "new_height new_width outputs"]:
    """A convolution whose filters have mean zero and one size, whatever the optimizer did to them.

    Example:
        >>> standardised_conv({"w": jnp.ones((2, 2, 1, 1))}, jnp.ones((3, 3, 1)))[0, 0].tolist()
        [0.0]

    Reference:
        Qiao, Wang, Liu, Shen and Yuille (2019), arXiv:1903.10520v2.
    """
    weights = layer["w"]
    fan_in = weights[..., 0].size
    return conv({**layer, "w": standardise(weights) / fan_in**0.5}, x, stride=stride, padding=padding)


def standardise(weights: Float[Array, "*window filters"]) -> Float[Array, "*window filters"]:
    """Each filter (the last axis counts them) with mean 0 and variance 1 over its weights.

    Example:
        >>> filters = standardise(jnp.arange(8.0).reshape(2, 2, 1, 2))
        >>> jnp.abs(filters.mean(axis=(0, 1, 2))).round(5).tolist()
        [0.0, 0.0]
    """
    axes = tuple(range(weights.ndim - 1))
    centred = weights - jnp.mean(weights, axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + _TINY**2)


# Normalisation within one example


def norm_starts(channels: int) -> Starts:
    """Initial scale and shift of a normalisation.

    Example:
        >>> {name: (start.shape, start.mean) for name, start in norm_starts(4).items()}
        {'scale': ((4,), 1.0), 'shift': ((4,), 0.0)}
    """
    return {"scale": ones(channels), "shift": zeros(channels)}


def group_norm(
    layer: LayerParams, x: Float[Array, "height width channels"], groups: int
) -> Float[Array, "height width channels"]:
    """`normalise_groups`, then a learned scale and shift for each channel.

    Example:
        >>> layer = {"scale": jnp.ones(2), "shift": jnp.full(2, 5.0)}
        >>> round(group_norm(layer, jnp.arange(8.0).reshape(2, 2, 2), 1).mean().item(), 3)
        5.0

    Reference:
        Wu and He (2018), Section 3, arXiv:1803.08494v3.
    """
    return normalise_groups(x, groups) * layer["scale"] + layer["shift"]


def normalise_groups(
    x: Float[Array, "height width channels"], groups: int
) -> Float[Array, "height width channels"]:
    """Mean 0 and variance 1 over every group of neighbouring channels, at all places of one image.

    Example:
        >>> abs(normalise_groups(jnp.arange(8.0).reshape(2, 2, 2), 1).mean().item()) < 1e-6
        True
    """
    *places, channels = x.shape
    if channels % groups:
        raise InvalidArgument(
            f"{channels} channels cannot be cut into {groups} equal groups.",
            remedy=f"Choose groups among the divisors of {channels}.",
        )
    grouped = x.reshape(*places, groups, channels // groups)
    axes = (*range(len(places)), len(places) + 1)
    return _normalise(grouped, axes).reshape(x.shape)


def layer_norm(layer: LayerParams, x: Float[Array, "*rows features"]) -> Float[Array, "*rows features"]:
    """Mean 0 and variance 1 over the last axis, then a learned scale and shift.

    Example:
        >>> layer = {"scale": jnp.ones(2), "shift": jnp.zeros(2)}
        >>> layer_norm(layer, jnp.array([1.0, 3.0])).round(2).tolist()
        [-1.0, 1.0]

    Reference:
        Ba, Kiros and Hinton (2016), Section 3, arXiv:1607.06450v1.
    """
    return _normalise(x, (-1,)) * layer["scale"] + layer["shift"]


def _normalise(x: jax.Array, axes: tuple[int, ...]) -> jax.Array:
    centred = x - jnp.mean(x, axes, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + _TINY)


# Pooling, by slices: XLA's own window reductions are slow on CPU, and their gradients slower


def max_pool(
    x: Float[Array, "height width channels"], size: int, stride: int
) -> Float[Array, "new_height new_width channels"]:
    """The largest value of each window. Windows that would leave the image are left out.

    Where values tie, their gradient is shared; it has the same length or a shorter one.

    Example:
        >>> max_pool(jnp.arange(16.0).reshape(4, 4, 1), 2, 2)[..., 0].tolist()
        [[5.0, 7.0], [13.0, 15.0]]
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


def quarters(x: Float[Array, "height width channels"]) -> Float[Array, "2 2 channels"]:
    """The mean of each quarter of an image; of an odd number of places, the upper left ones have one more.

    Example:
        >>> quarters(jnp.arange(16.0).reshape(4, 4, 1))[..., 0].tolist()
        [[2.5, 4.5], [10.5, 12.5]]
    """
    row, column = (-(-size // 2) for size in x.shape[:2])
    return jnp.stack(
        [
            jnp.stack([jnp.mean(part, axis=(0, 1)) for part in (half[:, :column], half[:, column:])])
            for half in (x[:row], x[row:])
        ]
    )
