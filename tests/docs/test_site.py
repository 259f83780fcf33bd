"""The documentation is a site without a broken link, asks the network for nothing, and names what exists."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
CHECKED = ["pitfalls.md", "choose.md"]  # pages that name functions and tests


def build(config: Path, goal: Path, *, docstrings: bool = False) -> subprocess.CompletedProcess[str]:
    words = ["build", "--strict", "--config-file", config, "--site-dir", goal]
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", *words],
        cwd=ROOT,
        env={**os.environ, "RETICENT_DOCS_API": str(docstrings).lower()},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    goal = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", goal)
    assert done.returncode == 0, done.stdout + done.stderr
    return goal


# The site


def test_every_page_is_built_and_in_the_menu(site: Path):
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert all((site / page).is_file() for page in pages)
    menu = (site / "index.html").read_text(encoding="utf-8")
    assert [str(page) for page in pages if f'href="{page}"' not in menu and page.name != "index.html"] == []


def test_a_broken_link_or_a_page_that_is_not_in_the_menu_fails_the_build(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Here\n\n[There](there.md)\n")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("nav:\n  - reticent")[0]
    config = config.replace("extra_css:\n  - site.css\n", "")
    (tmp_path / "mkdocs.yml").write_text(config + "nav:\n  - Here: index.md\n")
    assert "there.md" in build(tmp_path / "mkdocs.yml", tmp_path / "site").stderr
    (tmp_path / "docs" / "there.md").write_text("# There\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert (done.returncode, "there.md" in done.stderr) == (1, True)
    (tmp_path / "mkdocs.yml").write_text(config + "nav:\n  - Here: index.md\n  - There: there.md\n")
    assert build(tmp_path / "mkdocs.yml", tmp_path / "site").returncode == 0


# The reference


def test_the_reference_names_what_is_public():
    spec = importlib.util.spec_from_file_location("api_pages", DOCS / "_site" / "api_pages.py")
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    written = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md")}
    assert written == writer.pages(), "public names have changed: make reference"


@pytest.mark.thorough
def test_the_reference_shows_docstrings_with_their_examples(tmp_path: Path):
    done = build(ROOT / "mkdocs.yml", tmp_path, docstrings=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "api" / "training.html").read_text(encoding="utf-8")
    assert "Releasing the result costs" in page  # a Guarantee
    assert re.search(r"<pre[^>]*>.*&gt;&gt;&gt;", page, re.DOTALL)
    assert "<blockquote>" not in page  # what becomes of a doctest that is taken for text


# The network

_FETCHED_BY = {
    "script": "src",
    "link": "href",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "object": "data",
}
_FETCHED_IN_CSS = re.compile(r"(?:url\(|@import\s+)\s*[\"']?((?:https?:)?//[^\"')\s]+)")


class Fetched(HTMLParser):
    """What a browser would fetch from elsewhere to show a page; links that somebody may follow are not."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get(_FETCHED_BY.get(tag, ""), "") or ""
        if re.match(r"(?:https?:)?//", address) and given.get("rel") != "canonical":
            self.found.append(address)
        self.found += _FETCHED_IN_CSS.findall(given.get("style") or "")


def fetched(text: str) -> list[str]:
    parser = Fetched()
    parser.feed(text)
    return parser.found


def test_no_page_asks_the_network_for_anything(site: Path):
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 15
    assert styles
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert fetched(text) == [], page.name
        assert "googleapis" not in text
    for style in styles:
        assert _FETCHED_IN_CSS.findall(style.read_text(encoding="utf-8")) == [], style.name


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        '<link rel="stylesheet" href="//fonts.example/a.css">',
        '<img src="http://example.org/a.png">',
        '<p style="background: url(https://example.org/a.png)">',
    ],
)
def test_what_is_fetched_from_elsewhere_would_be_noticed(text: str):
    assert fetched(text)
    assert not fetched('<a href="https://example.org">a link</a><img src="figures/a.svg">')


# Names

_FOLDERS = sorted(path.parent.name for path in (ROOT / "reticent").glob("*/__init__.py"))


def names_in(text: str) -> Iterator[str]:
    """Dotted names of the package, and tests as pytest names them, that stand in code."""
    for code in re.findall(r"`([^`\n]+)`", text):
        yield from re.findall(r"(?<![\w/.-])reticent(?:\.[A-Za-z_]\w*)+(?![\w.])", code)
        yield from re.findall(r"(?<![\w/])tests/[\w/.]+(?:::\w+)?", code)


def resolve(name: str) -> Any:
    """What a dotted name stands for: a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def exists(name: str) -> bool:
    if not name.startswith("tests/"):
        try:
            resolve(name)
        except AttributeError:
            return False
        return True
    path, _, test = name.partition("::")
    if not (ROOT / path).exists():
        return False
    return not test or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def paths_in(text: str) -> Iterator[str]:
    """Paths of source files, tests and folders of the package in code spans, outside of fenced blocks."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    for code in re.findall(r"`([^`\n]+)`", prose):
        yield from re.findall(r"(?<![\w/.~])(?:[\w-]+/)+[\w-]+\.(?:py|toml)\b", code)
        yield from re.findall(rf"^(?:reticent/)?(?:{'|'.join(_FOLDERS)})/(?:\w+/)*$", code)
        yield from (f"tests/{path}.py" for path in re.findall(r"^\w+/test_\w+$", code))


def is_path(path: str) -> bool:
    """Whether it exists, seen from the project, or from inside the package, as pages name its files."""
    return (ROOT / path).exists() or (ROOT / "reticent" / path).exists()


def test_every_path_that_a_page_names_exists():
    wrong = [
        f"{page.relative_to(ROOT)}: {path}"
        for page in PAGES
        for path in sorted(set(paths_in(page.read_text(encoding="utf-8"))))
        if not is_path(path)
    ]
    assert not wrong, "\n".join(wrong)


def test_every_dotted_name_that_a_page_names_exists():
    wrong = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in PAGES
        for name in sorted(set(names_in(page.read_text(encoding="utf-8"))))
        if not exists(name)
    ]
    assert not wrong, "\n".join(wrong)


def test_the_pages_of_the_architecture_name_every_folder_and_types_where_they_are():
    page, types_page = ((DOCS / name).read_text(encoding="utf-8") for name in ("architecture.md", "types.md"))
    folders = [
        path.parent.relative_to(ROOT / "reticent") for path in (ROOT / "reticent").glob("*/**/__init__.py")
    ]
    shown = page.partition("## The folders")[2].partition("\n## ")[0]
    assert [str(folder) for folder in folders if f"`{folder}/" not in shown] == []
    rows = re.findall(
        r"^\| (`\w+`.*?) \| (`.*?`) \|", types_page.partition("## The types that matter")[2], re.MULTILINE
    )
    assert len(rows) > 20
    for types, modules in rows:
        places = [resolve(f"reticent.{module}") for module in re.findall(r"`([\w.]+)`", modules)]
        for name in re.findall(r"`(\w+)`", types):
            assert any(hasattr(place, name) for place in places), name


@pytest.mark.parametrize("page", CHECKED)
def test_every_function_and_test_that_a_page_names_exists(page: str):
    named = sorted(set(names_in((DOCS / page).read_text(encoding="utf-8"))))
    assert named
    assert [name for name in named if not exists(name)] == []


def test_every_pitfall_names_what_is_done_and_where_it_is_tested():
    lines = (DOCS / "pitfalls.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "pitfall"]
    assert len(rows) >= 25
    for pitfall, severity, done, tested in rows:
        assert severity in {"high", "medium", "low"}, pitfall
        assert len(done.split()) > 3, pitfall
        assert any(name.startswith("tests/") and "::" in name for name in names_in(tested)), pitfall


@pytest.mark.parametrize(
    ("code", "path", "is_there"),
    [
        ("reticent/core/keys.py", "reticent/core/keys.py", True),
        ("core/keys.py", "core/keys.py", True),
        ("core/quays.py", "core/quays.py", False),
        ("python -m benchmarks/nothing.py", "benchmarks/nothing.py", False),
        ("accounting/theorems/", "accounting/theorems/", True),
        ("accounting/lemmas/", "accounting/lemmas/", False),
        ("core/test_keys", "tests/core/test_keys.py", True),
        ("core/test_quays", "tests/core/test_quays.py", False),
    ],
)
def test_a_path_that_is_not_there_would_be_noticed(code: str, path: str, is_there: bool):
    assert list(paths_in(f"as in `{code}`, say\n```sh\n`not/this.py`\n```\n")) == [path]
    assert is_path(path) is is_there


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("reticent.core.errors.Unproven", True),
        ("reticent.core.errors.Unprovable", False),
        ("reticent.ledger.ledger.Ledger.verify", True),
        ("reticent.nowhere", False),
        ("tests/docs/test_site.py", True),
        ("tests/docs/test_sight.py", False),
        ("tests/docs/test_site.py::test_no_page_asks_the_network_for_anything", True),
        ("tests/docs/test_site.py::test_nothing", False),
    ],
)
def test_a_name_that_is_not_there_would_be_noticed(name: str, is_there: bool):
    assert list(names_in(f"as in `{name}`, say")) == [name]
    assert exists(name) is is_there
