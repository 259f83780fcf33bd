"""PATE: private learning by voting teachers.

partition    every record in the shard of one teacher
teachers     many models, trained at once without noise, who only vote
votes        what they say, and what was asked: types that cannot be mixed up
aggregators  noise on the counts, then the largest: four ways
allowance    how many questions a budget covers, whatever the votes are
answering    a pool, round by round;  oracle: one record at a time, with a journal
costs        what may be published, and what may not (divergence, sensitivity: the theorems)
student      learns from the answers and from the unlabelled pool (propagation, selection)
"""

from reticent.pate.aggregators import Confident, ExponentialMax, GaussianMax, LaplaceMax
from reticent.pate.allowance import Allowance, allowance_for
from reticent.pate.answering import Teller, joined, reinforced
from reticent.pate.costs import Release, Sanitised, UnreleasedCost, sanitise, unreleased
from reticent.pate.oracle import Oracle
from reticent.pate.votes import Answers, Questions, Votes

__all__ = [
    "Allowance",
    "Answers",
    "Confident",
    "ExponentialMax",
    "GaussianMax",
    "LaplaceMax",
    "Oracle",
    "Questions",
    "Release",
    "Sanitised",
    "Teller",
    "UnreleasedCost",
    "Votes",
    "allowance_for",
    "joined",
    "reinforced",
    "sanitise",
    "unreleased",
]
