"""Keeps pandas out of commands on tables: Arrow imports it where it is installed, and they do not use it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

# They execute nothing but reticent. An attack, for example, may be a function of the user's own.
_COMMANDS = frozenset({"demo", "domain", "predict", "show", "synth", "train"})


class _WithoutPandas(MetaPathFinder):
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("Commands of reticent do without pandas.", name="pandas")


def leave_pandas_out(words: Sequence[str]) -> None:
    """For the rest of this process, if it is one of the commands that are known not to want it."""
    if set(words[:1]) & _COMMANDS and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())
