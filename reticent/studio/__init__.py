"""The studio: a local web application over the same engine, runs and ledgers as the commands.

serve          the address, the secret in it, the server
access         who is let in: the secret, the host, the origin; what a page may load
application    which function answers which address
workspace      the folder that the studio looks into, and nothing outside it
planning       a plan from the words of a form: cost, curves, odds, what it would take
estimates      accuracy that was measured at a given epsilon, by data set
columns        what is public about a table, and what finding the rest would cost
budgets        what the datasets of a ledger may spend, and have spent
commands       command lines from the fields of a form
teaching       what the pages of the course compute
jobs           commands that run for a page, and what they say
markup         pages as escaped text
pages          one file per page

Nothing is computed here that a command does not compute: every button shows the command that it runs.
"""
