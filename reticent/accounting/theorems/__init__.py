"""One function per theorem, each with its reference.

composition, amplification, group    the basic, advanced and sampling theorems of the course
moments, renyi, sampled_renyi        moments and Renyi accounting
zcdp, gaussian_dp, divergence        concentrated and Gaussian privacy; divergences of discrete laws
tuning                               the best of a random number of runs
"""
