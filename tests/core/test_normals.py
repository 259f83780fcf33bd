"""Normal numbers: the words are the published ones, the numbers normal out to the last word."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import chdtrc, ndtr, ndtri

from reticent.core.keys import Keys, Stream, step_key
from reticent.core.normals import normal_of_word, random_words, standard_normals, threefry

pytestmark = pytest.mark.usefixtures("compiled_as_shipped")

COUNT = 1 << 20


@pytest.mark.parametrize(
    ("key", "counter", "wanted"),
    [
        (4 * [0], 4 * [0], "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
        (4 * [0xFFFFFFFF], 4 * [0xFFFFFFFF], "2a881696 57012287 f6c7446e a16a6732"),
        (
            [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89],
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            "59cd1dbb b8879579 86b5d00c ac8b6d84",
        ),
    ],
)
def test_words_are_those_of_the_published_known_answers(key, counter, wanted: str) -> None:
    """The three vectors for 20 rounds of Threefry-4x32 that come with Random123."""
    found = threefry(jnp.array(key, jnp.uint32), jnp.array(counter, jnp.uint32)[:, None])
    assert " ".join(f"{word:08x}" for word in found[:, 0].tolist()) == wanted


def key_of(seed: int, step: int = 0) -> jax.Array:
    return step_key(Keys.seeded(seed).take(Stream.NOISE, steps=range(step + 1)), step)


def test_a_number_is_the_quantile_of_its_word() -> None:
    """Against SciPy in double precision, on the rarest words, the commonest and many others."""
    middle = np.random.default_rng(0).integers(0, 2**32, 250_000)
    words = np.concatenate([np.arange(4096), middle, 2**32 - 1 - np.arange(4096)]).astype(np.uint32)
    rarity = ((words >> 1) + 0.5) * 2.0**-31
    wanted = np.where(words & 1, 1, -1) * ndtri(rarity / 2)
    assert np.abs(np.asarray(normal_of_word(jnp.asarray(words))) - wanted).max() < 4e-6
    assert normal_of_word(jnp.array([0, 1], jnp.uint32)).tolist() == pytest.approx([6.338, -6.338], abs=1e-3)


def test_numbers_are_normal() -> None:
    """A chi-squared test over 1,000 equally likely cells, and one of the variance: false alarms 1e-6 each."""
    found = np.asarray(standard_normals(key_of(1), COUNT), np.float64)
    counts = np.bincount((ndtr(found) * 1000).astype(int), minlength=1000)
    assert chdtrc(999, float(np.square(counts - COUNT / 1000).sum() / (COUNT / 1000))) > 1e-6
    assert 5e-7 < chdtrc(COUNT, float(np.square(found).sum())) < 1 - 5e-7


def test_numbers_of_a_draw_and_of_other_keys_have_nothing_in_common() -> None:
    draws = np.stack([standard_normals(key_of(2, step), COUNT // 4) for step in range(3)]).astype(np.float64)
    bound = 5 / np.sqrt(COUNT // 4)  # five deviations of a correlation of nothing
    assert np.abs(np.corrcoef(draws) - np.eye(3)).max() < bound
    for lag in (1, 2, 3, 4, 1024, COUNT // 16):  # words of a block, and blocks, lie side by side
        assert abs(np.corrcoef(draws[0][lag:], draws[0][:-lag])[0, 1]) < 1.2 * bound
    assert len(np.unique(random_words(jax.random.key_data(key_of(3)), 40_000)[:160_000])) > 159_980


def test_a_draw_of_any_length_is_the_beginning_of_a_longer_one_of_its_size() -> None:
    assert standard_normals(key_of(4), 0).shape == (0,)
    assert standard_normals(key_of(4), 5).shape == (5,)
    assert np.isfinite(standard_normals(jax.random.key(0), 101)).all()


def test_keys_may_be_vectorised_over() -> None:
    """Unlike JAX's own generator for such keys, which then draws all numbers from the first one."""
    keys = jnp.stack([jax.random.key_data(key_of(5, step)) for step in range(3)])
    found = jax.vmap(lambda words: random_words(words, 4))(keys)
    alone = np.stack([random_words(words, 4) for words in keys])
    assert np.array_equal(found, alone)
