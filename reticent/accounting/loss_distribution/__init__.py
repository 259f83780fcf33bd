"""Privacy losses as distributions: the tightest epsilons, with both of their bounds.

pairs           pairs of distributions that an event is no worse than; dominating: which pair each event has
distribution    the law of the loss of a pair; lattice: on a grid, rounded to the safe side
convolution     many losses added up, by Fourier transforms with a bound on their error
"""
