"""All runs below the folder, as cards; several can be chosen and compared."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import quote

from reticent.core.errors import ReticentError
from reticent.report.facts.comparison import ComparedRun, compare_runs
from reticent.studio.markup import Markup, join, tag
from reticent.studio.pages.frame import empty, heading, page
from reticent.studio.workspace import Workspace


class ListedRun(NamedTuple):
    """A run by its name in the folder: what is known of it, or why nothing is."""

    name: str
    found: ComparedRun | None
    why: str = ""


def list_runs(workspace: Workspace) -> list[ListedRun]:
    """All runs, the newest first. One that cannot be read is listed with the reason."""
    listed = []
    for name in workspace.runs():
        try:
            listed.append(ListedRun(name, compare_runs([workspace.find(name)])[0]))
        except ReticentError as error:
            listed.append(ListedRun(name, None, str(error)))
    return listed


def runs_page(workspace: Workspace, *, folder: str) -> Markup:
    found = list_runs(workspace)
    return page(
        "Runs",
        heading("Runs", "Every run below this folder: what it promises, how good it is, what attacks found."),
        _form(found) if found else empty(_NONE),
        tab="runs",
        folder=folder,
    )


_NONE = join(
    "No run here yet. ",
    tag("a", "Train a model", href="train"),
    ", or start the studio in the folder of your runs.",
)


def _form(found: list[ListedRun]) -> Markup:
    cards = tag("ul", (_card(each) for each in found), class_="cards")
    if sum(each.found is not None for each in found) < 2:
        return cards
    button = tag(
        "div",
        tag("button", "Compare those ticked"),
        tag("span", "Accuracy, epsilon and leakage side by side.", class_="note"),
        class_="actions sticky-actions",
    )
    return tag("form", cards, button, action="compare", method="get")


def _card(each: ListedRun) -> Markup:
    title = tag("h2", tag("a", each.name, href=f"run?name={quote(each.name, safe='/')}"))
    if each.found is None:
        return tag("li", tag("h2", each.name), tag("p", each.why, class_="error small"))
    facts, state = each.found.facts, str(each.found.values["state"])
    tick = tag("label", tag("input", type="checkbox", name="name", value=each.name), "compare")
    tick = tick if state == "finished" else Markup("")
    return tag(
        "li",
        title,
        tag("p", f"{facts['data']}, predicting {facts['target']}", class_="note"),
        tag("ul", _stats(each.found), class_="stats"),
        tag("p", facts.get("model", ""), " by ", facts["method"], class_="note"),
        tag("div", tag("span", state, class_=f"badge {_tone(state)}"), tick, class_="foot"),
    )


def _stats(found: ComparedRun) -> list[Markup]:
    facts = found.facts
    shown = [("epsilon", facts.get("epsilon promised", facts["epsilon asked for"]))]
    shown += [(name, facts[name]) for name in ("accuracy", "r2") if name in facts][:1]
    if "strongest_attack" in found.values:
        attack = found.values["strongest_attack"]
        is_rate = attack["name"].startswith("members")
        shown.append(("attack finds" if is_rate else "attack's AUC", facts[attack["name"]]))
    return [
        tag("li", tag("span", name, class_="name"), tag("span", value, class_="value"))
        for name, value in shown
    ]


def _tone(state: str) -> str:
    return {"finished": "finished", "failed": "failed"}.get(state, "warn")
