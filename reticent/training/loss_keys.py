"""Losses that draw random numbers, such as dropout: `loss(params, example, key)`.

The key is fresh for every example and step. It comes from a stream of its own, never from the example and
never from the noise, so what a loss draws tells nothing about a record and costs nothing.

    loss(params, example)                 draws nothing
    loss(params, example, key)            is given a key, also on held-out rows
    loss(params, example, key=None)       is given a key in training; on held-out rows it is not
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree

KeyUse = Literal["never", "always", "optional"]
AnyLoss = Callable[..., Any]  # of parameters and an example, and of a key if it takes one

_BY_NAME = "key"
_KIND = "threefry2x32"  # keys of the `rbg` kind give all examples of a batch the same bits under `vmap`
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Keyed(NamedTuple):
    """One example, and the bits of the key that its loss is given."""

    row: Any
    seed: jax.Array  # (2,) uint32


def key_use(loss: Callable[..., Any]) -> KeyUse:
    """Whether a loss asks for a key: by a third argument, or by one called `key`.

    Raises:
        InvalidArgument: it asks for more than parameters, an example and a key.

    Example:
        >>> key_use(lambda params, example: 0.0), key_use(lambda params, example, key: 0.0)
        ('never', 'always')
        >>> key_use(lambda params, example, key=None: 0.0), key_use(lambda params, example, scale=2: 0.0)
        ('optional', 'never')
    """
    parameter = _key_parameter(loss)
    if parameter is None:
        return "never"
    return "always" if parameter.default is inspect.Parameter.empty else "optional"


def call_with_key(loss: Callable[..., Any], params: ArrayTree, example: ArrayTree, key: jax.Array) -> Any:
    """The loss of one example, given its key if it takes one."""
    parameter = _key_parameter(loss)
    if parameter is None:
        return loss(params, example)
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return loss(params, example, **{parameter.name: key})
    return loss(params, example, key)


def of_keyed_example(loss: Callable[..., Any]) -> Callable[[Any, Keyed], Any]:
    """The same loss as a function of two arguments: the parameters, and an example with its key."""

    def of_two(params: ArrayTree, example: Keyed) -> Any:
        return call_with_key(loss, params, example.row, jax.random.wrap_key_data(example.seed, impl=_KIND))

    return of_two


def on_held_out_row(loss: Callable[..., Any]) -> Callable[[Any, Any, jax.Array], Any]:
    """The same loss where nobody is trained on, of parameters, a row and the number of the row.

    A key that may be left out is left out: dropout is then switched off. Where a key is needed, it is a
    fixed, public one for each row, so that two evaluations of the same parameters agree.
    """
    if key_use(loss) != "always":
        return lambda params, row, number: loss(params, row)

    def with_public_key(params: ArrayTree, row: ArrayTree, number: jax.Array) -> Any:
        return call_with_key(loss, params, row, jax.random.fold_in(jax.random.key(0, impl=_KIND), number))

    return with_public_key


def _key_parameter(loss: Callable[..., Any]) -> inspect.Parameter | None:
    """The argument of a loss that takes a key."""
    try:
        given = list(inspect.signature(loss).parameters.values())
    except (TypeError, ValueError):  # some callables do not say what they take
        return None
    places = [each for each in given if each.kind in _POSITIONAL]
    needed = [each for each in places if each.default is inspect.Parameter.empty]
    if len(places) < 2 and not any(each.kind is each.VAR_POSITIONAL for each in given):
        raise InvalidArgument(
            f"A loss or metric takes parameters and one example, not ({', '.join(_names(places))}) alone.",
            remedy="Write it as loss(params, example).",
        )
    if len(needed) > 3:
        raise InvalidArgument(
            f"The loss needs {len(needed)} arguments: {', '.join(_names(needed))}.",
            remedy="Write it as loss(params, example), or as loss(params, example, key) if it draws.",
        )
    third = places[2] if len(places) > 2 else None
    if third is not None and (third in needed or third.name == _BY_NAME):
        return third
    return next((each for each in given if each.kind is each.KEYWORD_ONLY and each.name == _BY_NAME), None)


def _names(parameters: list[inspect.Parameter]) -> list[str]:
    return [each.name for each in parameters]
