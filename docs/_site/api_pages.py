"""The pages of the API reference, one for each part of the package: `python docs/_site/api_pages.py`.

A page names what is public, and mkdocstrings fills in the docstrings when the site is built. What is public
is read from the package itself, so nothing can be forgotten.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import reticent
from reticent.core.pages import Page

FOLDER = Path(__file__).resolve().parents[1] / "api"


def pages() -> dict[str, str]:
    """The text of every page by the name of its file."""
    top: Any = reticent
    parts = {name: getattr(top, name) for name, home in sorted(top.__homes__.items()) if home == "reticent"}
    written = {"index.md": _index(top, parts)}
    return written | {f"{name}.md": _page(name, part) for name, part in parts.items()}


def _index(top: Any, parts: dict[str, Any]) -> str:
    own = [name for name in sorted(top.__homes__) if name not in parts]
    lines = ["# Every public name", "", "Everything starts from `import reticent as rt`.", ""]
    lines += ["| part | what it holds |", "|---|---|"]
    lines += [f"| [`rt.{name}`]({name}.md) | {_first_line(part)} |" for name, part in parts.items()]
    return "\n".join([*lines, "", *_entries("rt", top, own)])


def _page(name: str, part: Any) -> str:
    head = [f"# rt.{name}", "", _first_line(part), ""]
    if not isinstance(part, Page):
        return "\n".join([*head, f"::: reticent.{name}", "    options:", "      heading_level: 2", ""])
    return "\n".join([*head, *_entries(f"rt.{name}", part, sorted(part.__homes__))])


def _entries(prefix: str, page: Any, names: list[str]) -> list[str]:
    lines: list[str] = []
    for name in names:
        found = getattr(page, name)
        place = found.__name__ if isinstance(found, ModuleType) else f"{page.__homes__[name]}.{name}"
        lines += [f"## {prefix}.{name}", "", f"::: {place}", ""]
    return lines


def _first_line(part: Any) -> str:
    return (part.__doc__ or "").strip().splitlines()[0].replace("|", "\\|")


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        path.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
