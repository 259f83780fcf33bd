"""The quality of synthetic rows, and what they reveal.

utility            distances of marginals, a self-test, what models learn from them
privacy_metrics    how near they are to the rows a model learned from
evaluation         both for a generator in its folder
"""
