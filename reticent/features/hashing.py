"""A bag of words without a list of words: each word has a place that its hash decides.

A vocabulary made from private texts tells which words are in them. A hash is public, and no word is unknown.

Reference:
    Weinberger et al. (2009), "Feature hashing for large scale multitask learning", ICML.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from functools import lru_cache

import numpy as np

from reticent.core import checks
from reticent.features.extractor import Extractor

_WORD = re.compile(r"\w+(?:'\w+)?|[!?]")
_MOST_WORDS = 4096  # of a text


def hashed_words(width: int = 2048) -> Extractor:
    """The words of a text as one row of length 1: each word's place and sign follow from its hash alone.

    Example:
        >>> row = hashed_words(64).row("A fine, fine film")
        >>> int((row != 0).sum()), float(np.linalg.norm(row).round(3))
        (3, 1.0)
    """
    checks.count(minimum=16, width=width)

    def apply(text: str) -> np.ndarray:
        row = np.zeros(width, np.float32)
        for word in set(words_of(text)):
            place, sign = _place(word, width)
            row[place] += sign
        return row / max(float(np.linalg.norm(row)), 1e-6)

    settings = f"words {width}"
    digest = hashlib.blake2b(settings.encode(), digest_size=20).hexdigest()
    return Extractor(
        name=f"hashed words ({width})", digest=digest, apply=apply, width=width, takes="texts", is_model=False
    )


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case, and its marks of surprise and doubt.

    >>> words_of("It's GOOD!")
    ["it's", 'good', '!']
    """
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())[:_MOST_WORDS]


@lru_cache(maxsize=1 << 16)
def _place(word: str, width: int) -> tuple[int, float]:
    found = int.from_bytes(hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    return (found >> 1) % width, 1.0 if found & 1 else -1.0
