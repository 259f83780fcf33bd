"""Parameters that a loss cannot train: leaves without a gradient, and statistics of batches."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from jax.extend.core import Jaxpr, Literal

from reticent.core.trees import ArrayTree
from reticent.training.clipping import paths_of

_SHOWN = 4  # names in a message
_OF_BATCHES = re.compile(r"batch_?norm|(^|/)bn_?\d*(/|$)|batch_stats|running_(mean|var)", re.IGNORECASE)


def leaves_without_gradient(program: Jaxpr, params: ArrayTree) -> list[str]:
    """The leaves whose gradient is the same constant for every example and every value of the parameters.

    Args:
        program: of `jax.value_and_grad(loss)`, on the parameters and one example.
    """
    depends = set(program.invars)
    for equation in program.eqns:
        if any(not isinstance(atom, Literal) and atom in depends for atom in equation.invars):
            depends.update(equation.outvars)
    gradients = program.outvars[1:]
    return [
        path
        for path, gradient in zip(paths_of(params), gradients, strict=True)
        if isinstance(gradient, Literal) or gradient not in depends
    ]


def warn_of_untrained(program: Jaxpr, params: ArrayTree) -> None:
    """Names what gets noise and learns nothing, and what would need more than one example."""
    unused, paths = leaves_without_gradient(program, params), paths_of(params)
    if unused:
        warnings.warn(
            f"The loss gives no gradient to {in_words(unused)} ({len(unused)} of {len(paths)} leaves). They "
            "get noise in every step all the same. Freeze them: pass trainable= with what is to be trained.",
            UserWarning,
            stacklevel=2,
        )
    of_batches = [path for path in paths if _OF_BATCHES.search(path) and path not in unused]
    if of_batches:
        warnings.warn(
            f"Batch normalisation ({in_words(of_batches)}) does not work here: the loss sees one example, so "
            "it is normalised by itself alone, and its running statistics are not kept. Use group or layer "
            "normalisation.",
            UserWarning,
            stacklevel=2,
        )


def in_words(paths: Sequence[str]) -> str:
    named = ", ".join(f"'{path}'" for path in paths[:_SHOWN])
    return named + (f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else "")
