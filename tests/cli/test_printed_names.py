"""Names and words of a stranger's file reach a terminal, a page and JSON as text, and do nothing there."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import reticent
from reticent.cli import output
from reticent.core.printable import printable, printable_json

EVIL = "a\x1b]0;title\x07\x1b[2Jb\rc\x9b31m\u202edlrow\u2066\u200b\x00\x7f\ufeff\ud800"


def _harmless(text: str) -> bool:
    return all(character in "\n\t" or character.isprintable() for character in text)


def test_what_a_terminal_obeys_or_a_reader_cannot_see_is_written_out() -> None:
    assert _harmless(printable(EVIL))
    assert printable("naïve 漢字 🙂\n\tfine") == "naïve 漢字 🙂\n\tfine"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0xD800, 0xE0041):
        if chr(code) not in "\n\t":
            assert chr(code) not in printable(f"a{chr(code)}b")


def test_json_stays_the_same_document() -> None:
    value = {"name": EVIL[:-1], EVIL[:-1]: [EVIL]}
    shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert _harmless(shown)
    assert json.loads(shown) == value


@pytest.mark.parametrize(
    "print_it", [output.print_text, output.print_line, output.note, output.warn, output.fail]
)
def test_every_way_to_print_escapes(print_it, capsys: pytest.CaptureFixture[str]) -> None:
    print_it(EVIL)
    shown = "".join(capsys.readouterr())
    assert "\\x1b]0;title\\x07" in shown
    assert _harmless(shown)


def test_tables_and_json_escape(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(EVIL, {EVIL: "left"}, [(EVIL,)])
    output.print_json({EVIL: EVIL})
    assert _harmless(capsys.readouterr().out)


def test_commands_print_through_the_one_module_that_escapes() -> None:
    folder = Path(reticent.__file__).parent / "cli"
    for path in folder.glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
        assert path.name == "output.py" or "print" not in names, path


def test_a_header_with_escapes_is_shown_as_text(reticent, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a\x1b]0;owned\x07,b\x1b[2J\n" + "1,2\n" * 50)
    for words in (("train", path, "--epsilon", 1), ("domain", path), ("train", path, "--target", "c")):
        _, out, err = reticent(*words)
        assert "\x1b]0" not in out + err
        assert "\x1b[2J" not in out + err
