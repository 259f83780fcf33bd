"""What every command shares: exit codes, one line for a mistake, help, JSON, a quick start."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import typer

from reticent import __version__
from reticent.cli import app as cli
from reticent.cli import datasets
from reticent.cli.parsing import LineError
from reticent.core.errors import BudgetExceeded, InvalidArgument

COMMAND = Path(sys.executable).with_name("reticent")
HEAVY = {"jax", "numpy", "sklearn", "matplotlib", "pyarrow", "scipy", "PIL", "tomlkit"}


def commands(group: Any = None, path: str = "reticent") -> Iterator[tuple[str, Any]]:
    """Every command below the root, groups too, by what one types to reach it."""
    group = typer.main.get_command(cli.app) if group is None else group
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")


EVERY = dict(commands())
LEAVES = {path: command for path, command in EVERY.items() if not hasattr(command, "commands")}


def in_a_process(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


# Mistakes


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nosuch"], "error: No such command 'nosuch'. Try: reticent --help\n"),
        (["domian"], "error: No such command 'domian'. Did you mean 'domain'? Try: reticent --help\n"),
        (["--nosuch"], "--nosuch. Try: reticent --help\n"),
        (["datasets", "nosuch"], "error: No such command 'nosuch'. Try: reticent datasets --help\n"),
        (["datasets", "list", "--nosuch"], "Try: reticent datasets list --help\n"),
        (["datasets", "show"], "error: Missing argument 'NAME'. Try: reticent datasets show --help\n"),
        (["datasets", "list", "--json", "one", "more"], "Try: reticent datasets list --help\n"),
        (
            ["domain", "a.csv", "--target"],
            "error: Option '--target' requires an argument. Try: reticent --help\n",
        ),
    ],
)
def test_a_mistake_gets_one_line_on_stderr_and_exit_1(reticent, words: list[str], complaint: str):
    code, out, err = reticent(*words)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.replace("'--nosuch'", "--nosuch").endswith(complaint)  # quoted before typer 0.26
    assert err.count("\n") == 1


@pytest.mark.parametrize("words", [[], ["datasets"]], ids=["reticent", "reticent datasets"])
def test_without_a_command_the_help_is_shown_and_nothing_is_wrong(reticent, words: list[str]):
    code, out, err = reticent(*words)
    assert (code, err) == (0, "")
    assert "Usage: " in out
    assert "Commands" in out


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch):
    """Makes `reticent datasets list` fail with an error of one's choice."""

    def fail_with(error: BaseException) -> None:
        def fail() -> None:
            raise error

        monkeypatch.setattr("reticent.data.catalog.names", fail)

    return fail_with


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgument("The jar is empty.", remedy="Fill it."), 1),
        (BudgetExceeded("The jar is empty.", remedy="Fill it."), 3),
    ],
)
def test_an_error_of_ours_is_one_line_with_its_exit_code(reticent, failing, error, code: int):
    failing(error)
    assert reticent("datasets", "list") == (code, "", "error: The jar is empty. Fill it.\n")


def test_an_unexpected_error_is_one_line_that_asks_to_be_reported(reticent, failing):
    failing(ZeroDivisionError("over\nnothing"))
    code, out, err = reticent("datasets", "list")
    assert (code, out) == (1, "")
    assert err == (
        "error: Unexpected ZeroDivisionError: over nothing. "
        "Run again with --debug to see where, and please report it.\n"
    )


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "error", [ZeroDivisionError("nothing"), InvalidArgument("The jar is empty.", remedy="Fill it.")]
)
def test_debug_anywhere_on_the_line_shows_the_traceback(reticent, failing, place: int, error: Exception):
    failing(error)
    words = ["datasets", "list"]
    code, out, err = reticent(*words[:place], "--debug", *words[place:])
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):")
    assert err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), typer.Abort()], ids=["ctrl-c", "abort"])
def test_an_interruption_exits_with_130_and_without_a_traceback(reticent, failing, error: BaseException):
    failing(error)
    code, out, err = reticent("datasets", "list")
    assert (code, out, err) == (130, "", "error: Interrupted.\n")


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_exit_code_of_a_command_is_the_exit_code(reticent, failing, code: int):
    failing(typer.Exit(code))
    assert reticent("datasets", "list") == (code, "", "")


def test_a_message_in_square_brackets_is_shown_as_it_is(reticent, failing):
    failing(InvalidArgument("Column [bold]age[/bold] is odd.", remedy="Rename it."))
    assert reticent("datasets", "list")[2] == "error: Column [bold]age[/bold] is odd. Rename it.\n"


def test_a_long_message_stays_one_line(reticent, failing, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    failing(InvalidArgument("word " * 100 + "end.", remedy="Cut it."))
    assert reticent("datasets", "list")[2].count("\n") == 1


@pytest.mark.parametrize(
    "words", [["datasets", "list"], ["datasets", "list", "--json"], ["--help"], ["--version"], []], ids=str
)
def test_a_reader_who_has_seen_enough_is_no_failure(words: list[str]):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([COMMAND, *words], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


# Help


def test_the_version(reticent):
    assert reticent("--version") == (0, f"reticent {__version__}\n", "")


def test_the_walk_sees_the_commands():
    assert {"reticent domain", "reticent datasets list", "reticent datasets get"} <= set(LEAVES)
    assert "reticent datasets" in set(EVERY) - set(LEAVES)


def test_every_command_has_a_line_of_help_that_fits_on_one():
    frame = len("│ " + "  " + " │")
    for path, command in EVERY.items():
        line = (command.help or "").strip().partition("\n")[0]
        assert line.endswith("."), f"{path}: {line!r}"
        group = path.rpartition(" ")[0]
        siblings = [name.rpartition(" ")[2] for name in EVERY if name.rpartition(" ")[0] == group]
        room = 80 - frame - max(map(len, siblings))
        assert 20 <= len(line) <= room, f"{path} takes two lines of the list"


def test_every_command_has_a_longer_help():
    for path, command in LEAVES.items():
        _, _, more = (command.help or "").strip().partition("\n\n")
        assert len(more.split()) >= 7, f"{path} has no second paragraph"


def test_help_keeps_its_square_brackets():
    # Help is rich markup, which swallows [words] in brackets: they are written \\[words].
    for path, command in EVERY.items():
        texts = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
        for text in texts:
            assert not re.search(r"(?<!\\)\[[a-z/#@]", text or ""), f"{path}: {text!r}"


def test_every_command_shows_an_example_that_it_understands():
    root: Any = typer.main.get_command(cli.app)
    for path, command in EVERY.items():
        epilog: str = command.epilog or ""
        assert epilog.startswith(f"Example:  {path} "), f"{path}: {epilog!r}"
        _parse(root, "reticent", epilog.removeprefix("Example:  reticent ").split(), None)


def test_an_example_that_is_not_understood_would_be_noticed():
    with pytest.raises(LineError, match="No such option"):
        _parse(typer.main.get_command(cli.app), "reticent", ["datasets", "list", "--all"], None)


def _parse(command: Any, name: str, words: list[str], parent: Any) -> None:
    """Parses a command line down to its last command without running anything; raises if it is wrong."""
    context = command.make_context(name, words, parent=parent)
    if hasattr(command, "commands"):
        before = getattr(context, "_protected_args", None) or context.protected_args  # as click 8.1 has it
        name, command, words = command.resolve_command(context, before + context.args)
        _parse(command, name, words, context)


def test_help_shows_the_line_and_the_example(reticent, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for path, flag in zip(EVERY, cycle(["--help", "-h"])):
        code, out, err = reticent(*path.split()[1:], flag)
        assert (code, err) == (0, ""), path
        assert (EVERY[path].help or "").strip().partition("\n")[0] in out, path
        assert (EVERY[path].epilog or "").split("  ")[-1] in out, path


def test_every_option_and_argument_is_explained():
    for path, command in LEAVES.items():
        silent = [each.name for each in command.params if each.name != "help" and not each.help]
        assert not silent, f"{path}: {silent} have no help"


def test_every_command_speaks_json():
    for path, command in LEAVES.items():
        assert any("--json" in parameter.opts for parameter in command.params), path


def test_a_command_without_json_would_be_noticed():
    plain = typer.Typer()
    plain.command("bare")(lambda: None)
    plain.command("full")(datasets.list_datasets)
    found = dict(commands(typer.main.get_command(plain)))
    assert not any("--json" in parameter.opts for parameter in found["reticent bare"].params)
    assert any("--json" in parameter.opts for parameter in found["reticent full"].params)


# Start


_IN_TURN = """if True:
    import contextlib, io, json, sys
    from reticent.cli import app
    lines, heavy = json.loads(sys.argv[1])
    for words in lines:
        printed = io.StringIO()
        try:
            with contextlib.redirect_stdout(printed):
                app.main(words)
        except SystemExit as ended:
            assert not ended.code, words
        assert printed.getvalue(), words
        assert not set(heavy) & set(sys.modules), [words, set(heavy) & set(sys.modules)]
    print(len(lines))
"""


def test_help_imports_nothing_heavy():
    """One process shows every help in turn, and names the first after which something heavy is there."""
    lines = [["--help"], ["--version"], [], *([*path.split()[1:], "--help"] for path in EVERY)]
    given = json.dumps([lines, sorted(HEAVY)])
    done = subprocess.run(
        [sys.executable, "-c", _IN_TURN, given], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{len(lines)}\n", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_each_shell_can_be_shown(shell: str):
    done = in_a_process(_RETICENT_COMPLETE=f"source_{shell}")
    assert done.returncode == 0
    assert "_RETICENT_COMPLETE" in done.stdout
    assert "reticent" in done.stdout


def test_the_shell_completes_commands_and_names_of_datasets():
    first = in_a_process(_RETICENT_COMPLETE="complete_bash", COMP_WORDS="reticent data", COMP_CWORD="1")
    assert first.stdout.split() == ["datasets"]
    third = in_a_process(
        _RETICENT_COMPLETE="complete_bash", COMP_WORDS="reticent datasets show fash", COMP_CWORD="3"
    )
    assert third.stdout.split() == ["fashion_mnist"]


def test_the_installed_command_is_this_one():
    done = in_a_process("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"reticent {__version__}\n", "")
