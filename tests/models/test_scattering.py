"""Scattering features: the known numbers, the known laws, and nothing shared between images."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.models import normalise_features, scattering_features
from reticent.models.scattering import scatter_image
from reticent.models.wavelets import ANGLES, blur_matrix, morlet_filters


def pattern(side: int) -> np.ndarray:
    """An image with all frequencies in it, that anyone can make again."""
    rows, columns = np.mgrid[0:side, 0:side]
    return ((37 * rows + 101 * columns + 17 * rows * columns) % 97 / 97).astype(np.float32)


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, dtype=np.float32)


# Scattering2D(J=2, shape=(side, side), L=8) of Kymatio 0.3.0 on `pattern(side)`, by row, column, channel
KYMATIO = {
    28: {
        (0, 0, 0): 0.3914212,
        (3, 3, 1): 0.0478572,
        (2, 5, 6): 0.0917158,
        (6, 0, 8): 0.0510210,
        (3, 3, 9): 0.0258779,
        (6, 6, 16): 0.0183032,
        (3, 3, 17): 0.0085454,
        (2, 2, 30): 0.0024053,
        (3, 6, 80): 0.0140289,
    },
    32: {
        (0, 0, 0): 0.3898682,
        (3, 3, 1): 0.0478572,
        (2, 5, 6): 0.0917252,
        (7, 0, 8): 0.0251268,
        (3, 3, 9): 0.0258686,
        (7, 7, 16): 0.0150880,
        (3, 3, 17): 0.0085447,
        (2, 2, 30): 0.0024034,
        (3, 7, 80): 0.0094056,
    },
}
# the means over the channels of order 0, 1 (fine), 1 (coarse) and 2
KYMATIO_MEANS = {
    28: (0.4993305, 0.0590866, 0.0280993, 0.0058024),
    32: (0.4951885, 0.0587987, 0.0278417, 0.0057343),
}


@pytest.mark.parametrize("side", [28, 32])
def test_features_are_those_of_kymatio(side: int):
    features = scattering_features(pattern(side)[None])[0]
    for place, value in KYMATIO[side].items():
        assert float(features[place]) == pytest.approx(value, rel=2e-4)
    parts = (features[..., :1], features[..., 1:9], features[..., 9:17], features[..., 17:])
    assert [float(part.mean()) for part in parts] == pytest.approx(KYMATIO_MEANS[side], rel=1e-4)


@pytest.mark.parametrize(
    ("images", "features"),
    [((3, 28, 28), (3, 7, 7, 81)), ((2, 32, 32, 3), (2, 8, 8, 243)), ((2, 12, 20), (2, 3, 5, 81))],
)
def test_the_shape_of_features(images: tuple[int, ...], features: tuple[int, ...]):
    found = scattering_features(noise(*images))
    assert found.shape == features
    assert found.dtype == np.float32
    assert np.isfinite(found).all()


def test_no_images_have_no_features():
    assert scattering_features(np.zeros((0, 28, 28), np.uint8)).shape == (0, 7, 7, 81)


def test_bytes_are_numbers_from_0_to_1():
    images = np.random.default_rng(0).integers(0, 256, (2, 28, 28), dtype=np.uint8)
    as_floats = scattering_features(images.astype(np.float32) / 255)
    np.testing.assert_allclose(scattering_features(images), as_floats, atol=1e-6)


def test_each_colour_has_its_own_channels():
    images = noise(2, 32, 32, 3)
    together = scattering_features(images)
    for colour in range(3):
        alone = scattering_features(images[..., colour])
        np.testing.assert_allclose(together[..., 81 * colour : 81 * (colour + 1)], alone, atol=1e-6)


def test_an_image_changes_nobody_else_s_features():
    """The replay that makes features free of charge: 150 images are three chunks, the last one filled up."""
    images = noise(150, 12, 12)
    neighbour = images.copy()
    neighbour[70] = 1e3
    before, after = scattering_features(images, groups=27), scattering_features(neighbour, groups=27)
    others = np.arange(150) != 70
    np.testing.assert_array_equal(before[others], after[others])
    alone = jax.jit(lambda image: normalise_features(scatter_image(image)))(images[149])
    np.testing.assert_allclose(before[149], alone, atol=1e-4)


@pytest.mark.parametrize("side", [36, 40])
def test_no_frequency_is_made_stronger(side: int):
    """The Littlewood-Paley sum of blur and wavelets is at most 1, so the transform expands nothing."""
    wavelets = np.concatenate([morlet_filters(side, side, 0), morlet_filters(side, side, 1)])
    power = np.sum(wavelets**2, axis=0)
    opposite = np.roll(power[::-1, ::-1], (1, 1), axis=(0, 1))
    gaussian = np.exp(-((1.6 * 2 * np.pi * np.fft.fftfreq(side)) ** 2) / 2)
    blur = np.outer(gaussian, gaussian) ** 2
    assert np.max(blur + (power + opposite) / 2) <= 1 + 1e-9
    assert np.abs(wavelets[:, 0, 0]).max() < 1e-12, "a wavelet does not see a constant"
    assert len(wavelets) == 2 * ANGLES


@pytest.mark.parametrize("images", [noise(4, 28, 28), noise(4, 28, 28) - 0.5, np.ones((1, 28, 28))])
def test_features_hold_no_more_energy_than_the_image(images: np.ndarray):
    energy = 16 * np.sum(scattering_features(images) ** 2, axis=(1, 2, 3))  # each place stands for 4 x 4
    assert np.all(
        energy <= 1.0001 * np.sum(np.pad(images, ((0, 0), (4, 4), (4, 4)), mode="reflect") ** 2, axis=(1, 2))
    )


def test_a_blur_keeps_the_mean():
    np.testing.assert_allclose(blur_matrix(36, 0).sum(axis=1), 1, atol=1e-4)
    np.testing.assert_allclose(blur_matrix(36, 1).sum(axis=1), 1, atol=1e-4)


def test_a_constant_image_has_nothing_but_its_mean():
    features = scattering_features(np.full((1, 28, 28), 0.3, np.float32))
    np.testing.assert_allclose(features[..., 0], 0.3, atol=1e-4)
    np.testing.assert_allclose(features[..., 1:], 0, atol=1e-6)


def test_features_hardly_notice_a_small_shift_and_follow_a_large_one():
    image = np.zeros((1, 28, 28), np.float32)
    image[:, 8:20, 10:18] = noise(1, 12, 8)
    still, one, four = (scattering_features(np.roll(image, shift, axis=2)) for shift in (0, 1, 4))
    pixels = np.linalg.norm(np.roll(image, 1, axis=2) - image) / np.linalg.norm(image)
    assert np.linalg.norm(one - still) / np.linalg.norm(still) < pixels / 3
    np.testing.assert_allclose(four[:, :, 2:-1], still[:, :, 1:-2], atol=1e-3)  # one place of features


def test_the_modulus_removes_the_sign():
    image = noise(1, 28, 28)
    plus, minus = scattering_features(image), scattering_features(-image)
    np.testing.assert_allclose(plus[..., 0], -minus[..., 0], atol=1e-6)
    np.testing.assert_allclose(plus[..., 1:], minus[..., 1:], atol=1e-6)


@pytest.mark.parametrize("groups", [9, 27, 81])
def test_normalised_features_have_mean_zero_and_variance_one_in_every_group(groups: int):
    normal = np.asarray(
        jax.jit(jax.vmap(lambda image: normalise_features(image, groups)))(100 * noise(2, 7, 7, 81))
    )
    grouped = normal.reshape(2, 49, groups, -1)
    np.testing.assert_allclose(grouped.mean(axis=(1, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(grouped.var(axis=(1, 3)), 1, atol=1e-3)


def test_normalising_on_the_way_is_normalising_afterwards():
    images = noise(3, 28, 28)
    afterwards = jax.jit(jax.vmap(normalise_features))(scattering_features(images))
    np.testing.assert_allclose(scattering_features(images, groups=27), afterwards, atol=1e-4)


@pytest.mark.parametrize("shape", [(28, 28), (1, 2, 3, 4, 5)])
def test_arrays_that_are_no_images_are_errors(shape: tuple[int, ...]):
    with pytest.raises(DataError, match="one row per image"):
        scattering_features(np.zeros(shape))


@pytest.mark.parametrize("shape", [(1, 30, 28), (1, 28, 29), (1, 4, 8)])
def test_sides_that_cannot_be_thinned_out_are_errors(shape: tuple[int, ...]):
    with pytest.raises(DataError, match="cannot be subsampled by 4"):
        scattering_features(np.zeros(shape))


def test_groups_that_do_not_fit_are_errors():
    with pytest.raises(InvalidArgument, match="cannot be cut into 16"):
        scattering_features(noise(1, 28, 28), groups=16)
