"""Pages of the studio, each a function of what it shows.

frame       what is around every page
figures     facts of a report as parts of a page
plan        the form of a plan and the places for its results
runs, run   all runs, and one of them
comparison  several runs side by side
train       a table, its columns, and a training
ledger      budgets
learn       the pages of the course; lessons: what each of them says
job         a command that runs
"""
