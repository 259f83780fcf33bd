"""The gap attack: a record with the right label is called a member. The baseline of all others.

Reference:
    Yeom, Giacomelli, Fredrikson and Jha (2018), Section 3.2, arXiv:1709.01604v5: its advantage is the
    difference of train and test accuracy.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

THRESHOLD = 0.5


def scores(is_right: Bool[np.ndarray, " records"]) -> Float[np.ndarray, " records"]:
    """Scores 1 for a record with the right label, else 0. Needs labels only.

    Example:
        >>> scores(np.array([True, False])).tolist()
        [1.0, 0.0]
    """
    return np.asarray(is_right, float)
