"""Compiled programs that are kept between processes, so that the second run does not wait for a compiler.

The cache is JAX's own, in the user's cache folder. An entry is named after code, shapes, options and
versions; rows, parameters, keys and noise are arguments of programs and never in one. Its programs are
executed without being checked, so a folder that anybody else may write to is not used. It may be deleted at
any time, and several processes may use it at once.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from reticent.core.folders import cache_folder

ROOM = 1 << 29  # bytes; the oldest programs go first

_FOLDER = "JAX_COMPILATION_CACHE_DIR"
# Small programs too: what a command waits for are many of them.
_OPTIONS = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
_TROUBLE = re.compile(r"Error (reading|writing) persistent compilation cache entry")


class KeptPrograms:
    """The folder of this process.

    Attributes:
        is_damaged: an entry could not be read: a process was killed while it wrote.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.is_damaged = False

    def tidy(self) -> None:
        """Makes room; removes everything if something was damaged, since it is not known what."""
        room = 0 if self.is_damaged else ROOM
        with suppress(OSError):
            entries = [(entry.stat(), entry.path) for entry in os.scandir(self.folder)]
            for status, path in sorted(entries, key=lambda entry: -max(entry[0].st_atime, entry[0].st_mtime)):
                room -= status.st_size
                if room < 0:
                    with suppress(OSError):  # another process was faster
                        os.unlink(path)

    def hear(self) -> None:
        """Keeps JAX's warnings about entries from the user: such a program is compiled again."""
        show = warnings.showwarning

        def showwarning(message: Warning | str, *where: Any, **more: Any) -> None:
            if found := _TROUBLE.search(str(message)):
                self.is_damaged |= found[1] == "reading"
            else:
                show(message, *where, **more)

        warnings.showwarning = showwarning


def keep_programs() -> KeptPrograms | None:
    """Tells JAX, before it is imported, where programs are kept.

    None where somebody else decided: through JAX's own variables (`JAX_COMPILATION_CACHE_DIR`,
    `JAX_ENABLE_COMPILATION_CACHE=false`), or because the folder is not this user's alone.
    """
    disabled = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "").lower() in ("0", "false")
    if disabled or _FOLDER in os.environ or "jax" in sys.modules:
        return None
    try:
        folder = cache_folder() / "programs" / _machine()
    except RuntimeError:  # there is no home
        return None
    if not _make_private(folder):
        return None
    os.environ[_FOLDER] = str(folder)
    for name, value in _OPTIONS.items():
        os.environ.setdefault(name, value)
    kept = KeptPrograms(folder)
    kept.hear()
    return kept


def _machine() -> str:
    """Another machine that shares the folder may lack instructions that were compiled for this one."""
    what = platform.machine()
    with suppress(OSError), open("/proc/cpuinfo") as known:
        found = re.search(r"^(?:flags|Features)\b.*$", known.read(1 << 14), re.MULTILINE)
        what += found[0] if found else ""
    return hashlib.sha256(what.encode()).hexdigest()[:16]


def _make_private(folder: Path) -> bool:
    """Whether the folder is there, and nobody but this user may write to it."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    is_own = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and is_own and (os.name == "nt" or not status.st_mode & 0o077)
