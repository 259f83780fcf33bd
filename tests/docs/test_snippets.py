"""Every snippet of the documentation is run as it is written, and does what it says.

    ```console      lines after "$ " are commands of a shell; the lines below each are what it prints
    ```sh           a script, which has to end without failure
    ```python       run in order, in one namespace for each file; ">>> " blocks are checked like doctests

In what a command prints, `...` stands for anything. A shell starts in an empty folder, has the project's own
commands on its path, and no network; a plain `reticent ...` in a console is run in this process, under the
same conditions. A block after `<!-- not run: reason -->` is left out, by name.
"""

from __future__ import annotations

import doctest
import importlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pytest
from shapes import checked_shapes

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<excuse>[^>]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_ELLIPSIS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str
    excuse: str | None = None

    @property
    def name(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_in(text: str, page: str) -> list[Block]:
    return [
        Block(
            page,
            text.count("\n", 0, match.start("language")) + 1,
            match["language"],
            match["text"],
            match["excuse"],
        )
        for match in _BLOCK.finditer(text)
    ]


@cache
def blocks() -> list[Block]:
    return [
        block
        for page in PAGES
        for block in blocks_in(page.read_text(encoding="utf-8"), str(page.relative_to(ROOT)))
    ]


def of(*languages: str) -> list[Block]:
    return [block for block in blocks() if block.language in languages and block.excuse is None]


# Consoles


class Command(NamedTuple):
    words: str
    expected: str


def commands_in(text: str) -> Iterator[Command]:
    """The commands of a console block, continued over lines that end in a backslash, and what each prints."""
    lines = text.splitlines()
    while lines:
        words = [lines.pop(0)]
        assert words[0].startswith("$ "), f"a console block starts with a command, not with {words[0]!r}"
        while words[-1].endswith("\\"):
            words.append(lines.pop(0))
        printed = []
        while lines and not lines[0].startswith("$ "):
            printed.append(lines.pop(0))
        yield Command("\n".join(words)[2:], "\n".join(printed))


def is_like(expected: str, printed: str) -> bool:
    """Whether two texts are the same, line ends and blanks before them aside, where `...` is anything."""
    wanted, found = (
        "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) for text in (expected, printed)
    )
    pattern = ".*?".join(re.escape(part) for part in wanted.split("..."))
    return re.fullmatch(pattern, found, re.DOTALL) is not None


def environment_in(folder: str | Path) -> dict[str, str]:
    """An empty home, this environment's commands, no network, and a compiler that does not polish."""
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "COLUMNS": "100",
        "RETICENT_CACHE": str(Path(folder) / "cache"),
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        **dict.fromkeys(["http_proxy", "https_proxy"], "http://127.0.0.1:9"),  # nobody listens there
    }


def run_in_shell(script: str, folder: str | Path) -> subprocess.CompletedProcess[str]:
    """A script in a shell of its own."""
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment_in(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


class Buffered(io.StringIO):
    """A stream into a pipe: what is printed stays in it until it is flushed."""

    def __init__(self, pipe: io.StringIO) -> None:
        super().__init__()
        self._pipe = pipe

    def flush(self) -> None:
        self._pipe.write(self.getvalue())
        self.seek(0)
        self.truncate()


def run_here(line: str, folder: Path) -> str:
    """What a line of words for `reticent` prints, run in this process as if in a shell of its own."""
    from reticent.cli import app

    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("RETICENT_DATA", raising=False)
        for name, value in environment_in(folder).items():
            patch.setenv(name, value)
        stdout = Buffered(printed)
        patch.setattr("sys.stdout", stdout)
        patch.setattr("sys.stderr", printed)
        with pytest.raises(SystemExit):
            app.main(shlex.split(line))
        stdout.flush()
    return printed.getvalue()


_PLAIN = re.compile(r"(?:(?P<before>.*) && )?reticent (?P<line>[^|&;<>$`*]*)", re.DOTALL)


def printed_by(words: str, folder: Path) -> str:
    """What a command of a console prints."""
    plain = _PLAIN.fullmatch(words.replace("\\\n", " "))
    if plain is None:
        return run_in_shell(words, folder).stdout
    before = run_in_shell(plain["before"], folder).stdout if plain["before"] else ""
    return before + run_here(plain["line"], folder)


@pytest.mark.parametrize(
    "block",
    [block for block in of("console", "sh") if not block.text.startswith("$ make demo\n")],
    ids=lambda block: block.name,
)
@pytest.mark.thorough
def test_a_shell_does_what_the_page_shows(block: Block, tmp_path: Path):
    if block.language == "sh":
        done = run_in_shell(f"set -euo pipefail\n{block.text}", tmp_path)
        assert done.returncode == 0, f"{block.name}:\n{done.stdout}"
        return
    for command in commands_in(block.text):
        check_command(command, printed_by(command.words, tmp_path), block)


def check_command(command: Command, printed: str, block: Block) -> None:
    assert is_like(command.expected, printed), (
        f"{block.name}: $ {command.words}\nexpected:\n{command.expected}\nprinted:\n{printed}"
    )


@pytest.mark.thorough
def test_the_demonstration_does_what_the_readme_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """`make` says which command it runs. Here gradient canaries are few."""
    from reticent.cli import demonstration
    from reticent.ledger.ledger import Ledger

    (block,) = (block for block in of("console") if block.text.startswith("$ make demo\n"))
    (command,) = commands_in(block.text)
    make = run_in_shell(f'make -n --no-print-directory -C "{ROOT}" -o .venv/demo demo', tmp_path).stdout
    *before, line = make.splitlines()
    assert before == ["rm -rf .venv/runs"]
    monkeypatch.setattr(demonstration, "audit_run", partial(demonstration.audit_run, canaries=100))
    check_command(command, f"{line}\n{printed_by(line.removeprefix('.venv/bin/'), tmp_path)}", block)

    folder = tmp_path / ".venv" / "runs" / "demo"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {
        *("demo.ledger", "report.html", "report.json"),
        *("run/run.json", "run/model.safetensors", "run/private/audit.json"),
        "run/private/attacks/attack.json",
    } <= names
    with Ledger.open(folder / "demo.ledger") as ledger:
        assert ledger.account("digits").charges == 1
    (twins,) = (
        each for each in json.loads((folder / "report.json").read_text())["sections"] if each["id"] == "twins"
    )
    plain, private = twins["charts"][0]["amounts"]
    assert plain > 80  # and of a private one, more than 72 comes once in ten thousand audits
    assert private < 72


# Python


@pytest.mark.parametrize("page", sorted({block.page for block in of("python")}))
@pytest.mark.thorough
def test_the_python_of_a_page_runs_from_its_top_to_its_end(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in of("python"):
        if block.page == page:
            run_python(block, namespace)


def run_python(block: Block, namespace: dict[str, object]) -> None:
    if ">>> " not in block.text:
        exec(compile("\n" * block.line + block.text, block.name, "exec"), namespace)
        return
    examples = doctest.DocTestParser().get_doctest(block.text, {}, block.name, block.page, block.line)
    examples.globs = namespace
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=_ELLIPSIS)
    assert runner.run(examples, out=said.append, clear_globs=False).failed == 0, "".join(said)


def modules_with_examples() -> list[str]:
    paths = sorted((ROOT / "reticent").rglob("*.py"))
    found = [path.relative_to(ROOT) for path in paths if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in found]


@pytest.mark.parametrize("name", modules_with_examples())
def test_the_examples_in_docstrings_give_what_they_say(name: str):
    module = importlib.import_module(name)
    found = doctest.DocTestFinder(exclude_empty=True).find(module)
    assert any(examples.examples for examples in found), "its examples are not in docstrings"
    with checked_shapes(module) as checked:
        for examples in found:
            examples.globs.update(checked)
            said: list[str] = []
            failed = doctest.DocTestRunner(optionflags=_ELLIPSIS).run(examples, out=said.append).failed
            assert failed == 0, "".join(said)


# This file itself


def test_every_page_is_read():
    assert {"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/data.md"} <= {
        str(page.relative_to(ROOT)) for page in PAGES
    }
    assert of("console"), "no page shows a command: the pattern is broken"


def test_every_fence_names_a_language_that_is_run_or_shown():
    shown_only = {"text", "toml", "json", "make"}
    for block in blocks():
        assert block.language in {"console", "sh", "python"} | shown_only, block.name
    for page in PAGES:
        rest = _BLOCK.sub("", page.read_text(encoding="utf-8"))
        assert "```" not in rest, f"{page.name} has a fence without a name, or without an end"


def test_what_is_not_run_has_a_reason():
    assert all(len(block.excuse.split()) >= 3 for block in blocks() if block.excuse is not None)


@pytest.mark.parametrize(
    ("expected", "printed", "verdict"),
    [
        ("epsilon 2.92", "epsilon 2.92  \n", True),
        ("epsilon 2.92", "epsilon 2.93\n", False),
        ("took ... s", "took 0.31 s", True),
        ("took ... s", "took 0.31", False),
        ("a\n...\nz", "a\nb\nc\nz", True),
        ("", "", True),
        ("", "error: no", False),
        ("a.c", "abc", False),
    ],
)
def test_what_counts_as_the_same_output(expected: str, printed: str, verdict: bool):
    assert is_like(expected, printed) is verdict


def test_a_wrong_page_would_be_noticed(tmp_path: Path):
    (block,) = blocks_in("# A page\n\n```console\n$ echo one \\\n  two\none three\n```\n", "page.md")
    assert block.name == "page.md:3"
    (command,) = commands_in(block.text)
    assert not is_like(command.expected, printed_by(command.words, tmp_path))
    assert is_like(
        "error: There is no file none.csv. Check the path.", printed_by("reticent domain none.csv", tmp_path)
    )
    assert is_like(
        "one\nerror: There is no ...", printed_by("echo one && reticent domain none.csv", tmp_path)
    )
    (block,) = blocks_in("```python\n>>> 1 + 1\n3\n```\n", "page.md")
    with pytest.raises(AssertionError, match="Expected"):
        run_python(block, {})


def test_a_snippet_has_no_network(tmp_path: Path):
    done = run_in_shell("reticent datasets get mnist", tmp_path)
    assert done.returncode == 1
    assert "is not available" in done.stdout
