"""Private additive models: one curve per column, learned from noisy sums over bins.

columns    how the features of a row are grouped, and the cell of each column that a row is in
smoothing  counts along a range without most of their noise
bins       cells merged into bins, by noisy counts
curves     smooth functions over bins, as tables of whole numbers
targets    what a row's residual is, in whole numbers
sums       the releases: exact sums over rows, with whole noise
plan       how many passes, and how much noise each gets
descent    the steps of the curves, and noise alone beside them
fit        the passes, charged before the first
model      what is released: a curve per column, with the size of the noise in it
lookup     the same as a model of one example, for JAX
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.additive.columns import Columns as Columns
    from reticent.additive.fit import AdditiveFit as AdditiveFit
    from reticent.additive.fit import fit as fit
    from reticent.additive.model import AdditiveModel as AdditiveModel
    from reticent.additive.model import CurveShape as CurveShape
    from reticent.additive.plan import AdditivePlan as AdditivePlan
    from reticent.additive.targets import ClassTarget as ClassTarget
    from reticent.additive.targets import NumberTarget as NumberTarget

open_page(__name__)
