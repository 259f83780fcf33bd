"""From a table to a private model in a folder, for somebody who writes no JAX.

problem     what is public about a learning problem: all that a default may depend on
learners    which models there are for it, and how rows become their inputs
methods     the ways to train them privately: one row a method
order       what is asked for, and what about
pricing     what it will cost, before a record is seen
folder      what a run leaves behind, and how it is read back without trusting it
fit         the whole way: prepare, pay, train, evaluate, write
scoring     how good the result is
predict     the way back: new rows through a finished run
"""
