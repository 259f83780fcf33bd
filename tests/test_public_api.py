"""The public page: every name on it exists, every name is on it, and reading it costs nothing."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import reticent

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"jax", "jaxlib", "numpy", "scipy", "pyarrow", "sklearn", "matplotlib", "PIL", "rich", "typer"}


def test_every_name_on_the_page_resolves():
    for name in reticent.__all__:
        assert getattr(reticent, name) is not None


@pytest.mark.parametrize("name", sorted(reticent._HOMES))
def test_a_name_is_defined_in_the_module_the_page_says(name: str):
    found = getattr(reticent, name)
    assert getattr(found, "__module__", reticent._HOMES[name]) == reticent._HOMES[name]


def test_the_page_lists_every_name_and_no_other():
    assert set(reticent.__all__) == {*reticent._HOMES, "__version__"}
    assert len(set(reticent.__all__)) == len(reticent.__all__)


def test_the_list_is_sorted():
    assert list(reticent.__all__) == sorted(reticent.__all__)


def test_type_checkers_see_the_same_names_from_the_same_modules():
    tree = ast.parse(Path(reticent.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        (alias.asname or alias.name): node.module
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == reticent._HOMES


def test_dir_shows_the_page():
    assert set(dir(reticent)) == set(reticent.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'reticent' has no attribute 'nosuch'"):
        reticent.nosuch  # noqa: B018
    with pytest.raises(ImportError, match="nosuch"):
        from reticent import nosuch  # noqa: F401


def test_every_public_name_says_what_it_is():
    for name in reticent._HOMES:
        assert (getattr(reticent, name).__doc__ or "").strip(), f"{name} has no docstring"


def test_the_version_is_the_newest_of_the_changelog():
    headings = re.findall(r"^## \[?(\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings, "CHANGELOG.md has no version heading"
    assert headings[0] == reticent.__version__
    assert headings == sorted(headings, key=lambda version: tuple(map(int, version.split("."))), reverse=True)


def modules_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after running some code."""
    shown = f"{code}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_importing_the_package_imports_nothing_heavy():
    assert modules_after("import reticent; dir(reticent)") & HEAVY == set()


def test_an_error_can_be_caught_without_importing_anything_heavy():
    assert modules_after("from reticent import BudgetExceeded, ReticentError") & HEAVY == set()


def test_a_heavy_import_would_be_noticed():
    assert "numpy" in modules_after("import reticent, numpy")
    assert "jax" in modules_after("import reticent; reticent.Keys")
