"""A PostgreSQL server of our own, on a socket in a temporary folder; where there is none, tests are skipped.

It runs with the settings that production has: fsync on, commits synced. Only its creation is not synced.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path


class NoServer(Exception):
    """PostgreSQL cannot be had here."""


class Server:
    """A running server, which can be killed and started again.

    Attributes:
        folder: holds the socket and the data; it is deleted in the end.
    """

    def __init__(self) -> None:
        self.programs = find_programs()
        self.user = unprivileged_user()
        self.folder = Path(tempfile.mkdtemp(prefix="reticent-postgres-"))
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self.folder.chmod(0o755)
        self.data = self.folder / "data"
        words = ["--auth=trust", "--username=admin", "--no-sync", "--encoding=UTF8", "--locale=C"]
        self._run("initdb", "--pgdata", self.data, *words)
        rules = self.data / "pg_hba.conf"  # the user `locked` needs a password
        rules.write_text(f"local all locked scram-sha-256\n{rules.read_text()}")
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def address(self, database: str = "postgres", user: str = "admin", **more: str) -> str:
        query = "&".join(f"{name}={value}" for name, value in {"host": str(self.folder), **more}.items())
        return f"postgresql://{user}@/{database}?{query}"

    def start(self) -> None:
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.folder,
            "fsync": "on",
            "max_connections": 60,
            "shared_buffers": "16MB",
            "logging_collector": "off",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data, *words],
                stdout=log,
                stderr=log,
                user=self.user,
                group=None if self.user is None else pwd.getpwnam(self.user).pw_gid,
                extra_groups=None if self.user is None else [],
                start_new_session=True,
                cwd=self.folder,
            )
        deadline = time.monotonic() + 60
        ready = [self.programs / "pg_isready", "-q", "-h", self.folder]
        while subprocess.run(ready, check=False).returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise NoServer(f"PostgreSQL does not start: {(self.folder / 'log').read_text()[-300:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Every process of the server at once, as if the machine had lost its power."""
        assert self.process is not None
        children = [self.process.pid, *_children(self.process.pid)]
        for number in children:
            _kill_if_there(number)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(timeout=30)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *words: object) -> None:
        done = subprocess.run(
            [self.programs / program, *map(str, words)],
            capture_output=True,
            text=True,
            check=False,
            user=self.user,
            extra_groups=None if self.user is None else [],
            cwd=self.folder,
        )
        if done.returncode:
            raise NoServer(f"{program} fails: {done.stderr[-300:]}")


def find_programs() -> Path:
    """The folder of Debian's newest server, or of the one in the path."""
    for folder in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (folder / "postgres").exists():
            return folder
    found = shutil.which("postgres")
    if found is None:
        raise NoServer("PostgreSQL is not installed: make postgres")
    return Path(found).resolve().parent


def unprivileged_user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    raise NoServer("PostgreSQL does not run as root, and there is no other user.")


def _kill_if_there(number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def _children(parent: int) -> list[int]:
    """The processes that a server has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[1]) == parent:
            found.append(int(status.parent.name))
    return found
