"""reticent: private machine learning on JAX.

The public page. Every name here is loaded on first use, so that `import reticent` and
`reticent --help` stay instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

__version__ = "0.1.0"
__all__ = ["__version__"]

if TYPE_CHECKING:
    from reticent import accounting as accounting
    from reticent import additive as additive
    from reticent import attacks as attacks
    from reticent import audit as audit
    from reticent import convex as convex
    from reticent import data as data
    from reticent import distributed as distributed
    from reticent import features as features
    from reticent import federated as federated
    from reticent import ledger as ledger
    from reticent import mechanisms as mechanisms
    from reticent import models as models
    from reticent import noise as noise
    from reticent import pate as pate
    from reticent import report as report
    from reticent import runs as runs
    from reticent import sklearn as sklearn
    from reticent import synthetic as synthetic
    from reticent import training as training
    from reticent.accounting.guarantee import Guarantee as Guarantee
    from reticent.accounting.tight_epsilon import guarantee as guarantee
    from reticent.accounting.tight_epsilon import tight as tight
    from reticent.core.errors import BudgetExceeded as BudgetExceeded
    from reticent.core.errors import CannotMeet as CannotMeet
    from reticent.core.errors import DataError as DataError
    from reticent.core.errors import IntegrityError as IntegrityError
    from reticent.core.errors import InvalidArgument as InvalidArgument
    from reticent.core.errors import ReticentError as ReticentError
    from reticent.core.errors import Unproven as Unproven
    from reticent.core.keys import Keys as Keys
    from reticent.core.keys import Stream as Stream
    from reticent.core.keys import step_key as step_key
    from reticent.data.dataset import Dataset as Dataset
    from reticent.data.domain import Domain as Domain
    from reticent.ledger.ledger import Ledger as Ledger
    from reticent.mechanisms.adjacency import Adjacency as Adjacency
    from reticent.training import averages as averages
    from reticent.training import callbacks as callbacks
    from reticent.training import trainable as trainable
    from reticent.training.checkpoint import Checkpoints as Checkpoints
    from reticent.training.execution import Execution as Execution
    from reticent.training.gradients import clipped_gradient_sum as clipped_gradient_sum
    from reticent.training.loop import train as train
    from reticent.training.plan import Plan as Plan
    from reticent.training.reporting import Stop as Stop

open_page(__name__)
