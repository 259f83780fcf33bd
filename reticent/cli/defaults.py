"""`reticent.toml` in the working folder: the defaults of a project, one section per command.

    [train]
    epsilon = 1.0
    ledger = "clinic.ledger"
    dataset = "patients"

Keys are the long names of options. What is typed wins. A command that takes something from the file says so.
Where results go, what may be replaced and what is trusted are not defaults: these have to be typed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from reticent.cli import output
from reticent.cli.parsing import LineError, explain
from reticent.core.errors import DataError, suggest

FILE = "reticent.toml"

_LARGEST = 1 << 16  # bytes
_TYPED_ONLY = frozenset(
    (
        "output",
        "force",
        "resume",
        "data",
        "json",
        "help",
        "debug",
        "trust",
        "coordinator",
        "processes",
        "process",
    )
)
_REMEDY = f"Correct {FILE}, or run the command in another folder."


def defaults_for(arguments: Sequence[str], root: Any) -> dict[str, Any]:
    """The defaults of a command line, as click's `default_map` takes them; empty without a file.

    Args:
        root: the command that `arguments` are for.

    Raises:
        DataError: the file cannot be read, or a key of it is not an option.
    """
    words = [word for word in arguments if not word.startswith("-")]
    if not words or {"-h", "--help"} & set(arguments):
        return {}
    sections = _read(Path(FILE))
    _require_sections(sections, getattr(root, "commands", {}))
    path, command, found = [], root, sections
    for word in words:
        inner = getattr(command, "commands", {}).get(word)
        if inner is None or not isinstance(found, dict) or not isinstance(found.get(word, {}), dict):
            break
        path, command, found = [*path, word], inner, found.get(word, {})
    if not path or getattr(command, "commands", None) or not found:
        return {}
    options = _options(command)
    values: dict[str, Any] = {}
    for key, value in found.items():
        if key not in options:
            where = f"{FILE}, [{'.'.join(path)}], key '{key}'"
            raise DataError(
                f"{where}: not an option of that command.", remedy=suggest(key, options) or _REMEDY
            )
        where = f"{FILE}, [{'.'.join(path)}], key '{key}'"
        values[options[key].name] = _check(command, options[key], value, where)
    listed = ", ".join(f"{key} = {value!r}" for key, value in found.items())
    output.note(f"Defaults from {FILE}: {listed}.")
    for word in reversed(path):
        values = {word: values}
    return values


def _read(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        if not file.is_file():
            return {}
        with file.open("rb") as opened:
            content = opened.read(_LARGEST + 1)
        if len(content) > _LARGEST:
            raise DataError(f"{FILE} is larger than {_LARGEST:,} bytes.", remedy=_REMEDY)
        return tomllib.loads(content.decode())
    except OSError as error:
        raise DataError(f"Cannot read {FILE}: {error.strerror}.", remedy=_REMEDY) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{FILE} is not TOML: {error}.", remedy=_REMEDY) from None


def _require_sections(found: dict[str, Any], commands: dict[str, Any]) -> None:
    """
    Raises:
        DataError: a key stands outside of every command's section and would have no effect.
    """
    for name, content in found.items():
        if not isinstance(content, dict):
            raise DataError(
                f"{FILE}, key '{name}': it stands outside of a section.",
                remedy="Put it below the name of its command, as in [train].",
            )
        if name not in commands:
            raise DataError(
                f"{FILE}, [{name}]: there is no such command.", remedy=suggest(name, commands) or _REMEDY
            )


def _options(command: Any) -> dict[str, Any]:
    """The options of a command that may have a default, by their long names without dashes."""
    named = {
        word.lstrip("-"): parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for word in parameter.opts
        if word.startswith("--")
    }
    return {name: parameter for name, parameter in named.items() if name not in _TYPED_ONLY}


def _check(command: Any, option: Any, value: Any, where: str) -> Any:
    """
    Raises:
        DataError: the option does not take this value.
    """
    wants_flag = bool(getattr(option, "is_flag", False))
    several = value if option.multiple and isinstance(value, list) else [value]
    is_plain = (
        isinstance(value, bool) if wants_flag else all(isinstance(v, str | int | float) for v in several)
    )
    if not is_plain or (not wants_flag and any(isinstance(v, bool) for v in several)):
        kinds = "text or a number, or a list of these" if option.multiple else "text or a number"
        raise DataError(
            f"{where}: {value!r} is not {'true or false' if wants_flag else kinds}.", remedy=_REMEDY
        )
    if wants_flag:
        return value
    given = list(map(str, several)) if option.multiple else str(value)
    try:
        option.process_value(typer.Context(command), given)
    except LineError as error:
        raise DataError(f"{where}: {explain(error)}", remedy=_REMEDY) from None
    return given
