"""Defences for the task of a run: masks and other ways of training, compared with the private run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy.special import softmax

from reticent.accounting.rounding import at_most
from reticent.attacks.defences import Defended, compare
from reticent.attacks.scores import FEWEST
from reticent.attacks.shadows.recipes import plain_recipe
from reticent.core.errors import DataError
from reticent.core.observer import NOBODY, Observer
from reticent.core.trees import ArrayTree
from reticent.data.encoding import has_target
from reticent.runs.arrays import Arrays
from reticent.runs.attacks.pool import Pool, pool_of, require_classes
from reticent.runs.reopen import Again
from reticent.runs.scoring import predict_scores

_RATE, _BATCH = 1e-2, 100
_VISITS = 1_000_000  # rows times epochs
_FEWEST_EPOCHS, _MOST_EPOCHS = 6, 50
_EARLY = 6  # the part of the epochs after which training is stopped early
_DECAY = 1.0  # times the rate, of every weight in every step


def compare_defences(again: Again, *, observer: Observer = NOBODY) -> tuple[Defended, ...]:
    """Attacks the run's task without privacy, behind masks, stopped early, regularised, and the run itself.

    The model without privacy is the run's own, trained with Adam on the same rows; nothing is tuned.

    Raises:
        DataError: the run predicts numbers, or too few held-out rows differ from all training rows.
    """
    require_classes(again, "A membership attack")
    pool = pool_of(again)
    members, outsiders = _split_sides(pool)
    known = has_target(again.train_on["y"])
    rows = {key: values[known] for key, values in again.train_on.items()}
    epochs = int(np.clip(_VISITS // len(rows["y"]), _FEWEST_EPOCHS, _MOST_EPOCHS))
    early = max(epochs // _EARLY, 1)
    ways = {
        f"none, {epochs} epochs": (epochs, 0.0),
        f"stopped at {early} epochs": (early, 0.0),
        "weight decay": (epochs, _DECAY),
    }
    models: dict[str, Any] = {}
    with observer.watch("models without privacy") as on_progress:
        for name, (length, decay) in ways.items():
            models[name] = _predictor(again, _train(again, rows, length, decay))
            on_progress(len(models) / (len(ways) + 1))
        epsilon = again.record.result.guarantee.epsilon
        models[f"this run, epsilon {at_most(epsilon)}"] = _predictor(again, again.params)
        return compare(models, members, outsiders)


def explain_defences(rows: tuple[Defended, ...]) -> list[str]:
    """Says what the table means."""
    none, run = rows[0], rows[-1]
    none_auc, run_auc = (row.battery.strongest.measured.auc.value for row in (none, run))
    return [
        f"Without any defence the strongest attack has an AUC of {none_auc:.3f} at a test accuracy of "
        f"{none.battery.accuracies.test:.1%}; on this run it has {run_auc:.3f} at "
        f"{run.battery.accuracies.test:.1%}.",
        "A mask changes what a model says, not what it learned: it does not stop an attack on labels "
        "('gap'). Only the private row comes with a bound on every other attack.",
    ]


def _train(again: Again, rows: Arrays, epochs: int, decay: float) -> Any:
    count = len(rows["y"])
    recipe = plain_recipe(
        again.learner.model,
        optax.adamw(_RATE, weight_decay=decay),
        epochs=epochs,
        batch_size=_BATCH,
        set_size=count,
    )
    arrays = (jnp.asarray(rows["x"]), jnp.asarray(rows["y"]), jnp.ones(count, bool))
    return jax.block_until_ready(jax.jit(recipe)(jax.random.key(0, impl="threefry2x32"), *arrays))


def _predictor(again: Again, params: ArrayTree) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: softmax(predict_scores(again.learner, params, x).astype(float), axis=1)


def _split_sides(pool: Pool) -> tuple[Arrays, Arrays]:
    """Splits members from outsiders; outsiders that equal a member are left out."""
    members, outsiders = (
        {key: values[side] for key, values in pool.records.items()}
        for side in (pool.is_member, ~pool.is_member)
    )
    inside = {row.tobytes() for row in members["x"]}
    is_own = np.array([row.tobytes() not in inside for row in outsiders["x"]])
    if is_own.sum() < 3 * FEWEST:
        raise DataError(
            f"All but {is_own.sum()} of {len(is_own)} held-out rows are copies of training rows.",
            remedy="Attack a run whose rows differ more, or with more of them held out.",
        )
    return members, {key: values[is_own] for key, values in outsiders.items()}
