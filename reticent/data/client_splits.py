"""Clients for data that have none: classes divided unevenly, as in most published experiments."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from reticent.core import checks
from reticent.core.errors import DataError


def dirichlet_split(
    labels: ArrayLike, clients: int, concentration: float, *, seed: int
) -> Int[np.ndarray, " rows"]:
    """Assigns every row to a client: of each class, the clients get shares drawn from a Dirichlet law.

    A small concentration gives a client few classes and few rows, or none; a large one gives all the same.
    The split looks at labels, so it is for experiments with public data. Natural users are a column of them.

    Args:
        labels: the class of each row.
        seed: of the shares and of who gets what. Anyone can repeat the split.

    Returns:
        The client of each row, from 0 on, to be passed as `users` of a `Dataset`.

    Example:
        >>> clients = dirichlet_split(np.arange(1000) % 10, 20, 0.5, seed=0)
        >>> clients.shape, int(clients.min()) >= 0, int(clients.max()) < 20
        ((1000,), True, True)

    Reference:
        Yurochkin, Agarwal, Ghosh, Greenewald, Hoang and Khazaeni (2019), section 4, arXiv:1905.12022v1.
    """
    checks.count(clients=clients)
    checks.count(minimum=0, seed=seed)
    checks.positive(concentration=concentration)
    found = np.asarray(labels)
    if found.ndim != 1 or not len(found):
        raise DataError(
            f"labels must be one class per row, got shape {found.shape}.", remedy="Pass a column of labels."
        )
    random = np.random.default_rng(seed)
    owners = np.empty(len(found), np.int64)
    for label in np.unique(found):
        rows = random.permutation(np.flatnonzero(found == label))
        shares = random.dirichlet(np.full(clients, concentration))
        ends = np.round(np.cumsum(shares) * len(rows)).astype(np.int64)
        owners[rows] = np.searchsorted(ends, np.arange(len(rows)), side="right").clip(max=clients - 1)
    return owners
