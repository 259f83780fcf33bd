"""One run: its card, its history and curves, attacks, audit and certificate, and what can be done with it."""

from __future__ import annotations

import shlex
from pathlib import Path
from urllib.parse import quote

from reticent.core.errors import ReticentError
from reticent.report.from_run import collect_facts
from reticent.runs import folder as folders
from reticent.studio.commands import CERTIFICATE, command_for
from reticent.studio.markup import Content, Markup, tag
from reticent.studio.pages.figures import facts_section, headline
from reticent.studio.pages.frame import heading, page, section
from reticent.studio.workspace import Workspace

_SAID = {
    "resume": ("Resume", "Resumes where it stopped; what was paid for is not charged again."),
    "attack": ("Attack it", "What the model gives away about its training set: shadow models, some minutes."),
    "audit": ("Audit it", "An honest attempt to contradict the promise, by training with canaries."),
    "report": ("Write the report", "One page for the person who has to sign, in the folder of the run."),
    "certify": ("Prove the bound", "A certificate in ball arithmetic; needs reticent[certify]."),
    "check": ("Check the certificate", "Proves its bound again, by code of its own."),
}


def run_page(name: str, workspace: Workspace, *, folder: str) -> Markup:
    """
    Raises:
        DataError: there is no such run. IntegrityError: it is damaged.
    """
    path = workspace.find(name)
    record = folders.read_record(path)
    if record.state != "finished":
        said = f"Its state: {record.state}."
        shown: list[Content] = [section("Not finished", tag("p", record.failure or said), *_plan(path))]
        actions = ["resume"] if record.state != "failed" else []
    else:
        shown = list(_finished(path))
        has_certificate = (path / CERTIFICATE).is_file()
        actions = [] if record.is_generator else ["attack", "audit"]
        actions += ["report", "check" if has_certificate else "certify"]
    links = tag("a", "Open the report", class_="button", href=f"report?name={quote(name, safe='/')}")
    return page(
        name,
        heading(name, "A run in this folder."),
        tag("p", links, class_="actions") if record.state == "finished" else None,
        *shown,
        _actions(name, actions, workspace) if actions else None,
        tab="runs",
        folder=folder,
        scripts=("action.js",),
    )


def _finished(path: Path) -> list[Markup]:
    facts = collect_facts(path)
    top = tag(
        "section",
        tag("p", facts.verdict, class_=f"verdict {facts.tone}"),
        headline(facts.headline),
        tag("div", (tag("p", line) for line in facts.lead), class_="lead-text"),
    )
    sections = [each for each in facts.sections if each.id != "glossary"]
    listed = (tag("li", tag("a", each.title, href=f"#{each.id}")) for each in sections)
    found = [facts_section(each) for each in sections]
    return [top, tag("ul", listed, class_="toc"), *found]


def _plan(path: Path) -> list[Markup]:
    record = folders.read_record(path)
    return [
        tag("p", f"{record.recipe.method}: {record.recipe.in_words}."),
        tag(
            "p",
            f"Epsilon {record.request.epsilon:g} was asked for, on {folders.rows_in_words(record)}.",
            class_="note",
        ),
    ]


def _actions(name: str, actions: list[str], workspace: Workspace) -> Markup:
    return section(
        "What can be done with it", *(_action(each, name, workspace) for each in actions), id="actions"
    )


def _action(action: str, name: str, workspace: Workspace) -> Markup:
    title, said = _SAID[action]
    try:
        line = shlex.join(["reticent", *command_for(action, {"run": name}, workspace).words])
    except ReticentError as error:
        return tag("p", str(error), class_="note")
    return action_form(action, title, line, said=said, fields={"run": name})


def action_form(
    action: str, title: str, line: str, *, said: str = "", fields: dict[str, str], content: Content = None
) -> Markup:
    """A button with its command beside it; `action.js` sends it and follows what it says."""
    return tag(
        "form",
        (tag("input", type="hidden", name=key, value=value) for key, value in fields.items()),
        content,
        tag("div", tag("button", title, class_="quiet"), tag("span", said, class_="note"), class_="actions"),
        tag("pre", tag("code", line, class_="line"), tabindex="0"),
        tag("p", class_="error", role="alert", hidden=True),
        class_="action",
        data_action=action,
    )
