"""A file that one server writes at a time: a second one in the same folder is noticed before it releases.

Two servers that resume one run would both take its next round, with other noise: two releases for one charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reticent.core.errors import IntegrityError
from reticent.core.locks import alone

_FIRST = 200  # bytes, which hold a digest of the rest


class KeptByOne:
    """Remembers how a checkpoint was left, and refuses to write over one that somebody else has written."""

    def __init__(self, path: Path) -> None:
        self._path, self._seen = path, _beginning(path)

    def require_alone(self) -> None:
        """
        Raises:
            IntegrityError: the file was written since, by another server.
        """
        if _beginning(self._path) != self._seen:
            raise IntegrityError(
                f"Another server takes the rounds of {self._path.parent}: both would release a round that "
                "was paid for once.",
                remedy="Stop one of them. Start this one again if it is to go on alone.",
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """For as long as the file is compared and written, nobody else does either."""
        with alone(self._path.parent / "private" / "lock"):
            self.require_alone()
            yield
            self._seen = _beginning(self._path)


def _beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as content:
            return content.read(_FIRST)
    except FileNotFoundError:
        return b""
