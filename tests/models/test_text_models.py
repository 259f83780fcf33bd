"""What a model of text may see, and what it must not."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.errors import InvalidArgument
from reticent.models import classification_loss, language_model, text_bag, transformer

TOKENS = np.array([5, 3, 9, 3, 7, 1])
SYMBOLS = 12

BAG = text_bag(SYMBOLS, 3, width=4)
BAG_PARAMS = BAG.init(jax.random.key(0))
READER = transformer(SYMBOLS, 3, length=10, width=8, layers=1, heads=2)
READER_PARAMS = READER.init(jax.random.key(0))
WRITER = language_model(SYMBOLS, length=10, width=8, layers=2, heads=2)
WRITER_PARAMS = WRITER.init(jax.random.key(0))

quick = partial(jax.jit, compiler_options={"xla_cpu_use_fusion_emitters": False})  # to compile
bag, reader, writer = (quick(model.apply) for model in (BAG, READER, WRITER))


def padded(tokens: np.ndarray, length: int) -> np.ndarray:
    return np.pad(tokens, (0, length - len(tokens)))


@given(st.permutations(range(6)))
@settings(max_examples=20)
def test_a_bag_knows_no_order(order: list[int]):
    np.testing.assert_allclose(bag(BAG_PARAMS, TOKENS[np.array(order)]), bag(BAG_PARAMS, TOKENS), atol=1e-6)


@pytest.mark.parametrize(("apply", "params"), [(bag, BAG_PARAMS), (reader, READER_PARAMS)])
def test_padding_is_not_seen(apply, params):
    np.testing.assert_allclose(apply(params, padded(TOKENS, 10)), apply(params, TOKENS), atol=1e-5)


@pytest.mark.parametrize(("model", "params"), [(BAG, BAG_PARAMS), (READER, READER_PARAMS)])
def test_an_empty_text_has_a_finite_gradient(model, params):
    example = {"x": np.zeros(10, np.int32), "y": 1}
    gradient = quick(jax.grad(classification_loss(model)))(params, example)
    assert all(np.isfinite(np.asarray(leaf)).all() for leaf in jax.tree.leaves(gradient))


def test_the_vector_of_padding_is_never_trained():
    example = {"x": padded(TOKENS, 10), "y": 1}
    gradient = quick(jax.grad(classification_loss(BAG)))(BAG_PARAMS, example)["embedding"]
    is_used = np.any(np.asarray(gradient) != 0, axis=1)
    assert set(np.flatnonzero(is_used)) == {1, 3, 5, 7, 9}


def test_a_reader_knows_order_and_sees_the_end_from_the_start():
    forwards, backwards = (np.asarray(reader(READER_PARAMS, tokens)) for tokens in (TOKENS, TOKENS[::-1]))
    assert np.max(np.abs(backwards - forwards)) > 1e-4


@pytest.mark.parametrize("place", range(6))
def test_a_writer_sees_no_later_token(place: int):
    changed = np.where(np.arange(6) == place, 11, TOKENS)
    before, after = (np.asarray(writer(WRITER_PARAMS, tokens)) for tokens in (TOKENS, changed))
    np.testing.assert_array_equal(after[:place], before[:place])
    assert np.all(np.max(np.abs(after[place:] - before[place:]), axis=1) > 1e-6), "and sees the earlier ones"


def test_a_text_that_is_too_long_is_an_error():
    with pytest.raises(InvalidArgument, match="11 tokens does not fit a model of length 10"):
        READER.apply(READER_PARAMS, np.ones(11, np.int32))


def test_a_width_that_heads_cannot_share_is_an_error():
    with pytest.raises(InvalidArgument, match="cannot be shared by 3 heads"):
        transformer(SYMBOLS, width=8, heads=3)
