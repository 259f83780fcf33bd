"""A run on disk: the model, what it is, what it cost. Never a pickle; nothing in it is executed.

    run.json             what was asked for, the event, the guarantee, versions
    domain.toml          what is public about the table
    model.safetensors    the parameters
    checkpoint           the state of an unfinished run
    private              for the data's holder, never to be shared: which rows were held out, scores on them,
                         what was seen on the way, votes, and the mark of who made the run
    .lock                held by the process that trains; gone when it is done

Whatever is read back is checked: JSON by field, tensors by name, shape, type and digest. A folder without
`private` can be shown, reported on and predicted with.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from reticent.accounting.loss_distribution.dominating import flatten
from reticent.accounting.tight_epsilon import tight
from reticent.core import strict_json, tensors
from reticent.core.errors import DataError, IntegrityError, ReticentError
from reticent.core.files import (
    digest_of,
    misfits_as,
    read_inside,
    read_json_inside,
    write_json,
    write_whole,
)
from reticent.data import domain_toml
from reticent.data.domain import Domain
from reticent.distributed.consensus import by_first
from reticent.runs import private_part
from reticent.runs.consistency import contradiction
from reticent.runs.json_values import OtherVersion, Unreadable, texts
from reticent.runs.record import PRIVATE_FIELDS, RunRecord, RunResult

_LARGEST_RECORD = 1 << 22  # bytes; what grows with the data is a few of them for each column
_MOST_EVENTS = 64  # different ones; a run has a handful

RUN, DOMAIN, MODEL, CHECKPOINT = "run.json", "domain.toml", "model.safetensors", "checkpoint"
LOCK = ".lock"
WHOLE_PLAN = (
    "The guarantee is that of the whole plan, because the moment of stopping may depend on what was seen."
)


def require_new(folder: Path) -> None:
    """
    Raises:
        DataError: there is something at this place already.
    """
    try:
        names = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise DataError(
            f"Cannot make the folder {folder}: there is a file in its place, or above it.",
            remedy="Choose another name.",
        ) from None
    except OSError as error:
        raise DataError(
            f"Cannot look into {folder}: {error.strerror}.", remedy="Choose a place you may write to."
        ) from error
    # What a process leaves that was killed before it began.
    begun = {name for name in names if name.startswith(f".{RUN}.") and name.endswith(".partial")}
    if names - begun - {LOCK, private_part.PRIVATE}:
        raise DataError(
            f"{folder} exists already, and may hold a model that was paid for.",
            remedy="Choose another name, or resume it: --resume.",
        )


def create(folder: Path) -> None:
    """A new, empty folder.

    Raises:
        DataError: it exists already, or cannot be made.
    """
    require_new(folder)
    make(folder)


def make(folder: Path) -> None:
    """The folder and those above it, if they are not there yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"Cannot make the folder {folder}: {error.strerror}.", remedy="Choose a place you may write to."
        ) from error


def discard(folder: Path) -> None:
    """Removes the folder of a request that was refused: nothing was charged or released."""
    with suppress(OSError):
        for name in (RUN, LOCK):
            (folder / name).unlink(missing_ok=True)
        drop_partials(folder)
        private_part.discard(folder)
        folder.rmdir()


@contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keeps other processes out: two that resume one run would draw noise for the same steps.

    The lock ends with the process, however that ends. Where the system has no such locks, nothing is held.

    Raises:
        DataError: another process has it.
    """
    descriptor = _lock(folder)
    try:
        yield
    finally:
        if descriptor is not None:
            with suppress(OSError):
                (folder / LOCK).unlink(missing_ok=True)  # before it is let go: never somebody else's
            os.close(descriptor)


def _lock(folder: Path) -> int | None:
    try:
        import fcntl
    except ImportError:
        return None
    path = folder / LOCK
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise DataError(
                f"Cannot write {path}: {error.strerror}.", remedy="Choose a folder that you may write to."
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                return None  # this filesystem knows no locks
            raise DataError(
                f"Another process is at work on the run in {folder}.",
                remedy="Wait until it is done, or end it and try again.",
            ) from None
        with suppress(OSError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # whoever had it took the file away meanwhile: once more with a new one


def write_domain(folder: Path, domain: Domain) -> Domain:
    """Puts it on the disk, and returns what is there."""
    text = domain.to_toml()
    by_first(lambda: write_whole(folder / DOMAIN, text.encode()))
    return Domain.from_toml(text, source=str(folder / DOMAIN))


def domain_text(folder: Path) -> str | None:
    """What `domain.toml` says; None if there is none yet."""
    domain = read_domain(folder)
    return None if domain is None else domain.to_toml()


def read_domain(folder: Path) -> Domain | None:
    """The domain of a run; None if there is none.

    Raises:
        IntegrityError: it is not a domain, or a link to another file.
    """
    try:
        content = read_inside(folder, DOMAIN, most=domain_toml.LARGEST)
        return Domain.from_toml(content.decode(), source=str(folder / DOMAIN))
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise IntegrityError(f"{folder / DOMAIN} is damaged.", remedy="Restore it from a copy.") from None
    except OSError as error:
        raise IntegrityError(
            f"Cannot read {folder / DOMAIN}: {error.strerror}.", remedy="Restore it from a copy."
        ) from None


def write_record(folder: Path, record: RunRecord) -> None:
    """Puts the record on the disk: first what is private, then the rest, each in one piece."""
    said = record.to_json()
    hidden = {name: said.pop(name) for name in PRIVATE_FIELDS if name in said}
    if hidden:
        private_part.write_unreleased(folder, {"number": record.number, **hidden})
    write_json(folder / RUN, said)


def read_record(folder: Path) -> RunRecord:
    """What `run.json` says.

    Raises:
        DataError: there is no run here. IntegrityError: it is not one that this version can read.
    """
    path = folder / RUN
    try:
        said = read_json_inside(folder, RUN, most=_LARGEST_RECORD)
        if isinstance(said, dict):
            hidden = private_part.read_unreleased(folder, said.get("number"))
            said = {name: hidden[name] for name in PRIVATE_FIELDS if name in hidden} | said
        record = RunRecord.from_json(said)
    except FileNotFoundError:
        raise DataError(
            f"{folder} holds no run: there is no {RUN} in it.",
            remedy="Give the folder that train wrote (-o), or synth (FILE.generator).",
        ) from None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.", remedy="Check the path.") from error
    except OtherVersion:
        raise IntegrityError(
            f"{path} is not the record of a run that this version can read.",
            remedy="Read it with the version of reticent that wrote it.",
        ) from None
    except (Unreadable, ValueError) as error:
        raise damage_error(folder) from error
    _require_true(folder, record)
    return record


def _require_true(folder: Path, record: RunRecord) -> None:
    """Prices again what a record says was released, at all of its delta: a promise may not claim less.

    Raises:
        IntegrityError: it does.
    """
    if record.outcome is None:
        return
    said = record.outcome.guarantee
    if len(flatten(record.event)) > _MOST_EVENTS:
        raise damage_error(folder)
    try:
        least = tight(record.event, said.delta, said.adjacency, group=said.group).upper
    except ReticentError:
        raise damage_error(folder) from None
    if not (least * (1 - 1e-6) <= said.epsilon):
        raise IntegrityError(
            f"{folder / RUN} promises epsilon {said.epsilon:.4g} at delta {said.delta:g}; what it says was "
            f"released costs {least:.4g}: it was changed.",
            remedy="Restore it from a copy.",
        )
    with misfits_as(damage_error(folder)):
        wrong = contradiction(record)
    if wrong is not None:
        raise IntegrityError(f"{folder / RUN} contradicts itself: {wrong}.", remedy="Restore it from a copy.")


def stopped_in_words(record: RunRecord) -> str:
    """What a run promises that was stopped; nothing, if nothing was released."""
    return WHOLE_PLAN if record.state in ("preparing", "paid") else ""


def rows_in_words(record: RunRecord) -> str:
    """How many rows or users were trained on, in public numbers: where coins decided, as can be expected."""
    rows, records = record.rows, record.records
    what = "users" if record.request.unit == "user" and not record.is_generator else "rows"
    return f"{rows:,} {what}" if rows == records else f"about {rows:,} of {records:,} {what}"


def require_finished(folder: Path, record: RunRecord) -> RunResult:
    """What a finished run has.

    Raises:
        DataError: there is nothing to use yet, or there never will be.
    """
    if record.state == "failed":
        raise DataError(
            f"The run in {folder} has failed for good: {record.failure}",
            remedy="Start a new run in another folder; what its preparation cost stays spent.",
        )
    if record.outcome is None:
        resume = f"Resume with: reticent {record.command} --resume {folder}."
        raise DataError(
            f"The run in {folder} is not finished.", remedy=f"{resume} {stopped_in_words(record)}".rstrip()
        )
    return record.outcome


def require_model(folder: Path, record: RunRecord) -> None:
    """
    Raises:
        DataError: it is a generator, which predicts nothing.
    """
    if record.is_generator:
        raise DataError(
            f"{folder} holds a generator, not a model.",
            remedy=f"Sample from it: reticent synth --from {folder} --rows N -o FILE.",
        )


def damage_error(folder: Path) -> IntegrityError:
    return IntegrityError(f"{folder / RUN} is damaged.", remedy="Restore it from a copy.")


def write_model(folder: Path, leaves: dict[str, np.ndarray], assumptions: tuple[str, ...] = ()) -> str:
    """Saves named tensors with what their guarantee assumes; returns the digest that goes into the record."""
    from safetensors.numpy import save

    named = {name: np.ascontiguousarray(leaf) for name, leaf in leaves.items()}
    content = save(named, metadata={"assumptions": json.dumps(assumptions)})
    write_whole(folder / MODEL, content)
    return digest_of(content)


def assumptions_of_model(folder: Path) -> tuple[str, ...] | None:
    """What the guarantee of the model assumes; None if there is no model yet."""
    try:
        with misfits_as(IntegrityError(f"{folder / MODEL} is damaged.", remedy="Restore it from a copy.")):
            return texts(strict_json.parse(tensors.texts_inside(folder, MODEL)["assumptions"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DataError(f"Cannot read {folder / MODEL}: {error.strerror}.", remedy="Check it.") from error


def read_model(folder: Path, digest: str | None, like: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """The tensors of a model.

    Args:
        digest: from the record; None while there is none in it.
        like: the name and the shape of each tensor that has to be there.

    Raises:
        IntegrityError: the file is not the one that the record tells of, or holds something else.
    """
    path = folder / MODEL
    others = IntegrityError(
        f"{path} holds other tensors than the model of this run has.", remedy="Restore it from a copy."
    )
    try:
        sizes = {name: 4 * math.prod(shape) for name, shape in like.items()}
        content = tensors.read_known_inside(folder, MODEL, sizes)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise others from error
        raise DataError(
            f"Cannot read {path}: {error.strerror}.", remedy="Is the run finished? See: reticent show."
        ) from error
    if digest is not None and digest_of(content) != digest:
        raise IntegrityError(
            f"{path} is not the model that {RUN} describes: it was changed or damaged.",
            remedy="Restore both files from the same copy.",
        )
    with misfits_as(IntegrityError(f"{path} is not a safetensors file.", remedy="Restore it from a copy.")):
        found = tensors.parse(content).tensors
    shapes = {name: leaf.shape for name, leaf in found.items()}
    if shapes != like or any(
        leaf.dtype != np.float32 or not np.isfinite(leaf).all() for leaf in found.values()
    ):
        raise others
    return found


def tidy(folder: Path) -> None:
    """Removes what a finished run needs no more, and what killed processes left."""
    with suppress(OSError):
        (folder / CHECKPOINT).unlink(missing_ok=True)
    drop_partials(folder)
    private_part.tidy(folder)


def drop_partials(folder: Path) -> None:
    """Removes half-written files of killed processes."""
    with suppress(OSError):
        for path in folder.glob(".*.partial"):
            path.unlink(missing_ok=True)
