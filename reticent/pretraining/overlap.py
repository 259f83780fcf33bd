"""Which private records are among the public ones: exact copies, by a hash of each row."""

from __future__ import annotations

import hashlib

import numpy as np

_BYTES = 16  # of each hash: two different rows of all that there are never share one


def row_hashes(rows: np.ndarray) -> np.ndarray:
    """A hash of each row, (rows, 16) bytes, in their order.

    Bytes and numbers from 0 to 1 are told apart: rows are compared as they are stored.

    Example:
        >>> rows = np.array([[1, 2], [3, 4], [1, 2]], np.uint8)
        >>> first, second, third = row_hashes(rows)
        >>> bool((first == third).all()), bool((first == second).all())
        (True, False)
    """
    rows = np.asarray(rows)
    kind = f"{rows.dtype.str}{rows.shape[1:]}".encode()
    found = b"".join(
        hashlib.blake2b(kind + np.ascontiguousarray(row).tobytes(), digest_size=_BYTES).digest()
        for row in rows
    )
    return np.frombuffer(found, np.uint8).reshape(len(rows), _BYTES)


def count_overlap(public: np.ndarray, private: np.ndarray) -> int:
    """How many of the private hashes are among the public ones. Private, as the records are.

    Example:
        >>> public = row_hashes(np.array([[1, 2], [3, 4]], np.uint8))
        >>> count_overlap(public, row_hashes(np.array([[3, 4], [3, 4], [9, 9]], np.uint8)))
        2
    """
    known = {each.tobytes() for each in public}
    return sum(each.tobytes() in known for each in private)
