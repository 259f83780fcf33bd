"""Secure sums: what cancels, what stays hidden, what a weak mask or a missing share of noise looks like."""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from reticent.core.errors import DataError, IntegrityError, InvalidArgument, KeyReuse
from reticent.core.keys import Keys
from reticent.core.whole_normals import floor_deviation, largest
from reticent.federated.secure import masks, protocol, shamir
from reticent.federated.secure.plan import SecurePlan
from reticent.federated.secure.protocol import Client, PublicKeys, Revealed, Server, secure_sum
from reticent.federated.secure.shares import NoiseShares
from reticent.federated.secure.sums import private_sum
from reticent.federated.secure.turns import Turns
from reticent.mechanisms.events import Gaussian, Repeated
from reticent.training.local_training import LocalTraining

SECRET = bytes(range(32))


# Shares of secrets


def test_so_many_shares_give_the_secret_and_one_fewer_does_not():
    shares = shamir.split(SECRET, threshold=3, places=range(1, 6))
    for some in combinations(shares, 3):
        assert shamir.join({place: shares[place] for place in some}) == SECRET
    assert shamir.join(shares) == SECRET
    for some in combinations(shares, 2):
        with pytest.raises(InvalidArgument, match="do not give a secret"):  # but for one in 2^265
            shamir.join({place: shares[place] for place in some})


def test_two_splits_of_one_secret_have_nothing_in_common():
    one, two = (shamir.split(SECRET, threshold=2, places=[1, 2]) for _ in range(2))
    assert not set(one.values()) & set(two.values())


# Masks


def is_chacha20(expand) -> bool:
    """Whether a function gives the keystream of RFC 8439, appendix A.1, vectors 1 and 2."""
    first = np.frombuffer(
        bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"), "<u4"
    )
    second = np.frombuffer(
        bytes.fromhex("9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"), "<u4"
    )
    found = expand(bytes(32), 24)
    return bool(np.array_equal(found[:8], first) and np.array_equal(found[16:24], second))


def weak(key: bytes, count: int) -> np.ndarray:
    """32 bytes folded to 32 bits, for a Mersenne twister: what another framework expands its masks with."""
    folded = int(np.bitwise_xor.reduce(np.frombuffer(key, "<u4")))
    twister = random.Random(folded)
    return np.array([twister.getrandbits(32) for _ in range(count)], np.uint32)


def test_masks_are_the_stream_of_the_standard_and_a_weak_one_would_be_noticed():
    assert is_chacha20(masks.expand)
    assert not is_chacha20(weak)
    swapped = SECRET[4:8] + SECRET[:4] + SECRET[8:]
    assert np.array_equal(weak(SECRET, 4), weak(swapped, 4))
    assert not np.array_equal(masks.expand(SECRET, 4), masks.expand(swapped, 4))


def masks_of_two_rounds() -> list[np.ndarray]:
    one, two = masks.key_pair(), masks.key_pair()
    keys = protocol.PublicKeys(two.public, two.public)
    return [masks.expand(protocol._pair_key(one.private, keys, name), 8) for name in ("round 1", "round 2")]


def test_no_mask_is_used_in_two_rounds_and_one_that_is_would_be_noticed(monkeypatch):
    first, second = masks_of_two_rounds()
    assert not np.any(first == second)
    agree = masks.agree
    monkeypatch.setattr(masks, "agree", lambda private, public, purpose: agree(private, public, "mask"))
    first, second = masks_of_two_rounds()
    assert np.array_equal(first, second)


def test_both_of_a_pair_agree_and_a_third_does_not():
    one, two, three = masks.key_pair(), masks.key_pair(), masks.key_pair()
    assert masks.agree(one.private, two.public, "a") == masks.agree(two.private, one.public, "a")
    assert masks.agree(one.private, two.public, "a") != masks.agree(three.private, two.public, "a")
    assert masks.agree(one.private, two.public, "a") != masks.agree(one.private, two.public, "b")
    assert one.private.hex() not in repr(one)
    with pytest.raises(IntegrityError):
        masks.agree(one.private, bytes(32), "a")


# The protocol


def numbers_of(clients: int, length: int = 50) -> dict[int, np.ndarray]:
    draw = np.random.default_rng(0)
    return {place: draw.integers(0, 2**32, length, dtype=np.uint32) for place in range(1, clients + 1)}


@pytest.mark.parametrize(("clients", "lost"), [(3, []), (9, [1, 5, 9]), (12, [2, 3, 7, 12])])
def test_masks_cancel_to_the_last_bit_and_a_third_may_vanish(clients: int, lost: list[int]):
    numbers = numbers_of(clients)
    found = secure_sum(numbers, threshold=clients // 2 + 1, round_name="r", lost=lost)
    expected = sum(1 * numbers[place].astype(np.uint64) for place in numbers if place not in lost)
    np.testing.assert_array_equal(found, (np.asarray(expected) % 2**32).astype(np.uint32))


class _Begun:
    """A round of four clients whose shares are sent."""

    def __init__(self, length: int = 2000) -> None:
        self.server = Server("r", threshold=3, numbers=length)
        self.clients = {place: Client(place, "r") for place in range(1, 5)}
        for place, client in self.clients.items():
            self.server.take_keys(place, client.keys())
        self.sent = {place: client.shares(self.server.keys, 3) for place, client in self.clients.items()}

    def mask(self, place: int, numbers: np.ndarray) -> np.ndarray:
        return self.clients[place].mask(numbers, self.server.inbox(self.sent, place))


def test_what_a_client_sends_looks_like_random_words_and_never_the_same():
    zeros = np.zeros(20_000, np.uint32)
    first, second = (_Begun(len(zeros)).mask(1, zeros) for _ in range(2))
    assert not np.any(first == second)
    # The mean of 20,000 uniform words is within 1.4% of the middle, but for one try in a million.
    assert np.mean(first / 2**31) == pytest.approx(1, abs=0.02)
    assert len(np.unique(first)) > 19_990


def test_what_a_client_sends_is_hidden_by_the_streams_of_the_standard_and_of_this_round():
    """Worked out with the library alone: any other generator, or a mask of another round, shows here."""
    length = 70_000  # more than a piece
    round_ = _Begun(length)
    sent = round_.mask(2, np.zeros(length, np.uint32))
    own, expected = round_.clients[2], np.zeros(length, np.uint32)

    def stream(secret: bytes, purpose: str) -> np.ndarray:
        key = HKDF(algorithm=SHA256(), length=32, salt=None, info=f"reticent {purpose}".encode()).derive(
            secret
        )
        found = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor().update(bytes(4 * length))
        return np.frombuffer(found, "<u4")

    expected += stream(own._seed, "own mask in r")
    private = X25519PrivateKey.from_private_bytes(own._mask_pair.private)
    for peer in (1, 3, 4):
        shared = private.exchange(X25519PublicKey.from_public_bytes(round_.server.keys[peer].of_masks))
        expected += stream(shared, "mask in r") if peer > 2 else -stream(shared, "mask in r")
    np.testing.assert_array_equal(sent, expected)


def test_too_few_clients_lose_the_round_and_reveal_nothing():
    with pytest.raises(DataError, match="2 clients are left, and 3 are needed"):
        secure_sum(numbers_of(4), threshold=3, round_name="r", lost=[1, 2])
    round_ = _Begun()
    for place in (1, 2):
        round_.server.take_masked(place, round_.mask(place, np.zeros(2000, np.uint32)))
    with pytest.raises(DataError, match="are needed"):
        round_.clients[1].reveal(round_.server.finished)


def test_a_client_answers_once_and_never_gives_both_kinds_of_shares():
    round_ = _Begun()
    for place in (1, 2, 3, 4):
        round_.server.take_masked(place, round_.mask(place, np.zeros(2000, np.uint32)))
    with pytest.raises(DataError, match="masks were used"):
        round_.mask(1, np.zeros(2000, np.uint32))
    told = round_.clients[1].reveal({1, 2, 3})
    assert set(told.seeds) == {1, 2, 3}
    assert set(told.mask_keys) == {4}
    with pytest.raises(DataError, match="a second answer"):
        round_.clients[1].reveal({1, 2, 4})
    with pytest.raises(DataError, match="names clients"):
        round_.clients[2].reveal({1, 3, 4})


def test_a_message_that_comes_after_its_mask_key_was_revealed_stays_hidden():
    round_ = _Begun(length=20)
    numbers = numbers_of(4, 20)
    for place in (1, 2, 3):
        round_.server.take_masked(place, round_.mask(place, numbers[place]))
    late = round_.mask(4, numbers[4])
    told = {place: round_.clients[place].reveal({1, 2, 3}) for place in (1, 2, 3)}
    key = shamir.join({place: each.mask_keys[4] for place, each in told.items()})
    for peer in (1, 2, 3):  # all of them come before the fourth
        late = late + masks.expand(protocol._pair_key(key, round_.server.keys[peer], "r"), 20)
    assert not np.any(late == numbers[4])


def test_replayed_late_foreign_and_misshapen_messages_are_refused_and_nothing_is_lost():
    round_ = _Begun(length=20)
    numbers = numbers_of(4, 20)
    sent = {place: round_.mask(place, numbers[place]) for place in (1, 2, 3)}
    server = round_.server
    for place, message in sent.items():
        server.take_masked(place, message)
    with pytest.raises(DataError, match="late or replayed"):
        server.take_masked(1, sent[1])
    with pytest.raises(DataError, match="late or replayed"):
        server.take_masked(7, sent[1])
    with pytest.raises(DataError, match="has 20 numbers"):
        server.take_masked(4, np.zeros(19, np.uint32))
    with pytest.raises(DataError, match="in this round already"):
        server.take_keys(2, round_.clients[2].keys())
    revealed = {place: round_.clients[place].reveal(server.finished) for place in (1, 2, 3)}
    expected = numbers[1] + numbers[2] + numbers[3]
    np.testing.assert_array_equal(server.open(revealed), expected)
    wrong = {
        place: Revealed(told.seeds, {4: told.mask_keys[4] + (place == 2)}) for place, told in revealed.items()
    }
    with pytest.raises((IntegrityError, InvalidArgument)):
        server.open(wrong)


def test_sealed_shares_that_were_changed_or_are_of_another_round_do_not_open():
    round_ = _Begun()
    inbox = round_.server.inbox(round_.sent, 1)
    inbox[2] = inbox[2][:-1] + bytes([inbox[2][-1] ^ 1])
    with pytest.raises(IntegrityError, match="does not open"):
        round_.clients[1].mask(np.zeros(5, np.uint32), inbox)
    inbox[2] = _Begun().sent[2][1]
    with pytest.raises(IntegrityError, match="does not open"):
        round_.clients[1].mask(np.zeros(5, np.uint32), inbox)


def test_two_messages_that_are_sealed_with_one_key_show_no_difference():
    key, one, two = bytes(32), bytes(40), bytes(range(40))
    first, second = (np.frombuffer(masks.seal(key, each), np.uint8) for each in (one, two))
    bits = np.frombuffer(one, np.uint8) ^ np.frombuffer(two, np.uint8)
    assert not np.array_equal((first ^ second)[-56:-16], bits)  # as it would be with one stream for both
    assert masks.unseal(key, bytes(second)) == two
    for wrong in (b"", b"short", bytes(second[:-1])):
        with pytest.raises(IntegrityError, match="does not open"):
            masks.unseal(key, wrong)


def test_keys_that_are_copied_or_no_keys_are_refused_before_they_cost_others_the_round():
    server, one = Server("r", threshold=3, numbers=5), Client(1, "r").keys()
    server.take_keys(1, one)
    for wrong in (
        one,
        one._replace(of_masks=bytes(32)),
        PublicKeys(b"short", b"keys"),
        PublicKeys(*[one[1]] * 2),
    ):
        with pytest.raises(DataError, match="those of another one, or no keys"):
            server.take_keys(2, wrong)
    server.take_keys(2, Client(2, "r").keys())


def test_a_client_counts_its_rounds_over_all_runs_and_never_uses_masks_twice(tmp_path):
    for most, key in ((2, b"one"), (2, b"two")):
        Turns(tmp_path, plan="a plan", client="ann").take(key, most)
    with pytest.raises(DataError, match="took part in 2 rounds"):
        Turns(tmp_path, plan="a plan", client="ann").take(b"three", 2)
    with pytest.raises(DataError, match="masks were used"):
        Turns(tmp_path, plan="a plan", client="ann").take(b"one", 9)
    Turns(tmp_path, plan="a plan", client="bob").take(b"one", 2)
    # Two processes of one client that are asked to reveal at once both find a round that told nothing.
    Turns(tmp_path, plan="a plan", client="bob").tell(b"one")
    for key in (b"one", b"of a round without numbers"):
        with pytest.raises(DataError, match="could open a single update"):
            Turns(tmp_path, plan="a plan", client="bob").tell(key)
    for path in tmp_path.glob("*.json"):
        assert path.stat().st_mode & 0o77 == 0
        path.write_text("{}")
    with pytest.raises(IntegrityError, match="is damaged"):
        Turns(tmp_path, plan="a plan", client="bob").take(b"two", 2)


def test_thresholds_that_half_reach_and_keys_that_two_share_are_refused():
    keys = {place: Client(place, "r").keys() for place in (2, 3, 4)}
    client = Client(1, "r")
    with pytest.raises(InvalidArgument, match="not more than half"):
        client.shares({1: client.keys(), **keys}, 2)
    with pytest.raises(IntegrityError, match="same key"):
        client.shares({1: client.keys(), 2: keys[2], 3: keys[2]}, 2)
    half = NoiseShares(clients=6, least=3, noise_multiplier=2.0, max_norm=0.5)
    with pytest.raises(InvalidArgument, match="opened by 3, which is not more than half"):
        SecurePlan(shares=half, rounds=1, rows_per_client=1, local=LocalTraining(learning_rate=0.1))


def test_clients_with_one_source_of_noise_between_them_are_refused():
    """Their shares would be one number, as often as there are clients: whoever knows one knows all."""
    keys = Keys.from_os()
    shares = NoiseShares(clients=3, least=2, noise_multiplier=1.0, max_norm=1.0)
    with pytest.raises(KeyReuse):
        private_sum(
            {at: np.zeros(4) for at in (1, 2, 3)}, shares, dict.fromkeys((1, 2, 3), keys), round_number=0
        )


# Noise


SHARES = NoiseShares(clients=6, least=4, colluding=1, noise_multiplier=2.0, max_norm=0.5)


def test_the_event_counts_the_shares_that_are_sure_and_no_others():
    event = SHARES.event(rounds=1)
    assert isinstance(event, Gaussian)
    sure = floor_deviation(SHARES.multiple) * math.sqrt(4 - 1)
    assert event.noise_multiplier == pytest.approx(sure / SHARES.steps, rel=1e-9)
    assert event.noise_multiplier >= 2.0
    assert SHARES.event(rounds=7) == Repeated(event=event, times=7)
    said = str(SHARES.guarantee(delta=1e-5, rounds=7, numbers=1000))
    assert "3 at least add their noise" in said
    assert "one user" in said
    fewer = NoiseShares(clients=6, least=4, colluding=3, noise_multiplier=2.0, max_norm=0.5)
    assert fewer.steps < SHARES.steps  # one share has to be enough


@pytest.mark.parametrize("clients", [2, 100, 1500])
@pytest.mark.parametrize("noise", [1e-3, 1.0, 50.0])
def test_no_sum_wraps_around_whatever_clients_hold(clients: int, noise: float):
    shares = NoiseShares(clients=clients, least=clients, noise_multiplier=noise, max_norm=1.0)
    assert clients * (shares.steps + largest(shares.multiple)) < 2**31
    assert shares.steps > 1000


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 0.5, 1.0, 1e6, 1e100, 1e300, np.nan, np.inf])
def test_an_update_in_whole_numbers_is_never_longer_than_the_norm(scale: float):
    for seed in range(5):
        update = scale * np.random.default_rng(seed).normal(size=1000)
        whole = SHARES.whole(update)
        assert sum(int(value) ** 2 for value in whole) <= SHARES.steps**2
        if 1e-3 <= scale <= 1e100:
            kept = update * min(1, 0.5 / np.linalg.norm(update))
            np.testing.assert_allclose(whole * 0.5 / SHARES.steps, kept, atol=2e-6)
        if not np.isfinite(scale):
            assert not whole.any()


def noise_left(shares_that_come: int) -> float:
    """The deviation of a secure sum of zeros, over that of the shares of all clients."""
    width = 20_000
    found = np.zeros(width, np.uint32)
    for place in range(1, shares_that_come + 1):
        found += SHARES.encode(np.zeros(width), Keys.seeded(place), 0)
    every = math.sqrt(6) * floor_deviation(SHARES.multiple) * SHARES.max_norm / SHARES.steps
    return float(np.std(SHARES.decode(found)) / every)


def test_the_noise_of_a_sum_is_that_of_all_who_finish_and_a_missing_share_would_be_noticed():
    # The deviation of 20,000 normals is within 2.5% of theirs, but for one try in a million.
    assert noise_left(6) == pytest.approx(1, abs=0.025)
    assert noise_left(5) != pytest.approx(1, abs=0.025)
    width = 20_000
    keys = {place: Keys.seeded(place) for place in range(1, 7)}
    found = private_sum({place: np.zeros(width) for place in keys}, SHARES, keys, round_number=1)
    every = math.sqrt(6) * floor_deviation(SHARES.multiple) * SHARES.max_norm / SHARES.steps
    assert np.std(found.total) / every == pytest.approx(1, abs=0.025)


def test_a_round_gives_the_sum_with_noise_and_clients_that_vanish_take_theirs_along():
    shares = NoiseShares(clients=6, least=4, noise_multiplier=0.01, max_norm=1.0)
    updates = {place: np.full(4, 0.1 * place) for place in range(1, 7)}
    updates[6] = np.full(4, np.nan)
    keys = {place: Keys.seeded(place) for place in updates}
    found = private_sum(updates, shares, keys, round_number=3, lost=[2])
    clipped = [0.1, 0.3, 0.4, 0.5, 0.0]
    np.testing.assert_allclose(found.total, sum(clipped), atol=0.1)
    assert found.finished == {1, 3, 4, 5, 6}
    assert np.std(found.total) > 0
    with pytest.raises(InvalidArgument, match="made for 6 clients"):
        private_sum({1: updates[1]}, shares, keys, round_number=4)


@pytest.mark.parametrize(
    "wrong", [{"least": 7}, {"least": 1, "colluding": 1}, {"noise_multiplier": 0.0}, {"clients": 10_000}]
)
def test_shares_that_cannot_be_are_refused(wrong: dict):
    setting = {"clients": 6, "least": 4, "noise_multiplier": 1.0, "max_norm": 1.0}
    with pytest.raises(InvalidArgument):
        NoiseShares(**{**setting, **wrong})
