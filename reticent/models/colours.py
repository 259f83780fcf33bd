"""Colours on a public scale: mean and deviation of photographs in general, not of anybody's records."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from reticent.models.layers import as_image
from reticent.models.model import Model

# Of red, green and blue from 0 to 1, over the photographs of ImageNet: published constants.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def on_public_scale(x: ArrayLike) -> Float[Array, "height width channels"]:
    """One image with mean about 0 and deviation about 1: a public change of scale, at no cost.

    Images that do not have three channels are scaled by the means of the three constants.

    Example:
        >>> on_public_scale(jnp.full((1, 1, 3), 128, jnp.uint8)).round(2).tolist()
        [[[0.07..., 0.20..., 0.42...]]]
    """
    image = as_image(x)
    mean, deviation = jnp.array(MEAN), jnp.array(DEVIATION)
    if image.shape[-1] != len(MEAN):
        mean, deviation = jnp.mean(mean), jnp.mean(deviation)
    return (image - mean) / deviation


def with_public_scale(model: Model) -> Model:
    """The same model, which puts the colours of an image on the public scale first.

    Example:
        >>> from reticent.models.wide_resnet import wide_resnet
        >>> with_public_scale(wide_resnet(10, 1)).name
        'wide_resnet'
    """
    return replace(model, apply=lambda params, x: model.apply(params, on_public_scale(x)))
