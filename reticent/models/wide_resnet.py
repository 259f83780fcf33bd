"""Wide residual networks without batch normalisation: the architecture that trains best under privacy.

Group normalisation looks at one example only, and weight standardisation at none, so neither touches the
bound on one record's gradient.

Reference:
    Zagoruyko and Komodakis (2016), Table 1, arXiv:1605.07146v4; De, Berrada, Hayes, Smith and Balle (2022),
    arXiv:2204.13650v2, for the two changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.models.initialisers import glorot
from reticent.models.layers import (
    Starts,
    as_image,
    conv,
    conv_starts,
    dense,
    dense_starts,
    group_norm,
    norm_starts,
    quarters,
    standardise,
    standardised_conv,
)
from reticent.models.model import Model, Params

_STEM = 16  # channels of the first convolution, before widening


class _Block(NamedTuple):
    """Where a residual block stands in the network."""

    name: str
    inputs: int
    outputs: int
    stride: int

    @property
    def changes_shape(self) -> bool:
        return self.inputs != self.outputs or self.stride != 1


def wide_resnet(
    depth: int = 16,
    width: int = 1,
    classes: int = 10,
    channels: int = 3,
    groups: int = 16,
    *,
    stem_stride: int = 1,
    is_folded: bool = False,
) -> Model:
    """WRN-depth-width for small images, such as 32 x 32 x 3.

    Args:
        depth: 6 n + 4, for n blocks in each of the three stages: 10, 16, 22, 28, 40.
        width: how many times wider than the thin network: 1 to 4 are for patient CPUs.
        groups: of channels that are normalised together.
        stem_stride: of the first convolution; 2 makes all that follows half as high and wide.
        is_folded: filters are taken as they are; for those that `fold` has standardised for good, so that
            low-rank factors can stand beside them.

    Example:
        >>> wide_resnet(10, 1, classes=10).size
        77850
    """
    checks.count(width=width, classes=classes, channels=channels, groups=groups, stem_stride=stem_stride)
    blocks = _blocks(depth, width)
    last = blocks[-1].outputs

    starts = {
        "stem": conv_starts(3, channels, _STEM, has_bias=False),
        **{block.name: _block_starts(block) for block in blocks},
        "norm": norm_starts(last),
        "dense": dense_starts(last, classes, glorot),
    }

    def apply(params: Params, x: jax.Array) -> jax.Array:
        convolve = conv if is_folded else standardised_conv
        x = _stages(params, x, blocks, groups, stem_stride, convolve)[-1]
        return dense(params["dense"], jnp.mean(x, axis=(0, 1)))  # (classes,)

    description = f"WRN-{depth}-{width} with group normalisation and weight standardisation"
    return Model(name="wide_resnet", description=description, starts=starts, apply=apply)


def wide_resnet_features(
    params: Params, x: jax.Array, *, depth: int = 16, width: int = 1, groups: int = 16, stem_stride: int = 1
) -> jax.Array:
    """What the last two stages of a trained network say about one image: their mean over each quarter of it.

    Example:
        >>> model = wide_resnet(10, 1)
        >>> wide_resnet_features(model.init(jax.random.key(0)), jnp.zeros((32, 32, 3)), depth=10).shape
        (384,)
    """
    _, *last = _stages(params, x, _blocks(depth, width), groups, stem_stride)
    return jnp.concatenate([quarters(stage).ravel() for stage in last])


def fold(params: Params) -> Params:
    """The parameters of the same network with filters that are standardised already.

    Example:
        >>> model = wide_resnet(10, 1)
        >>> params = model.init(jax.random.key(0))
        >>> image = jax.random.normal(jax.random.key(1), (8, 8, 3))
        >>> same = wide_resnet(10, 1, is_folded=True).apply(fold(params), image)
        >>> bool(jnp.allclose(same, model.apply(params, image), atol=1e-5))
        True
    """
    return jax.tree.map(
        lambda leaf: standardise(leaf) / leaf[..., 0].size ** 0.5 if leaf.ndim == 4 else leaf, params
    )


def _stages(
    params: Params,
    x: jax.Array,
    blocks: list[_Block],
    groups: int,
    stem_stride: int,
    convolve: Callable[..., jax.Array] = standardised_conv,
) -> list[jax.Array]:
    """What each of the three stages says: (height, width, 16 * width), then half as high and wide."""
    x = convolve(params["stem"], as_image(x), stride=stem_stride, padding=1)  # (height, width, 16)
    found = []
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        x = _residual(params[block.name], x, block, groups, convolve)
        if after is None or after.outputs != block.outputs:
            found.append(x)
    found[-1] = jax.nn.relu(group_norm(params["norm"], x, groups))  # (height / 4, width / 4, 64 * width)
    return found


def _blocks(depth: int, width: int) -> list[_Block]:
    a_stage = (depth - 4) // 6
    if a_stage < 1 or depth != 6 * a_stage + 4:
        raise InvalidArgument(
            f"A wide ResNet has 6 n + 4 layers, got depth {depth}.", remedy="Pass 10, 16, 22 or 28."
        )
    found: list[_Block] = []
    inputs = _STEM
    for stage in (1, 2, 3):
        outputs = _STEM * width * 2 ** (stage - 1)
        for place in range(1, a_stage + 1):
            stride = 2 if stage > 1 and place == 1 else 1
            found.append(_Block(f"stage{stage}_block{place}", inputs, outputs, stride))
            inputs = outputs
    return found


def _block_starts(block: _Block) -> dict[str, Starts]:
    starts = {
        "norm1": norm_starts(block.inputs),
        "conv1": conv_starts(3, block.inputs, block.outputs, has_bias=False),
        "norm2": norm_starts(block.outputs),
        "conv2": conv_starts(3, block.outputs, block.outputs, has_bias=False),
    }
    if block.changes_shape:
        starts["shortcut"] = conv_starts(1, block.inputs, block.outputs, has_bias=False)
    return starts


def _residual(
    params: Params, x: jax.Array, block: _Block, groups: int, convolve: Callable[..., jax.Array]
) -> jax.Array:
    """Normalise, activate and convolve, twice; the input is added to the output."""
    y = jax.nn.relu(group_norm(params["norm1"], x, groups))
    shortcut = convolve(params["shortcut"], y, stride=block.stride) if block.changes_shape else x
    y = convolve(params["conv1"], y, stride=block.stride, padding=1)
    y = jax.nn.relu(group_norm(params["norm2"], y, groups))
    return shortcut + convolve(params["conv2"], y, padding=1)
