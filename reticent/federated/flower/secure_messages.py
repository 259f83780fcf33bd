"""The messages of a secure round as Flower's records: plain bytes and whole numbers, each read with care."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reticent.core.errors import DataError
from reticent.federated.flower.library import app
from reticent.federated.secure.protocol import PublicKeys, Revealed
from reticent.federated.secure.shamir import SHARE_BYTES

KEYS, SHARES, MASKED, REVEAL = (f"train.reticent_{name}" for name in ("keys", "shares", "masked", "reveal"))
SAID, NUMBERS, STATE = "reticent.said", "reticent.numbers", "reticent.secure"


def said_in(message: Any) -> Any:
    """What a message says beside its arrays.

    Raises:
        DataError: nothing.
    """
    found = message.content.config_records.get(SAID)
    if found is None:
        raise DataError("A message of a secure round says nothing.", remedy="It was left out.")
    return found


def by_place(said: Any, *names: str) -> dict[int, tuple[bytes, ...]]:
    """Bytes for every place: one column of a record for each name.

    Raises:
        DataError: the columns do not fit each other.
    """
    try:
        places = [int(place) for place in said["places"]]
        columns = [[bytes(value) for value in said[name]] for name in names]
    except (KeyError, TypeError, ValueError):
        places, columns = [], [[b""]]
    if any(len(column) != len(places) for column in columns) or len(set(places)) < len(places):
        raise DataError("A message of a secure round is not complete.", remedy="It was left out.")
    return {place: tuple(column[at] for column in columns) for at, place in enumerate(places)}


def columns_of(found: Mapping[int, tuple[bytes, ...]], *names: str) -> dict[str, Any]:
    places = sorted(found)
    return {
        "places": places,
        **{name: [found[place][at] for place in places] for at, name in enumerate(names)},
    }


def keys_in(said: Any) -> dict[int, PublicKeys]:
    return {place: PublicKeys(*pair) for place, pair in by_place(said, "of_masks", "of_messages").items()}


def columns_of_keys(keys: Mapping[int, PublicKeys]) -> dict[str, Any]:
    return columns_of(dict(keys), "of_masks", "of_messages")


def columns_of_revealed(told: Revealed) -> dict[str, Any]:
    def packed(shares: Mapping[int, int]) -> list[bytes]:
        return [shares[place].to_bytes(SHARE_BYTES, "big") for place in sorted(shares)]

    return {
        "seeds_of": sorted(told.seeds),
        "seeds": packed(told.seeds),
        "keys_of": sorted(told.mask_keys),
        "keys": packed(told.mask_keys),
    }


def revealed_in(said: Any) -> Revealed:
    """
    Raises:
        DataError: the columns do not fit each other.
    """
    pairs = []
    for name in ("seeds", "keys"):
        found = by_place({"places": said.get(f"{name}_of"), name: said.get(name)}, name)
        if any(len(share) != SHARE_BYTES for (share,) in found.values()):
            raise DataError("A share of a secret has another length.", remedy="It was left out.")
        pairs.append({place: int.from_bytes(share, "big") for place, (share,) in found.items()})
    return Revealed(*pairs)


def numbers_record(numbers: np.ndarray) -> Any:
    return app.ArrayRecord({"numbers": app.Array(np.ascontiguousarray(numbers, "<u4"))}, keep_input=True)
