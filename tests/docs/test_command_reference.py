"""docs/commands.md says what the commands say, on every machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from reticent.cli import app as cli
from reticent.cli import reference

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "commands.md"


def test_the_page_is_what_the_commands_say_now():
    assert PAGE.read_text(encoding="utf-8") == reference.page(), "the commands have changed: make reference"


@pytest.mark.parametrize(
    "environment",
    [
        {"COLUMNS": "40", "TERM": "dumb"},
        {"COLUMNS": "300", "FORCE_COLOR": "1"},
        {"LANG": "de_DE.UTF-8", "LC_ALL": "C", "SHELL": "fish"},
    ],
    ids=str,
)
def test_no_terminal_or_language_changes_the_page(tmp_path: Path, environment: dict[str, str]):
    goal = tmp_path / "commands.md"
    subprocess.run(
        [sys.executable, "-m", "reticent.cli.reference", goal],
        env={**os.environ, **environment},
        cwd=tmp_path,
        check=True,
    )
    assert goal.read_bytes() == PAGE.read_bytes()


def test_every_command_option_and_example_is_on_the_page():
    text = reference.page()
    found = dict(reference.commands(typer.main.get_command(cli.app)))
    assert {("reticent", "train"), ("reticent", "ledger", "limit")} <= set(found)
    for path, command in found.items():
        _, heading, section = text.partition(f"{'#' * len(path)} {' '.join(path)}\n")
        assert heading, path
        section = section.partition("\n## ")[0].partition("\n### ")[0]
        assert command.epilog.removeprefix("Example:").strip() in section
        for parameter in command.params:
            if parameter.name == "help":
                continue
            assert parameter.help.replace("|", "\\|") in section, (path, parameter.name)
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert f"`{option}`" in section


def test_a_default_is_told_in_words_or_as_a_value():
    probe = typer.Typer()

    @probe.command()
    def first(
        number: float = typer.Option(0.5, help="A number."),
        said: str | None = typer.Option(None, show_default="the usual", help="In words."),
        silent: str | None = typer.Option(None, show_default=False, help="None."),
        needed: int = typer.Option(..., help="Needed."),
    ) -> None:
        """A command that exists only here."""

    rows = reference._options(typer.main.get_command(probe))
    assert "| `--number` NUMBER | A number. | `0.5` |" in rows
    assert "| `--said` TEXT | In words. | the usual |" in rows
    assert "| `--silent` TEXT | None. |  |" in rows
    assert "| `--needed` WHOLE NUMBER | Needed. | required |" in rows
