"""Randomness is wide, split without overlap, and given out once."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import re
import subprocess
import sys
import threading
import time

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reticent.core import keys as keys_module
from reticent.core.errors import InvalidArgument, KeyReuse
from reticent.core.keys import Keys, Stream, leaf_keys, step_key

TREE = {"weights": np.zeros(3), "bias": [np.zeros(()), np.zeros((2, 2))]}


def bits(key: jax.Array) -> bytes:
    return np.asarray(jax.random.key_data(key)).tobytes()


def test_a_key_holds_128_bits():
    root = Keys.from_os().take(Stream.NOISE)
    for key in (root, step_key(root, 0), *jax.tree.leaves(leaf_keys(root, TREE))):
        words = jax.random.key_data(key)
        assert words.size * words.dtype.itemsize * 8 >= 128


def test_all_128_bits_of_a_key_are_random():
    # A bit is the same in all of 64 keys with probability 2^-63; a false alarm for any of 128: 1.4e-17.
    drawn = [jax.random.key_data(Keys.from_os().take(Stream.NOISE)) for _ in range(64)]
    words = np.stack([np.asarray(words) for words in drawn])
    assert np.bitwise_or.reduce(words).tolist() == [2**32 - 1] * 4
    assert np.bitwise_and.reduce(words).tolist() == [0] * 4


def test_two_objects_from_the_operating_system_differ():
    assert bits(Keys.from_os().take(Stream.NOISE)) != bits(Keys.from_os().take(Stream.NOISE))


def test_the_secret_is_what_the_operating_system_gives():
    # In a process of its own: what `secrets` gives is a named stream in this one (tests/chance.py).
    code = """if True:
        import hashlib, os
        given = []
        real = os.urandom
        os.urandom = lambda size: given.append(real(size)) or given[-1]
        from reticent.core.keys import Keys
        given.clear()
        first, second = Keys.from_os(), Keys.from_os()
        assert [len(secret) for secret in given] == [32, 32] and given[0] != given[1], given
        for keys, secret in zip((first, second), given):
            told = hashlib.blake2b(b"fingerprint", key=secret, digest_size=16).hexdigest()
            assert keys.fingerprint() == told
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_stream_step_and_leaf_has_a_key_of_its_own():
    keys = Keys.seeded(0)
    found = []
    for stream in Stream:
        root = keys.take(stream, steps=range(50))
        for step in range(50):
            found += [bits(key) for key in jax.tree.leaves(leaf_keys(step_key(root, step), TREE))]
    assert len(set(found)) == len(found) == len(Stream) * 50 * 3


def test_leaf_keys_have_the_shape_of_the_tree():
    made = leaf_keys(Keys.seeded(0).take(Stream.NOISE), TREE)
    assert jax.tree.structure(made) == jax.tree.structure(TREE)


def test_steps_and_leaves_are_derived_inside_jit_as_outside():
    root = Keys.seeded(0).take(Stream.NOISE, steps=range(10))
    inside = jax.jit(lambda step: leaf_keys(step_key(root, step), TREE))(7)
    outside = leaf_keys(step_key(root, 7), TREE)
    assert list(map(bits, jax.tree.leaves(inside))) == list(map(bits, jax.tree.leaves(outside)))


@pytest.mark.parametrize("step", [1.5, 1.0, True, np.float32(2)])
def test_a_step_that_is_no_whole_number_is_refused(step: float):
    root = Keys.seeded(0).take(Stream.NOISE)
    with pytest.raises(InvalidArgument, match="step must be a whole number"):
        step_key(root, step)


# The guard


def test_the_same_steps_are_not_given_twice():
    keys = Keys.seeded(0)
    keys.take(Stream.NOISE, steps=range(10, 20))
    for again in (range(10, 20), range(11), range(19, 30), range(12, 13), range(100)):
        with pytest.raises(KeyReuse, match="noise keys of steps 10 to 19 were taken before"):
            keys.take(Stream.NOISE, steps=again)


def test_a_refused_request_takes_nothing():
    keys = Keys.seeded(0)
    keys.take(Stream.NOISE, steps=range(10, 20))
    with pytest.raises(KeyReuse):
        keys.take(Stream.NOISE, steps=range(5, 15))
    keys.take(Stream.NOISE, steps=range(5, 10))


@pytest.mark.parametrize("stream", ["noise", "nosie", None, 1])
def test_a_stream_is_no_plain_word_and_a_wrong_one_takes_nothing(stream):
    keys = Keys.seeded(0)
    with pytest.raises(InvalidArgument, match=r"one of Stream.SAMPLING, Stream.NOISE.*; got"):
        keys.take(stream, steps=range(5))
    keys.take(Stream.NOISE, steps=range(5))


def test_other_steps_and_other_streams_are_free():
    keys = Keys.seeded(0)
    for stream in Stream:
        keys.take(stream, steps=range(10))
        keys.take(stream, steps=range(20, 30))
        keys.take(stream, steps=range(10, 20))


def test_without_steps_a_stream_is_given_once():
    keys = Keys.seeded(0)
    keys.take(Stream.INITIALISATION)
    with pytest.raises(KeyReuse):
        keys.take(Stream.INITIALISATION)


@given(wanted=st.lists(st.tuples(st.integers(0, 60), st.integers(1, 10)), max_size=25))
def test_the_guard_agrees_with_a_set_of_steps(wanted: list[tuple[int, int]]):
    keys, given_out = Keys.seeded(0), set[int]()
    for start, length in wanted:
        steps = range(start, start + length)
        if given_out & set(steps):
            with pytest.raises(KeyReuse):
                keys.take(Stream.NOISE, steps=steps)
        else:
            keys.take(Stream.NOISE, steps=steps)
            given_out |= set(steps)


def test_a_million_single_steps_stay_one_span():
    keys = Keys.seeded(0)
    for step in range(1_000_000):
        keys._strike_off(Stream.NOISE, range(step, step + 1))
    assert keys._taken[Stream.NOISE] == [range(1_000_000)]
    with pytest.raises(KeyReuse):
        keys.take(Stream.NOISE, steps=range(654_321, 654_322))
    keys.take(Stream.NOISE, steps=range(1_000_000, 1_000_001))


@pytest.mark.parametrize(
    "steps",
    [range(0), range(5, 5), range(0, 10, 2), range(10, 0, -1), range(-1, 3), [0, 1], range(2**31, 2**31 + 1)],
    ids=str,
)
def test_steps_are_a_range_that_counts_upwards(steps: range):
    with pytest.raises(InvalidArgument, match="steps must"):
        Keys.seeded(0).take(Stream.NOISE, steps=steps)


def test_threads_that_ask_at_once_get_it_once(monkeypatch: pytest.MonkeyPatch):
    plain = keys_module._merge
    monkeypatch.setattr(keys_module, "_merge", lambda spans: (time.sleep(0.05), plain(spans))[1])
    keys, outcomes = Keys.seeded(0), list[str]()

    def ask() -> None:
        try:
            keys.take(Stream.NOISE)
            outcomes.append("given")
        except KeyReuse:
            outcomes.append("refused")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["given", "refused", "refused", "refused"]


# One owner


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"]
)
@pytest.mark.parametrize("keys", [Keys.seeded(0), Keys.from_os()], ids=repr)
def test_keys_have_no_second_owner(duplicate, keys: Keys):
    with pytest.raises(KeyReuse, match="cannot be copied"):
        duplicate(keys)
    with pytest.raises(KeyReuse, match="cannot be copied"):
        duplicate({"inside": [keys]}) if duplicate is not copy.copy else duplicate(keys)


def test_a_fork_gets_no_keys():
    code = """if True:
        import os
        from reticent.core.errors import KeyReuse
        from reticent.core.keys import Keys, Stream
        keys = Keys.from_os()
        if os.fork():
            _, status = os.wait()
            keys.take(Stream.NOISE)
            raise SystemExit(os.waitstatus_to_exitcode(status))
        try:
            keys.take(Stream.NOISE)
        except KeyReuse as error:
            os._exit(17 if "fork" in str(error) else 1)
        os._exit(2)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 17, done.stderr


def test_nothing_of_the_secret_is_shown():
    keys = Keys.from_os()
    keys.take(Stream.NOISE)
    for shown in (repr(keys), str(keys), f"{keys}"):
        assert shown == "Keys(from the operating system)"
    assert repr(Keys.seeded(4711)) == "Keys(seeded, for tests)"
    assert not re.search(r"[0-9a-f]{8}", str(_message(keys)))


def _message(keys: Keys) -> KeyReuse:
    with pytest.raises(KeyReuse) as caught:
        keys.take(Stream.NOISE)
    return caught.value


@pytest.mark.parametrize("secret", [b"", b"short", bytes(33)])
def test_a_secret_of_another_length_is_refused(secret: bytes):
    with pytest.raises(InvalidArgument, match="32 bytes"):
        Keys(secret, is_seeded=False)


# Seeds


def test_seeded_keys_are_the_same_every_time_also_in_another_process():
    code = (
        "import jax; from reticent.core.keys import Keys, Stream\n"
        "print(jax.random.key_data(Keys.seeded(7).take(Stream.NOISE)).tolist())"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_other_hashes()
    ).stdout
    assert elsewhere.strip() == str(jax.random.key_data(Keys.seeded(7).take(Stream.NOISE)).tolist())
    assert bits(Keys.seeded(7).take(Stream.NOISE)) != bits(Keys.seeded(8).take(Stream.NOISE))


def _other_hashes() -> dict[str, str]:
    return {**os.environ, "PYTHONHASHSEED": "12345"}


def test_a_seeded_run_says_so():
    assert Keys.seeded(0).is_seeded
    assert "seed" in Keys.seeded(0).assumptions[0]
    assert not Keys.from_os().is_seeded
    assert Keys.from_os().assumptions == ()


@pytest.mark.parametrize("seed", [-1, 1.0, "1", None, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(InvalidArgument, match="seed must be a whole number of at least 0"):
        Keys.seeded(seed)


# Noise

_DRAWS = 10_000
_SIGMAS = 6.5  # two-sided 8e-11; a false alarm for any of the 66 pairs or 12 means and variances: below 1e-8


def noise_of_a_run(keys: Keys) -> dict[str, np.ndarray]:
    """Standard normals for two streams, two steps and three leaves."""
    drawn = {}
    for stream in (Stream.NOISE, Stream.SAMPLING):
        root = keys.take(stream, steps=range(2))
        for step in range(2):
            made = keys_module.leaf_keys(keys_module.step_key(root, step), TREE)
            for leaf, key in enumerate(jax.tree.leaves(made)):
                normals = jax.random.normal(key, (_DRAWS,))
                drawn[f"{stream} step {step} leaf {leaf}"] = np.asarray(normals, np.float64)
    return drawn


def suspicions(drawn: dict[str, np.ndarray]) -> list[str]:
    """What does not look like independent standard normals."""
    limit = _SIGMAS / np.sqrt(_DRAWS)
    found = [name for name, x in drawn.items() if abs(x.mean()) > limit]
    found += [name for name, x in drawn.items() if abs(x.var() - 1) > np.sqrt(2) * limit]
    for (left, x), (right, y) in itertools.combinations(drawn.items(), 2):
        if abs(np.mean(x * y)) > limit:
            found.append(f"{left} ~ {right}")
    return found


def test_noise_of_other_leaves_steps_and_streams_is_uncorrelated():
    assert suspicions(noise_of_a_run(Keys.seeded(0))) == []


def _same_for_every_leaf(key: jax.Array, tree):
    return jax.tree.map(lambda leaf: key, tree)


def _same_for_every_stream(secret: bytes):
    root = Keys(secret, is_seeded=True).take(Stream.NOISE, steps=range(2))

    class OneStream(Keys):
        def take(self, stream, *, steps=range(1)):
            return root

    return OneStream(secret, is_seeded=True)


@pytest.mark.parametrize(
    ("name", "broken", "alarms"),
    [
        ("leaf_keys", _same_for_every_leaf, 4 * 3),
        ("step_key", lambda root, step: root, 2 * 3),
    ],
)
def test_the_test_of_noise_fails_when_a_key_is_used_twice(monkeypatch, name: str, broken, alarms: int):
    monkeypatch.setattr(keys_module, name, broken)
    assert len(suspicions(noise_of_a_run(Keys.seeded(0)))) == alarms


def test_the_test_of_noise_fails_when_streams_share_a_key():
    assert len(suspicions(noise_of_a_run(_same_for_every_stream(bytes(32))))) == 2 * 3


def test_the_test_of_noise_fails_when_the_noise_is_a_tenth_too_small():
    drawn = {name: 0.9 * x for name, x in noise_of_a_run(Keys.seeded(0)).items()}
    assert len(suspicions(drawn)) == len(drawn)
