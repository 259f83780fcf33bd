"""Numbers that are computed once, and read by everybody who needs them.

A compiler may compute a value again wherever it is used, and round it differently each time: a
multiplication and an addition become one operation here and two there. A gradient whose terms cancel is then
0 where its length is measured and a hundred million where it is summed. `optimization_barrier` is removed by
XLA before it decides about that; a loop is not, as long as nobody knows how many rounds it takes.
"""

from __future__ import annotations

from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax

from reticent.core.words import opaque_one

Tree = TypeVar("Tree")


def pinned(tree: Tree, is_real: jax.Array) -> Tree:
    """The same arrays, as one loop of one round leaves them in memory.

    The round changes one entry of each, by adding a zero that the compiler cannot know to be one. So what
    comes out may differ from what went in, as far as it can tell, and has to be read from memory. An array
    that is there twice is one array afterwards too.

    Args:
        is_real: anything that is known only when the program runs.
    """
    given, structure = jax.tree.flatten(tree)
    leaves = list({id(leaf): leaf for leaf in given}.values())
    place = {id(leaf): at for at, leaf in enumerate(leaves)}
    count = jnp.sum(is_real.astype(jnp.int32))
    rounds = opaque_one(count)
    nothing = rounds - 1

    def touch(leaf: jax.Array) -> jax.Array:
        if not leaf.size:
            return leaf
        first = (0,) * leaf.ndim
        return leaf.at[first].add(nothing.astype(leaf.dtype))

    def again(carry: tuple[jax.Array, list[jax.Array]]) -> tuple[jax.Array, list[jax.Array]]:
        at, leaves = carry
        return at + 1, [touch(leaf) for leaf in leaves]

    _, leaves = lax.while_loop(lambda carry: carry[0] < rounds, again, (jnp.int32(0), leaves))
    return jax.tree.unflatten(structure, [leaves[place[id(leaf)]] for leaf in given])
