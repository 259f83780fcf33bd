"""Shadow models of a recipe that is not a JAX program: trained one by one, asked about every record.

`training` trains many at a time, which needs a recipe that can be traced and vectorised. A fit written
in NumPy, or in another framework, cannot be; what comes out here is the same `Shadows`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from reticent.attacks.shadows.outputs import Shadows, balanced_halves
from reticent.attacks.shadows.pace import Clock, Progress
from reticent.attacks.shadows.recipes import PlainRecipe
from reticent.attacks.shadows.training import join_records

ModelAnswers = tuple[np.ndarray, np.ndarray | None]  # logits (records, classes), and robustness (records,)
Ask = Callable[[Any], ModelAnswers]


def train_one_by_one(
    recipe: PlainRecipe,
    ask: Ask,
    data: Mapping[str, Any],
    *,
    shadows: int = 16,
    seed: int = 0,
    always: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Shadows:
    """Trains shadow models with any function of a key, arrays and a mask, and asks each about every record.

    Args:
        recipe: (key, x, y, mask) -> params, called with NumPy arrays; all its randomness comes from the key.
        ask: from parameters to what that model says of the records of `data`.
        always: `x` and `y` of more records that every model is trained on, so that set sizes match.
        minutes: stops before a pair of models that would end later; what was trained comes back.

    Guarantee:
        Every record is in exactly half of the models. Model m depends on the seed and on m alone.

    Raises:
        DataError, InvalidArgument: the data or the number of models do not fit.

    Example:
        >>> x, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
        >>> def recipe(key, x, y, mask):
        ...     return x[mask & (y == 1)].mean(axis=0)
        >>> def ask(centre):
        ...     return np.column_stack([np.zeros(40), x @ centre]), None
        >>> train_one_by_one(recipe, ask, {"x": x, "y": y}, shadows=4).models
        4
    """
    x, y, audited = join_records(data, always)
    matrix = balanced_halves(audited, shadows, seed=seed)
    clock = Clock(minutes, shadows, on_progress)
    root = jax.random.key(seed, impl="threefry2x32")
    answers: list[ModelAnswers] = []
    while len(answers) < shadows and not clock.is_over(2):
        started = time.perf_counter()
        for number in range(len(answers), len(answers) + 2):
            mask = np.pad(matrix[number], (0, len(y) - audited), constant_values=True)
            answers.append(ask(recipe(jax.random.fold_in(root, number), x, y, mask)))
        clock.note(len(answers), (time.perf_counter() - started) / 2)
    robustness = [each[1] for each in answers if each[1] is not None]
    return Shadows(
        logits=np.stack([each[0] for each in answers]),
        is_member=matrix[: len(answers)],
        labels=y[:audited],
        robustness=np.stack(robustness) if len(robustness) == len(answers) else None,
    )
