"""The public page: every name on it exists, every name is on it, and reading it costs nothing."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import reticent
from reticent.core.pages import Page

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"jax", "jaxlib", "numpy", "scipy", "pyarrow", "sklearn", "matplotlib", "PIL", "rich", "typer"}
TOP: Any = reticent
PAGES = sorted(name for name, home in TOP.__homes__.items() if home == "reticent")


def pages() -> dict[str, Any]:
    """The public page of the package and of each of its parts, by name."""
    parts = {f"reticent.{name}": getattr(reticent, name) for name in PAGES}
    return {"reticent": TOP} | {name: part for name, part in parts.items() if isinstance(part, Page)}


def names() -> list[tuple[str, str]]:
    return [(page, name) for page, module in pages().items() for name in module.__homes__]


def test_every_part_of_the_package_is_two_dots_away():
    known = {"accounting", "attacks", "audit", "convex", "data", "ledger"}
    known |= {"mechanisms", "models", "pate", "sklearn", "synthetic", "training"}
    assert known <= set(PAGES)
    assert {f"reticent.{name}" for name in known} <= set(pages())


def test_a_listed_name_imports_and_says_what_it_is():
    parts = pages()
    silent = [
        f"{page}.{name}" for page, name in names() if not (getattr(parts[page], name).__doc__ or "").strip()
    ]
    assert not silent, "\n".join(silent)


def test_a_listed_name_is_defined_in_the_module_the_page_says():
    parts, elsewhere = pages(), []
    for page, name in names():
        found, home = getattr(parts[page], name), parts[page].__homes__[name]
        if isinstance(found, ModuleType):
            is_there = found.__name__ in {f"{home}.{name}", f"{home}.training.{name}"}
        else:
            is_there = (
                found.__module__ == home if inspect.isclass(found) or inspect.isfunction(found) else True
            )
        if not is_there:
            elsewhere.append(f"{page}.{name}")
    assert not elsewhere, "\n".join(elsewhere)


def test_a_page_lists_each_name_once():
    for name, module in pages().items():
        assert list(module.__all__) == sorted(set(module.__all__)), name
        assert set(module.__homes__) <= set(module.__all__)
        listed = re.findall(r"^    from reticent\S* import \w+ as (\w+)$", source_of(module), re.MULTILINE)
        assert sorted(listed) == sorted(module.__homes__), name


def test_type_checkers_see_the_same_names_from_the_same_modules():
    for name, module in pages().items():
        (block,) = [node for node in ast.parse(source_of(module)).body if isinstance(node, ast.If)]
        assert ast.unparse(block.test) == "TYPE_CHECKING"
        seen = {
            alias.asname: node.module
            for node in ast.walk(block)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.asname == alias.name
        }
        assert seen == module.__homes__, name


def source_of(module: ModuleType) -> str:
    return Path(str(module.__file__)).read_text(encoding="utf-8")


def test_a_function_keeps_its_name_when_its_module_is_imported():
    code = (
        "import reticent.models.mlp, reticent.accounting.tight_epsilon, reticent as rt\n"
        "assert callable(rt.models.mlp) and callable(rt.accounting.epsilon)\n"
        "from reticent.accounting.tight_epsilon import tight\n"
        "assert callable(rt.accounting.epsilon) and callable(tight)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dir_shows_the_page():
    for module in pages().values():
        assert set(dir(module)) == set(module.__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'reticent' has no attribute 'nosuch'"):
        TOP.nosuch  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'reticent.models' has no attribute 'nosuch'"):
        TOP.models.nosuch  # noqa: B018
    with pytest.raises(ImportError, match="nosuch"):
        from reticent import nosuch  # type: ignore[attr-defined]  # noqa: F401


# What a reader is shown


def deep_imports(text: str) -> list[str]:
    """The imports in some text from deeper than two levels: `reticent.attacks` has two."""
    return re.findall(
        r"^\s*(?:>>> |\.\.\. )?(?:from|import) (reticent\.\w+\.[\w.]+)", text, flags=re.MULTILINE
    )


SHOWN = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").glob("*.py"))]


def test_nothing_that_a_reader_is_shown_imports_from_deeper_than_two_levels():
    found = {path.name: deep for path in SHOWN if (deep := deep_imports(path.read_text(encoding="utf-8")))}
    assert found == {}


def test_a_deep_import_would_be_noticed():
    assert deep_imports(">>> from reticent.attacks.membership.likelihood import lira\n")
    assert deep_imports("    import reticent.training.loop as loop\n")
    assert not deep_imports("from reticent.attacks import lira\nimport reticent as rt\n")


# What reading it costs


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
