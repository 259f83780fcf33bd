"""Budgets: the ledgers of the folder, and of each its datasets, limits, charges and what still fits."""

from __future__ import annotations

import json
import shlex
from urllib.parse import quote

from reticent.accounting.rounding import at_most
from reticent.core.errors import ReticentError
from reticent.ledger.chain import Entry
from reticent.ledger.ledger import Ledger
from reticent.studio.budgets import DatasetSpending, spending
from reticent.studio.markup import Markup, tag
from reticent.studio.pages.frame import empty, field, heading, page, section
from reticent.studio.pages.run import action_form
from reticent.studio.workspace import Workspace

_MOST_ENTRIES = 60  # of a history that are shown


def ledgers_page(workspace: Workspace, *, folder: str) -> Markup:
    """All ledgers of the folder, and a form for a new one."""
    found = workspace.ledgers()
    rows = (tag("li", _ledger_card(name, workspace)) for name in found)
    field_of_name = field(
        "ledger",
        "Name of the new ledger",
        tag("input", id="ledger", name="ledger", required=True, placeholder="clinic.ledger"),
    )
    return page(
        "Ledger",
        heading(
            "Ledgers", "What each dataset may spend, and what was spent on what. Charges come before noise."
        ),
        tag("ul", rows, class_="cards") if found else empty("No ledger in this folder yet."),
        section(
            "A new ledger",
            action_form("init", "Create it", "reticent ledger init FILE", fields={}, content=field_of_name),
        ),
        tab="ledgers",
        folder=folder,
        scripts=("action.js",),
    )


def _ledger_card(name: str, workspace: Workspace) -> Markup:
    try:
        with Ledger.open(str(workspace.find(name))) as ledger:
            datasets, head = ledger.datasets(), ledger.head
    except ReticentError as error:
        return tag("div", tag("h2", name), tag("p", str(error), class_="error small"))
    return tag(
        "div",
        tag("h2", tag("a", name, href=f"ledger?name={quote(name, safe='/')}")),
        tag(
            "p",
            f"{len(datasets)} dataset{'' if len(datasets) == 1 else 's'}, {head.sequence} entries",
            class_="note",
        ),
    )


def ledger_page(name: str, workspace: Workspace, *, folder: str) -> Markup:
    """
    Raises:
        ReticentError: there is no such ledger, or it is damaged.
    """
    path = workspace.find(name)
    ledger, found = spending(path)
    owner = (
        "Every limit is signed by its owner."
        if ledger.owner
        else "It has no owner: anyone who may write to it may raise limits."
    )
    return page(
        name,
        heading(name, f"{len(found)} dataset{'' if len(found) == 1 else 's'}. {owner}"),
        *(_dataset(each, name) for each in found),
        empty("No dataset has a limit yet.") if not found else None,
        section("Set a limit", _limit_form(name)),
        section("The whole ledger", _verify_form(name), _export_form(name)),
        tab="ledgers",
        folder=folder,
        scripts=("action.js", "fits.js", "spent.js"),
    )


def _dataset(each: DatasetSpending, ledger: str) -> Markup:
    account, limit = each.account, each.account.limit
    spent = each.share * limit.epsilon
    kind = "adaptive: spent as a filter counts" if limit.adaptive else "planned"
    stats = (
        ("epsilon spent", at_most(spent), f"{each.share:.1%} of the limit"),
        ("limit", f"{limit.epsilon:g}", f"at delta {limit.delta:g}"),
        ("charges", f"{account.charges:,}", kind),
    )
    return tag(
        "section",
        tag("h2", account.name),
        tag(
            "ul",
            (
                tag(
                    "li",
                    tag("span", what, class_="name"),
                    tag("span", value, class_="value"),
                    tag("span", said, class_="small"),
                    class_="hero" if place == 0 else None,
                )
                for place, (what, value, said) in enumerate(stats)
            ),
            class_="stats",
        ),
        tag(
            "meter",
            min=0,
            max=1,
            low=0.7,
            high=0.95,
            optimum=0,
            value=f"{min(each.share, 1):.4f}",
            aria_label=f"{each.share:.0%} of the limit is spent",
        ),
        tag("p", each.sentence),
        tag(
            "p",
            "Working out what still fits…",
            class_="note fits",
            data_ledger=ledger,
            data_dataset=account.name,
            role="status",
        ),
        _chart(each) if each.points else None,
        _history(each.entries),
    )


def _chart(each: DatasetSpending) -> Markup:
    """A place for epsilon after each charge; `spent.js` draws it."""
    said = json.dumps({"points": each.points, "limit": each.account.limit.epsilon})
    return tag("div", data_spent=said)


def _history(entries: tuple[Entry, ...]) -> Markup:
    rows = (
        tag(
            "tr",
            tag("td", str(entry.sequence), class_="number"),
            tag("td", entry.time[:19].replace("T", " ")),
            tag("td", entry.kind),
            tag("td", _in_words(entry), class_="long"),
        )
        for entry in reversed(entries[-_MOST_ENTRIES:])
    )
    head = tag("tr", (tag("th", name, scope="col") for name in ("entry", "time (UTC)", "kind", "what")))
    more = len(entries) - _MOST_ENTRIES
    return tag(
        "details",
        tag(
            "summary",
            f"All {len(entries)} entries"
            if more <= 0
            else f"The last {_MOST_ENTRIES} of {len(entries)} entries",
        ),
        tag("div", tag("table", tag("thead", head), tag("tbody", rows)), class_="wide", tabindex="0"),
    )


def _in_words(entry: Entry) -> str:
    values = entry.values
    match entry.kind:
        case "charge":
            return str(values["purpose"])
        case "limit":
            return f"epsilon {values['limit']['epsilon']:g} at delta {values['limit']['delta']:g}"
        case "alias":
            return f"'{values['dataset']}' is another name of '{values['same_rows_as']}'"
        case "dataset":
            return f"version {values['version']}: {values['reason']}"
    return entry.kind


def _limit_form(name: str) -> Markup:
    content = tag(
        "div",
        field("dataset", "Dataset", tag("input", id="dataset", name="dataset", required=True)),
        field(
            "epsilon",
            "Epsilon",
            tag("input", id="epsilon", name="epsilon", inputmode="decimal", required=True),
        ),
        field("delta", "Delta", tag("input", id="delta", name="delta", inputmode="decimal", required=True)),
        class_="trio",
    )
    line = shlex.join(["reticent", "ledger", "limit", name])
    said = "A new name is added. A limit is never lowered below what is spent; every change stays visible."
    return action_form(
        "limit",
        "Set it",
        f"{line} DATASET --epsilon ... --delta ...",
        said=said,
        fields={"ledger": name},
        content=content,
    )


def _verify_form(name: str) -> Markup:
    head = field("head", "A hash that you noted earlier, if any", tag("input", id="head", name="head"))
    line = shlex.join(["reticent", "ledger", "verify", name])
    said = "Reads every entry again and checks every link, limit and signature."
    return action_form("verify", "Verify", line, said=said, fields={"ledger": name}, content=head)


def _export_form(name: str) -> Markup:
    line = shlex.join(["reticent", "ledger", "export", name, "--output", f"{name}.json"])
    return action_form(
        "export", "Export", line, said="Every entry with its hash, as JSON.", fields={"ledger": name}
    )
