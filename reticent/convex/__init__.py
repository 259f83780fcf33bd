"""Private minimisation of convex losses of linear models: one argument chooses the method.

losses        losses with the constants that the proofs need
elementary    exponentials whose error is known
weighted      records that count less than others: a loss times a weight
problem       rows scaled to norm 1, with the constant feature; sums whose rounding is known
minimise      a minimiser with a certificate of how near it came
output        minimise, then add noise to the weights
objective     add noise to the objective, then minimise
exponential   draw weights with a probability that falls with their loss
statistics    add noise to the sums that squared loss needs, or to each row
descent       noisy projected gradient descent
noisy_sums    its sums of clipped gradients, in 64 bits and without a compiler
noise         noise in whole numbers on a public grid
terms         what a method receives, and what it returns
fit           chooses the method, charges the budget, converts to the user's units
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.convex import losses as losses
    from reticent.convex import objective as objective
    from reticent.convex import output as output
    from reticent.convex.fit import METHODS as METHODS
    from reticent.convex.fit import Fit as Fit
    from reticent.convex.fit import fit as fit
    from reticent.convex.terms import ConvexTerms as ConvexTerms

open_page(__name__)
