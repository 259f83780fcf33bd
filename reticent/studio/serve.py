"""The server of a studio: one port of this machine, one secret, and nothing that outlives it."""

from __future__ import annotations

import os
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from html import escape
from pathlib import Path

from reticent.core.errors import DataError, Unavailable
from reticent.studio.access import LOOPBACK, Access, guarded
from reticent.studio.jobs import Jobs
from reticent.studio.workspace import Workspace

_GRACE = 2  # seconds for pages that are still listening, when the studio is stopped


def require_packages() -> None:
    """
    Raises:
        Unavailable: the extra is not installed.
    """
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise Unavailable(
            "The studio needs two more packages, starlette and uvicorn.",
            remedy="Install them with: pip install 'reticent[studio]'. Everything else works without.",
        ) from None
    del starlette, uvicorn


def serve(folder: Path, *, port: int = 0, on_start: Callable[[str], None] = lambda address: None) -> None:
    """Answers on 127.0.0.1 until it is interrupted; then the commands that still run are interrupted too.

    Args:
        port: 0 for any that is free.
        on_start: called with the address, which holds the secret.

    Raises:
        DataError: there is no such folder.
        Unavailable: the extra is not installed, or the port is taken.
    """
    require_packages()
    import uvicorn

    from reticent.studio.application import application

    if not folder.is_dir():
        raise DataError(f"There is no folder {folder}.", remedy="Give the folder that holds tables and runs.")
    listening = _listen(port)
    access = Access(port=listening.getsockname()[1])
    jobs = Jobs(folder)
    config = uvicorn.Config(
        guarded(application(Workspace(folder), jobs), access),
        log_level="error",
        access_log=False,  # its lines would hold the secret
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE,
    )
    on_start(access.address)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
        jobs.close()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((LOOPBACK, port))
    except OSError as error:
        listening.close()
        raise Unavailable(
            f"Port {port} cannot be used: {error.strerror}.", remedy="Leave out --port: any free one will do."
        ) from None
    return listening


def open_in_browser(address: str) -> bool:
    """Opens the address in a browser, if there is one.

    The browser is given a page that only its user can read and that leads on: other users of the machine see
    the words with which a program is started, and the address holds the secret.
    """
    if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or os.name == "nt"):
        return False
    place = Path(tempfile.mkdtemp(prefix="reticent-studio-"))  # 0700
    page = place / "open.html"
    target = escape(address, quote=True)
    page.write_text(f'<!DOCTYPE html><meta http-equiv="refresh" content="0; url={target}">', encoding="utf-8")
    try:
        return webbrowser.open(page.as_uri())
    except (webbrowser.Error, OSError):
        return False
