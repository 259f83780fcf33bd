"""Downloads: into a temporary file, held to size and checksum, and only then given their name.

Whatever goes wrong on the way, also Ctrl-C, leaves no part of a file behind.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

from reticent import __version__
from reticent.core.errors import IntegrityError, Unavailable
from reticent.data.catalog.entry import Entry, File
from reticent.data.catalog.sources import Location, cached, what_is_missing

Progress = Callable[[str, float], AbstractContextManager[Callable[[int], object]]]

_CHUNK = 1 << 16
_SECONDS_OF_SILENCE = 30


class _NoAnswer(Exception):
    """A server that could not be reached, refused, or broke off."""


@contextmanager
def silent(description: str, total: float) -> Iterator[Callable[[int], object]]:
    """The progress of somebody who does not want to see any."""
    yield lambda amount: None


def fetch(entry: Entry, *, progress: Progress = silent) -> Location:
    """Downloads the files of a dataset that the cache does not have yet, and says where they are.

    Args:
        progress: called for each file with what to say and how many bytes will come; gives a context
            with a function to call with how many more have arrived.

    Raises:
        Unavailable: no server gave the file, there is none that has it, or the cache cannot be written.
        IntegrityError: what a server gave is not the file that was promised.
    """
    folder = cached(entry)
    paths = {file.name: folder / file.name for file in entry.files}
    for file in entry.files:
        if not paths[file.name].is_file():
            _fetch_file(entry, file, paths[file.name], progress)
    return Location(source="cache", folder=folder, form=entry.forms[0], paths=paths)


def _fetch_file(entry: Entry, file: File, destination: Path, progress: Progress) -> None:
    """Tries the addresses of a file one after the other until one of them gives the right bytes."""
    tried = what_is_missing(entry)
    is_damaged = False
    for url in file.urls:
        try:
            with _appears_whole(destination) as partial, progress(file.name, file.size) as advance:
                _receive(url, file, partial, advance)
            return
        except (_NoAnswer, IntegrityError) as failure:
            is_damaged |= isinstance(failure, IntegrityError)
            reason = failure.happened if isinstance(failure, IntegrityError) else str(failure)
            tried.append(f"{url} ({reason})")
    if not file.urls:
        tried.append("no download, for there is no address with a known checksum")
    kind = IntegrityError if is_damaged else Unavailable
    raise kind(
        f"Dataset '{entry.name}' cannot be had. Tried in this order: {'; '.join(tried)}.",
        remedy=_ways_out(entry, destination.parent),
    )


def _ways_out(entry: Entry, folder: Path) -> str:
    missing = [file.name for file in entry.files if not (folder / file.name).is_file()]
    here = f"at {folder / missing[0]}" if len(missing) == 1 else f"into {folder}"
    which = "it" if len(missing) == 1 else "them"
    return (
        f"Put {', '.join(missing)} {here}, or set RETICENT_DATA to a folder "
        f"that has {which} in a folder {entry.folder}."
    )


def _receive(url: str, file: File, partial: IO[bytes], advance: Callable[[int], object]) -> None:
    """Writes what a server sends, and checks that it is the file that the catalog promises."""
    digest = hashlib.sha256()
    received = 0
    for chunk in _chunks(url):
        received += len(chunk)
        if received > file.size:
            raise _damaged(f"sent more than the {file.size:,} bytes of the file")
        partial.write(chunk)
        digest.update(chunk)
        advance(len(chunk))
    if received < file.size:
        raise _damaged(f"broke off after {received:,} of {file.size:,} bytes")
    if digest.hexdigest() != file.sha256:
        raise _damaged(f"sent other bytes: sha256 {digest.hexdigest()[:12]}..., not {file.sha256[:12]}...")


def _chunks(url: str) -> Iterator[bytes]:
    request = urllib.request.Request(url, headers={"User-Agent": f"reticent/{__version__}"})
    opener = urllib.request.build_opener()  # the one of urlopen keeps the first proxy it has seen for good
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
def _appears_whole(destination: Path) -> Iterator[IO[bytes]]:
    """A file to write to that gets its name when everything went well, and else never existed."""
    temporary = destination.with_name(f".{destination.name}.{secrets.token_hex(4)}.part")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as partial:
            yield partial
        os.replace(temporary, destination)
    except OSError as error:
        raise Unavailable(
            f"Cannot write {destination}: {_in_words(error)}.",
            remedy="Set RETICENT_CACHE to a folder that you may write to and that has room.",
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _damaged(what: str) -> IntegrityError:
    return IntegrityError(what, remedy="Try again later, or supply the file by hand.")
