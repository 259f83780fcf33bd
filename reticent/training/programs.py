"""Compiled programs that are kept for the next run of the same kind, which need not wait for a compiler.

A program is known by what it was compiled from. Functions cannot be compared, so whoever trains names them
(`Execution.program`); runs without a name compile for themselves.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

_MOST = 16  # programs; the one that was used longest ago goes first
_LARGE = 2**20  # bytes of constants
_SMALL_WORK = 2**30  # half a second of it

_kept: OrderedDict[Hashable, Any] = OrderedDict()


def kept(key: Hashable | None, make: Callable[[], Any]) -> Any:
    """What was made under this key before, or what `make` gives now; without a key, nothing is kept.

    >>> kept("two", lambda: [2]) is kept("two", lambda: [2])
    True
    >>> kept(None, lambda: [2]) is kept(None, lambda: [2])
    False
    """
    if key is None:
        return make()
    if key not in _kept:
        _kept[key] = make()
        if len(_kept) > _MOST:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key]


def quick_options(work: float) -> dict[str, bool | int] | None:
    """Options for a program that computes less than a compiler takes; None for those of JAX.

    The program is slower by a tenth or so, and is there after two thirds of the time. Whoever sets options of
    XLA keeps them.

    Args:
        work: parameters times examples times steps.
    """
    release = tuple(map(int, version("jaxlib").split(".")[:2]))
    is_known = release < (0, 11) and jax.default_backend() == "cpu"
    if not (is_known and work <= _SMALL_WORK) or "XLA_FLAGS" in os.environ:
        return None
    return {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1}


def has_large_constants(program: ClosedJaxpr) -> bool:
    """Whether a function closes over large arrays, such as frozen weights."""
    return sum(getattr(each, "nbytes", 0) for each in program.consts) > _LARGE


def with_constants_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """`jax.jit(function)`, with the arrays that it closes over as arguments.

    As constants they would be copied into the program, and a compiler computes with constants whatever it
    can: for frozen weights that takes minutes.

    >>> weights = jnp.ones(3)
    >>> with_constants_apart(lambda x: x + weights)(jnp.zeros(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    made: dict[Hashable, tuple[Callable[..., Any], list[Any], Any]] = {}

    def call(*given: Any) -> Any:
        leaves, structure = jax.tree.flatten(given)
        kind = structure, tuple((jnp.shape(leaf), jnp.result_type(leaf)) for leaf in leaves)
        if kind not in made:
            traced, like = jax.make_jaxpr(function, return_shape=True)(*given)
            made[kind] = _on_arguments(traced), traced.consts, jax.tree.structure(like)
        program, constants, found = made[kind]
        return jax.tree.unflatten(found, program(constants, leaves))

    return call


def _on_arguments(traced: ClosedJaxpr) -> Callable[[list[Any], list[Any]], list[Any]]:
    whole = traced.jaxpr.replace(constvars=[], invars=[*traced.jaxpr.constvars, *traced.jaxpr.invars])
    run = jaxpr_as_fun(ClosedJaxpr(whole, ()))
    return jax.jit(lambda constants, leaves: run(*constants, *leaves))


def forget() -> None:
    """Drops all programs."""
    _kept.clear()
