"""Federated learning: clients keep their rows, a server adds up what they send, a user is what is protected.

plan = rt.federated.FederatedPlan.for_budget(epsilon=4, delta=1e-5, clients=1000, ...)
run = rt.federated.train(loss, params, Dataset(rows, users=clients), plan)

training.local_training is what a client does in a round, data.client_splits makes clients for data that have
none.

plan             who takes part and what leaves a round, and what that costs
simulator        all of it on one machine
robust           what a server may compute instead of a mean when some clients lie
poisoning        what those clients may send, or train on
inference        what updates tell about clients
canaries         made-up clients that audit the guarantee of a plan
secure           noisy sums that nobody sees without noise, and no single updates
rounds           the server of a real deployment: whom it asks, what it takes, how it is started again
flower           that server and its clients over a network
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.data.client_splits import dirichlet_split as dirichlet_split
    from reticent.federated import flower as flower
    from reticent.federated import inference as inference
    from reticent.federated import poisoning as poisoning
    from reticent.federated import robust as robust
    from reticent.federated.canaries import audit_clients as audit_clients
    from reticent.federated.plan import FederatedPlan as FederatedPlan
    from reticent.federated.rounds import Rounds as Rounds
    from reticent.federated.secure.plan import SecurePlan as SecurePlan
    from reticent.federated.secure.protocol import secure_sum as secure_sum
    from reticent.federated.secure.shares import NoiseShares as NoiseShares
    from reticent.federated.secure.sums import private_sum as private_sum
    from reticent.federated.simulator import train as train
    from reticent.training.local_training import LocalTraining as LocalTraining
    from reticent.training.local_training import client_update as client_update

open_page(__name__)
