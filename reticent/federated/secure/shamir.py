"""Shamir's secret sharing: any `threshold` shares give the secret, fewer tell nothing about it.

    shares = split(secret, threshold=3, places=[1, 2, 3, 4])     # place -> share
    join({1: shares[1], 2: shares[2], 4: shares[4]}) == secret

Reference:
    Shamir (1979), "How to share a secret", Communications of the ACM 22(11).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping

from reticent.core import checks
from reticent.core.errors import InvalidArgument

PRIME = 2**521 - 1  # secrets are 256 bits; every value below it is possible for a share
SECRET_BYTES = 32
SHARE_BYTES = 66


def split(secret: bytes, *, threshold: int, places: Iterable[int]) -> dict[int, int]:
    """A share of the secret for every place, by a random polynomial of degree `threshold - 1`.

    Raises:
        InvalidArgument: a secret of another length, fewer places than the threshold, or a place 0.
    """
    checks.count(threshold=threshold)
    wanted = sorted(set(places))
    if len(secret) != SECRET_BYTES:
        raise InvalidArgument(
            f"A secret has {SECRET_BYTES} bytes, got {len(secret)}.", remedy="Hash it first."
        )
    if len(wanted) < threshold or (wanted and wanted[0] < 1):
        raise InvalidArgument(
            f"{len(wanted)} places from {wanted[:1]} on are not enough for a threshold of {threshold}.",
            remedy="Number them from 1 on, as many as the threshold at least.",
        )
    polynomial = [int.from_bytes(secret, "big"), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {place: _value(polynomial, place) for place in wanted}


def join(shares: Mapping[int, int]) -> bytes:
    """The secret, by Lagrange's formula at 0. Of fewer shares than the threshold it is something else.

    Raises:
        InvalidArgument: the shares are of no secret, so one of them is wrong or too few are there.
    """
    total = 0
    for place, share in shares.items():
        above, below = 1, 1
        for other in shares:
            if other != place:
                above = above * other % PRIME
                below = below * (other - place) % PRIME
        total = (total + share * above * pow(below, -1, PRIME)) % PRIME
    if not total < 2 ** (8 * SECRET_BYTES):
        raise InvalidArgument(
            f"{len(shares)} shares do not give a secret of {SECRET_BYTES} bytes.",
            remedy="One of them is wrong, or they are fewer than the threshold.",
        )
    return total.to_bytes(SECRET_BYTES, "big")


def _value(polynomial: list[int], at: int) -> int:
    found = 0
    for coefficient in reversed(polynomial):
        found = (found * at + coefficient) % PRIME
    return found
