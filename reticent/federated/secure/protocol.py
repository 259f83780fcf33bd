"""The protocol: four messages of each client, and a sum that the server can open once.

    1. keys      every client sends two public keys
    2. shares    every client splits its mask key and a seed among all, each share sealed for one of them
    3. masked    every client sends its numbers, plus a mask of its own, plus or minus one for each other
    4. reveal    those that are left send shares: of the seeds of clients that finished, of the mask keys of
                 those that did not. `threshold` of each take off what is left of the masks

A server that asked one client for both kinds of shares about the same peer could open what that peer sent:
clients refuse. The server is assumed to follow the protocol otherwise, and to name the same survivors to all.

Reference:
    Bonawitz, Ivanov, Kreuter, Marcedone, McMahan, Patel, Ramage, Segal and Seth (2017), figure 4 without the
    parts against active servers, https://eprint.iacr.org/2017/281.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt32

from reticent.core import checks, strict_json
from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.federated.secure import masks, shamir

Numbers = UInt32[np.ndarray, " numbers"]


class PublicKeys(NamedTuple):
    """What a client shows everybody: a key for masks, a key for sealed messages."""

    of_masks: bytes
    of_messages: bytes


class Revealed(NamedTuple):
    """What a client tells at the end: shares by the client whose secret they are of."""

    seeds: dict[int, int]  # of clients that finished
    mask_keys: dict[int, int]  # of clients that did not


class Client:
    """One client in one round. Places are counted from 1 on.

    Args:
        round_name: the same for all clients, and new for every round.
    """

    def __init__(self, place: int, round_name: str) -> None:
        checks.count(place=place)
        self.place, self._round = place, round_name
        self._mask_pair, self._message_pair = masks.key_pair(), masks.key_pair()
        self._seed = secrets.token_bytes(shamir.SECRET_BYTES)
        self._peers: dict[int, PublicKeys] = {}
        self._shares: dict[int, tuple[int, int]] = {}  # of each peer's seed and mask key
        self._threshold = 0
        self._is_masked = self._has_revealed = False

    def __repr__(self) -> str:
        return f"Client({self.place}, round '{self._round}')"

    def keys(self) -> PublicKeys:
        return PublicKeys(self._mask_pair.public, self._message_pair.public)

    def pack(self) -> bytes:
        """All that this client knows of the round, for its next message: secret, and nobody else's."""
        return json.dumps(
            {
                "place": self.place,
                "round": self._round,
                "private": [self._mask_pair.private.hex(), self._message_pair.private.hex()],
                "seed": self._seed.hex(),
                "peers": {place: [key.hex() for key in keys] for place, keys in self._peers.items()},
                "shares": {place: [f"{share:x}" for share in pair] for place, pair in self._shares.items()},
                "threshold": self._threshold,
                "flags": [self._is_masked, self._has_revealed],
            }
        ).encode()

    @classmethod
    def unpack(cls, content: bytes) -> Client:
        """The client that `pack` wrote, with what it has done already."""
        found = strict_json.parse_object(content)
        client = cls(int(found["place"]), str(found["round"]))
        pairs = [masks.key_pair(bytes.fromhex(private)) for private in found["private"]]
        client._mask_pair, client._message_pair = pairs
        client._seed, client._threshold = bytes.fromhex(found["seed"]), int(found["threshold"])
        client._peers = {
            int(place): PublicKeys(*map(bytes.fromhex, keys)) for place, keys in found["peers"].items()
        }
        client._shares = {
            int(place): (int(seed, 16), int(key, 16)) for place, (seed, key) in found["shares"].items()
        }
        client._is_masked, client._has_revealed = found["flags"]
        return client

    def shares(self, peers: Mapping[int, PublicKeys], threshold: int) -> dict[int, bytes]:
        """A sealed message for every other client, with a share of the seed and one of the mask key.

        Raises:
            InvalidArgument: too few clients for the threshold, a threshold that half of them reach, or asked
                twice in one round.
            IntegrityError: two clients have one key.
        """
        if self._peers:
            raise InvalidArgument("A round has begun.", remedy="Make a new client for every round.")
        if peers.get(self.place) != self.keys() or not len(peers) // 2 < threshold <= len(peers):
            raise InvalidArgument(
                f"A threshold of {threshold} among {len(peers)} clients, client {self.place} among them, "
                "is not more than half of them.",
                remedy="Wait for more clients, or choose another threshold.",
            )
        if len({key for keys in peers.values() for key in keys}) != 2 * len(peers):
            raise IntegrityError("Two clients have the same key.", remedy="Let each make keys of its own.")
        self._peers, self._threshold = dict(peers), threshold
        seeds = shamir.split(self._seed, threshold=threshold, places=peers)
        keys = shamir.split(self._mask_pair.private, threshold=threshold, places=peers)
        self._shares[self.place] = seeds[self.place], keys[self.place]
        return {
            peer: masks.seal(self._message_key(self.place, peer), _pack(seeds[peer], keys[peer]))
            for peer in peers
            if peer != self.place
        }

    def mask(self, numbers: Numbers, inbox: Mapping[int, bytes]) -> Numbers:
        """The numbers with all masks. Clients that sent no shares are out of the round.

        Raises:
            DataError: too few clients are left, or this client has sent numbers in this round.
        """
        if self._is_masked:
            raise DataError(
                "These masks were used: a second message would show the difference of both.",
                remedy="Make a new client for every round.",
            )
        for peer, message in inbox.items():
            opened = masks.unseal(self._message_key(peer, self.place), message)
            self._shares[peer] = _unpack(opened)
        _require_enough(len(self._shares), self._threshold)
        self._is_masked = True
        total = np.array(numbers, np.uint32)
        masks.add_stream(total, _of_seed(self._seed, self._round))
        for peer in self._shares:
            if peer != self.place:
                key = _pair_key(self._mask_pair.private, self._peers[peer], self._round)
                masks.add_stream(total, key, sign=1 if self.place < peer else -1)
        return total

    def reveal(self, finished: Collection[int]) -> Revealed:
        """Shares of the seeds of those that finished, and of the mask keys of the others.

        Raises:
            DataError: too few finished, or the server asks a second time.
        """
        if self._has_revealed:
            raise DataError(
                "Shares of this round were revealed: a second answer could open a single update.",
                remedy="Start a new round.",
            )
        if self.place not in finished or not set(finished) <= set(self._shares):
            raise DataError(
                "The server names clients that are not in this round, or leaves out this one.",
                remedy="Start a new round.",
            )
        _require_enough(len(set(finished)), self._threshold)
        self._has_revealed = True
        seeds = {peer: seed for peer, (seed, _) in self._shares.items() if peer in finished}
        keys = {peer: key for peer, (_, key) in self._shares.items() if peer not in finished}
        return Revealed(seeds, keys)

    def _message_key(self, sender: int, receiver: int) -> bytes:
        peer = self._peers[receiver if sender == self.place else sender]
        purpose = f"shares from {sender} to {receiver} in {self._round}"
        return masks.agree(self._message_pair.private, peer.of_messages, purpose)


class Server:
    """The server of one round: it collects messages, and opens the sum.

    Args:
        threshold: so many clients have to finish; more than half of them.
        numbers: how many each sends.
    """

    def __init__(self, round_name: str, *, threshold: int, numbers: int) -> None:
        checks.count(threshold=threshold, numbers=numbers)
        self._round, self._threshold, self._numbers = round_name, threshold, numbers
        self.keys: dict[int, PublicKeys] = {}
        self._sharing: set[int] = set()
        self._total = np.zeros(numbers, np.uint32)
        self._finished: set[int] = set()

    @property
    def finished(self) -> frozenset[int]:
        """The clients whose numbers are in the sum."""
        return frozenset(self._finished)

    def take_keys(self, place: int, keys: PublicKeys) -> None:
        """
        Raises:
            DataError: the place is taken, or others would refuse the keys: another client's, or none.
        """
        if place in self.keys:
            raise DataError(
                f"Client {place} is in this round already.",
                remedy="Ignore the second message, or ask who sent it.",
            )
        known = {key for pair in self.keys.values() for key in pair}
        if keys.of_masks == keys.of_messages or known & set(keys) or not all(map(masks.is_public_key, keys)):
            raise DataError(
                f"The keys of client {place} are those of another one, or no keys.",
                remedy="Leave it out of the round.",
            )
        self.keys[place] = keys

    def inbox(self, sent: Mapping[int, Mapping[int, bytes]], place: int) -> dict[int, bytes]:
        """What the others sent to one client, who is in the round from now on."""
        self._sharing |= sent.keys()
        return {peer: messages[place] for peer, messages in sent.items() if peer != place}

    def take_masked(self, place: int, numbers: Numbers) -> None:
        """Adds what a client sent.

        Raises:
            DataError: a client that is not in the round, a second message, or another number of numbers.
        """
        if place not in self._sharing or place in self._finished:
            raise DataError(
                f"Client {place} is not in this round, or sent its numbers before.",
                remedy="Ignore the message: it is late or replayed.",
            )
        found = np.asarray(numbers)
        if found.shape != (self._numbers,) or found.dtype != np.uint32:
            raise DataError(
                f"Client {place} sent {found.dtype} of shape {found.shape}, and the model has "
                f"{self._numbers} numbers.",
                remedy="Leave it out of the round: it has another model.",
            )
        self._total += found
        self._finished.add(place)

    def open(self, revealed: Mapping[int, Revealed]) -> Numbers:
        """The sum of the numbers of those that finished, modulo 2^32, without masks.

        Raises:
            DataError: too few clients finished, or too few told their shares. The round is lost, and nothing
                of it is known.
        """
        _require_enough(len(self._finished), self._threshold)
        _require_enough(len(revealed), self._threshold)
        total = self._total.copy()
        for place in sorted(self._finished):
            seed = self._join({teller: told.seeds.get(place) for teller, told in revealed.items()})
            masks.add_stream(total, _of_seed(seed, self._round), sign=-1)
        for place in sorted(self._sharing - self._finished):
            key = self._join({teller: told.mask_keys.get(place) for teller, told in revealed.items()})
            if masks.key_pair(key).public != self.keys[place].of_masks:
                raise IntegrityError(
                    f"The shares about client {place} do not give its key.", remedy="Start a new round."
                )
            for peer in self._finished:
                pair = _pair_key(key, self.keys[peer], self._round)
                masks.add_stream(total, pair, sign=-1 if peer < place else 1)
        return total

    def _join(self, shares: Mapping[int, int | None]) -> bytes:
        known = {place: share for place, share in shares.items() if share is not None}
        _require_enough(len(known), self._threshold)
        return shamir.join(dict(sorted(known.items())[: self._threshold]))


def _pair_key(private: bytes, peer: PublicKeys, round_name: str) -> bytes:
    return masks.agree(private, peer.of_masks, f"mask in {round_name}")


def _of_seed(seed: bytes, round_name: str) -> bytes:
    return masks.derive(seed, f"own mask in {round_name}")


def _pack(seed: int, key: int) -> bytes:
    return seed.to_bytes(shamir.SHARE_BYTES, "big") + key.to_bytes(shamir.SHARE_BYTES, "big")


def _unpack(message: bytes) -> tuple[int, int]:
    seed, key = message[: shamir.SHARE_BYTES], message[shamir.SHARE_BYTES :]
    return int.from_bytes(seed, "big"), int.from_bytes(key, "big")


def _require_enough(count: int, threshold: int) -> None:
    if not count >= threshold:
        raise DataError(
            f"{count} clients are left, and {threshold} are needed.",
            remedy="Start a new round: nothing of this one is known.",
        )


def secure_sum(
    numbers: Mapping[int, Numbers], *, threshold: int, round_name: str, lost: Collection[int] = ()
) -> Numbers:
    """One round from its keys to its sum, in this process.

    Args:
        numbers: what each client has, by its place from 1 on.
        lost: clients that vanish after they sent shares and before they send numbers.

    Example:
        >>> found = secure_sum(
        ...     {place: np.full(3, place, np.uint32) for place in range(1, 6)},
        ...     threshold=3,
        ...     round_name="round 0 of an example",
        ...     lost=[2],
        ... )
        >>> found.tolist()
        [13, 13, 13]
    """
    length = len(next(iter(numbers.values())))
    server = Server(round_name, threshold=threshold, numbers=length)
    clients = {place: Client(place, round_name) for place in numbers}
    for place, client in clients.items():
        server.take_keys(place, client.keys())
    sent = {place: client.shares(server.keys, threshold) for place, client in clients.items()}
    for place, client in clients.items():
        if place not in lost:
            server.take_masked(place, client.mask(numbers[place], server.inbox(sent, place)))
    left = {place: client for place, client in clients.items() if place in server.finished}
    return server.open({place: client.reveal(server.finished) for place, client in left.items()})
