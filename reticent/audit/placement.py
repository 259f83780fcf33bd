"""Where the gradients of canaries point: into parameters of their own, or among those of the model.

Apart: one parameter a canary, which no record touches, the optimizer never sees and nobody is given. Nothing
but noise stands between a canary and its score, and the model is trained as without them. Among: entries of
the model's own parameters, where the gradients of the records are noise to the auditor as well.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree


class Audited(NamedTuple):
    """The parameters of a model, and one more for each canary."""

    model: Any
    canaries: jax.Array


class Placement(Protocol):
    """What canaries need to know of the parameters."""

    @property
    def sentence(self) -> str: ...

    def wrap(self, params: ArrayTree) -> Any:
        """The parameters to train, from those of the model."""
        ...

    def model(self, params: ArrayTree) -> Any:
        """The part that is the model: of parameters, gradients or updates."""
        ...

    def entry(self, params: ArrayTree, canary: jax.Array) -> jax.Array:
        """The one number into which a canary's gradient points; for a row that is none, any number."""
        ...

    def entries(self, gradient: ArrayTree) -> jax.Array:
        """The numbers of all canaries in a gradient."""
        ...

    def extend_updates(self, params: ArrayTree, updates: ArrayTree) -> Any:
        """Updates for all parameters, from those of the model."""
        ...


class Apart(NamedTuple):
    """One parameter of its own for each canary."""

    canaries: int

    @property
    def sentence(self) -> str:
        return "canary gradients in parameters of their own"

    def wrap(self, params: ArrayTree) -> Any:
        return Audited(params, jnp.zeros(self.canaries, jnp.float32))

    def model(self, params: ArrayTree) -> Any:
        return params.model

    def entry(self, params: ArrayTree, canary: jax.Array) -> jax.Array:
        if not self.canaries:
            return jnp.float32(0)
        return params.canaries[jnp.clip(canary, 0, self.canaries - 1)]

    def entries(self, gradient: ArrayTree) -> jax.Array:
        return gradient.canaries

    def extend_updates(self, params: ArrayTree, updates: ArrayTree) -> Any:
        return Audited(updates, jnp.zeros_like(params.canaries))


class Among(NamedTuple):
    """An entry of the model's parameters for each canary, no entry twice: (leaf, place in it)."""

    leaves: tuple[int, ...]
    places: tuple[int, ...]

    @classmethod
    def spread(cls, params: ArrayTree, canaries: int, rng: np.random.Generator) -> Among:
        """Divides the canaries evenly over the leaves, as far as each has entries."""
        sizes = [int(np.size(leaf)) for leaf in jax.tree.leaves(params)]
        if canaries > sum(sizes):
            raise InvalidArgument(
                f"{canaries} canaries do not fit among {sum(sizes)} parameters.",
                remedy="Use fewer, or put them apart from the model.",
            )
        shares = [0] * len(sizes)
        while sum(shares) < canaries:
            for leaf in range(len(sizes)):
                if shares[leaf] < sizes[leaf] and sum(shares) < canaries:
                    shares[leaf] += 1
        pairs = [
            (leaf, int(place))
            for leaf, share in enumerate(shares)
            for place in rng.choice(sizes[leaf], share, replace=False)
        ]
        return cls(tuple(leaf for leaf, _ in pairs), tuple(place for _, place in pairs))

    @property
    def sentence(self) -> str:
        return "canary gradients among the parameters of the model"

    def wrap(self, params: ArrayTree) -> Any:
        return params

    def model(self, params: ArrayTree) -> Any:
        return params

    def entry(self, params: ArrayTree, canary: jax.Array) -> jax.Array:
        found = jnp.float32(0)
        if not self.leaves:
            return found
        canary = jnp.clip(canary, 0, len(self.leaves) - 1)
        leaf, place = jnp.asarray(self.leaves)[canary], jnp.asarray(self.places)[canary]
        for position, array in enumerate(jax.tree.leaves(params)):
            flat = jnp.ravel(array).astype(jnp.float32)
            here = flat[jnp.where(leaf == position, place, 0)]
            found = found + jnp.where(leaf == position, here, 0.0)
        return found

    def entries(self, gradient: ArrayTree) -> jax.Array:
        owners, places = np.asarray(self.leaves, int), np.asarray(self.places, int)
        found = jnp.zeros(len(owners), jnp.float32)
        for position, array in enumerate(jax.tree.leaves(gradient)):
            mine = np.flatnonzero(owners == position)
            found = found.at[mine].set(jnp.ravel(array)[places[mine]].astype(jnp.float32))
        return found

    def extend_updates(self, params: ArrayTree, updates: ArrayTree) -> Any:
        return updates
