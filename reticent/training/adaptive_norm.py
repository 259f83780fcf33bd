"""A clipping norm that follows the lengths of the gradients."""

from __future__ import annotations

from dataclasses import dataclass

from reticent.core import checks


@dataclass(frozen=True, kw_only=True)
class AdaptiveNorm:
    """A clipping norm that follows a quantile of the gradients' lengths, at a small cost of its own.

    Each step also releases how many examples stayed below the norm, with Gaussian noise; the norm
    then moves by a factor e^(-rate (share - quantile)).

    Example:
        >>> from reticent.training.plan import Plan
        >>> plan = Plan.for_budget(
        ...     epsilon=2,
        ...     delta=1e-5,
        ...     examples=1000,
        ...     sampling="full",
        ...     steps=10,
        ...     max_norm=0.1,
        ...     adaptive=AdaptiveNorm(),
        ... )
        >>> plan.adaptive.quantile, plan.guarantee().epsilon <= 2
        (0.5, True)

    Reference:
        Andrew, Thakkar, McMahan and Ramaswamy (2021), Algorithm 1, arXiv:1905.03871v5.
    """

    quantile: float = 0.5
    rate: float = 0.2
    noise_multiplier: float = 10.0  # of the centred count, to which an example adds at most 1/2

    def __post_init__(self) -> None:
        checks.probability(quantile=self.quantile)
        checks.positive(rate=self.rate, noise_multiplier=self.noise_multiplier)
