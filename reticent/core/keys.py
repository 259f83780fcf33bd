"""Randomness: where it comes from, and a guard that never hands out the same piece twice.

Noise that is drawn twice from one key is the same noise, and the difference of two releases then
carries none at all. So keys are owned by one object that remembers what it gave away:

    keys = Keys.from_os()                                # 256 bits from the operating system
    noise = keys.take(Stream.NOISE, steps=range(0, 100)) # the root of steps 0..99, once
    leaves = leaf_keys(step_key(noise, 7), params)       # inside jit: one key per step and leaf

Streams are derived from the secret by a keyed hash, so that knowing every key of one stream (a
sampler's, say) tells nothing about another's. Keys are of JAX's `rbg` kind, which holds 128 bits;
the default threefry key holds 64. Never `vmap` over such keys: XLA would draw for all of them from the
first one. Map or scan over them instead.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from reticent.core import checks
from reticent.core.errors import InvalidArgument, KeyReuse

Tree = TypeVar("Tree")

_SECRET_BYTES = 32  # of entropy
_KEY_BYTES = 16  # what a jax `rbg` key holds
_MOST_STEPS = 2**31  # a step is counted in 32 bits inside jit: the next one would be negative, or 0 again


class Stream(StrEnum):
    """What a piece of randomness is for. Streams never share a key.

    Example:
        >>> Stream.NOISE.value, Stream("sampling")
        ('noise', <Stream.SAMPLING: 'sampling'>)
    """

    SAMPLING = "sampling"
    NOISE = "noise"
    VIEWS = "views"
    LOSS = "loss"
    PREPARATION = "preparation"
    INITIALISATION = "initialisation"
    ATTACKS = "attacks"
    PLACES = "places"


class Keys:
    """The one owner of a run's randomness.

    Cannot be copied, pickled or used after a fork: each would make a second owner that gives out
    the same keys. Nothing of the secret appears in its `repr`.

    Guarantee:
        No (stream, step) is handed out twice by one object. Two objects made by `from_os` share
        a key with probability below 2^-100 for any number of runs one could do.
    """

    def __init__(self, secret: bytes, *, is_seeded: bool) -> None:
        if len(secret) != _SECRET_BYTES:
            raise InvalidArgument(
                f"A secret has {_SECRET_BYTES} bytes, got {len(secret)}.",
                remedy="Let the operating system make it: Keys.from_os().",
            )
        self._secret = secret
        self._guard = threading.Lock()
        self._taken: dict[Stream, list[range]] = {stream: [] for stream in Stream}
        self._owner = os.getpid()
        self.is_seeded = is_seeded

    @classmethod
    def from_os(cls) -> Keys:
        """Fresh randomness from the operating system: what every real run uses."""
        return cls(secrets.token_bytes(_SECRET_BYTES), is_seeded=False)

    @classmethod
    def seeded(cls, seed: int) -> Keys:
        """The same randomness every time, for tests: a guarantee made with it says so.

        Whoever knows the seed can subtract the noise, so `is_seeded` stays true for good and ends up
        among the assumptions of the guarantee.
        """
        checks.count(minimum=0, seed=seed)
        secret = hashlib.blake2b(f"reticent seed {seed}".encode(), digest_size=_SECRET_BYTES).digest()
        return cls(secret, is_seeded=True)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a guarantee has to say about this randomness."""
        seeded = "the seed of this run is secret (a seeded run is for tests only)"
        return (seeded,) if self.is_seeded else ()

    def fingerprint(self) -> str:
        """A name for these keys that tells nothing about what they give out."""
        return hashlib.blake2b(b"fingerprint", key=self._secret, digest_size=_KEY_BYTES).hexdigest()

    def take(self, stream: Stream, *, steps: Sequence[int] = range(1)) -> Key[Array, ""]:
        """The root key of a stream, for these steps and no others.

        Derive the key of a step with `step_key(root, step)`; the root itself makes no noise.

        Raises:
            KeyReuse: one of the steps was handed out before, or this is a forked copy.
            InvalidArgument: it is not a `Stream`.

        Example:
            >>> keys = Keys.seeded(0)
            >>> root = keys.take(Stream.NOISE, steps=range(100))
            >>> keys.take(Stream.NOISE, steps=range(99, 200))
            Traceback (most recent call last):
                ...
            reticent.core.errors.KeyReuse: The noise keys of steps 0 to 99 were taken before. ...
        """
        if not isinstance(stream, Stream):
            raise InvalidArgument(
                f"A stream is one of {', '.join(f'Stream.{each.name}' for each in Stream)}; got {stream!r}.",
                remedy="Import it: from reticent.core.keys import Stream.",
            )
        wanted = _as_range(steps)
        if os.getpid() != self._owner:
            raise KeyReuse(
                "These keys belong to the process that made them, and this is a fork of it.",
                remedy="Make new ones here with Keys.from_os().",
            )
        with self._guard:  # two threads that ask at once get it once
            self._strike_off(stream, wanted)
        return self._root(stream)

    def place_key(self) -> Key[Array, ""]:
        """The key of the order in which records are laid: always the same, for it makes no noise.

        A run that is resumed with its own keys finds its records where they were.
        """
        return self._root(Stream.PLACES)

    def _root(self, stream: Stream) -> Key[Array, ""]:
        digest = hashlib.blake2b(stream.value.encode(), key=self._secret, digest_size=_KEY_BYTES).digest()
        words = np.frombuffer(digest, dtype="<u4")
        return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl="rbg")

    def _strike_off(self, stream: Stream, wanted: range) -> None:
        for taken in self._taken[stream]:
            if max(taken.start, wanted.start) < min(taken.stop, wanted.stop):
                raise KeyReuse(
                    f"The {stream.value} keys of steps {taken.start} to {taken.stop - 1} were taken before.",
                    remedy="Ask for later steps, or start from fresh keys: Keys.from_os().",
                )
        self._taken[stream] = _merge([*self._taken[stream], wanted])

    def __repr__(self) -> str:
        return f"Keys({'seeded, for tests' if self.is_seeded else 'from the operating system'})"

    def __reduce__(self) -> NoReturn:
        raise KeyReuse(
            "Keys cannot be copied or written down: the copy would give out the same noise.",
            remedy="Pass the object itself, or make new ones with Keys.from_os().",
        )

    __copy__ = __reduce__

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__reduce__()


def step_key(root: Key[Array, ""], step: jax.typing.ArrayLike) -> Key[Array, ""]:
    """The key of one step of a stream; works on a traced step.

    Raises:
        InvalidArgument: the step is not a whole number. JAX would take 1.5 for 1, and give its key twice.

    Example:
        >>> root = Keys.seeded(0).take(Stream.NOISE, steps=range(10))
        >>> [bool((step_key(root, 3) == step_key(root, at)).all()) for at in (3, 4)]
        [True, False]
        >>> step_key(root, 1.5)
        Traceback (most recent call last):
            ...
        reticent.core.errors.InvalidArgument: step must be a whole number, got float32. Count steps in
        integers.
    """
    if not jnp.issubdtype(jnp.result_type(step), jnp.integer):
        raise InvalidArgument(
            f"step must be a whole number, got {jnp.result_type(step)}.", remedy="Count steps in integers."
        )
    return jax.random.fold_in(root, step)


def leaf_keys(key: Key[Array, ""], tree: Tree) -> Tree:
    """One independent key for every leaf of a tree, in the tree's own shape."""
    leaves, structure = jax.tree.flatten(tree)
    keys = [jax.random.fold_in(key, position) for position in range(len(leaves))]
    return jax.tree.unflatten(structure, keys)


def _as_range(steps: Sequence[int]) -> range:
    if not isinstance(steps, range) or steps.step != 1 or steps.start < 0 or not len(steps):
        raise InvalidArgument(
            f"steps must be a non-empty range that counts upwards, got {steps!r}.",
            remedy="Pass for example range(0, 100).",
        )
    if steps.stop > _MOST_STEPS:
        raise InvalidArgument(
            f"steps must stay below {_MOST_STEPS}, got {steps!r}.",
            remedy="Start from fresh keys: Keys.from_os().",
        )
    return steps


def _merge(spans: list[range]) -> list[range]:
    """The same steps in as few spans as possible, so that a million single steps stay one span."""
    merged: list[range] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and merged[-1].stop == span.start:
            merged[-1] = range(merged[-1].start, span.stop)
        else:
            merged.append(span)
    return merged
