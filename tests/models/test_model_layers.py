"""Pooling, normalisation, standardised weights and inputs, each against a direct formula."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from reticent.core.errors import InvalidArgument
from reticent.models import layers, mlp, wide_resnet
from reticent.models.initialisers import Start, draw, glorot, he, ones

WINDOWS = pytest.mark.parametrize(
    ("size", "stride", "height", "width"),
    [(1, 1, 3, 4), (2, 1, 5, 7), (2, 2, 6, 7), (3, 2, 8, 7), (2, 3, 8, 5), (4, 4, 4, 4)],
)


def numbers(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def window_reduction(x: jax.Array, start: float, combine, size: int, stride: int) -> jax.Array:
    return jax.lax.reduce_window(x, start, combine, (size, size, 1), (stride, stride, 1), "VALID")


@WINDOWS
def test_max_pool_is_the_window_reduction(size: int, stride: int, height: int, width: int):
    x = numbers(height, width, 2)
    expected = window_reduction(x, -jnp.inf, jax.lax.max, size, stride)
    np.testing.assert_array_equal(layers.max_pool(x, size, stride), expected)


def test_the_gradient_of_max_pool_is_that_of_the_window_reduction():
    x, weights = numbers(7, 6, 3), numbers(6, 5, 3, seed=1)
    ours = jax.grad(lambda x: jnp.sum(weights * layers.max_pool(x, 2, 1)))(x)
    theirs = jax.grad(lambda x: jnp.sum(weights * window_reduction(x, -jnp.inf, jax.lax.max, 2, 1)))(x)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_window_larger_than_the_image_is_an_error():
    with pytest.raises(InvalidArgument, match="does not fit into an image of 2 x 5"):
        layers.max_pool(jnp.zeros((2, 5, 1)), 3, 1)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm_is_its_formula(groups: int):
    x = 5 + 3 * numbers(4, 5, 6)
    layer = {"scale": jnp.arange(1.0, 7.0), "shift": jnp.arange(6.0)}
    expected = np.empty(x.shape)
    each = 6 // groups
    for group in range(groups):
        part = np.asarray(x, np.float64)[..., group * each : (group + 1) * each]
        expected[..., group * each : (group + 1) * each] = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
    expected = expected * np.arange(1, 7) + np.arange(6)
    np.testing.assert_allclose(layers.group_norm(layer, x, groups), expected, atol=1e-4)


def test_layer_norm_is_its_formula():
    x = np.asarray(2 + numbers(3, 4, 8), np.float64)
    layer = {"scale": jnp.full(8, 2.0), "shift": jnp.full(8, -1.0)}
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    expected = 2 * (x - mean) / np.sqrt(variance + 1e-5) - 1
    np.testing.assert_allclose(layers.layer_norm(layer, jnp.asarray(x, jnp.float32)), expected, atol=1e-4)


def test_groups_that_do_not_divide_the_channels_are_an_error():
    with pytest.raises(InvalidArgument, match="81 channels cannot be cut into 16"):
        layers.normalise_groups(jnp.zeros((7, 7, 81)), 16)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_standardised_filters_have_mean_zero_and_variance_one(size: float):
    weights = size * (0.5 + numbers(3, 3, 4, 5))
    filters = np.asarray(layers.standardise(weights)).reshape(-1, 5)
    np.testing.assert_allclose(filters.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(filters.var(axis=0), 1, atol=1e-3)


def test_a_standardised_convolution_keeps_the_scale_of_its_input():
    x = numbers(32, 32, 16)
    layer = draw(jax.random.key(0), layers.conv_starts(3, 16, 64, has_bias=False))
    assert 0.9 < float(jnp.std(layers.standardised_conv(layer, x))) < 1.1


def test_a_convolution_is_its_formula():
    x = numbers(6, 7, 2)
    layer = {"w": numbers(3, 3, 2, 4), "b": jnp.arange(4.0)}
    found = layers.conv(layer, x, stride=2, padding=1)
    padded = np.pad(np.asarray(x), ((1, 1), (1, 1), (0, 0)))
    assert found.shape == (3, 4, 4)
    for row in range(3):
        for column in range(4):
            window = padded[2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            expected = np.tensordot(window, layer["w"], axes=3) + layer["b"]
            np.testing.assert_allclose(found[row, column], expected, atol=1e-5)


def test_bytes_are_scaled_by_a_public_constant_and_floats_are_left_alone():
    np.testing.assert_allclose(
        layers.as_image(np.array([[0, 51], [102, 255]], np.uint8)).ravel(), [0, 0.2, 0.4, 1]
    )
    np.testing.assert_array_equal(layers.as_image(np.full((2, 2, 3), 7.0)), np.full((2, 2, 3), 7.0))


def test_sizes_that_mean_nothing_are_errors():
    with pytest.raises(InvalidArgument, match="at least two sizes"):
        mlp((784,))
    with pytest.raises(InvalidArgument, match="size must be a whole number"):
        mlp((784, 0, 10))
    with pytest.raises(InvalidArgument, match=r"6 n \+ 4 layers, got depth 15"):
        wide_resnet(depth=15)


def test_each_array_starts_with_its_own_spread():
    starts = {
        "conv": he(5, 5, 8, 100),
        "dense": glorot(300, 100),
        "table": Start((50, 60), 0.02),
        "scale": ones(7),
    }
    arrays = draw(jax.random.key(0), starts)
    expected = {"conv": (2 / 200) ** 0.5, "dense": (2 / 400) ** 0.5, "table": 0.02, "scale": 0.0}
    for name, deviation in expected.items():
        assert arrays[name].shape == starts[name].shape
        assert float(jnp.std(arrays[name])) == pytest.approx(deviation, rel=0.05)
    np.testing.assert_array_equal(arrays["scale"], 1)


def test_no_two_numbers_of_a_fresh_network_are_the_same_draw():
    arrays = draw(jax.random.key(0), {"one": Start((40, 10), 1.0), "two": Start((400,), 1.0)})
    drawn = np.concatenate([np.asarray(array).ravel() for array in arrays.values()])
    assert len(np.unique(drawn)) == 800
    assert abs(np.corrcoef(drawn[:400], drawn[400:])[0, 1]) < 0.2


def test_many_networks_can_be_made_at_once():
    model, keys = mlp((4, 3, 2)), jax.random.split(jax.random.key(0), 3)
    together = jax.vmap(model.init)(keys)
    alone = model.init(keys[1])
    for many, one in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(many[1], one, atol=1e-7)
