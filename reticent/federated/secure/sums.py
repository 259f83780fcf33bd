"""A private sum over clients that nobody sees without noise: updates in, a noisy sum out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys
from reticent.federated.secure.protocol import secure_sum
from reticent.federated.secure.shares import NoiseShares


class PrivateSum(NamedTuple):
    """What a server knows after a round.

    Args:
        total: the noisy sum of the updates of those that finished. Divide it by a public number, such as
            `shares.clients`, and not by how many finished.
        finished: which clients did; the server sees that, and may tell nobody.
    """

    total: Float[np.ndarray, " numbers"]
    finished: frozenset[int]


def private_sum(
    updates: Mapping[int, np.ndarray],
    shares: NoiseShares,
    keys: Mapping[int, Keys],
    *,
    round_number: int,
    lost: Collection[int] = (),
) -> PrivateSum:
    """One round in this process: clip, round, noise, mask, add, open.

    Args:
        updates: of each client, by its place from 1 on.
        keys: of each client, for its share of the noise.
        lost: clients that vanish in the middle of the round.

    Guarantee:
        The server's view costs `shares.event(rounds=1)`, under `shares.assumptions`.

    Raises:
        DataError: fewer than `shares.least` finished; the round is lost.

    Example:
        >>> shares = NoiseShares(clients=4, least=3, noise_multiplier=1e-4, max_norm=1.0)
        >>> updates = {place: np.array([0.3, -0.4]) for place in range(1, 5)}
        >>> keys = {place: Keys.from_os() for place in updates}
        >>> found = private_sum(updates, shares, keys, round_number=0, lost=[2])
        >>> found.total.round(2).tolist(), sorted(found.finished)
        ([0.9, -1.2], [1, 3, 4])
    """
    if len(updates) != shares.clients or updates.keys() != keys.keys():
        raise InvalidArgument(
            f"The noise is made for {shares.clients} clients; {len(updates)} have updates, {len(keys)} keys.",
            remedy="Give every client of the round an update and keys of its own.",
        )
    encoded = {
        place: shares.encode(update, keys[place], round_number)
        for place, update in updates.items()
        if place not in lost
    }
    length = len(next(iter(encoded.values()))) if encoded else 1
    nothing = np.zeros(length, np.uint32)  # of clients that send no numbers
    total = secure_sum(
        {place: encoded.get(place, nothing) for place in updates},
        threshold=shares.least,
        round_name=f"round {round_number}",
        lost=lost,
    )
    return PrivateSum(shares.decode(total), frozenset(encoded))
