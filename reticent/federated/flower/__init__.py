"""Federated learning over a network with Flower: our strategy on its server, our function on its clients.

    strategy = rt.federated.flower.PrivateStrategy(plan, params, clients=names, folder="server")
    run = strategy.start(grid)                                     # in a ServerApp
    app = rt.federated.flower.client_app(loss, params, plan, rows=own_rows)       # the ClientApp

Nothing of Flower's own privacy code is used: rounds are those of `rt.federated.rounds`, so a plan and a seed
give the model of the simulator. Needs `pip install 'reticent[flower]'`.

strategy         the server: registered clients, messages of a round, what is left out and why
client           a client: its rows, one compiled function, one update
secure_strategy  a server that sees sums with noise alone, by four messages a round (`secure_messages`)
secure_client    its clients, which clip, add noise and mask
grid             server and clients in one process, for tests
messages         trees of arrays as Flower's records and back
registry         which node is which client
library          the parts of Flower that are used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.federated.flower.client import client_app as client_app
    from reticent.federated.flower.grid import InProcessGrid as InProcessGrid
    from reticent.federated.flower.secure_client import secure_client_app as secure_client_app
    from reticent.federated.flower.secure_strategy import SecureStrategy as SecureStrategy
    from reticent.federated.flower.strategy import PrivateStrategy as PrivateStrategy

open_page(__name__)
