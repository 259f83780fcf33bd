"""A run that this process works on: its folder, its record, and what to say when it stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reticent.core.errors import DataError, Interrupted, ProcessLost, ReticentError, Unavailable
from reticent.core.observer import Observer
from reticent.distributed.consensus import by_first
from reticent.runs import folder as folders
from reticent.runs.payment import is_charged
from reticent.runs.record import RunRecord

_RESUMABLE = (DataError, Interrupted, Unavailable, ProcessLost)  # not those that descend from them


class OpenRun:
    """A folder, and the record in it as it was last written."""

    def __init__(self, folder: Path, record: RunRecord) -> None:
        self.folder, self.record = folder, record

    def keep(self, record: RunRecord) -> None:
        """Writes a new record; the first process does it for all."""
        self.record = record
        by_first(lambda: folders.write_record(self.folder, record))

    def fail(self, error: ReticentError) -> None:
        """Says in the folder that the run has failed for good."""
        self.keep(self.record.failed(error))

    @contextmanager
    def said_when_stopped(self, observer: Observer) -> Iterator[None]:
        """Has an interrupt say what became of the run, so that nobody starts over and pays twice."""
        try:
            yield
        except KeyboardInterrupt:
            if (self.folder / folders.RUN).exists():
                observer.warn(f"Stopped. {self._what_now()}".rstrip())
            raise

    @contextmanager
    def said_when_refused(self) -> Iterator[None]:
        """Has every error after the payment say that the run is paid for, and how to resume it."""
        try:
            yield
        except ReticentError as error:
            then = "Resume with" if isinstance(error, Interrupted) else "Then resume with"
            is_resumable = type(error) in _RESUMABLE and self.record.state != "failed"
            said = (
                error.remedy,
                f"{then}: {self._command}." if is_resumable else "",
                self._paid_already(),
            )
            raise type(error)(error.happened, remedy=" ".join(filter(None, said))) from error

    def _what_now(self) -> str:
        """How to resume a run that was stopped, that it costs nothing more, and what it promises."""
        paid = self._paid_already()
        if self.record.state == "failed":
            return paid
        said = (f"Resume with: {self._command}.", paid, folders.stopped_in_words(self.record))
        return " ".join(filter(None, said))

    @property
    def _command(self) -> str:
        return f"reticent {self.record.command} --resume {self.folder}"

    def _paid_already(self) -> str:
        """Nothing, if nothing was charged."""
        if not is_charged(self.record):
            return ""
        is_first = len(self.record.charges) > 1 and self.record.state in ("started", "preparing", "failed")
        what = "The preparation of this run" if is_first else "This run"
        if self.record.state == "failed":
            return f"{what} is charged, and stays spent. Nothing else is."
        return f"{what} is charged already, and is not charged again."
