"""Folders of the user's own, outside any run."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """What may be deleted at any time: `RETICENT_CACHE`, or the cache folder of the operating system."""
    if named := os.environ.get("RETICENT_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "reticent"
    if sys.platform == "win32":
        return (
            Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "reticent" / "cache"
        )
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reticent"
