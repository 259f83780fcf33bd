"""Strategies: how the noise of a step takes back some of the noise of earlier steps.

    rt.Plan.for_budget(..., noise=rt.noise.banded(bands=8))

A strategy is a lower-triangular matrix C with ones on its diagonal. The noise of all steps is C^-1 Z, with Z
independent: what is released costs as much as C X + Z, of which it is post-processing. Sums of many gradients
then carry less noise than with independent noise, single gradients carry more.

Coefficients are multiples of 2^-8, so that what is accounted for is what is computed: noise is a whole number
(docs/arithmetic.md). Rounding them costs less than a thousandth of the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.noise import binary_tree
from reticent.noise.error import ExpectedError, matrix_error, of_sums, toeplitz_error
from reticent.noise.filters import lfilter
from reticent.noise.optimal_matrix import optimal_matrix
from reticent.noise.optimal_series import Buffers, optimal_buffers, optimal_toeplitz, quotient
from reticent.noise.participation import Participation
from reticent.noise.sensitivity import matrix_sensitivity, toeplitz_sensitivity
from reticent.noise.series import square_root

COEFFICIENT_BITS = 8
_SLOWEST = 2.0**-24  # the least that a buffer loses in a step
_FASTEST = 255 / 256
_SMALLEST = 2.0**-30  # a scale that comes out as less makes no difference


class NoiseStrategy(Protocol):
    """What a plan asks of correlated noise."""

    @property
    def name(self) -> str: ...

    @property
    def participation(self) -> Participation | None:
        """What was declared of the batches, if anything; a plan refuses batches that break it."""
        ...

    def settle(self, steps: int, participation: Participation) -> NoiseStrategy:
        """The same strategy with every number found that depends on the length of the run."""
        ...

    def sensitivity(self, steps: int, participation: Participation) -> float:
        """How far a record of length 1 moves C X, rounded up."""
        ...

    def error(self, steps: int, participation: Participation) -> ExpectedError: ...

    def memory(self, steps: int) -> int:
        """How many vectors, each as long as the parameters, a run keeps for its noise."""
        ...

    def bands(self, steps: int) -> int:
        """In how many steps a contribution appears in C X: its own, and those after it."""
        ...

    @property
    def in_words(self) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Independent:
    """Fresh noise in every step, as in DP-SGD: the default.

    Example:
        >>> Independent().sensitivity(10, Participation(times=4))
        2.0
    """

    participation: Participation | None = None
    name = "independent"
    in_words = "independent noise"

    def settle(self, steps: int, participation: Participation) -> Independent:
        return self

    def column(self, steps: int) -> np.ndarray:
        return np.ones(1)

    def sensitivity(self, steps: int, participation: Participation) -> float:
        return toeplitz_sensitivity(self.column(steps), steps, participation)

    def error(self, steps: int, participation: Participation) -> ExpectedError:
        return toeplitz_error(self.column(steps), steps, self.sensitivity(steps, participation))

    def memory(self, steps: int) -> int:
        return 0

    def bands(self, steps: int) -> int:
        return 1


@dataclass(frozen=True, kw_only=True)
class Toeplitz:
    """One coefficient for each lag; see `toeplitz` and `banded`.

    Args:
        width: the number of bands that was asked for.
        coefficients: of lags 0, 1, ...; empty until a plan has found those of least error.
    """

    width: int | None = None
    coefficients: tuple[float, ...] = ()
    participation: Participation | None = None
    name = "toeplitz"

    def __post_init__(self) -> None:
        if self.width is not None:
            checks.count(bands=self.width)
        if self.coefficients:
            _require_coefficients(self.coefficients)
            object.__setattr__(self, "coefficients", tuple(float(each) for each in self.coefficients))
            if self.width is not None and not len(self.coefficients) <= self.width:
                raise InvalidArgument(
                    f"{len(self.coefficients)} coefficients are more than {self.width} bands.",
                    remedy="Leave out width, or pass as many bands as coefficients.",
                )

    def settle(self, steps: int, participation: Participation) -> Toeplitz:
        width = min(participation.separation, steps) if self.width is None else self.width
        _require_bands(width, steps)
        if self.coefficients:
            return self
        found = optimal_toeplitz(width, steps, participation)
        return replace(self, width=width, coefficients=tuple(on_grid(found).tolist()))

    def column(self, steps: int) -> np.ndarray:
        if not self.coefficients:
            raise InvalidArgument(
                "The coefficients depend on the length of the run.",
                remedy="Ask `settle(steps, participation)`.",
            )
        return np.array(self.coefficients)[:steps]

    def sensitivity(self, steps: int, participation: Participation) -> float:
        return toeplitz_sensitivity(self.column(steps), steps, participation)

    def error(self, steps: int, participation: Participation) -> ExpectedError:
        return toeplitz_error(self.column(steps), steps, self.sensitivity(steps, participation))

    def memory(self, steps: int) -> int:
        return self.bands(steps) - 1

    def bands(self, steps: int) -> int:
        return min(self.width or len(self.coefficients) or steps, steps)

    @property
    def in_words(self) -> str:
        return f"Toeplitz noise of {self.width} bands" if self.width else "Toeplitz noise"


@dataclass(frozen=True, kw_only=True)
class Banded:
    """The first bands of the square root of the prefix sum; see `banded`."""

    width: int
    participation: Participation | None = None
    name = "banded"

    def __post_init__(self) -> None:
        checks.count(bands=self.width)

    def settle(self, steps: int, participation: Participation) -> Banded:
        _require_bands(self.width, steps)
        return self

    def column(self, steps: int) -> np.ndarray:
        return on_grid(square_root(self.width))[:steps]

    def sensitivity(self, steps: int, participation: Participation) -> float:
        return toeplitz_sensitivity(self.column(steps), steps, participation)

    def error(self, steps: int, participation: Participation) -> ExpectedError:
        return toeplitz_error(self.column(steps), steps, self.sensitivity(steps, participation))

    def memory(self, steps: int) -> int:
        return self.bands(steps) - 1

    def bands(self, steps: int) -> int:
        return min(self.width, steps)

    @property
    def in_words(self) -> str:
        return f"banded noise of {self.width} bands"


@dataclass(frozen=True, kw_only=True)
class Buffered:
    """A buffered linear Toeplitz strategy; see `blt`.

    Args:
        scales, decays: empty until a plan has found those of least error.
    """

    buffers: int
    scales: tuple[float, ...] = ()
    decays: tuple[float, ...] = ()
    participation: Participation | None = None
    name = "blt"

    def __post_init__(self) -> None:
        checks.count(buffers=self.buffers)
        if len(self.scales) != len(self.decays) or (self.scales and len(self.scales) != self.buffers):
            raise InvalidArgument(
                f"{self.buffers} buffers have {len(self.scales)} scales and {len(self.decays)} decays.",
                remedy="Give one of each for every buffer, or none.",
            )
        if not all(0 < each < 1 for each in (*self.scales, *self.decays)):
            raise InvalidArgument(
                "Scales and decays of buffers lie between 0 and 1.",
                remedy="Leave them out: a plan finds them.",
            )

    def settle(self, steps: int, participation: Participation) -> Buffered:
        if self.scales:
            return self
        found = optimal_buffers(self.buffers, steps, participation)
        return replace(
            self,
            scales=tuple(short_binary(max(each, _SMALLEST)) for each in found.scales.tolist()),
            decays=tuple(
                1 - short_binary(min(max(1 - each, _SLOWEST), _FASTEST)) for each in found.decays.tolist()
            ),
        )

    def column(self, steps: int) -> np.ndarray:
        if not self.scales:
            raise InvalidArgument(
                "The buffers depend on the length of the run.", remedy="Ask `settle(steps, participation)`."
            )
        return Buffers(np.array(self.scales), np.array(self.decays)).column(steps)[:steps]

    def sensitivity(self, steps: int, participation: Participation) -> float:
        # Powers of decays are off by their exponent times 2^-53 of themselves.
        return toeplitz_sensitivity(self.column(steps), steps, participation) * (1 + (steps + 8) * 2.0**-51)

    def error(self, steps: int, participation: Participation) -> ExpectedError:
        below, above = quotient(np.array(self.scales), np.array(self.decays))
        sums = np.asarray(lfilter(below, above, np.ones(steps)))  # as `series.noise_of_sums`, and faster
        return of_sums(sums, self.sensitivity(steps, participation))

    def memory(self, steps: int) -> int:
        return self.buffers

    def bands(self, steps: int) -> int:
        return steps

    @property
    def in_words(self) -> str:
        return f"noise with {self.buffers} buffers"


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Binary trees of noisy sums; see `tree`."""

    restart: int | None = None
    participation: Participation | None = None
    name = "tree"

    def __post_init__(self) -> None:
        if self.restart is not None:
            checks.count(restart=self.restart)

    def settle(self, steps: int, participation: Participation) -> Tree:
        return self

    def _blocks(self, steps: int) -> tuple[int, int]:
        size = min(self.restart or steps, steps)
        return size, -(-steps // size)

    def sensitivity(self, steps: int, participation: Participation) -> float:
        size, _ = self._blocks(steps)
        return binary_tree.tree_sensitivity(size, steps, participation)

    def error(self, steps: int, participation: Participation) -> ExpectedError:
        sensitivity = self.sensitivity(steps, participation)
        at = np.arange(1, steps + 1)
        size, _ = self._blocks(steps)
        done = (at - 1) // size  # whole trees before this one
        counts = np.bitwise_count(at - done * size) + done * binary_tree.nodes_of_prefix(size)
        return ExpectedError(
            sensitivity * math.sqrt(float(np.mean(counts))), sensitivity * math.sqrt(float(np.max(counts)))
        )

    def memory(self, steps: int) -> int:
        return binary_tree.levels(self._blocks(steps)[0])

    def bands(self, steps: int) -> int:
        return steps

    @property
    def in_words(self) -> str:
        return "tree noise" + (f", a new tree every {self.restart} steps" if self.restart else "")


@dataclass(frozen=True, kw_only=True)
class Dense:
    """The lower-triangular matrix of least error; see `dense`."""

    width: int | None = None
    participation: Participation | None = None
    name = "dense"

    def settle(self, steps: int, participation: Participation) -> Dense:
        if self.width is not None:
            _require_bands(self.width, steps)
        return self

    def matrix(self, steps: int, participation: Participation) -> np.ndarray:
        return optimal_matrix(steps, participation, self.width)

    def sensitivity(self, steps: int, participation: Participation) -> float:
        return matrix_sensitivity(self.matrix(steps, participation), participation)

    def error(self, steps: int, participation: Participation) -> ExpectedError:
        matrix = self.matrix(steps, participation)
        return matrix_error(matrix, matrix_sensitivity(matrix, participation))

    def memory(self, steps: int) -> int:
        return self.bands(steps) - 1

    def bands(self, steps: int) -> int:
        return min(self.width or steps, steps)

    @property
    def in_words(self) -> str:
        return "dense noise"


def on_grid(column: np.ndarray) -> np.ndarray:
    """Coefficients as multiples of 2^-8: in order if they were.

    Example:
        >>> on_grid(np.array([1.0, 0.501, 0.001])).tolist()
        [1.0, 0.5, 0.0]
    """
    return np.round(np.asarray(column, float) * 2.0**COEFFICIENT_BITS) / 2.0**COEFFICIENT_BITS


def short_binary(value: float) -> float:
    """The nearest number of 8 binary digits.

    Example:
        >>> short_binary(0.5), short_binary(0.1) * 2.0**11
        (0.5, 205.0)
    """
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * 2.0**COEFFICIENT_BITS), exponent - COEFFICIENT_BITS)


def _require_coefficients(given: tuple[float, ...]) -> None:
    column = np.asarray(given, float)
    if not (column[0] == 1.0 and np.all(on_grid(column) == column) and np.all(column >= 0)):
        raise InvalidArgument(
            "Coefficients start with 1, are not negative, and are multiples of 2^-8.",
            remedy="Round them with rt.noise.on_grid.",
        )
    if np.any(np.diff(column) > 0):
        raise InvalidArgument(
            "Coefficients must not grow with the lag.", remedy="Sort them, the largest first."
        )


def _require_bands(bands: int, steps: int) -> None:
    if not bands <= steps:
        raise InvalidArgument(
            f"{bands} bands are more than the run has steps: {steps}.", remedy=f"Pass at most {steps} bands."
        )
