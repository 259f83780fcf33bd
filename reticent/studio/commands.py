"""Command lines from the fields of a form: what a button shows is what it runs.

Nothing here goes through a shell. Names come from pages, so a word that begins like an option never stands
where the command would take it for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from reticent.core.errors import InvalidArgument
from reticent.core.files import write_whole
from reticent.data import catalog
from reticent.mechanisms import events
from reticent.runs import folder as folders
from reticent.studio.workspace import Workspace

FormFields = Mapping[str, str]

_LONGEST = 2_000  # characters of a field
CERTIFICATE, EVENT = "certificate.json", "event.json"


class CommandLine(NamedTuple):
    """What would be run, and the run or ledger that it is about.

    Args:
        leads_to: the page to look at when it has ended, with its query.
    """

    words: tuple[str, ...]
    leads_to: str | None = None


def command_for(action: str, fields: FormFields, workspace: Workspace) -> CommandLine:
    """The command of a button.

    Raises:
        InvalidArgument: there is no such button, or a field is missing or too long.
        DataError: there is no such run, table or ledger in the folder.
    """
    if action not in ACTIONS:
        raise InvalidArgument(f"'{action}' is not known.", remedy=f"One of {', '.join(ACTIONS)}.")
    if any(len(value) > _LONGEST for value in fields.values()):
        raise InvalidArgument(f"A field has more than {_LONGEST} characters.", remedy="Shorten it.")
    return ACTIONS[action](fields, workspace)


def prepare(action: str, fields: FormFields, workspace: Workspace) -> None:
    """What a command needs beside its words: for a certificate, the event of the run in a file."""
    if action == "certify":
        folder = workspace.find(_required(fields, "run"))
        event = folders.read_record(folder).event
        write_whole(folder / EVENT, (json.dumps(events.to_json(event), indent=2) + "\n").encode())


def option(name: str, value: str) -> list[str]:
    """An option and its value; in one word where the value could be taken for an option."""
    return [f"--{name}={value}"] if value.startswith("-") else [f"--{name}", value]


def place(name: str) -> str:
    """A path as an argument."""
    return f"./{name}" if name.startswith("-") else name


def _train(fields: FormFields, workspace: Workspace) -> CommandLine:
    source = _source(_required(fields, "source"), workspace)
    words = ["train", place(source)]
    for name in ("target", "epsilon", "delta", "method", "model", "prepare", "task", "user"):
        value = fields.get(name, "").strip() if name not in ("target", "user") else fields.get(name, "")
        if value and value != _USUAL.get(name):
            words += option(name, value)
    words += _classes(fields)
    words += _bounds(fields)
    if fields.get("rows_per_user"):
        words += option("rows-per-user", fields["rows_per_user"])
    if domain := fields.get("domain"):
        words += option("domain", workspace.name(workspace.find(domain)))
    if ledger := fields.get("ledger"):
        words += option("ledger", workspace.name(workspace.find(ledger)))
        words += option("dataset", _required(fields, "dataset"))
    folder = _required(fields, "output")
    return CommandLine((*words, *option("output", place(folder))), f"run?name={_quoted(folder)}")


_USUAL = {"method": "auto", "model": "auto", "prepare": "private", "task": "auto"}


def _classes(fields: FormFields) -> list[str]:
    """How the classes of the target become known; nothing where the table's own are taken as public."""
    match fields.get("known"):
        case "private":
            return ["--classes", "private"]
        case "declared":
            return option("classes", _required(fields, "classes"))
    return []


def _bounds(fields: FormFields) -> list[str]:
    """`--bounds` for every column that has two of them."""
    try:
        given = json.loads(fields.get("bounds") or "{}")
        pairs = {str(name): (float(low), float(high)) for name, (low, high) in given.items()}
    except (ValueError, TypeError, AttributeError):
        raise InvalidArgument(
            "A bound is not a number.", remedy="Write two numbers, or leave both out."
        ) from None
    words = []
    for name, (low, high) in pairs.items():
        if "," in name or name != name.strip():
            raise InvalidArgument(
                f"The bounds of '{name}' cannot be an option of a command, because of its name.",
                remedy="Declare them in a domain file: reticent domain TABLE -o FILE.",
            )
        if not low < high:
            raise InvalidArgument(
                f"The bounds of '{name}' are {low:g} and {high:g}.", remedy="Put the smaller first."
            )
        words += option("bounds", f"{name}={low:g}:{high:g}")
    return words


def _resume(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _run(fields, workspace)
    record = folders.read_record(workspace.find(name))
    return CommandLine((*record.command.split(), "--resume", place(name)), f"run?name={_quoted(name)}")


def _on_run(*words: str) -> Callable[[FormFields, Workspace], CommandLine]:
    def make(fields: FormFields, workspace: Workspace) -> CommandLine:
        name = _run(fields, workspace)
        return CommandLine((*words, place(name)), f"run?name={_quoted(name)}")

    return make


def _certify(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _run(fields, workspace)
    record = folders.read_record(workspace.find(name))
    folders.require_finished(workspace.find(name), record)
    delta = record.result.guarantee.delta
    words = ("account", "--events", place(f"{name}/{EVENT}"), "--delta", f"{delta:g}")
    return CommandLine((*words, "--certify", place(f"{name}/{CERTIFICATE}")), f"run?name={_quoted(name)}")


def _check(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _run(fields, workspace)
    workspace.find(f"{name}/{CERTIFICATE}")
    words = ("account", "--check", place(f"{name}/{CERTIFICATE}"))
    return CommandLine(words, f"run?name={_quoted(name)}")


def _ledger_init(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _required(fields, "ledger")
    name = name if name.endswith(".ledger") else f"{name}.ledger"
    return CommandLine(("ledger", "init", place(name)), f"ledger?name={_quoted(name)}")


def _ledger_limit(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _ledger(fields, workspace)
    dataset = _required(fields, "dataset")
    if dataset.startswith("-"):
        raise InvalidArgument("A dataset's name does not begin with a hyphen here.", remedy="Choose another.")
    words = ("ledger", "limit", place(name), dataset)
    limits = (*option("epsilon", _required(fields, "epsilon")), *option("delta", _required(fields, "delta")))
    return CommandLine((*words, *limits), f"ledger?name={_quoted(name)}")


def _ledger_verify(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _ledger(fields, workspace)
    head = option("head", fields["head"]) if fields.get("head") else []
    return CommandLine(("ledger", "verify", place(name), *head), f"ledger?name={_quoted(name)}")


def _ledger_export(fields: FormFields, workspace: Workspace) -> CommandLine:
    name = _ledger(fields, workspace)
    words = ("ledger", "export", place(name), *option("output", place(f"{name}.json")))
    return CommandLine(words, f"ledger?name={_quoted(name)}")


ACTIONS: dict[str, Callable[[FormFields, Workspace], CommandLine]] = {
    "train": _train,
    "resume": _resume,
    "attack": _on_run("attack"),
    "audit": _on_run("audit"),
    "report": _on_run("report"),
    "certify": _certify,
    "check": _check,
    "init": _ledger_init,
    "limit": _ledger_limit,
    "verify": _ledger_verify,
    "export": _ledger_export,
}


def _required(fields: FormFields, name: str) -> str:
    value = fields.get(name, "")
    if not value.strip():
        raise InvalidArgument(f"The field '{name}' is empty.", remedy="Fill it in.")
    return value


def _run(fields: FormFields, workspace: Workspace) -> str:
    return workspace.name(workspace.find(_required(fields, "run")))


def _ledger(fields: FormFields, workspace: Workspace) -> str:
    return workspace.name(workspace.find(_required(fields, "ledger")))


def _source(name: str, workspace: Workspace) -> str:
    """A table of the folder, or a dataset of the catalog."""
    if name in catalog.names():
        return name
    return workspace.name(workspace.find(name))


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="/")
