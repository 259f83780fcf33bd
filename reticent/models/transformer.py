"""Tiny transformers, of the kind that normalises first: one classifies a text, one continues it.

Reference:
    Vaswani et al. (2017), Section 3, arXiv:1706.03762v7; normalisation before each part as in Radford et
    al. (2019), Section 2.3.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.models.initialisers import Start, glorot
from reticent.models.layers import Starts, dense, dense_starts, layer_norm, norm_starts
from reticent.models.model import Model, Params

_NARROW = 0.02  # deviation of embeddings, as in GPT-2
_FAR = -1e9  # what a place that must not be seen scores


def transformer(
    symbols: int, classes: int = 2, *, length: int = 128, width: int = 128, layers: int = 2, heads: int = 4
) -> Model:
    """Classifies a text: every token sees every other, and their mean is classified.

    Args:
        symbols: how many token ids there are, counting 0, which is padding and is not seen at all.
        length: the longest text.

    Example:
        >>> transformer(256, 2, length=32, width=16, layers=1, heads=2)
        Model('transformer', 7954 parameters: 1 layers of width 16 over up to 32 tokens, to classify a text)
    """
    _check(symbols, length, width, layers, heads)
    checks.count(classes=classes)

    def apply(params: Params, tokens: jax.Array) -> jax.Array:
        is_word = tokens != 0  # (length,)
        x = _encode(params, tokens, is_word[None, :], layers, heads)  # (length, width)
        share = is_word / jnp.maximum(jnp.sum(is_word), 1)
        return dense(params["dense"], share @ x)  # (classes,)

    description = f"{layers} layers of width {width} over up to {length} tokens, to classify a text"
    starts = _starts(symbols, classes, length, width, layers)
    return Model(name="transformer", description=description, starts=starts, apply=apply)


def language_model(
    symbols: int, *, length: int = 128, width: int = 128, layers: int = 2, heads: int = 4
) -> Model:
    """Continues a text: at every place, logits for the next token, from this one and those before it.

    Labels are the tokens moved by one place, -1 where there is none; see `classification_loss`.

    Example:
        >>> language_model(256, length=32, width=16, layers=1, heads=2).size
        12272
    """
    _check(symbols, length, width, layers, heads)

    def apply(params: Params, tokens: jax.Array) -> jax.Array:
        is_past = jnp.tri(tokens.shape[0], dtype=bool)  # (length, length)
        return dense(params["dense"], _encode(params, tokens, is_past, layers, heads))  # (length, symbols)

    description = f"{layers} causal layers of width {width} over up to {length} tokens, to continue a text"
    starts = _starts(symbols, symbols, length, width, layers)
    return Model(name="language_model", description=description, starts=starts, apply=apply)


def _check(symbols: int, length: int, width: int, layers: int, heads: int) -> None:
    checks.count(minimum=2, symbols=symbols)
    checks.count(length=length, width=width, layers=layers, heads=heads)
    if width % heads:
        raise InvalidArgument(
            f"A width of {width} cannot be shared by {heads} heads.",
            remedy="Make the width a multiple of the heads.",
        )


def _starts(symbols: int, outputs: int, length: int, width: int, layers: int) -> dict[str, Any]:
    return {
        "embedding": Start((symbols, width), _NARROW),
        "positions": Start((length, width), _NARROW),
        **{f"layer{number}": _layer_starts(width) for number in range(1, layers + 1)},
        "norm": norm_starts(width),
        "dense": dense_starts(width, outputs, glorot),
    }


def _layer_starts(width: int) -> dict[str, Starts]:
    return {
        "norm1": norm_starts(width),
        "looks": dense_starts(width, 3 * width, glorot),  # queries, keys and values
        "gathers": dense_starts(width, width, glorot),
        "norm2": norm_starts(width),
        "dense1": dense_starts(width, 4 * width, glorot),
        "dense2": dense_starts(4 * width, width, glorot),
    }


def _encode(params: Params, tokens: jax.Array, may_see: jax.Array, layers: int, heads: int) -> jax.Array:
    longest = params["positions"].shape[0]
    if tokens.shape[0] > longest:
        raise InvalidArgument(
            f"A text of {tokens.shape[0]} tokens does not fit a model of length {longest}.",
            remedy=f"Cut texts to {longest} tokens, or make the model with a larger length.",
        )
    x = params["embedding"][tokens] + params["positions"][: tokens.shape[0]]  # (length, width)
    for number in range(1, layers + 1):
        layer = params[f"layer{number}"]
        x = x + _attend(layer, layer_norm(layer["norm1"], x), may_see, heads)
        hidden = jax.nn.gelu(dense(layer["dense1"], layer_norm(layer["norm2"], x)))  # (length, 4 * width)
        x = x + dense(layer["dense2"], hidden)
    return layer_norm(params["norm"], x)


def _attend(layer: Params, x: jax.Array, may_see: jax.Array, heads: int) -> jax.Array:
    """Multi-head attention: each place takes a weighted mean over the places it may see."""
    length, width = x.shape
    parts = dense(layer["looks"], x).reshape(length, 3, heads, width // heads)
    query, key, value = parts[:, 0], parts[:, 1], parts[:, 2]  # (length, heads, width / heads) each
    scores = jnp.einsum("qhd,khd->hqk", query, key) / (width // heads) ** 0.5
    shares = jax.nn.softmax(jnp.where(may_see, scores, _FAR), axis=-1)  # (heads, length, length)
    found = jnp.einsum("hqk,khd->qhd", shares, value).reshape(length, width)
    return dense(layer["gathers"], found)
