"""The page on every command, written from the commands themselves: `python -m reticent.cli.reference FILE`.

It reads what the commands declare and not what they print, so that no terminal, shell or language of the
machine has a say in it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_HEAD = """\
# Every command

Written by `make reference` from the commands themselves, and held to them by a test. On the terminal:
`reticent COMMAND --help`.

Results go to stdout, remarks to stderr. The exit code is 0 if all went well, 1 for wrong input or a failure,
3 if a privacy budget refused, 130 if it was interrupted. `--debug`, anywhere on the line, shows the traceback
of an error; `reticent --version` prints the version, and `reticent --install-completion` teaches your shell
the commands and the names of the datasets.
"""

_KINDS = {
    "float": "NUMBER",
    "int": "WHOLE NUMBER",
    "integer": "WHOLE NUMBER",
    "Path": "PATH",
    "path": "PATH",
}


def page() -> str:
    """The whole page, in the order of `reticent --help`."""
    from typer.main import get_command

    from reticent.cli.app import app

    root: Any = get_command(app)
    parts = [_HEAD, _contents(root), *(_section(path, command) for path, command in commands(root))]
    return "\n".join(parts)


def commands(group: Any, path: tuple[str, ...] = ("reticent",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below a group, after the words that one types to reach it; groups before their own."""
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


def _contents(root: Any) -> str:
    rows = [
        f"| [`{' '.join(path[1:])}`](#{'-'.join(path)}) | {_first_line(command)} |"
        for path, command in commands(root)
    ]
    return "\n".join(["| command | |", "|---|---|", *rows, ""])


def _section(path: tuple[str, ...], command: Any) -> str:
    title = " ".join(path)
    written = (command.help or "").replace("\\[", "[")  # escaped for rich markup
    paragraphs = [" ".join(part.split()) for part in written.split("\n\n")]
    example = (command.epilog or "").removeprefix("Example:").strip()
    parts = [f"{'#' * len(path)} {title}", "", *(line for part in paragraphs for line in (part, ""))]
    if not hasattr(command, "commands"):
        parts += ["```text", _synopsis(title, command), "```", "", *_options(command)]
    return "\n".join([*parts, "Example:", "", "```text", example, "```", ""])


def _synopsis(title: str, command: Any) -> str:
    names = [
        _name(parameter) if parameter.required else f"[{_name(parameter)}]"
        for parameter in command.params
        if parameter.param_type_name == "argument"
    ]
    needed = [
        f"{parameter.opts[-1]} {_kind(parameter)}"
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.required
    ]
    return " ".join([title, *names, *needed, "[OPTIONS]"])


def _options(command: Any) -> list[str]:
    rows = [
        f"| {_spell(parameter)} | {_cell(parameter.help)} | {_cell(_default(parameter))} |"
        for parameter in command.params
        if parameter.name != "help"
    ]
    return ["| argument or option | what it is | default |", "|---|---|---|", *rows, ""]


def _spell(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_name(parameter)}`"
    spelled = ", ".join(f"`{option}`" for option in [*parameter.opts, *parameter.secondary_opts])
    return spelled if parameter.is_flag else f"{spelled} {_kind(parameter)}"


def _name(parameter: Any) -> str:
    return parameter.metavar or parameter.name.upper()


def _kind(parameter: Any) -> str:
    described = getattr(parameter, "type_descriptor", None)  # since typer 0.29; a type of click's before
    kind = getattr(described.annotation, "__name__", "str") if described else parameter.type.name
    return _KINDS.get(kind, "TEXT")


def _default(parameter: Any) -> str:
    """The default of an option as the terminal's help shows it: in words, or as a value."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if not parameter.show_default or parameter.default in (None, False):
        return ""
    return f"`{parameter.default}`"


def _first_line(command: Any) -> str:
    return (command.help or "").strip().partition("\n")[0]


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
