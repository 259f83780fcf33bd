"""Which leaves of a model learn: by a mask, by their names, or by what the loss does with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.training.gradients.tracing import Trace
from reticent.training.trainable.named_leaves import NamedLeaves, Role, RoleName, roles_of

_BIAS_NAMES = ("bias", "b", "beta", "offset")
_SCALE_NAMES = ("scale", "gamma")
_SHOWN = 6  # names in a message


@dataclass(frozen=True)
class Selector:
    """Leaves chosen by what the loss does with them; see `biases`, `norms_and_biases` and `last_layer`.

    Args:
        choose: from the role and the shape of each leaf, by name, to the names that are chosen.
    """

    name: str
    choose: Callable[[Mapping[str, Role], NamedLeaves], set[str]]

    def __repr__(self) -> str:
        return f"trainable.{self.name}"


def chosen_leaves(trainable: Any, model: NamedLeaves, program: Callable[[], Trace]) -> dict[str, jax.Array]:
    """The leaves that learn, each with the value that it starts from.

    Args:
        program: traces the loss, for selectors that look at it.

    Raises:
        InvalidArgument: it is text, nothing is left to learn, or a mask does not fit the model.
    """
    if isinstance(trainable, str):
        raise InvalidArgument(
            f"trainable={trainable!r} is text.",
            remedy="Pass rt.trainable.last_layer without quotes, or a function of a leaf's name, such as "
            "lambda path: 'head' in path.",
        )
    if isinstance(trainable, Selector):
        names = trainable.choose(roles_of(program(), model), model)
        found = {path: leaf for path, leaf in model.floats.items() if path in names}
    elif callable(trainable) and jax.tree_util.all_leaves([trainable]):  # and not a tree that can be called
        found = {path: leaf for path, leaf in model.floats.items() if trainable(path)}
    else:
        found = _by_tree(trainable, model)
    if not found:
        raise InvalidArgument(
            f"Nothing is left to learn: {_in_words(trainable)} chooses none of {_name_leaves(model)}.",
            remedy="Choose some leaves by name, for example trainable=lambda path: 'head' in path.",
        )
    return found


def _by_tree(trainable: Any, model: NamedLeaves) -> dict[str, jax.Array]:
    """By a tree of True and False, or a tree of the same model that has None in place of what is frozen."""
    pairs, _ = jax.tree_util.tree_flatten_with_path(trainable, is_leaf=lambda leaf: leaf is None)
    given = {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in pairs}
    if unknown := sorted(name for name in given if not any(_covers(name, path) for path in model.paths)):
        raise InvalidArgument(
            f"The mask names '{unknown[0]}', which the model does not have.",
            remedy=f"Use the structure of params. Its leaves are {_name_leaves(model)}.",
        )
    found = {}
    for path, leaf in model.floats.items():
        wanted = next((value for name, value in given.items() if _covers(name, path)), None)
        if wanted is None or (_is_truth(wanted) and not wanted):
            continue
        found[path] = leaf if _is_truth(wanted) else _start(path, wanted, leaf)
    return found


def _covers(name: str, path: str) -> bool:
    """Whether an entry of a mask is about a leaf: its own, or one of all that lie below it."""
    return not name or path == name or path.startswith(f"{name}/")


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_) or getattr(value, "dtype", None) == np.bool_


def _start(path: str, wanted: Any, leaf: jax.Array) -> jax.Array:
    start = jnp.asarray(wanted)
    if start.shape != leaf.shape:
        raise InvalidArgument(
            f"'{path}' has shape {start.shape} in the part that learns, and {leaf.shape} in params.",
            remedy="Divide the same model that you pass as params.",
        )
    return start.astype(leaf.dtype)


def _choose_biases(roles: Mapping[str, Role], model: NamedLeaves) -> set[str]:
    return _vectors(roles, model, "bias", _BIAS_NAMES)


def _choose_norms_and_biases(roles: Mapping[str, Role], model: NamedLeaves) -> set[str]:
    return _vectors(roles, model, "scale", _SCALE_NAMES) | _choose_biases(roles, model)


def _vectors(
    roles: Mapping[str, Role], model: NamedLeaves, kind: RoleName, names: tuple[str, ...]
) -> set[str]:
    """Leaves of one kind, or of its name: inside a loop, and in attention, only names tell."""
    used = [path for path, role in roles.items() if role.kind != "unused"]
    return {
        path
        for path in used
        if _last(path) == names[0]
        or (_is_short(model, path) and (roles[path].kind == kind or _last(path) in names))
    }


def _choose_last_layer(roles: Mapping[str, Role], model: NamedLeaves) -> set[str]:
    weights = {path: role for path, role in roles.items() if role.kind in ("weight", "other", "table")}
    if not weights:
        return set()
    last = max(weights, key=lambda path: weights[path].last)
    later = {path for path, role in roles.items() if role.first > weights[last].last}
    return {last} | later


def _is_short(model: NamedLeaves, path: str) -> bool:
    """Whether a leaf is a vector, up to dimensions of length 1."""
    return sum(size > 1 for size in model.floats[path].shape) <= 1


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1].lower()


def _in_words(trainable: Any) -> str:
    if isinstance(trainable, Selector):
        return repr(trainable)
    return f"the function {getattr(trainable, '__name__', '')}".strip() if callable(trainable) else "the mask"


def _name_leaves(model: NamedLeaves) -> str:
    names = ", ".join(f"'{path}'" for path in list(model.floats)[:_SHOWN])
    left = len(model.floats) - _SHOWN
    return (names or "no leaf") + (f" and {left} more" if left > 0 else "")


biases = Selector("biases", _choose_biases)
"""The biases: vectors that are added (BiTFiT).

Reference:
    Zaken, Goldberg and Ravfogel (2022), arXiv:2106.10199v5; Bu et al. (2022), arXiv:2210.00036v2.
"""

norms_and_biases = Selector("norms_and_biases", _choose_norms_and_biases)
"""The biases, and the scales of normalisation: vectors that are added or multiplied with."""

last_layer = Selector("last_layer", _choose_last_layer)
"""The weight that the loss uses last, and what comes after it, such as its bias."""
