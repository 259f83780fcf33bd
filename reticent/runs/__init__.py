"""From a table to a private model in a folder, for somebody who writes no JAX.

problem     what is public about a learning problem: all that a default may depend on
learners    which models there are for it, and how rows become their inputs
onlooker    whoever watches
recipe      what a method of training is to a run
descent     noisy gradient descent as a method
methods     the ways to train privately: one row a method
order       what is asked for, and what about
pricing     what it will cost, before a record is seen
arrays      the rows to train on, and those held out
folder      what a run leaves behind, and how it is read back without trusting it
fit         the whole way: prepare, pay, train, evaluate, write
scoring     how good the result is
predict     the way back: new rows through a finished run
"""
