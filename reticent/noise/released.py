"""What a run with correlated noise releases, as the Gaussian events that accountants know.

Reference:
    Choquette-Choo et al. (2023), Theorem 4, arXiv:2306.08153v2; for sums that depend on earlier releases:
    Denisov et al. (2022), Theorem 2.1, arXiv:2202.08312v2.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from reticent.mechanisms.events import Event, Gaussian, Repeated
from reticent.noise.participation import Participation

if TYPE_CHECKING:  # strategies need NumPy, and the command line, which imports this module, opens without it
    from reticent.noise.strategies import NoiseStrategy


def whole_run(
    noise: NoiseStrategy, noise_multiplier: float, steps: int, participation: Participation
) -> Event:
    """All steps as one Gaussian release, moved by at most the sensitivity.

    Example:
        >>> from reticent.noise.named import banded
        >>> event = whole_run(banded(bands=2), 2.0, 10, Participation(times=1))
        >>> round(event.noise_multiplier**2 * 1.25, 9)
        4.0
    """
    if steps == 0:
        return Repeated(event=Gaussian(noise_multiplier=noise_multiplier), times=0)
    return _divide(noise_multiplier, noise.sensitivity(steps, participation))


def one_turn(noise: NoiseStrategy, noise_multiplier: float, steps: int) -> Event:
    """One contribution of a record, in its own step and those after it, as a Gaussian release.

    With no more bands than there are parts, a record's turns move disjoint rows of C X. Each turn is then a
    release of its own, sampled as its coin says; with one band, it is that of independent noise.
    """
    return _divide(noise_multiplier, noise.sensitivity(max(steps, 1), Participation(times=1)))


def has_disjoint_turns(noise: NoiseStrategy, steps: int, parts: int) -> bool:
    """Whether the rows of C X that a record moves in one turn are over before its next."""
    return noise.bands(max(steps, 1)) <= parts


def _divide(noise_multiplier: float, reach: float) -> Gaussian:
    """The quotient is rounded down."""
    quotient = noise_multiplier if reach == 1 else math.nextafter(noise_multiplier / reach, 0.0)
    return Gaussian(noise_multiplier=quotient)
