"""Random allocation beside the accountant of those who proved it first.

Both programs give a lower and an upper bound of the same number, by different discretisations of the same
pair, so that their brackets overlap. Theirs was run with its own accuracy: PLD_accounting 2.0 on PyPI,
`gaussian_allocation_epsilon_range`.

Reference:
    Feldman and Shenfeld (2026), Efficient privacy loss accounting for subsampling and random allocation,
    arXiv:2602.17284v1.
"""

from __future__ import annotations

import pytest

from reticent.accounting.tight_epsilon import tight
from reticent.mechanisms.events import Allocated, Gaussian, Repeated


@pytest.mark.parametrize(
    ("noise", "steps", "epochs", "delta", "low", "high"),
    [
        (1.1, 235, 1, 1e-6, 0.33485183, 0.35050784),
        (1.1, 235, 10, 1e-6, 0.99164954, 1.03402658),
        (0.7, 235, 10, 1e-6, 3.32452231, 3.40437952),
        (1.0, 1000, 1, 1e-6, 0.16865279, 0.17568650),
        (0.5, 100, 1, 1e-5, 5.38431999, 5.40775552),
    ],
)
def test_feldman_shenfeld_2026_brackets_overlap_with_ours(
    noise: float, steps: int, epochs: int, delta: float, low: float, high: float
):
    step = Allocated(steps=steps, event=Gaussian(noise_multiplier=noise))
    cost = tight(Repeated(event=step, times=epochs), delta)
    assert cost.lower <= high
    assert cost.upper >= low
    assert cost.upper <= 1.003 * high  # as good as theirs, and mostly better
    assert cost.upper - cost.lower <= 0.005 * cost.upper


def test_feldman_shenfeld_2026_bound_on_ten_of_a_thousand_is_not_below_ours():
    """Both take one step from each of ten blocks; theirs is 1.03071."""
    step = Allocated(steps=1000, times=10, event=Gaussian(noise_multiplier=1.5))
    assert 0.98680045 <= tight(step, 1e-6).upper <= 1.03071256
