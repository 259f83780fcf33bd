"""Command lines from the fields of a form: what a button shows is what it runs.

Nothing here goes through a shell. Names come from pages, so a word that begins like an option never stands
where the command would take it for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from reticent.core.errors import InvalidArgument
from reticent.core.files import write_whole
from reticent.data import catalog
from reticent.data.kinds import Number
from reticent.mechanisms import events
from reticent.runs import folder as folders
from reticent.studio import columns
from reticent.studio.columns import FormFields
from reticent.studio.workspace import Workspace

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
    """Writes the file that a command reads: what a form declares, or the event that is to be certified."""
    if action == "certify":
        folder = workspace.find(_required(fields, "run"))
        event = folders.read_record(folder).event
        write_whole(folder / EVENT, (json.dumps(events.to_json(event), indent=2) + "\n").encode())
    if action == "train" and columns.needs_file(columns.declared_columns(fields)):
        domain = columns.domain_of(fields, workspace)
        assert domain is not None
        file = workspace.new(_domain_file(fields))
        file.parent.mkdir(exist_ok=True)
        domain.write(file)


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
    words += _classes(fields) if fields.get("task") != "regress" else []
    words += _declared(fields, workspace)
    if fields.get("rows_per_user"):
        words += option("rows-per-user", fields["rows_per_user"])
    if ledger := fields.get("ledger"):
        words += option("ledger", workspace.name(workspace.find(ledger)))
        words += option("dataset", _required(fields, "dataset"))
    folder = _required(fields, "output")
    workspace.new(folder)  # refuses a name that leads outside, or is taken
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


def _declared(fields: FormFields, workspace: Workspace) -> list[str]:
    """What a form declares about columns: options where they can say it, else a file beside the tables."""
    said = columns.declared_columns(fields)
    said.pop(fields.get("target", ""), None)
    if columns.needs_file(said):
        return ["--domain", _domain_file(fields)]
    words = []
    if file := fields.get("domain"):
        words += option("domain", workspace.name(workspace.find(file)))
    for name, column in said.items():
        assert isinstance(column, Number)
        assert column.bounds is not None
        words += option("bounds", f"{name}={column.bounds[0]:g}:{column.bounds[1]:g}")
    return words


def _domain_file(fields: FormFields) -> str:
    """The file for what a form declares, named like the run."""
    return f"domains/{_required(fields, 'output').rpartition('/')[2]}.toml"


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
    words = ("account", "--events", place(f"{name}/{EVENT}"), "--delta", repr(delta))
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
