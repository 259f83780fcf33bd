"""Accounting starts fast: nothing heavy is imported on its way."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = ("jax", "scipy.signal", "scipy.stats", "scipy.optimize", "matplotlib", "sklearn", "pyarrow", "rich")


@pytest.mark.parametrize(
    "modules", ["reticent.accounting.tight_epsilon, reticent.accounting.calibrate", "reticent"]
)
def test_nothing_heavy_is_imported_on_the_way(modules: str):
    code = f"import {modules}, sys; print([name for name in {_HEAVY} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_module_of_accounting_is_light():
    code = (
        "import pkgutil, importlib, sys, reticent.accounting as a\n"
        "for m in pkgutil.iter_modules(a.__path__): importlib.import_module(a.__name__ + '.' + m.name)\n"
        f"print([name for name in {_HEAVY} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
