"""Checks that noise has its size and that two draws differ. Each states its false-alarm probability."""

from __future__ import annotations

import jax
import numpy as np
from scipy.special import chdtri

from reticent.core.trees import ArrayTree

Leaves = dict[str, np.ndarray]

_FALSE_ALARM = 1e-6  # of a test of one leaf


def flat(tree: ArrayTree) -> Leaves:
    """The leaves of a tree in float64, by name."""
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        jax.tree_util.keystr(path, simple=True, separator="/") or "(all)": np.asarray(leaf, np.float64)
        for path, leaf in paths
    }


def describe_wrong_size(draws: np.ndarray, deviation: float) -> str | None:
    """Says what is wrong with noise drawn several times on the same sum; None if nothing is.

    Too little noise on any leaf is a problem; more than claimed is not.
    """
    if not draws.size:
        return None
    centred = draws - draws.mean(axis=0)
    freedom = (len(draws) - 1) * draws[0].size
    statistic = float(np.square(centred).sum()) / deviation**2
    least = chdtri(freedom, 1 - _FALSE_ALARM)
    if statistic >= least:
        return _describe_silent_entries(centred, deviation)
    found = deviation * np.sqrt(statistic / freedom)
    return f"the noise has deviation {found:.4g}, but {deviation:.4g} was claimed"


def _describe_silent_entries(centred: np.ndarray, deviation: float) -> str | None:
    """Entries that have hardly any noise, in a leaf that has enough of it elsewhere."""
    entries = np.square(centred).sum(axis=0).ravel() / deviation**2
    # The smallest of so many chi-squared numbers is below this with the probability of a false alarm.
    least = chdtri(len(centred) - 1, 1 - _FALSE_ALARM / entries.size)
    silent = int((entries < least).sum())
    return f"{silent} of {entries.size} entries have hardly any noise" if silent else None


def is_same_noise(first: Leaves, second: Leaves, deviation: float) -> bool:
    """Whether two draws on the same sum differ by less than noise would, on any leaf.

    For independent noise the mean square of the difference is twice the variance; a tenth of it or less has a
    probability below one in a million from about 40 numbers on. On fewer, only next to no difference counts.
    """
    for name, leaf in first.items():
        if not leaf.size:
            continue
        apart = float(np.mean(np.square(leaf - second[name]))) / deviation**2
        if apart < (0.2 if leaf.size >= 40 else 1e-9):
            return True
    return False
