"""The words of a column, without showing one that only a single row has."""

from __future__ import annotations

import math
from collections import Counter

from scipy.special import ndtri

MOST_WORDS = 200


def threshold(deviation: float, columns: int, delta: float) -> float:
    """The noisy count above which a word is shown.

    A row brings at most one new word in each column. Each has a count of one, and passes with
    probability delta / columns at most: all together with at most delta.
    """
    return 1 + deviation * -float(ndtri(delta / max(columns, 1)))


def words_to_show(words: list[str], noisy: list[float], above: float) -> list[str]:
    """The words whose noisy count is above the threshold, at most 200 of them, in alphabetical order."""
    passing = {word: count for word, count in zip(words, noisy, strict=True) if count > above}
    return sorted(word for word, _ in Counter(passing).most_common(MOST_WORDS))


def count_covered(words: list[str], noisy: list[float], chosen: list[str]) -> float:
    """About how many rows have one of the chosen words."""
    return math.fsum(count for word, count in zip(words, noisy, strict=True) if word in set(chosen))
