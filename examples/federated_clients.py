"""A model over a thousand clients whose rows stay apart, private for each client with all its rows.

    python examples/federated_clients.py

Each client has a few rows of its own kind. In a round some clients train on their own rows, and the server
adds up their clipped updates and noise. The same rounds without noise show what privacy costs in accuracy.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import reticent as rt

CLIENTS, WIDTH = 2000, 8

draw = np.random.default_rng(0)
truth = draw.normal(size=WIDTH)
clients = np.repeat(np.arange(CLIENTS), draw.integers(2, 12, CLIENTS))  # the client of each row
x = draw.normal(size=(len(clients), WIDTH)) + 0.5 * draw.normal(size=(CLIENTS, WIDTH))[clients]
y = np.where(x @ truth + draw.normal(size=len(x)) > 0, 1.0, -1.0)
x, y = x.astype(np.float32), y.astype(np.float32)

is_held_out = clients >= CLIENTS - 200  # clients that never take part
train_on = rt.Dataset({"x": x[~is_held_out], "y": y[~is_held_out]}, users=clients[~is_held_out])
held_out = {"x": x[is_held_out], "y": y[is_held_out]}


def loss(params, row):
    return jnp.logaddexp(0, -row["y"] * (row["x"] @ params))


def accuracy(params, row):
    return row["y"] * (row["x"] @ params) > 0


setting = {
    "clients": CLIENTS - 200,  # declared, and public
    "clients_per_round": 200,
    "rounds": 40,
    "max_norm": 0.5,
    "rows_per_client": 10,
    "local": rt.federated.LocalTraining(learning_rate=0.3, epochs=2, batch_size=5),
}
plans = {
    "private": rt.federated.FederatedPlan.for_budget(epsilon=2, delta=1e-5, **setting),
    "without noise": rt.federated.FederatedPlan.without_privacy(**setting),
}
for name, plan in plans.items():
    run = rt.federated.train(
        loss, jnp.zeros(WIDTH), train_on, plan, evaluate=held_out, metrics={"accuracy": accuracy}
    )
    print(f"{name}: {run.history[-1].held_out['accuracy']:.1%} right on rows of other clients")
    if plan.server.is_private:
        print(f"{plan.rounds} rounds, noise multiplier {plan.server.noise_multiplier:.4f}")
        print(run.guarantee)
