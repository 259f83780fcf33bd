"""Private synthetic data: a table that anyone may use, made of noisy counts.

codes        rows as whole numbers by a public domain, and back (bins: of numbers)
planning     what will be released and how noisy, decided before the data are seen
tables       fit a plan to codes; sample from the model (storage: its file)
measuring    counts of a few columns with Gaussian noise
selecting    which pairs to count, chosen privately
merging      values that hardly any row has, counted together
graphical    the model of all counts, and its samples (junction: the tree it lives on)
quality      how good a sample is, and what it gives away
"""
