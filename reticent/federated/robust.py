"""Robust rules: what a server may compute instead of a mean when some clients lie.

Each takes the updates of a round, one row per client, and returns one update. They are **not** differentially
private: a median or the update that Krum picks is released as it is, whatever it tells about a client. Nor do
they go with secure aggregation, where the server sees a sum and nothing else.

    aggregate = robust_rule("multi_krum", clients=100, malicious=20)
    update = aggregate(updates)  # (100, numbers) -> (numbers,)

An update that is not finite, or holds a number beyond 1e100, counts as zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.trees import ArrayTree

Updates = Float[np.ndarray, "clients numbers"]
Update = Float[np.ndarray, " numbers"]
RuleName = Literal[
    "mean", "norm_bound", "median", "trimmed_mean", "krum", "multi_krum", "geometric_median", "bulyan"
]
Visible = Literal["updates", "sums"]

_NO_CHANGE = 1e-12  # of a weight
_LARGEST = 1e100  # its square is a float, too


def robust_rule(
    name: RuleName,
    *,
    clients: int,
    malicious: int,
    visible: Visible = "updates",
    max_norm: float | None = None,
) -> Callable[[Updates], Update]:
    """The rule of this name, if it can do what it is asked for.

    Args:
        clients: how many updates a round has.
        malicious: how many of them are assumed to lie, at most.
        visible: what the server sees: single updates, or only their sum, as with secure aggregation.
        max_norm: of `norm_bound`.

    Raises:
        InvalidArgument: the rule tolerates fewer malicious clients, or has to see single updates.

    Example:
        >>> updates = np.array([[1.0], [1.1], [0.9], [1.0], [-50.0]])
        >>> robust_rule("median", clients=5, malicious=1)(updates).tolist()
        [1.0]
        >>> robust_rule("krum", clients=5, malicious=2)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: krum with 5 clients tolerates at most 1 malicious, not 2. ...
        >>> robust_rule("median", clients=5, malicious=1, visible="sums")
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: median compares the updates of single clients, and secure
        aggregation shows the server their sum alone. ...
    """
    checks.one_of(get_args(RuleName), name=name)
    checks.one_of(get_args(Visible), visible=visible)
    checks.count(clients=clients)
    checks.count(minimum=0, malicious=malicious)
    if visible == "sums" and name != "mean":
        raise InvalidArgument(
            f"{name} compares the updates of single clients, and secure aggregation shows the server their "
            "sum alone.",
            remedy="Use the mean with clipping by the clients, or let the server see updates.",
        )
    if not malicious <= (most := most_tolerated(name, clients)):
        raise InvalidArgument(
            f"{name} with {clients} clients tolerates at most {most} malicious, not {malicious}.",
            remedy="Use another rule, or more clients in a round.",
        )
    if (name == "norm_bound") != (max_norm is not None):
        raise InvalidArgument(
            f"A rule {name} and max_norm={max_norm} do not go together.",
            remedy="Pass it to norm_bound alone.",
        )
    if name == "norm_bound":
        return partial(norm_bound, max_norm=max_norm)  # type: ignore[arg-type]  # found to be given
    if name in ("trimmed_mean", "krum", "multi_krum", "bulyan"):
        return partial(_RULES[name], malicious=malicious)
    return _RULES[name]


def most_tolerated(name: RuleName, clients: int) -> int:
    """The most malicious clients for which a rule's authors prove anything.

    Example:
        >>> [most_tolerated(name, 100) for name in ("mean", "median", "krum", "bulyan")]
        [100, 49, 48, 24]
    """
    if name in (
        "mean",
        "norm_bound",
    ):  # no number is promised and none is refused: one client decides already
        return clients
    if name in ("krum", "multi_krum"):
        return max((clients - 3) // 2, 0)  # 2 f + 2 < n
    if name == "bulyan":
        return max((clients - 3) // 4, 0)
    return (clients - 1) // 2


def mean(updates: Updates) -> Update:
    """Plain averaging, which one client can move anywhere.

    Example:
        >>> mean(np.array([[1.0], [1.0], [-50.0]])).tolist()
        [-16.0]
    """
    return _finite(updates).mean(axis=0)


def norm_bound(updates: Updates, max_norm: float) -> Update:
    """The mean of updates that are shortened to `max_norm`: clipping without noise.

    Reference:
        Sun, Kairouz, Suresh and McMahan (2019), section 4, arXiv:1911.07963v2.

    Example:
        >>> norm_bound(np.array([[1.0], [1.0], [-50.0]]), max_norm=1.0).round(3).tolist()
        [0.333]
    """
    checks.positive(max_norm=max_norm)
    found = _finite(updates)
    lengths = np.linalg.norm(found, axis=1)
    return (found * np.minimum(1, max_norm / np.maximum(lengths, 1e-300))[:, None]).mean(axis=0)


def median(updates: Updates) -> Update:
    """The median of each number by itself.

    Reference:
        Yin, Chen, Ramchandran and Bartlett (2018), definition 1, arXiv:1803.01498v2.

    Example:
        >>> median(np.array([[1.0], [1.1], [-50.0]])).tolist()
        [1.0]
    """
    return np.median(_finite(updates), axis=0)


def trimmed_mean(updates: Updates, malicious: int) -> Update:
    """The mean of each number without its `malicious` largest and smallest values.

    Reference:
        Yin, Chen, Ramchandran and Bartlett (2018), definition 2, arXiv:1803.01498v2.

    Example:
        >>> trimmed_mean(np.array([[1.0], [3.0], [2.0], [-50.0]]), malicious=1).tolist()
        [1.5]
    """
    ordered = np.sort(_finite(updates), axis=0)
    return ordered[malicious : len(ordered) - malicious].mean(axis=0)


def krum(updates: Updates, malicious: int) -> Update:
    """The update that is nearest to its n - f - 2 nearest neighbours.

    Reference:
        Blanchard, El Mhamdi, Guerraoui and Stainer (2017), section 4, arXiv:1703.02757v1.

    Example:
        >>> krum(np.array([[1.0], [1.1], [0.9], [1.0], [-50.0]]), malicious=1).tolist()
        [1.0]
    """
    found = _finite(updates)
    return found[int(np.argmin(_scores(squared_distances(found), malicious)))]


def multi_krum(updates: Updates, malicious: int) -> Update:
    """The mean of the n - f updates with the best scores of Krum.

    Reference:
        Blanchard, El Mhamdi, Guerraoui and Stainer (2017), section 5, arXiv:1703.02757v1.

    Example:
        >>> multi_krum(np.array([[1.0], [1.1], [0.9], [1.0], [-50.0]]), malicious=1).round(9).tolist()
        [1.0]
    """
    found = _finite(updates)
    scores = _scores(squared_distances(found), malicious)
    best = np.argsort(scores, kind="stable")[: len(found) - malicious]
    return found[best].mean(axis=0)


def bulyan(updates: Updates, malicious: int) -> Update:
    """Krum picks n - 2 f updates one by one; of each number, the mean of those nearest to their median.

    Reference:
        El Mhamdi, Guerraoui and Rouault (2018), section 4, arXiv:1802.07927v2.

    Example:
        >>> honest = np.array([[1.0], [1.1], [0.9], [1.0], [1.05], [0.95]])
        >>> bulyan(np.append(honest, [[-50.0]], axis=0), malicious=1).round(1).tolist()
        [1.0]
    """
    found = _finite(updates)
    left, picked = list(range(len(found))), []
    distances = squared_distances(found)
    for _ in range(len(found) - 2 * malicious):
        scores = _scores(distances[np.ix_(left, left)], malicious)
        picked.append(left.pop(int(np.argmin(scores))))
    chosen = np.sort(found[picked], axis=0)
    return _nearest_to_median(chosen, len(chosen) - 2 * malicious)


def geometric_median(updates: Updates, iterations: int = 100, smoothing: float = 1e-6) -> Update:
    """The point whose distances to all updates have the smallest sum, by Weiszfeld's algorithm.

    Args:
        smoothing: distances below this share of the median one count as so much.

    Reference:
        Pillutla, Kakade and Harchaoui (2022), Algorithm 2, arXiv:1912.13445v2.

    Example:
        >>> geometric_median(np.array([[1.0], [1.1], [0.9], [1.0], [-50.0]])).round(3).tolist()
        [1.0]
    """
    found = _finite(updates)
    start = np.median(found, axis=0)
    centred = found - start
    gram = centred @ centred.T  # every point on the way is a weighted mean: its distances follow from these
    weights = np.zeros(len(found))
    for _ in range(iterations):
        pulled = gram @ weights
        distances = np.sqrt(np.maximum(np.diag(gram) - 2 * pulled + weights @ pulled, 0))
        least = smoothing * np.median(distances)
        if least == 0:  # half of all updates are here
            break
        following = 1 / np.maximum(distances, least)
        following /= following.sum()
        is_there = np.abs(following - weights).max() <= _NO_CHANGE
        weights = following
        if is_there:
            break
    return start + weights @ centred


def _finite(updates: ArrayTree) -> Updates:
    found = np.asarray(updates, np.float64)
    if found.ndim != 2 or not found.size:
        raise InvalidArgument(
            f"updates must be one row per client, got shape {found.shape}.",
            remedy="Flatten each update, and stack those of a round.",
        )
    is_usable = (np.abs(found) <= _LARGEST).all(axis=1, keepdims=True)  # NaN is not
    return np.where(is_usable, found, 0)


def squared_distances(updates: Updates) -> np.ndarray:
    """The squared distances between all pairs of updates: (clients, clients)."""
    centred = updates - np.median(updates, axis=0)  # what all have in common cancels badly
    squares = np.einsum("ij,ij->i", centred, centred)
    found = squares[:, None] + squares[None, :] - 2 * centred @ centred.T
    np.fill_diagonal(found, 0)
    return np.maximum(found, 0)


def _scores(distances: np.ndarray, malicious: int) -> np.ndarray:
    """The sum of an update's squared distances to its n - f - 2 nearest others, one at least."""
    neighbours = max(len(distances) - malicious - 2, 1)
    others = np.sort(distances, axis=1)[:, 1:]  # the first is the update itself
    return others[:, :neighbours].sum(axis=1)


def _nearest_to_median(ordered: np.ndarray, count: int) -> Update:
    """The mean of the `count` values nearest to the median of each sorted column."""
    middle = np.median(ordered, axis=0)
    order = np.argsort(np.abs(ordered - middle), axis=0, kind="stable")[:count]
    return np.take_along_axis(ordered, order, axis=0).mean(axis=0)


_RULES: dict[str, Callable[..., Update]] = {
    "mean": mean,
    "norm_bound": norm_bound,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "krum": krum,
    "multi_krum": multi_krum,
    "bulyan": bulyan,
    "geometric_median": geometric_median,
}
