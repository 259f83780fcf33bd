"""The share of delta that pays for the distance between a sampler and its law.

Noise is drawn in whole numbers by samplers that are within 2^-60 a number, or less, of the law that is
accounted for (docs/arithmetic.md). Whatever happens with that probability is paid for by delta.
"""

from __future__ import annotations

from reticent.core.errors import CannotMeet

RESERVED = (
    2.0**-30
)  # of every delta: at 1e-5 enough for 10,000 numbers, which are many for a release by itself
TRAINING = 2.0**-14  # of the delta of a training plan: at 1e-5 enough for 45 billion numbers of 2^-66
NEARLY_EXACT = "each released number is drawn within a probability of 2^-60 of its exact law"


def left_of(delta: float, arithmetic: float = 0.0) -> float:
    """What the accountant may use of a delta.

    Args:
        arithmetic: the distance of all samplers from their laws together, where it is known.

    Raises:
        CannotMeet: nothing is left.
    """
    left = delta - max(arithmetic, RESERVED * delta)
    if not left >= 0.5 * delta:
        raise CannotMeet(
            f"Drawing so much noise by machine takes {arithmetic:.1g} of a delta of {delta:g}.",
            remedy="Ask for a larger delta, or take fewer steps with fewer parameters.",
        )
    return left
