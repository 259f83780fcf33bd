"""Laplace noise: for each coordinate, or for a whole vector at once. Whole numbers on a public grid."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Key

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Laplace, PureDp
from reticent.mechanisms.host import flatten_numbers, source_of
from reticent.mechanisms.sensitivity import BoundedSum
from reticent.mechanisms.vectors import add_whole_vector_laplace
from reticent.mechanisms.whole import add_whole_laplace


def add_laplace_noise(key: Key[Array, ""], total: BoundedSum, event: Laplace) -> Any:
    """Adds independent Laplace noise of scale `event.noise_multiplier * total.max_norm` to every number.

    Guarantee:
        The result costs `event`, up to 2^-70 per number: see `add_whole_laplace`. The contributions must be
        bounded in the L1 norm: an L2 bound says nothing useful about the sum of many coordinates' losses.

    Raises:
        InvalidArgument: the bound is in L2, a number is not finite, or JAX is compiling this.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)
        >>> import numpy as np
        >>> counts = BoundedSum(value=np.array([3.0, 40.0]), max_norm=1.0, norm="l1")
        >>> add_laplace_noise(key, counts, Laplace(noise_multiplier=2.0)).shape
        (2,)
    """
    if total.norm != "l1":
        raise InvalidArgument(
            "Laplace noise on each coordinate needs contributions bounded in the L1 norm, not in L2.",
            remedy="Use add_vector_laplace_noise or add_gaussian_noise, or bound them in L1.",
        )
    source = source_of(key, total.value)
    numbers, tree_of = flatten_numbers(total.value)
    scale = event.noise_multiplier * total.max_norm
    return tree_of(add_whole_laplace(source, numbers, max_norm=total.max_norm, scale=scale))


def add_vector_laplace_noise(
    key: Key[Array, ""], total: BoundedSum, *, epsilon: float, adjacency: Adjacency
) -> tuple[Any, PureDp]:
    """Adds noise with density proportional to exp(-epsilon * norm / sensitivity); returns its event too.

    Guarantee:
        `epsilon`-DP under `adjacency`, up to 2^-60 per number: see `add_whole_vector_laplace`. The log
        density changes by at most epsilon when the centre moves by the sensitivity (Chaudhuri, Monteleoni and
        Sarwate 2011, Theorem 6).

    Raises:
        InvalidArgument: a number is not finite, or JAX is compiling this.

    Example:
        >>> from reticent.core.keys import Keys, Stream, step_key
        >>> key = step_key(Keys.seeded(0).take(Stream.NOISE), 0)
        >>> import numpy as np
        >>> total = BoundedSum(value=np.array([3.0, 40.0]), max_norm=1.0)
        >>> noisy, event = add_vector_laplace_noise(
        ...     key, total, epsilon=0.5, adjacency=Adjacency.REPLACE
        ... )
        >>> noisy.shape, event.epsilon
        ((2,), 0.5)
    """
    checks.positive(epsilon=epsilon)
    event = PureDp(epsilon=epsilon, adjacency=adjacency)
    source = source_of(key, total.value)
    numbers, tree_of = flatten_numbers(total.value)
    reach = total.sensitivity(adjacency)
    return tree_of(add_whole_vector_laplace(source, numbers, max_norm=reach, epsilon=epsilon)), event
