"""The part of a run's folder that may not leave: which rows were held out, and what was seen of them.

It is in a folder of its own, `private`, that only its owner can open. Whoever shares a run leaves it out.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from reticent.core.errors import DataError, IntegrityError
from reticent.core.files import misfits_as, read_json_inside, write_whole
from reticent.data.held_out import SEED_BYTES, Split

PRIVATE, SPLIT, UNRELEASED, ORIGIN = "private", "split.json", "unreleased.json", "origin.json"
FINGERPRINT, HOLDER_WARNINGS, HISTORY = "fingerprint.json", "warnings.json", "history.json"
ATTACKS, AUDIT, ARITHMETIC = "attacks", "audit.json", "arithmetic.json"  # results, computed from the records
ATTACK = f"{ATTACKS}/attack.json"


def write_split(folder: Path, split: Split) -> None:
    """Keeps the seed of a split where only its owner can read it.

    Raises:
        DataError: it cannot be written.
    """
    place = folder / PRIVATE
    said = {
        "what": "which rows were held out: private, not to be shared",
        "seed": f"{split.seed:0{2 * SEED_BYTES}x}",
    }
    make_private(folder)
    write_whole(place / SPLIT, (json.dumps(said, indent=2) + "\n").encode(), is_private=True)


def make_private(folder: Path) -> None:
    """Makes the private part of a folder, which only its owner can open.

    Raises:
        DataError: it cannot be made.
    """
    place = folder / PRIVATE
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        if place.is_symlink():
            raise OSError(errno.ELOOP, "It is a symbolic link, which is not followed")
        place.chmod(0o700)  # before anything is in it
    except OSError as error:
        raise DataError(
            f"Cannot make {place}: {error.strerror}.", remedy="Choose a place you may write to."
        ) from error


def make_place(folder: Path, name: str) -> Path:
    """A free place in the private part for the results of an attack or an audit.

    What an earlier one left there is kept, under the next number that is free: `audit-1.json`.

    Raises:
        DataError: it cannot be made.
    """
    make_private(folder)
    place = folder / PRIVATE / name
    try:
        if os.path.lexists(place):
            numbered = (place.with_name(f"{place.stem}-{number}{place.suffix}") for number in count(1))
            place.rename(next(other for other in numbered if not os.path.lexists(other)))
    except OSError as error:
        raise DataError(
            f"Cannot move {place}: {error.strerror}.", remedy="Choose another place: -o."
        ) from error
    return place


def read_split(folder: Path, share: float) -> Split:
    """Which rows of a run were held out.

    Raises:
        DataError: the folder was shared without its private part. IntegrityError: that is damaged.
    """
    path = folder / PRIVATE / SPLIT
    try:
        with misfits_as(IntegrityError(f"{path} is damaged.", remedy="Restore it from a copy.")):
            seed = read_json_inside(folder, f"{PRIVATE}/{SPLIT}")["seed"]
            if not re.fullmatch(rf"[0-9a-f]{{{2 * SEED_BYTES}}}", seed):
                raise ValueError("the seed is not the one of a split")
            return Split(share=share, seed=int(seed, 16))
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing: it says which rows were held out, and is not shared with a run.",
            remedy=f"Work in the folder where the run was made, or copy {PRIVATE}/ from there. "
            "Without it a run can be shown, reported on and predicted with.",
        ) from None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.", remedy="Check who may read it.") from error


def write_unreleased(folder: Path, said: Mapping[str, Any]) -> None:
    """Keeps what no guarantee covers where only its owner can read it.

    Raises:
        DataError: it cannot be written.
    """
    make_private(folder)
    content = json.dumps(said, indent=2, allow_nan=False) + "\n"
    write_whole(folder / PRIVATE / UNRELEASED, content.encode(), is_private=True)


def read_unreleased(folder: Path, number: Any) -> dict[str, Any]:
    """What no guarantee covers about the run of this number; nothing in a folder that was shared.

    Raises:
        OSError: it cannot be read. ValueError: it is damaged.
    """
    try:
        found = read_json_inside(folder, f"{PRIVATE}/{UNRELEASED}")
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise ValueError("not an object")
    return found if found.get("number") == number else {}


@contextmanager
def without_leftovers(folder: Path, pattern: str) -> Iterator[None]:
    """What an error leaves of these files in the private part is removed; those that were there stay."""
    private = folder / PRIVATE
    before = set(private.glob(pattern))
    try:
        yield
    except BaseException:
        for path in set(private.glob(pattern)) - before:
            path.unlink(missing_ok=True)
        raise


def discard(folder: Path) -> None:
    """Removes it, of a run that was refused."""
    with suppress(OSError):
        tidy(folder)
        for name in (SPLIT, ORIGIN, UNRELEASED, FINGERPRINT, HOLDER_WARNINGS):
            (folder / PRIVATE / name).unlink(missing_ok=True)
        (folder / PRIVATE).rmdir()


def tidy(folder: Path) -> None:
    """Removes what a finished run needs no more, and what killed processes left."""
    with suppress(OSError):
        (folder / PRIVATE / HISTORY).unlink(missing_ok=True)
        for path in (folder / PRIVATE).glob(".*.partial"):
            path.unlink(missing_ok=True)
