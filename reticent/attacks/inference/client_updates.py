"""What updates tell about the rows of a client: which rows it has, and what they have in common.

Whoever sees an update, or a sum of some, and the model that clients were sent, can compare it with what rows
of one's own would do to that model. Over several rounds, scores are averaged.

Reference:
    Nasr, Shokri and Houmansadr (2019), sections III and V, arXiv:1812.00910v2, on membership; here with the
    direction of a row's gradient in the place of a trained network. Melis, Song, De Cristofaro and Shmatikov
    (2019), section 4.3, arXiv:1805.04049v3, on properties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Float

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.core.trees import ArrayTree

_AT_ONCE = 32  # gradients
_RIDGE = 1e-2  # of the mean square of a sample

RowLoss = Callable[[Any, Any], Any]


class SeenUpdate(NamedTuple):
    """What somebody sees of a round.

    Args:
        params: the model that clients were sent.
        update: what one of them, or the mean of some, changed about it.
    """

    params: Any
    update: Any


def descent_directions(
    loss: RowLoss, params: ArrayTree, rows: ArrayTree
) -> Float[np.ndarray, "rows numbers"]:
    """Where a step on each row alone would move the model, at length 1; zeros where it would not.

    Example:
        >>> descent_directions(lambda w, row: w @ row["x"], np.zeros(2), {"x": np.array([[3.0, 4.0]])})
        array([[-0.6, -0.8]], dtype=float32)
    """
    return np.asarray(_directions_of(loss)(jax.tree.map(jnp.asarray, params), rows))


@lru_cache(8)
def _directions_of(loss: RowLoss) -> Callable[[Any, Any], jax.Array]:
    """Compiled once for a loss, however many rounds are looked at."""

    def directions(params: ArrayTree, rows: ArrayTree) -> jax.Array:
        def direction(row: ArrayTree) -> jax.Array:
            slope = -ravel_pytree(jax.grad(loss)(params, row))[0]
            return slope / jnp.maximum(jnp.linalg.norm(slope), 1e-30)

        return jax.lax.map(direction, rows, batch_size=_AT_ONCE)

    return jax.jit(directions)


def membership_from_updates(
    loss: RowLoss, seen: Sequence[SeenUpdate], rows: ArrayTree
) -> Float[np.ndarray, " rows"]:
    """A score for each row, higher for those that the updates were made from.

    It is the cosine of the angle between an update and the step that the row alone would cause, averaged
    over rounds.

    Args:
        loss: of the parameters and one row, as in `rt.train`.
        rows: candidates, a mapping of arrays.

    Raises:
        DataError: there is no update.

    Example:
        >>> rows = {"x": np.eye(2)}
        >>> seen = [SeenUpdate(np.zeros(2), np.array([-1.0, 0.0]))]  # a step on the first of them
        >>> membership_from_updates(lambda w, row: w @ row["x"], seen, rows).round(3).tolist()
        [1.0, 0.0]
    """
    if not seen:
        raise DataError("There is no update to look at.", remedy="Pass what was seen in one round at least.")
    scores = [
        cosines(descent_directions(loss, each.params, rows), np.asarray(ravel_pytree(each.update)[0]))
        for each in seen
    ]
    return np.mean(scores, axis=0)


def cosines(
    directions: Float[np.ndarray, "rows numbers"], update: Float[np.ndarray, " numbers"]
) -> Float[np.ndarray, " rows"]:
    """The cosine between an update and each direction; 0 for an update of zeros or of what is not finite.

    Example:
        >>> cosines(np.eye(2), np.array([3.0, 0.0])).tolist()
        [1.0, 0.0]
    """
    length = float(np.linalg.norm(np.asarray(update, np.float64)))
    if not 0 < length < np.inf:
        return np.zeros(len(directions))
    return directions @ (np.asarray(update, np.float64) / length)


def property_from_updates(
    with_property: Float[np.ndarray, "some numbers"],
    without: Float[np.ndarray, "others numbers"],
    seen: Float[np.ndarray, "seen numbers"],
) -> Float[np.ndarray, " seen"]:
    """A score for each update that was seen, higher where its client's rows have the property.

    The attacker makes updates of its own, from rows that it has, with the property and without it, and fits
    a linear classifier (ridge regression) to them.

    Example:
        >>> draw = np.random.default_rng(0)
        >>> with_property, without = draw.normal(1, 1, (20, 5)), draw.normal(-1, 1, (20, 5))
        >>> seen = np.array([np.ones(5), -np.ones(5)])
        >>> property_from_updates(with_property, without, seen).round().tolist()
        [1.0, -1.0]
    """
    checks.count(minimum=2, updates_with=len(with_property), updates_without=len(without))
    samples = np.concatenate([with_property, without]).astype(np.float64)
    answers = np.repeat([1.0, -1.0], [len(with_property), len(without)])
    middle = samples.mean(axis=0)
    centred = samples - middle
    gram = centred @ centred.T  # as many numbers as there are samples, however large the model is
    weights = np.linalg.solve(
        gram + (_RIDGE * np.trace(gram) / len(gram) + 1e-30) * np.eye(len(gram)), answers - answers.mean()
    )
    return (np.asarray(seen, np.float64) - middle) @ (centred.T @ weights)
