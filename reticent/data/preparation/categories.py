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


def words_to_show(
    words: list[str], noisy: list[float], above: float, *, ignore_case: bool = False
) -> dict[str, float]:
    """The words whose noisy count is above the threshold, at most 200 of them, with their counts.

    In alphabetical order. Words that differ in case only are one, spelt as most of them are.
    """
    passing = Counter({word: count for word, count in zip(words, noisy, strict=True) if count > above})
    spelt: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for word, count in passing.most_common():
        first = spelt.setdefault(word.casefold() if ignore_case else word, word)
        counts[first] += count
    return dict(sorted(counts.most_common(MOST_WORDS)))


def shares(counts: dict[str, float]) -> tuple[float, ...]:
    """The share of each word among those that are shown, to four digits and at most 1 in all."""
    total = math.fsum(counts.values())
    return tuple(math.floor(1e4 * count / total) / 1e4 for count in counts.values())
