"""How well a model does on rows it was not trained on."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from reticent.distributed import collectives
from reticent.runs.learners import Learner
from reticent.runs.problem import Problem
from reticent.runs.record import Scores

UNRELEASED, NOBODY = "unreleased estimate on held-out rows", "no rows were held out"


def score(learn: Learner, params: Any, problem: Problem, test: dict[str, np.ndarray]) -> Scores:
    """How well a model does on rows it was not trained on.

    These rows belong to the same people as the others, and no noise is on the result: it is an estimate for
    whoever holds the data, not part of what may be published under the guarantee. How many rows there are is
    as secret as the coins that hold them out, and is not kept. Coins may hold out nobody: then there is no
    score.
    """
    scores = collectives.gather_rows(predicted(learn, params, test["x"]))
    targets = collectives.gather_rows(np.asarray(test["y"]))
    if not len(targets):
        return Scores(label=NOBODY, values={})
    if not problem.is_classification:
        wanted = np.asarray(targets, np.float64)  # the square of a large float32 would be infinite
        error = float(np.sqrt(np.mean(np.square(scores[:, 0] - wanted))))
        spread = float(np.std(wanted))
        found = {"root mean squared error": error, "of the target's spread": error / max(spread, 1e-12)}
        return Scores(label=UNRELEASED, values=found)
    found = {"accuracy": float(np.mean(scores.argmax(axis=1) == targets))}
    if problem.outputs == 2 and len(np.unique(targets)) == 2:
        from sklearn.metrics import roc_auc_score

        found["auroc"] = float(roc_auc_score(targets, scores[:, 1] - scores[:, 0]))
    return Scores(label=UNRELEASED, values=found)


def predicted(learn: Learner, params: Any, inputs: np.ndarray) -> np.ndarray:
    """The scores of many rows, in pieces that fit into memory."""
    apply = jax.jit(jax.vmap(learn.scores, in_axes=(None, 0)))
    if not len(inputs):
        return np.asarray(apply(params, np.zeros((1, *inputs.shape[1:]), inputs.dtype)))[:0]
    pieces = [np.asarray(apply(params, inputs[at : at + 4096])) for at in range(0, len(inputs), 4096)]
    return np.concatenate(pieces)
