"""What goes into a secure sum: an update in whole numbers, and the client's own share of the noise.

Every client clips its update, rounds it towards zero on a public grid and adds whole normal noise, before it
is masked. Shares are so large that those of the clients that are sure to be there, and honest, are enough.

Guarantee:
    An update is `steps` long at most, exactly, in whole numbers: rounding towards zero makes nothing longer.
    Each share has the discrete normal law of deviation s, up to DISTANCE per number, and the sum of h shares
    that of deviation s sqrt(h), up to 2^-1000: by Poisson's summation formula they differ by terms of size
    e^(-pi^2 s^2 / 2), and s is above 100,000. Added to whole numbers, that is post-processing of real normal
    noise of deviation sqrt(h) `floor_deviation`. Sums modulo 2^32 are post-processing, too, and the sum of
    all that clients can send stays below 2^31: nothing wraps around.

Reference:
    Kairouz, Liu and Steinke (2021), sections 3 and 4, arXiv:2102.06387v4, on sums of discrete normal shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from jaxtyping import UInt32

from reticent.accounting.guarantee import Guarantee
from reticent.accounting.reserve import TRAINING
from reticent.accounting.tight_epsilon import guarantee
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.whole_normals import DISTANCE, MOST_MULTIPLE, floor_deviation, largest, whole_normals
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event, Gaussian, Repeated

_ROOM = 2**31  # sums lie between minus this and this
_DOWN = 1 - 1e-12  # for what a few operations round up
_MARGIN = 1e-6  # of an update's length, for how it is measured


@dataclass(frozen=True, kw_only=True)
class NoiseShares:
    """How updates become whole numbers, and how much noise each client adds to its own.

    Args:
        clients: how many take part in a round.
        least: a round with fewer clients that finish is thrown away, unseen.
        colluding: so many clients may tell the server their share of the noise.
        noise_multiplier: the noise that is sure to be there, over the clipping norm.
        max_norm: the longest update.

    Example:
        >>> shares = NoiseShares(clients=100, least=67, colluding=10, noise_multiplier=1.0, max_norm=0.5)
        >>> shares.honest, round(shares.event(rounds=1).noise_multiplier, 6) >= 1
        (57, True)
        >>> shares.guarantee(delta=1e-5, rounds=1, numbers=1000).epsilon < 4.4
        True
    """

    clients: int
    least: int
    colluding: int = 0
    noise_multiplier: float
    max_norm: float

    def __post_init__(self) -> None:
        checks.count(clients=self.clients, least=self.least)
        checks.count(minimum=0, colluding=self.colluding)
        checks.positive(noise_multiplier=self.noise_multiplier, max_norm=self.max_norm)
        if not self.colluding < self.least <= self.clients:
            raise InvalidArgument(
                f"Of {self.clients} clients, {self.least} finish at least and {self.colluding} may collude: "
                "nobody's noise is left, or more finish than begin.",
                remedy="Choose least above colluding, and at most clients.",
            )
        if not (self.steps >= 1 and self.clients * (self.steps + largest(self.multiple)) < _ROOM):
            raise InvalidArgument(
                f"The sum over {self.clients} clients with noise {self.noise_multiplier:g} does not fit into "
                "32 bits.",
                remedy="Use fewer clients in a round, or a noise multiplier nearer to 1.",
            )

    @property
    def honest(self) -> int:
        """How many shares of noise are sure to be there and unknown."""
        return self.least - self.colluding

    @cached_property
    def multiple(self) -> int:
        """The multiple of the sampler with which the grid is as fine as 32 bits allow."""
        low, high = 0, MOST_MULTIPLE
        while low < high:
            middle = (low + high + 1) // 2
            fits = self.clients * (self._steps_at(middle) + largest(middle)) < _ROOM
            low, high = (middle, high) if fits else (low, middle - 1)
        return low

    @property
    def steps(self) -> int:
        """The clipping norm in steps of the grid."""
        room = _ROOM // self.clients - largest(self.multiple) - 1
        return min(self._steps_at(self.multiple), room)

    def _steps_at(self, multiple: int) -> int:
        sure = floor_deviation(multiple) * math.sqrt(self.honest) * _DOWN
        return math.floor(sure / self.noise_multiplier)

    def event(self, *, rounds: int) -> Event:
        """What the server and everybody else sees of a client that takes part in so many rounds."""
        checks.count(rounds=rounds)
        sure = floor_deviation(self.multiple) * math.sqrt(self.honest) * _DOWN
        release = Gaussian(noise_multiplier=sure / self.steps)
        return release if rounds == 1 else Repeated(event=release, times=rounds)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Who is trusted for what."""
        return (
            "the server follows the protocol, and may look at all that it receives: it is not trusted with a "
            "single update, nor with a sum without noise",
            f"of the clients that finish a round, {self.honest} at least add their noise and keep it and "
            f"their keys to themselves, and at most {self.colluding} tell the server theirs",
            "X25519, HKDF and ChaCha20 are as hard to break as is believed",
        )

    def guarantee(self, *, delta: float, rounds: int, numbers: int) -> Guarantee:
        """What holds for a client in at most so many rounds, against the server too.

        Drawing clients in secret does not lower it: the server knows who takes part.

        Args:
            numbers: how many a client sends.
        """
        return guarantee(
            self.event(rounds=rounds),
            delta,
            Adjacency.ZERO_OUT,
            unit="user",
            assumptions=self.assumptions,
            arithmetic=TRAINING * delta,
            distance=rounds * (self.clients + 1) * numbers * DISTANCE,
        )

    def whole(self, update: np.ndarray) -> np.ndarray:
        """The update in steps of the grid, int64: no longer than `steps`. One that is not finite is zero."""
        found = np.asarray(update, np.float64).ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            length = float(np.linalg.norm(found))
        if not math.isfinite(length):
            return np.zeros(len(found), np.int64)
        scale = self.steps * (1 - _MARGIN) / max(length * (1 + _MARGIN), self.max_norm)
        return np.trunc(found * scale).astype(np.int64)

    def noise(self, keys: Keys, round_number: int, numbers: int) -> np.ndarray:
        """One client's share of the noise of a round, int64. Each client has keys of its own."""
        root = keys.take(Stream.NOISE, steps=range(round_number, round_number + 1))
        drawn = whole_normals(step_key(root, jax.numpy.int32(round_number)), numbers, multiple=self.multiple)
        return np.asarray(drawn).astype(np.int64)

    def encode(self, update: np.ndarray, keys: Keys, round_number: int) -> UInt32[np.ndarray, " numbers"]:
        """What a client masks: its update on the grid, with its noise, modulo 2^32."""
        whole = self.whole(update)
        return (whole + self.noise(keys, round_number, len(whole))).astype(np.uint32)

    def decode(self, total: UInt32[np.ndarray, " numbers"]) -> np.ndarray:
        """The noisy sum of updates, float64, from the sum modulo 2^32."""
        return np.asarray(total, np.uint32).view(np.int32) * (self.max_norm / self.steps)
