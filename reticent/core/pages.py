"""Public pages: packages whose names are loaded on first use.

    if TYPE_CHECKING:
        from reticent.training.loop import train as train

    open_page(__name__)

The imports under TYPE_CHECKING are the page. Type checkers read them, and so does `open_page`: each name is
listed once, and importing the package imports nothing that is listed.
"""

from __future__ import annotations

import importlib
import re
import sys
from types import ModuleType
from typing import Any

_LISTED = re.compile(r"^    from (reticent[\w.]*) import (\w+) as (\w+)$", re.MULTILINE)


class Page(ModuleType):
    """A package that finds its public names when they are asked for."""

    __homes__: dict[str, str]  # public name -> the module that defines it

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__["__homes__"].get(name)
        if home is None:
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'")
        if home == self.__name__:
            return importlib.import_module(f"{home}.{name}")
        value = _find(home, name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # Importing a module sets it as an attribute of its package. Where the page lists a function of the
        # same name, such as `mlp` of the module `mlp`, the name stays with the function.
        is_hidden = isinstance(value, ModuleType) and self.__homes__.get(name, self.__name__) != self.__name__
        if not is_hidden:
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return list(self.__all__)


def _find(home: str, name: str) -> Any:
    module = importlib.import_module(home)
    return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{home}.{name}")


def open_page(package: str) -> None:
    """Turns a package into a page of the names that it imports under TYPE_CHECKING."""
    module: Any = sys.modules[package]
    source = module.__spec__.loader.get_source(package)
    module.__homes__ = {name: home for home, _, name in _LISTED.findall(source)}
    own = [name for name in module.__dict__.get("__all__", ()) if name not in module.__homes__]
    module.__all__ = sorted([*module.__homes__, *own])
    module.__class__ = Page
