"""PATE: private learning by voting teachers.

partition    every record in the shard of one teacher
teachers     many models, trained at once without noise, which only vote
votes        what they say, and what was asked: types that cannot be mixed up
aggregators  noise on the counts, then the largest: four ways (grid: in whole numbers)
allowance    how many questions a budget covers, for any votes
answering    a pool, round by round;  oracle: one record at a time, with a journal
costs        which costs may be published, and which not (divergence, sensitivity: the theorems;
             publishing: the noise on a private cost)
asking       how many questions, about which public records, with how much noise
student      learns from the answers and from the unlabelled pool (propagation, kernel, scaling)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.pate.aggregators import Confident as Confident
    from reticent.pate.aggregators import ExponentialMax as ExponentialMax
    from reticent.pate.aggregators import GaussianMax as GaussianMax
    from reticent.pate.aggregators import LaplaceMax as LaplaceMax
    from reticent.pate.allowance import Allowance as Allowance
    from reticent.pate.allowance import allowance_for as allowance_for
    from reticent.pate.answering import Teller as Teller
    from reticent.pate.answering import add_confident_labels as add_confident_labels
    from reticent.pate.answering import join_answers as join_answers
    from reticent.pate.costs import CostRelease as CostRelease
    from reticent.pate.costs import Sanitised as Sanitised
    from reticent.pate.costs import UnreleasedCost as UnreleasedCost
    from reticent.pate.costs import sanitise as sanitise
    from reticent.pate.costs import unreleased_cost as unreleased_cost
    from reticent.pate.oracle import Oracle as Oracle
    from reticent.pate.partition import partition as partition
    from reticent.pate.student import fit_student as fit_student
    from reticent.pate.teachers import teach as teach
    from reticent.pate.teachers import teach_estimators as teach_estimators
    from reticent.pate.votes import Answers as Answers
    from reticent.pate.votes import Questions as Questions
    from reticent.pate.votes import Votes as Votes

open_page(__name__)
