"""Recursive filters and convolutions of SciPy, imported when they are first used.

`scipy.signal` takes longer to import than most commands take, and every command that reads a run would wait.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Series = np.ndarray | Sequence[float]


def lfilter(above: Series, below: Series, values: Series) -> np.ndarray:
    """The series `values` times above / below, as power series."""
    from scipy import signal

    return np.asarray(signal.lfilter(above, below, values))


def fftconvolve(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The product of two series."""
    from scipy import signal

    return np.asarray(signal.fftconvolve(first, second))
