"""Who was asked in which round, and who answered: the server's own book, which nobody else may see.

It is written before a round begins. So after a crash the server knows whom it has asked, goes on with the
same clients, and can show that nobody was in more rounds than the event of its plan counts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from reticent.core import strict_json
from reticent.core.errors import DataError, IntegrityError, InvalidArgument
from reticent.core.files import read_inside, write_whole
from reticent.noise.participation import Participation

_MOST = 1 << 28  # bytes
_WHAT = "who took part in which round: private"


class JournalEntry(NamedTuple):
    """One round: the clients that were asked, and those of them that answered, by their places."""

    asked: tuple[int, ...]
    finished: tuple[int, ...] = ()
    is_over: bool = False  # its model was saved, and may have been shown


class Journal:
    """The clients of a run, and their rounds.

    Args:
        clients: a name for each; a client is known by its place in this list.
        path: where it is kept, for its owner alone; None for nowhere.

    Raises:
        InvalidArgument: two clients have one name.
        DataError: the file is of a run with other clients, or damaged.

    Example:
        >>> journal = Journal(["ann", "bob", "cid"])
        >>> journal.note(0, asked=[0, 2])
        >>> journal.note(0, asked=[0, 2], finished=[2])
        >>> journal.entries[0]
        JournalEntry(asked=(0, 2), finished=(2,), is_over=False)
    """

    def __init__(self, clients: Sequence[str], path: Path | None = None) -> None:
        self.clients, self.path = tuple(clients), path
        self.entries: dict[int, JournalEntry] = {}
        require_names(self.clients)
        if path is not None and path.exists():
            self._read(path)

    def note(
        self, number: int, *, asked: Collection[int], finished: Collection[int] = (), is_over: bool = False
    ) -> None:
        """Writes down a round. Where it begins a second time, after a crash, the first try does not count."""
        self.entries[number] = JournalEntry(tuple(sorted(asked)), tuple(sorted(finished)), is_over)
        if self.path is None:
            return
        rounds = {
            str(at): [list(entry.asked), list(entry.finished), entry.is_over]
            for at, entry in sorted(self.entries.items())
        }
        said = {"what": _WHAT, "clients": list(self.clients), "rounds": rounds}
        write_whole(self.path, json.dumps(said).encode(), is_private=True)

    def require_covered(self, declared: Participation, number: int, asked: Collection[int]) -> None:
        """Compares what happened, and the round that would come next, with what the event of the plan counts.

        Raises:
            DataError: a client was in more rounds, or sooner again.
        """
        for client, earlier_rounds in self.rounds_of_clients().items():
            if client not in asked:
                continue
            rounds = [*(at for at in earlier_rounds if at < number), number]
            gaps = [later - earlier for earlier, later in pairwise(rounds)]
            is_apart = all(
                gap % declared.separation == 0 if declared.is_cyclic else gap >= declared.separation
                for gap in gaps
            )
            if not (len(rounds) <= declared.times and is_apart):
                counted = declared.in_words.replace("record", "client").replace("steps", "rounds")
                raise DataError(
                    f"Client '{self.clients[client]}' would be asked in rounds {rounds}, and the plan counts "
                    f"on this: {counted}.",
                    remedy="Nobody was asked. Keep the clients of a run as they are, or make a plan for more "
                    "rounds of each.",
                )

    def rounds_of_clients(self) -> dict[int, list[int]]:
        """The rounds in which each client was asked."""
        found: dict[int, list[int]] = {}
        for number in sorted(self.entries):
            for client in self.entries[number].asked:
                found.setdefault(client, []).append(number)
        return found

    def forget_from(self, number: int) -> None:
        """Rounds from this one on were never finished: nothing of them left the server.

        Raises:
            IntegrityError: one was. The checkpoint is an older one, and its rounds would be released twice.
        """
        released = [at for at, entry in self.entries.items() if at >= number and entry.is_over]
        if released:
            raise IntegrityError(
                f"Round {max(released)} is over, and the checkpoint beside the journal is from before round "
                f"{number}: taken again, a round would be a second release for one charge.",
                remedy="Put back the newest checkpoint, or start a new run in another folder.",
            )
        self.entries = {at: entry for at, entry in self.entries.items() if at < number}

    def confirm_before(self, number: int) -> None:
        """The checkpoint has the model of every earlier round, also where a crash came before the journal."""
        for at, entry in self.entries.items():
            if at < number and not entry.is_over:
                self.note(at, asked=entry.asked, finished=entry.finished, is_over=True)

    def _read(self, path: Path) -> None:
        try:
            found = strict_json.parse_object(read_inside(path.parent, path.name, most=_MOST))
            clients = found["clients"]
            entries = {
                int(at): JournalEntry(tuple(asked), tuple(came), bool(over[0]) if over else bool(came))
                for at, (asked, came, *over) in found["rounds"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise IntegrityError(
                f"The journal {path} is damaged.", remedy="Start a new run in another folder."
            ) from error
        if tuple(clients) != self.clients:
            raise DataError(
                f"The run in {path.parent} began with {len(clients)} other clients, in this order: "
                f"{', '.join(map(str, clients[:3]))}...",
                remedy="Resume with the same list: places in it decide who is asked when.",
            )
        self.entries = entries


def require_names(clients: tuple[str, ...]) -> None:
    if not clients:
        raise InvalidArgument("There are no clients.", remedy="Name at least one.")
    wrong = [name for name in clients if not (isinstance(name, str) and name)]
    if wrong:
        raise InvalidArgument(
            f"{wrong[0]!r} is not the name of a client.", remedy="Name clients with text that is not empty."
        )
    if len(set(clients)) < len(clients):
        twice = next(name for name in clients if clients.count(name) > 1)
        raise InvalidArgument(
            f"Client '{twice}' is registered twice: one user would count as two.",
            remedy="Give every user one client.",
        )
