"""Models made up by a test: what they leak is known."""

from __future__ import annotations

import numpy as np

from reticent.attacks.scores import Scores
from reticent.attacks.shadows.outputs import Shadows, balanced_halves


def normal_scores(members: int, outsiders: int, shift: float, *, seed: int) -> Scores:
    """Unit normals, members `shift` above outsiders: the area under the curve is Phi(shift / sqrt(2))."""
    random = np.random.default_rng(seed)
    return Scores(members=random.normal(shift, 1, members), outsiders=random.normal(0, 1, outsiders))


def shadows(
    leak: float,
    *,
    models: int = 16,
    records: int = 400,
    classes: int = 4,
    seed: int = 0,
    noise: float = 1.0,
) -> Shadows:
    """Models whose logit of the true class is higher by `leak` for members, and otherwise knows nothing.

    Records differ in how hard they are, far more than membership changes them, as real ones do.
    """
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, records)
    is_member = balanced_halves(records, models, seed=seed)
    hardness = random.normal(1.0, 2.0, records)
    logits = random.normal(0, noise, (models, records, classes)).astype(np.float32)
    logits[:, np.arange(records), labels] += (hardness + leak * is_member).astype(np.float32)
    margin = logits[:, np.arange(records), labels] - 1.0
    shaken = margin[..., None] + random.normal(0, 2.0, (models, records, 16))
    return Shadows(logits=logits, is_member=is_member, labels=labels, robustness=(shaken > 0).mean(axis=-1))
