"""The interpreters of the peers: one environment each, made once, outside the repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple


class Peer(NamedTuple):
    """A package to measure beside ours, and what is installed for it, in this order."""

    name: str
    installs: tuple[str, ...]


# torch goes first, by its exact version: by Opacus alone it could come with libraries for other devices.
PEERS = {
    "opacus": Peer("opacus", ("torch==2.13.0", "opacus==1.6.*")),
    "jax-privacy": Peer("jax-privacy", ("jax-privacy==2.0.*",)),
}


def default_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "reticent-benchmarks"


def interpreter(peer: Peer, folder: Path) -> Path:
    """The peer's Python; makes its environment if it is not there yet."""
    home = folder / peer.name
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    done = home / "made-from.txt"
    recipe = "\n".join(peer.installs)
    if done.is_file() and done.read_text() == recipe:
        return python
    print(f"Making the environment of {peer.name} ...", file=sys.stderr, flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
    for requirement in peer.installs:
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        subprocess.run(install, check=True)
    done.write_text(recipe)
    return python
