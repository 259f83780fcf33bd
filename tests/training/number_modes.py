"""What `test_number_modes.py` runs in a process whose JAX has 64-bit numbers and strict promotion."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import reticent as rt
from reticent.core.keys import Keys
from reticent.core.whole_normals import whole_normals
from reticent.models import accuracy, classification_loss, linear, mlp
from reticent.sklearn import PrivateMLPClassifier
from reticent.training import AdaptiveNorm

ROWS = 90


def rows(count: int, seed: int) -> dict[str, np.ndarray]:
    source = np.random.default_rng(seed)
    x = source.normal(size=(count, 6))
    return {"x": x.astype(sys.argv[1]), "y": (x[:, 0] > 0).astype(np.int32)}


def main() -> None:
    model = linear(6, 2) if sys.argv[1] == "float32" else mlp((6, 5, 2))
    loss = classification_loss(model)

    def with_dropout(params: Any, example: Any, key: jax.Array) -> jax.Array:
        kept = jax.random.bernoulli(key, 0.9, example["x"].shape)
        return loss(params, {**example, "x": jnp.where(kept, example["x"], 0)})

    budget: Any = {"epsilon": 3, "delta": 1e-3, "examples": ROWS, "steps": 3, "max_norm": 1.0}
    plans = [
        rt.Plan.for_budget(**budget, batch_size=30, adaptive=AdaptiveNorm()),
        rt.Plan.for_budget(**budget, sampling="shuffled", batch_size=30),
        rt.Plan.without_privacy(examples=ROWS, batch_size=30, steps=3, max_norm=1.0),
    ]
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), model.init(jax.random.key(0)))
    losses = (with_dropout, loss, loss)
    count = 1 if sys.argv[1] == "float32" else len(plans)
    for plan, each in zip(plans[:count], losses[:count], strict=True):
        done = rt.train(
            each,
            params,
            rows(ROWS, 0),
            plan,
            optimizer=optax.sgd(0.1, momentum=0.5),  # optax.adam itself mixes types
            evaluate=rows(9, 1),
            metrics={"accuracy": accuracy(model)},
            keys=Keys.seeded(0),
            output="mean",
            unreleased=True,
        )
        assert done.is_complete
        kinds = [[leaf.dtype for leaf in jax.tree.leaves(tree)] for tree in (params, done.params)]
        assert kinds[0] == kinds[1]
        assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(done.params))
    if sys.argv[1] == "float64":
        found = rows(400, 2)
        PrivateMLPClassifier(epsilon=3.0, delta=1e-4, norm=4.0, classes=[0, 1], steps=3, random_state=0).fit(
            found["x"], found["y"]
        )
    else:  # so many that their ties are looked for
        drawn = whole_normals(jax.random.key(0), 6000, multiple=jnp.int32(3))
        assert drawn.dtype == jnp.int32
    print("trained", jnp.zeros(1).dtype, jax.config.values["jax_numpy_dtype_promotion"])


if __name__ == "__main__":
    main()
