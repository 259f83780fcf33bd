"""A bag of words: the mean of word vectors, then one dense layer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.models.initialisers import Start, glorot
from reticent.models.layers import dense, dense_starts
from reticent.models.model import Model, Params


def text_bag(symbols: int, classes: int = 2, width: int = 16) -> Model:
    """Classifies a text by the mean vector of its tokens; the order of tokens does not matter.

    Args:
        symbols: how many token ids there are, counting 0, which is padding and is not seen at all. The
            vocabulary must be public: one made from private texts tells which words are in them.

    Example:
        >>> text_bag(1000, 2, 16)
        Model('text_bag', 16034 parameters: mean of 1000 token vectors of width 16, one dense layer)
    """
    checks.count(classes=classes, width=width)
    checks.count(minimum=2, symbols=symbols)

    starts = {
        "embedding": Start((symbols, width), deviation=1.0),
        "dense": dense_starts(width, classes, glorot),
    }

    def apply(params: Params, tokens: jax.Array) -> jax.Array:
        is_word = tokens != 0  # (length,)
        share = is_word / jnp.maximum(jnp.sum(is_word), 1)
        bag = share @ params["embedding"][tokens]  # (length,) @ (length, width) -> (width,)
        return dense(params["dense"], bag)  # (classes,)

    description = f"mean of {symbols} token vectors of width {width}, one dense layer"
    return Model(name="text_bag", description=description, starts=starts, apply=apply)
