"""Attacks on runs that are in a folder.

membership             who was in the training set; the value of a sensitive column
property               the share of rows with a property
client_rounds          what updates of clients would show, of runs of reticent federate
client_rows            rows that are read from such updates
leakage, inversion     what a gradient, or the model, shows of a record or a class
defences               what other defences would have changed
pool, view, recipes    which records are used; how one looks; how shadow models are trained
"""
