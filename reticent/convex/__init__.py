"""Private minimisation of convex losses of linear models: one word swaps a method for another.

losses        losses with the constants that the proofs need
elementary    exponentials whose error is known
problem       rows brought to norm 1, the constant feature among them
minimise      a minimiser that proves how near it came
output        minimise, then add noise to the weights
objective     add noise to the objective, then minimise
exponential   draw weights with a probability that falls with their loss
statistics    add noise to what squared loss needs to know of the data, or to each row
descent       noisy projected gradient descent
noise         whole numbers on a public grid
sums          sums over rows whose rounding is known
terms         what a method is asked for, and what it hands back
fit           chooses the method, charges the budget, speaks the user's units
"""

from reticent.convex import losses
from reticent.convex.fit import METHODS, Fit, fit

__all__ = ["METHODS", "Fit", "fit", "losses"]
