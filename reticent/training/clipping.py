"""Clipping: what bounds the influence of one example.

    flat(1.0)                          the whole gradient at most 1
    per_layer(1.0)                     each layer its equal share, all together at most 1
    per_layer({"embed": 0.3, "head": 1.0})
    automatic(1.0)                     every gradient brought to about 1, no threshold to tune
    lipschitz(1.0)                     you assert that no gradient is longer than 1; if one is, it is cut

Each makes a `Clipping`, which knows its own sensitivity: the noise reads it from here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from reticent.core import checks
from reticent.core.errors import InvalidArgument, suggest
from reticent.core.trees import ArrayTree
from reticent.mechanisms.sensitivity import BoundedSum

Tree = TypeVar("Tree")

_SMALLEST = 2.0**-126  # the smallest normal float32; its reciprocal is normal too
_WHOLE = ""  # the name of the layer that holds every leaf

DEFAULT_STABILITY = 0.01  # of automatic clipping, as its authors chose it


class ClippedLayer(NamedTuple):
    """Leaves that are clipped together, by their position in the tree."""

    leaves: tuple[int, ...]
    max_norm: float


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How long one example's gradient may be, and how it is made to fit.

    Made by `flat`, `per_layer`, `automatic` or `lipschitz`.

    Args:
        kind: the name of the function that makes it.
        bounds: the bound of each layer, by the beginning of its leaves' paths. One layer with the
            empty name holds everything.
        is_shared: the one bound is divided equally among the layers the parameters turn out to have.
        stability: keeps automatic clipping from dividing by zero; it shortens gradients that are
            not much longer than this.

    Example:
        >>> flat(2.0).kind, flat(2.0).sensitivity
        ('flat', 2.0)
    """

    kind: Literal["flat", "per-layer", "automatic", "lipschitz"]
    bounds: tuple[tuple[str, float], ...]
    is_shared: bool = False
    stability: float = DEFAULT_STABILITY

    def __post_init__(self) -> None:
        for name, bound in self.bounds:
            checks.positive(**{f"max_norm of '{name}'" if name else "max_norm": bound})
        checks.positive(stability=self.stability)

    @property
    def sensitivity(self) -> float:
        """The L2 norm that no clipped gradient exceeds: that of the layers' bounds taken together."""
        return math.hypot(*(bound for _, bound in self.bounds))

    def bounded_sum(self, value: Any) -> BoundedSum:
        """A sum of gradients clipped by this, with the bound that its noise has to cover."""
        return BoundedSum(value=value, max_norm=self.sensitivity)

    def layers(self, paths: Sequence[str]) -> tuple[ClippedLayer, ...]:
        """Which leaves are clipped together, and to what.

        Raises:
            InvalidArgument: a leaf belongs to no layer, or a layer has no leaf.
        """
        if self.is_shared:
            names = list(dict.fromkeys(_parent(path) for path in paths))
            bound = self.sensitivity / math.sqrt(max(len(names), 1))
            members = {name: [i for i, path in enumerate(paths) if _parent(path) == name] for name in names}
            return tuple(ClippedLayer(tuple(leaves), bound) for leaves in members.values())
        members = {name: [] for name, _ in self.bounds}
        for position, path in enumerate(paths):
            members[_layer_of(path, list(members))].append(position)
        for name, leaves in members.items():
            if not leaves and paths:
                raise InvalidArgument(f"No parameter belongs to layer '{name}'.", remedy=suggest(name, paths))
        return tuple(ClippedLayer(tuple(members[name]), bound) for name, bound in self.bounds)

    def factor(
        self,
        norm: Float[Array, "*examples"],
        bound: jax.typing.ArrayLike,
        *,
        at_most: jax.typing.ArrayLike = 1.0,
    ) -> Float[Array, "*examples"]:
        """What a gradient of this norm is multiplied by, to be no longer than `bound`.

        0 where the norm is not finite.

        Args:
            at_most: what a short gradient is multiplied by. To automatic clipping no gradient is short.
        """
        if self.kind == "automatic":
            factor = bound / (norm + self.stability)
        else:
            factor = jnp.minimum(at_most, bound / jnp.maximum(norm, _SMALLEST))
        return jnp.where(jnp.isfinite(norm), factor, 0.0)

    def clip(self, tree: Tree, *, stretch: jax.typing.ArrayLike = 1.0) -> Tree:
        """One example's gradient, clipped; every bound is multiplied by `stretch` first."""
        leaves, structure = jax.tree.flatten(tree)
        clipped: list[Any] = list(leaves)
        for layer in self.layers(paths_of(tree)):
            bound = layer.max_norm * stretch
            part = [leaves[position] for position in layer.leaves]
            part = self._fit_to_norm(part, bound)
            for position, leaf in zip(layer.leaves, part, strict=True):
                clipped[position] = leaf
        return jax.tree.unflatten(structure, clipped)

    def _fit_to_norm(self, leaves: list[jax.Array], max_norm: jax.typing.ArrayLike) -> list[jax.Array]:
        if self.kind == "automatic":
            return self._bring_to(leaves, max_norm)
        return _shorten(leaves, max_norm)

    def _bring_to(self, leaves: list[jax.Array], max_norm: jax.typing.ArrayLike) -> list[jax.Array]:
        unit, ratio, in_units = _measure(leaves)
        factor = max_norm / (ratio + self.stability / unit)
        return _zero_unless(jnp.isfinite(ratio), [leaf * factor for leaf in in_units])


def flat(max_norm: float) -> Clipping:
    """The whole gradient is shortened to `max_norm`; a shorter one is left as it is.

    Example:
        >>> [round(float(x), 4) for x in flat(1.0).clip({"w": jnp.array([6.0, 8.0])})["w"]]
        [0.6, 0.8]
        >>> flat(1.0).clip({"w": jnp.array([0.5, jnp.nan])})["w"].tolist()  # counts as zero
        [0.0, 0.0]
        >>> flat(0.0)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: max_norm must be a positive number, got 0.0. Pass
        another max_norm.

    Reference:
        Abadi et al. (2016), Algorithm 1, arXiv:1607.00133v2.
    """
    return Clipping(kind="flat", bounds=((_WHOLE, max_norm),))


def per_layer(max_norm: float | Mapping[str, float]) -> Clipping:
    """Each layer is shortened to its own bound.

    Args:
        max_norm: one number, shared equally: each of k layers gets max_norm / sqrt(k), a layer being
            the leaves next to each other in the tree, as a kernel and its bias. Or a bound for each
            layer, by the beginning of its leaves' paths.

    Guarantee:
        The clipped gradient as a whole is no longer than the square root of the bounds' squares
        summed: with one number, than that number.

    Example:
        >>> round(per_layer({"embed": 3.0, "head": 4.0}).sensitivity, 6)
        5.0
    """
    if isinstance(max_norm, Mapping):
        if not max_norm:
            raise InvalidArgument(
                "per_layer got bounds for no layer at all.", remedy="Name at least one, or pass one number."
            )
        return Clipping(kind="per-layer", bounds=tuple(max_norm.items()))
    return Clipping(kind="per-layer", bounds=((_WHOLE, max_norm),), is_shared=True)


def automatic(max_norm: float = 1.0, *, stability: float = DEFAULT_STABILITY) -> Clipping:
    """Every gradient g becomes g * max_norm / (|g| + stability): there is no threshold to tune.

    Short gradients are made longer, so `max_norm` only sets the unit of the learning rate.

    Guarantee:
        The result is shorter than `max_norm`.

    Example:
        >>> gradient = {"w": jnp.array([0.03, 0.04])}  # of length 0.05
        >>> [round(float(x), 3) for x in automatic(1.0).clip(gradient)["w"]]
        [0.5, 0.667]

    Reference:
        Bu, Wang, Zha, Karypis (2023), Equation 3.1, arXiv:2206.07136v3.
    """
    return Clipping(kind="automatic", bounds=((_WHOLE, max_norm),), stability=stability)


def lipschitz(bound: float) -> Clipping:
    """The theory's bound: whoever writes this asserts that the loss is `bound`-Lipschitz in its parameters.

    It holds for, say, the logistic loss on rows of norm at most `bound`, and for no network that we know of.
    The assertion is not believed: a gradient that is longer is cut, as by `flat`. Where it holds, nothing is.

    Guarantee:
        That of `flat`: no assumption is left.

    Example:
        >>> lipschitz(2.0).sensitivity
        2.0
    """
    return Clipping(kind="lipschitz", bounds=((_WHOLE, bound),))


def clip_to_norm(tree: Tree, max_norm: jax.typing.ArrayLike) -> Tree:
    """Shrinks a tree to at most `max_norm`; never stretches a short one.

    A tree holding NaN or infinity becomes zeros: an example whose gradient blew up contributes
    nothing, instead of poisoning the whole sum. Leaves narrower than float32 come back as float32,
    because rounding them again could make them longer.

    Guarantee:
        For every float32 input the L2 norm over all leaves is at most `max_norm`, up to rounding
        (one part in a million).

    Raises:
        InvalidArgument: `max_norm` is a number that is not positive, or a leaf holds whole numbers.

    Example:
        >>> [round(float(entry), 3) for entry in clip_to_norm(jnp.array([3.0, 4.0]), 1.0)]
        [0.6, 0.8]
    """
    if not isinstance(max_norm, jax.Array):
        checks.positive(max_norm=max_norm)  # type: ignore[arg-type]  # a traced bound cannot be looked at
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, _shorten(leaves, max_norm))


def paths_of(tree: ArrayTree) -> tuple[str, ...]:
    """The name of every leaf: `layers/0/weight`."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return tuple(jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths)


def _shorten(leaves: list[jax.Array], max_norm: jax.typing.ArrayLike) -> list[jax.Array]:
    unit, ratio, in_units = _measure(leaves)
    # Not norm <= max_norm: the norm of the very longest gradients is beyond float32, unit and ratio are not.
    is_short = ratio <= max_norm / unit
    factor = max_norm / jnp.maximum(ratio, 1e-3)
    kept = [
        jnp.where(is_short, _wide(leaf), part * factor) for leaf, part in zip(leaves, in_units, strict=True)
    ]
    return _zero_unless(jnp.isfinite(ratio), kept)


def _measure(leaves: list[jax.Array]) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
    """The leaves in units of about their largest entry, that unit, and their norm in it."""
    wide = [_wide(leaf) for leaf in leaves]
    largest = jnp.max(jnp.stack([jnp.float32(0), *(jnp.max(jnp.abs(leaf)) for leaf in wide if leaf.size)]))
    # XLA may divide by multiplying with 1 / unit, which has to be a normal number as well.
    unit = jnp.clip(largest, _SMALLEST, 1 / _SMALLEST)
    in_units = [leaf / unit for leaf in wide]
    squares = [jnp.sum(jnp.square(leaf)) for leaf in in_units]
    return unit, jnp.sqrt(jnp.sum(jnp.stack([jnp.float32(0), *squares]))), in_units


def _zero_unless(holds: jax.Array, leaves: list[jax.Array]) -> list[jax.Array]:
    return [jnp.where(holds, leaf, 0.0) for leaf in leaves]


def _wide(leaf: jax.typing.ArrayLike) -> jax.Array:
    leaf = jnp.asarray(leaf)
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        raise InvalidArgument(
            f"A leaf of {leaf.dtype} with shape {leaf.shape} cannot be clipped.",
            remedy="Leave whole numbers out of the tree: they have no gradient.",
        )
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))


def _layer_of(path: str, names: list[str]) -> str:
    fitting = [name for name in names if name == _WHOLE or path == name or path.startswith(f"{name}/")]
    if not fitting:
        raise InvalidArgument(f"No layer holds parameter '{path}'.", remedy=suggest(path, names))
    return max(fitting, key=len)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
