"""Words sorted into buckets by a public function: for columns of very many words.

To find words privately costs budget, and finds only frequent ones. A bucket costs nothing: which one a word
is in follows from the word alone. Words that share a bucket cannot be told apart.
"""

from __future__ import annotations

import hashlib

FEWEST, MOST = 2, 4096


def bucket_of(word: str, count: int) -> int:
    """The bucket of a word, from 0, by 64 bits of BLAKE2b: the same in every process and on every machine.

    >>> bucket_of("Cologne", 64), bucket_of("Bonn", 64)
    (3, 61)
    """
    digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count


def bucket_names(count: int) -> tuple[str, ...]:
    """What the buckets are called, where words would be listed.

    >>> bucket_names(2)
    ('bucket 1', 'bucket 2')
    """
    return tuple(f"bucket {place + 1}" for place in range(count))
