"""What a release costs: one small function per theorem, and a certified bracket around the exact epsilon.

NumPy and SciPy in float64 throughout; JAX is never imported here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.accounting import calibrate as calibrate
    from reticent.accounting import certificate as certificate
    from reticent.accounting.accountants import account as account
    from reticent.accounting.budget import Budget as Budget
    from reticent.accounting.filters import RenyiFilter as RenyiFilter
    from reticent.accounting.guarantee import Guarantee as Guarantee
    from reticent.accounting.loss_distribution.dominating import Neighbours as Neighbours
    from reticent.accounting.setting import Setting as Setting
    from reticent.accounting.theorems import amplification as amplification
    from reticent.accounting.theorems import composition as composition
    from reticent.accounting.theorems import divergence as divergence
    from reticent.accounting.theorems import gaussian_dp as gaussian_dp
    from reticent.accounting.theorems import group as group
    from reticent.accounting.theorems import moments as moments
    from reticent.accounting.theorems import renyi as renyi
    from reticent.accounting.theorems import tuning as tuning
    from reticent.accounting.theorems import zcdp as zcdp
    from reticent.accounting.tight_epsilon import Cost as Cost
    from reticent.accounting.tight_epsilon import epsilon as epsilon
    from reticent.accounting.tight_epsilon import guarantee as guarantee
    from reticent.accounting.tight_epsilon import tight as tight
    from reticent.mechanisms.sampling_events import Sampling as Sampling

open_page(__name__)
