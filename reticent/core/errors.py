"""Every error that reticent raises on purpose.

    ReticentError                   the base: catch this one to catch them all
    ├── InvalidArgument             a value outside its range (also a ValueError)
    │   └── CannotMeet              a target that no setting of the free quantity reaches
    │       └── TooFewRows          too few rows to find privately what they hold
    ├── DataError                   a file or array that cannot be read as what it claims to be
    │   ├── DomainError             a domain that contradicts itself, its table, or is not public yet
    │   ├── IntegrityError          bytes that are not the ones promised (checksum, truncated download)
    │   ├── Inconclusive            what was found privately cannot be used
    │   └── Interrupted             stopped from the keyboard between two steps; what was done is kept
    ├── Unavailable                 a dataset, file or network resource that cannot be had here
    │   ├── ProcessLost             another process of the same run, gone
    │   └── OutcomeUnknown          a charge to a ledger that may have been recorded, or not
    ├── Unproven                    a privacy claim for which there is no theorem
    ├── KeyReuse                    randomness asked for twice
    └── BudgetExceeded              a release that would pass the privacy limit

Each carries two sentences: what happened, with the numbers, and what to do about it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ReticentError(Exception):
    """What went wrong, and what to do next.

    Args:
        happened: one sentence with the file, the name and the number in it.
        remedy: one sentence that says what to change. Never empty: an error that leaves
            its reader with nothing to do is a bug of ours.
    """

    exit_code = 1

    def __init__(self, happened: str, *, remedy: str) -> None:
        super().__init__(happened, remedy)
        self.happened = happened
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.happened} {self.remedy}"

    def __reduce__(self):
        return _rebuild, (type(self), self.happened, self.remedy)


class InvalidArgument(ReticentError, ValueError):
    """A value outside the range in which it means something."""


class CannotMeet(InvalidArgument):
    """A target that no setting of the free quantity reaches."""


class TooFewRows(CannotMeet):
    """Too few rows to find privately what they hold; `--prepare assume-public` takes it as public."""


class DataError(ReticentError):
    """A file or an array that cannot be read as what it claims to be."""


class DomainError(DataError):
    """A domain that contradicts itself or its table, or that is not public yet."""


class IntegrityError(DataError):
    """Bytes that are not the ones that were promised."""


class Inconclusive(DataError):
    """What was found privately cannot be used. To say so is a release, and was paid for."""


class Interrupted(DataError):
    """Stopped from the keyboard between two steps. What was done is kept and can be resumed."""

    exit_code = 130  # as shells have it for Ctrl-C


class Unavailable(ReticentError):
    """Something outside the program, a file or a server, that cannot be had here."""


class ProcessLost(Unavailable):
    """Another process of the same run is gone, and this one cannot continue alone."""


class OutcomeUnknown(Unavailable):
    """A charge whose answer was lost. It may be in the ledger: look before it is made again."""


class Unproven(ReticentError):
    """A privacy claim for which there is no theorem: refused, never guessed."""


class KeyReuse(ReticentError):
    """Randomness asked for a second time: noise used twice can be subtracted."""


class BudgetExceeded(ReticentError):
    """A release that would take a dataset past its privacy limit."""

    exit_code = 3


def nearest(wanted: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the wanted one; None if none is.

    >>> nearest("incme", ["age", "income"])
    'income'
    """
    return next(iter(difflib.get_close_matches(wanted, list(known), n=1, cutoff=0.6)), None)


def suggest(wanted: str, known: Iterable[str]) -> str:
    """A remedy for a name that is not there: the nearest one, or the whole list when it is short.

    >>> suggest("incme", ["age", "income"])
    "Did you mean 'income'?"
    >>> suggest("zzz", ["age", "income"])
    'Available: age, income.'
    """
    names = list(known)
    close = nearest(wanted, names)
    if close is not None:
        return f"Did you mean '{close}'?"
    listed = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"Available: {listed}." if names else "There are none to choose from."


def _rebuild(kind: type[ReticentError], happened: str, remedy: str) -> ReticentError:
    return kind(happened, remedy=remedy)
