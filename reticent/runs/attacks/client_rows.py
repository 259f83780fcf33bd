"""Rows of clients, read from their updates: by division, or by a model that a malicious server made for it.

A client has one row, or ten; it takes one step on all of them, so that its update is a gradient. Whoever sees
the update, or the sum of a round, tries to read the rows from it, without noise and with the run's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from reticent.attacks.metrics import Estimate
from reticent.attacks.reconstruction.leakage import mean_of, psnr, recover_analytically
from reticent.attacks.reconstruction.malicious import (
    RECOGNISABLE,
    even_thresholds,
    read_trap,
    trap_parameters,
)
from reticent.core.errors import DataError
from reticent.training.local_training import LocalTraining
from reticent.training.plan import Plan
from reticent.training.watched_rounds import watch_rounds

ONE_ROW = "the row of a client that has one, in decibels"
TRAPPED = "rows of a client that a model made for it reads, as a share"
_ROWS = 10  # of a client in a trap
_CLIENTS = 64  # at most

ClientRows = dict[str, np.ndarray]
Found = dict[str, Estimate]


def rows_from_updates(
    loss: Any,
    params: Any,
    plan: Plan,
    rate: float,
    rows: ClientRows,
    outside: ClientRows,
    *,
    watched: int,
) -> dict[str, Found]:
    """For each attack that the model allows, and each view, how well rows are read.

    Args:
        rate: of a client's step.
        outside: rows that the attacker has, to tell where traps should be set.
    """
    single = LocalTraining(learning_rate=rate)
    layer = _first_dense(params)
    if layer is None or np.ndim(rows["x"]) < 2:
        return {}
    box = float(np.min(outside["x"])), float(np.max(outside["x"]))

    def read(model: Any, count: int, score: Callable[[Any, np.ndarray], float]) -> Found:
        """Scores what each view of a round of clients with `count` rows each lets an attacker read."""
        clients = min(_CLIENTS, len(rows["x"]) // count)
        if clients < watched:
            return {}
        own = {name: column[: clients * count] for name, column in rows.items()}
        (seen,) = watch_rounds(
            loss,
            model,
            own,
            np.repeat(np.arange(clients), count),
            dataclasses.replace(plan, rows_per_user=count),
            single,
            watched=watched,
            rounds=1,
            seed=0,
        )
        truth = own["x"].reshape(clients, count, -1)
        return {
            view: mean_of([score(_tree(model, update), truth[at]) for at, update in enumerate(updates)])
            for view, updates in seen.views.items()
        }

    def divided(update: Any, truth: np.ndarray) -> float:
        try:
            found = recover_analytically(update if layer == "" else update[layer], box=box)
        except DataError:  # an update of zeros tells nothing
            found = np.full(truth.shape[1], np.mean(box))
        return psnr(truth[0], found, peak=box[1] - box[0])

    found = {ONE_ROW: read(params, 1, divided)}
    trap = _trap(params, outside["x"])
    if trap is not None:

        def trapped(update: Any, truth: np.ndarray) -> float:
            inside = read_trap(update["dense1"], box=box)
            return float(np.mean([_is_read(one, inside, box[1] - box[0]) for one in truth]))

        found[TRAPPED] = read(trap, _ROWS, trapped)
    return {attack: views for attack, views in found.items() if views}


def _is_read(one: np.ndarray, inside: np.ndarray, peak: float) -> bool:
    return any(psnr(one, other, peak=peak) >= RECOGNISABLE for other in inside)


def _first_dense(params: Any) -> str | None:
    """Where the layer is that sees a row itself: a name, "" for a model of one layer, None for others."""
    if not isinstance(params, dict):
        return None
    for name, layer in (("dense1", params.get("dense1")), ("", params)):
        if isinstance(layer, dict) and np.ndim(layer.get("w", 0)) == 2 and "b" in layer:
            return name
    return None


def _trap(params: Any, outside: np.ndarray) -> Any | None:
    try:
        units = np.shape(params["dense1"]["w"])[1]
        return trap_parameters(params, even_thresholds(outside.reshape(len(outside), -1).mean(axis=1), units))
    except (DataError, KeyError):  # another model, or rows of one mean: there is nothing to sort by
        return None


def _tree(like: Any, flat: np.ndarray) -> Any:
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([0, *(leaf.size for leaf in leaves)])
    pieces = [flat[a:b].reshape(leaf.shape) for a, b, leaf in zip(ends, ends[1:], leaves, strict=False)]
    return jax.tree.unflatten(structure, pieces)
