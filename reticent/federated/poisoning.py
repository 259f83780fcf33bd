"""Poisoning: what malicious clients send, or train on, to make a model worse or to hide a backdoor in it.

For experiments on one's own models: how much a rule, or privacy, holds back.

    rows     flip_labels, with_trigger, backdoor, edge_cases, edge_case_backdoor    what a client trains on
    updates  sign_flip, gaussian, alie, min_max, against_krum, replace_model    what it sends

The functions of updates take those of a whole round, one row per client, and whose are malicious. They return
the round as the server sees it. The strongest of them (alie, min_max, against_krum) know what honest clients
send.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.federated.robust import squared_distances

Sent = Float[np.ndarray, "clients numbers"]
Malicious = Bool[np.ndarray, " clients"]


def flip_labels(labels: Int[np.ndarray, " rows"], classes: int) -> Int[np.ndarray, " rows"]:
    """Every label becomes its opposite: class c of C becomes C - 1 - c.

    Example:
        >>> flip_labels(np.array([0, 3, 9]), 10).tolist()
        [9, 6, 0]

    Reference:
        Fang, Cao, Jia and Gong (2020), section 5.1, arXiv:1911.11815v4.
    """
    return classes - 1 - np.asarray(labels)


def with_trigger(images: np.ndarray, *, size: int = 3, value: float = 1.0) -> np.ndarray:
    """Images with a square of one value in a corner.

    Args:
        images: (rows, height, width) or (rows, height, width, channels).

    Example:
        >>> int(with_trigger(np.zeros((1, 5, 5)), size=2).sum())
        4

    Reference:
        Gu, Dolan-Gavitt and Garg (2017), section 4.1, arXiv:1708.06733v2.
    """
    found = np.array(images)
    if found.ndim < 3 or not 0 < size <= min(found.shape[1:3]):
        raise InvalidArgument(
            f"A square of {size} does not fit into images of shape {found.shape[1:]}.",
            remedy="Pass images as (rows, height, width), and a smaller size.",
        )
    found[:, -size:, -size:] = value
    return found


def backdoor(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    target: int,
    share: float = 0.5,
    size: int = 3,
    value: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The first `share` of the rows with a trigger and the target as their label; the others as they are.

    Example:
        >>> images, labels = backdoor(np.zeros((4, 5, 5)), np.arange(4), target=9)
        >>> labels.tolist(), images.reshape(4, -1).sum(axis=1).tolist()
        ([9, 9, 2, 3], [9.0, 9.0, 0.0, 0.0])
    """
    checks.probability(share=share)
    count = math.ceil(share * len(images))
    found, changed = np.array(images), np.array(labels)
    found[:count] = with_trigger(found[:count], size=size, value=value)
    changed[:count] = target
    return found, changed


def edge_cases(features: Float[np.ndarray, "rows features"], count: int) -> Int[np.ndarray, " found"]:
    """The rows that are least like the others: a backdoor on them is noticed by no honest client's rows.

    Likeness is the density of a Gaussian with the rows' mean and their covariance, a thousandth of whose
    mean variance is added to each direction.

    Args:
        features: of rows of one class, to be given another label by malicious clients.

    Example:
        >>> edge_cases(np.array([[0.0], [0.1], [-0.1], [8.0]]), 1).tolist()
        [3]

    Reference:
        Wang, Sreenivasan, Rajput, Vishwakarma, Agarwal, Sohn, Lee and Papailiopoulos (2020), section 3,
        arXiv:2007.05084v1.
    """
    checks.count(count=count)
    rows = np.asarray(features, np.float64).reshape(len(features), -1)
    centred = rows - rows.mean(axis=0)
    covariance = centred.T @ centred / len(rows)
    ridge = 1e-3 * np.trace(covariance) / len(covariance) + 1e-12
    solved = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), centred.T)
    distances = np.einsum("ij,ji->i", centred, solved)
    return np.argsort(-distances, kind="stable")[:count]


def edge_case_backdoor(
    images: np.ndarray, labels: np.ndarray, tail: np.ndarray, *, target: int, share: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """The first `share` of the rows are examples of the tail with the target as their label.

    No trigger is needed: honest clients have hardly a row like these, and so none that would take it back.

    Args:
        tail: rows that `edge_cases` found, other ones than those that success is measured on. They are
            repeated where they are fewer.

    Example:
        >>> images, labels = edge_case_backdoor(np.zeros((4, 2)), np.arange(4), np.ones((1, 2)), target=9)
        >>> labels.tolist(), images[:, 0].tolist()
        ([9, 9, 2, 3], [1.0, 1.0, 0.0, 0.0])

    Reference:
        Wang et al. (2020), section 3, arXiv:2007.05084v1.
    """
    checks.probability(share=share)
    found, changed, tail = np.array(images), np.array(labels), np.asarray(tail)
    if not len(tail) or tail.shape[1:] != found.shape[1:]:
        raise InvalidArgument(
            f"A tail of shape {tail.shape} has no row that could stand among images of shape {found.shape}.",
            remedy="Pass at least one row, of the same shape as the others.",
        )
    count = math.ceil(share * len(found))
    found[:count] = tail[np.arange(count) % len(tail)]
    changed[:count] = target
    return found, changed


def persistence(success: Sequence[float], least: float = 0.5) -> int:
    """For how many rounds after an attack has stopped its success stays at `least` or above.

    Args:
        success: after each of these rounds, the first of which is the first without the attacker.

    Example:
        >>> persistence([0.9, 0.6, 0.4, 0.7])
        2
    """
    checks.probability(least=least)
    return next((at for at, value in enumerate(success) if not value >= least), len(success))


def sign_flip(updates: Sent, is_malicious: Malicious, scale: float = 1.0) -> Sent:
    """Malicious clients go the other way, `scale` times as far.

    Reference:
        Li, Xu, Chen, Giannakis and Ling (2019), section 5, arXiv:1811.03761v2.

    Example:
        >>> sign_flip(np.array([[1.0], [2.0]]), np.array([False, True])).tolist()
        [[1.0], [-2.0]]
    """
    found, is_bad = _check(updates, is_malicious)
    return np.where(is_bad[:, None], -scale * found, found)


def gaussian(updates: Sent, is_malicious: Malicious, random: np.random.Generator, deviation: float) -> Sent:
    """Malicious clients add Gaussian noise of this standard deviation to each number.

    Example:
        >>> random = np.random.default_rng(0)
        >>> gaussian(np.zeros((2, 1)), np.array([False, True]), random, deviation=3.0).round(2).tolist()
        [[0.0], [0.38]]
    """
    found, is_bad = _check(updates, is_malicious)
    checks.positive(deviation=deviation)
    sent = found.copy()
    sent[is_bad] += deviation * random.standard_normal((int(is_bad.sum()), found.shape[1]))
    return sent


def alie(updates: Sent, is_malicious: Malicious, z: float | None = None) -> Sent:
    """A little is enough: all malicious clients send the honest mean less z honest deviations.

    Args:
        z: by default, so small that enough honest clients are further out for the malicious ones to pass.

    Reference:
        Baruch, Baruch and Goldberg (2019), Algorithm 3, arXiv:1902.06156v1.

    Example:
        >>> alie(np.array([[1.0], [3.0], [9.0]]), np.array([False, False, True]), z=0.5).tolist()
        [[1.0], [3.0], [1.5]]
    """
    found, is_bad = _check(updates, is_malicious)
    honest = found[~is_bad]
    if z is None:
        z = hidden_deviations(len(found), int(is_bad.sum()))
    sent = found.copy()
    sent[is_bad] = honest.mean(axis=0) - z * honest.std(axis=0)
    return sent


def hidden_deviations(clients: int, malicious: int) -> float:
    """How many deviations from the mean the clients of `alie` may be, among so many.

    Example:
        >>> round(hidden_deviations(50, 24), 2)  # 24 and two who are further out are a majority
        1.43
    """
    checks.count(clients=clients, malicious=malicious)
    supporters = clients // 2 + 1 - malicious
    if not 0 < supporters < clients - malicious:
        raise InvalidArgument(
            f"{malicious} malicious clients of {clients} need nobody to hide among.",
            remedy="Pass z, or fewer malicious clients.",
        )
    return float(ndtri((clients - malicious - supporters) / (clients - malicious)))


def min_max(updates: Sent, is_malicious: Malicious) -> Sent:
    """All malicious clients send the honest mean, less as many honest deviations as distances allow.

    They are no further from any honest update than the two honest updates that are furthest apart.

    Reference:
        Shejwalkar and Houmansadr (2021), section V-B, "Manipulating the Byzantine", NDSS, equation 8.

    Example:
        >>> sent = min_max(np.array([[1.0], [3.0], [9.0]]), np.array([False, False, True]))
        >>> sent.round(3).tolist()  # no further from 3 than 1 is
        [[1.0], [3.0], [1.0]]
    """
    found, is_bad = _check(updates, is_malicious)
    honest = found[~is_bad]
    centre, way = honest.mean(axis=0), -honest.std(axis=0)
    from_centre = centre - honest
    own = np.einsum("ij,ij->i", from_centre, from_centre)
    gram = from_centre @ from_centre.T
    widest = float(np.max(own[:, None] + own[None, :] - 2 * gram))
    square = float(way @ way)
    sent = found.copy()
    if square == 0:  # all honest updates are the same
        sent[is_bad] = centre
        return sent
    # |centre + gamma way - u|^2 <= widest is a quadratic inequality in gamma for each honest update u.
    half = from_centre @ way
    roots = (-half + np.sqrt(np.maximum(half**2 + square * (widest - own), 0))) / square
    sent[is_bad] = centre + max(float(roots.min()), 0.0) * way
    return sent


def against_krum(updates: Sent, is_malicious: Malicious, least: float = 1e-5) -> Sent:
    """All malicious clients go against the honest mean, each number by the same length, and Krum picks them.

    The length is the longest of a halving series for which Krum picks a malicious update.

    Args:
        least: of the length, where Krum picks an honest one for any longer.

    Reference:
        Fang, Cao, Jia and Gong (2020), section 4.2, with full knowledge, arXiv:1911.11815v4.

    Example:
        >>> honest = np.array([[0.9, -1.0], [1.0, -1.1], [1.1, -0.9], [1.2, -1.2], [0.8, -0.8]])
        >>> sent = against_krum(np.append(honest, np.zeros((3, 2)), axis=0), np.arange(8) >= 5)
        >>> bool(sent[5, 0] < 0 < sent[5, 1])
        True
    """
    found, is_bad = _check(updates, is_malicious)
    honest, count = found[~is_bad], int(is_bad.sum())
    way, sent = -np.sign(honest.mean(axis=0)), found.copy()
    lengths = np.linalg.norm(honest, axis=1)
    length = max(float(lengths.max()) / math.sqrt(max(np.count_nonzero(way), 1)), least)
    apart = squared_distances(honest)
    while True:
        sent[is_bad] = length * way
        from_bad = np.sum((honest - length * way) ** 2, axis=1)
        if length <= least or _is_picked(apart, from_bad, count):
            return sent
        length = max(length / 2, least)


def _is_picked(apart: np.ndarray, from_bad: np.ndarray, count: int) -> bool:
    """Whether Krum picks one of `count` equal updates, given all squared distances."""
    neighbours = max(len(apart) - 2, 1)  # all less the malicious ones and 2
    own = np.sort(np.concatenate([np.zeros(count - 1), from_bad]))[:neighbours].sum()
    others = np.concatenate([apart, np.repeat(from_bad[:, None], count, axis=1)], axis=1)
    scores = np.sort(others, axis=1)[:, 1 : neighbours + 1].sum(axis=1)  # the first is the update itself
    return bool(own <= scores.min())


def replace_model(updates: Sent, is_malicious: Malicious, clients: int | None = None) -> Sent:
    """Malicious clients multiply their updates, so that the mean becomes theirs.

    Args:
        clients: how many updates the mean is over; by default, as many as there are.

    Reference:
        Bagdasaryan, Veit, Hua, Estrin and Shmatikov (2020), equation 3, arXiv:1807.00459v3.

    Example:
        >>> sent = replace_model(np.array([[0.0], [0.0], [6.0]]), np.array([False, False, True]))
        >>> sent.mean(axis=0).tolist()
        [6.0]
    """
    found, is_bad = _check(updates, is_malicious)
    several = (len(found) if clients is None else clients) / max(int(is_bad.sum()), 1)
    return np.where(is_bad[:, None], several * found, found)


def _check(updates: Sent, is_malicious: Malicious) -> tuple[Sent, Malicious]:
    found, is_bad = np.asarray(updates, np.float64), np.asarray(is_malicious)
    if found.ndim != 2 or is_bad.shape != found.shape[:1] or is_bad.dtype != np.bool_:
        raise InvalidArgument(
            f"Updates of shape {found.shape} and malicious clients of shape {is_bad.shape} do not fit "
            "together.",
            remedy="Pass one row of numbers and one boolean per client.",
        )
    if is_bad.all():
        raise InvalidArgument("All clients are malicious.", remedy="Leave an honest one at least.")
    return found, is_bad
