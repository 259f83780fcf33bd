"""How often a client took part: in a file of its own, whatever a server says and whichever run it starts.

A server that is not trusted could begin the same plan again and again, and each time ask for as many rounds
as the plan has. So a client counts over all runs of a plan, and writes a round down before it sends anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reticent.core import strict_json
from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import read_inside, write_whole
from reticent.core.locks import alone

_MOST = 1 << 24  # bytes


class Turns:
    """The rounds of one plan that one client took part in.

    Args:
        folder: of the client's owner, who alone may read and write it.
        plan: the digest of the plan.
    """

    def __init__(self, folder: Path, *, plan: str, client: str) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = hashlib.blake2b(f"{plan} {client}".encode(), digest_size=16).hexdigest()
        self._path = folder / f"{name}.json"

    def take(self, mask_key: bytes, most: int) -> None:
        """Writes down a round, known by the public key of its masks.

        Raises:
            DataError: there were as many as the plan has, or this one was taken: its masks hide one message.
            IntegrityError: the file is damaged; nothing may be sent.
        """
        with self._alone() as known:
            taken = known["taken"]
            if mask_key.hex() in taken:
                raise DataError(
                    "These masks were used: a second message would show the difference of both.",
                    remedy="Begin another round.",
                )
            if not len(taken) < most:
                raise DataError(
                    f"This client took part in {most} rounds, and the plan has no more.",
                    remedy="Start another run, with a plan that is paid for.",
                )
            self._write({**known, "taken": [*taken, mask_key.hex()]})

    def tell(self, mask_key: bytes) -> None:
        """Writes down that shares of a round are told, before they are: once, however many processes ask.

        Raises:
            DataError: they were told, or this client sent no numbers in that round.
            IntegrityError: the file is damaged; nothing may be sent.
        """
        with self._alone() as known:
            if mask_key.hex() not in known["taken"] or mask_key.hex() in known["told"]:
                raise DataError(
                    "Shares of this round were told, or this client sent no numbers in it: a second answer "
                    "could open a single update.",
                    remedy="Begin another round.",
                )
            self._write({**known, "told": [*known["told"], mask_key.hex()]})

    @contextmanager
    def _alone(self) -> Iterator[dict[str, list[str]]]:
        """What is written down, while nobody else reads or writes it."""
        with alone(self._path.with_suffix(".lock")):
            yield self._read()

    def _write(self, known: dict[str, list[str]]) -> None:
        said = {"what": "rounds of secure aggregation", **known}
        write_whole(self._path, json.dumps(said).encode(), is_private=True)

    def _read(self) -> dict[str, list[str]]:
        try:
            found = strict_json.parse_object(read_inside(self._path.parent, self._path.name, most=_MOST))
            lists = {"taken": found["taken"], "told": found.get("told", [])}  # older files have one
            return {name: [str(key) for key in keys] for name, keys in lists.items()}
        except FileNotFoundError:
            return {"taken": [], "told": []}
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IntegrityError(
                f"The file {self._path} is damaged: how often this client took part is not known.",
                remedy="Take part in no round of this plan any more.",
            ) from error
