"""What a model gives away about one column, or about its whole training set; what updates tell.

attribute    a hidden column of a known record; imputation: what can be guessed without a model
property     a fact about the training set as a whole
client_updates   which rows a client of federated learning has, and what they have in common
"""
