"""Downloads: into a temporary file, checked for size and checksum, and only then given their name.

Whatever goes wrong on the way, including Ctrl-C, leaves no partial file behind.
"""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from reticent import __version__
from reticent.core.errors import DataError, IntegrityError, Unavailable
from reticent.core.files import whole_file
from reticent.core.observer import OnProgress
from reticent.data.catalog.entries import CatalogEntry, File
from reticent.data.catalog.sources import Location, cache_folder_of, what_is_missing

_CHUNK = 1 << 16
_SECONDS_OF_SILENCE = 30


class _NoAnswer(Exception):
    """A server could not be reached, refused, or broke off."""


def fetch(entry: CatalogEntry, *, on_progress: OnProgress = lambda done: None) -> Location:
    """Downloads the files of a dataset that the cache does not have yet, and returns where they are.

    Args:
        on_progress: called with the fraction of all missing bytes that have arrived, from 0 to 1. It falls
            back where a server breaks off and the next one is asked.

    Raises:
        Unavailable: no server gave the file, there is none that has it, or the cache cannot be written.
        IntegrityError: what a server gave is not the file that was promised.
    """
    folder = cache_folder_of(entry)
    paths = {file.name: folder / file.name for file in entry.files}
    missing = [file for file in entry.files if not paths[file.name].is_file()]
    total, before = sum(file.size for file in missing), 0
    for file in missing:
        _fetch_file(
            entry,
            file,
            paths[file.name],
            lambda bytes_, before=before: on_progress((before + bytes_) / total),
        )
        before += file.size
    return Location(source="cache", folder=folder, form=entry.forms[0], paths=paths)


def _fetch_file(entry: CatalogEntry, file: File, destination: Path, on_bytes: Callable[[int], None]) -> None:
    """Tries the addresses of a file in turn until one of them sends the right bytes."""
    tried = what_is_missing(entry)
    is_damaged = False
    for url in file.urls:
        try:
            with _write_whole(destination) as partial:
                _receive(url, file, partial, on_bytes)
            return
        except (_NoAnswer, IntegrityError) as failure:
            is_damaged |= isinstance(failure, IntegrityError)
            reason = failure.happened if isinstance(failure, IntegrityError) else str(failure)
            tried.append(f"{url} ({reason})")
    if not file.urls:
        tried.append("no download: no address with a known checksum is listed")
    kind = IntegrityError if is_damaged else Unavailable
    raise kind(
        f"Dataset '{entry.name}' is not available. Tried in this order: {'; '.join(tried)}.",
        remedy=_suggest_remedies(entry, destination.parent),
    )


def _suggest_remedies(entry: CatalogEntry, folder: Path) -> str:
    missing = [file.name for file in entry.files if not (folder / file.name).is_file()]
    here = f"at {folder / missing[0]}" if len(missing) == 1 else f"into {folder}"
    which = "it" if len(missing) == 1 else "them"
    return (
        f"Put {', '.join(missing)} {here}, or set RETICENT_DATA to a folder "
        f"that has {which} in a folder {entry.folder}."
    )


def _receive(url: str, file: File, partial: IO[bytes], on_bytes: Callable[[int], None]) -> None:
    """Writes what a server sends, and checks it against the size and checksum in the catalog."""
    digest = hashlib.sha256()
    received = 0
    for chunk in _chunks(url):
        received += len(chunk)
        if received > file.size:
            raise _damage_error(f"sent more than the {file.size:,} bytes of the file")
        partial.write(chunk)
        digest.update(chunk)
        on_bytes(received)
    if received < file.size:
        raise _damage_error(f"broke off after {received:,} of {file.size:,} bytes")
    if digest.hexdigest() != file.sha256:
        raise _damage_error(
            f"sent other bytes: sha256 {digest.hexdigest()[:12]}..., not {file.sha256[:12]}..."
        )


def _chunks(url: str) -> Iterator[bytes]:
    request = urllib.request.Request(url, headers={"User-Agent": f"reticent/{__version__}"})
    opener = urllib.request.build_opener()  # urlopen keeps its first proxy forever
    try:
        with opener.open(request, timeout=_SECONDS_OF_SILENCE) as answer:
            while chunk := answer.read(_CHUNK):
                yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise _NoAnswer(f"answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise _NoAnswer(_in_words(error.reason)) from error
    except (http.client.HTTPException, OSError) as error:
        raise _NoAnswer(_in_words(error)) from error


def _in_words(reason: str | BaseException) -> str:
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror.lower()
    return str(reason) or type(reason).__name__


@contextmanager
def _write_whole(destination: Path) -> Iterator[IO[bytes]]:
    """Opens a file that gets its name only if everything goes well; otherwise no trace of it is left."""
    unwritable = "Set RETICENT_CACHE to a folder that you may write to and that has room."
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(destination) as partial:
            yield partial
    except OSError as error:
        raise Unavailable(f"Cannot write {destination}: {_in_words(error)}.", remedy=unwritable) from error
    except IntegrityError:
        raise
    except DataError as error:
        raise Unavailable(error.happened, remedy=unwritable) from error


def _damage_error(what: str) -> IntegrityError:
    return IntegrityError(what, remedy="Try again later, or supply the file by hand.")
