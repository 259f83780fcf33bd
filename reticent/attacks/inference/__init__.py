"""What a model gives away about one column, or about its whole training set.

attribute    a hidden column of a known record; imputation: what can be guessed without a model
property     a fact about the training set as a whole
"""
