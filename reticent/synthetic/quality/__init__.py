"""How good synthetic rows are, and what they give away.

utility            distances of marginals, a self-test, what models learn from them
privacy_metrics    how near they are to the rows a model learned from
evaluation         both for a generator in its folder
"""
