"""Several runs side by side: a table of all facts, and accuracy against epsilon against leakage."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import quote

from reticent.core.errors import InvalidArgument
from reticent.report.facts.comparison import ComparedRun, compare_runs, comparison_rows
from reticent.studio.markup import Markup, tag
from reticent.studio.pages.frame import heading, page, section
from reticent.studio.workspace import Workspace

_MOST = 12  # columns that a table can have and be read


def compare_page(names: Sequence[str], workspace: Workspace, *, folder: str) -> Markup:
    """
    Raises:
        InvalidArgument: too few or too many. DataError: one of them is not there.
    """
    if not 2 <= len(names) <= _MOST:
        raise InvalidArgument(
            f"{len(names)} runs cannot be compared.", remedy=f"Tick 2 to {_MOST} on the page of runs."
        )
    found = compare_runs([workspace.find(name) for name in names])
    points = [_point(name, each) for name, each in zip(names, found, strict=True)]
    return page(
        "Compare",
        heading(f"{len(names)} runs side by side", "How good each is, what it promises, what attacks found."),
        tag(
            "div",
            section("Accuracy against epsilon", tag("div", id="scores")),
            section("Leakage against epsilon", tag("div", id="leaks")),
            class_="pair",
        ),
        section("All that is known", _table(names, found)),
        tag(
            "script", Markup(json.dumps(points).replace("<", "\\u003c")), id="points", type="application/json"
        ),
        tab="runs",
        folder=folder,
        scripts=("compare.js",),
    )


def _point(name: str, found: ComparedRun) -> dict[str, object]:
    scores = found.values.get("scores", {})
    score = next((key for key in ("accuracy", "r2") if key in scores), None)
    attack = found.values.get("strongest_attack")
    return {
        "name": name,
        "epsilon": found.values.get("guarantee", {}).get("epsilon"),
        "score": None if score is None else scores[score],
        "score_name": score,
        "leak": None if attack is None else attack["value"],
        "leak_name": None
        if attack is None
        else attack["name"].partition(" of the ")[0].partition(" by the ")[0],
        "guess": None if attack is None else _guessing(attack["note"]),
    }


def _guessing(note: str) -> float | None:
    """What guessing would have found, as a note says it: `guessing finds 1%`, `guessing gives 50%`."""
    found = re.search(r"guessing (?:finds|gives) ([\d.]+)%$", note)
    return None if found is None else float(found[1]) / 100


def _table(names: Sequence[str], found: Sequence[ComparedRun]) -> Markup:
    links = (
        tag("th", tag("a", name, href=f"run?name={quote(name, safe='/')}"), scope="col") for name in names
    )
    rows = (
        tag("tr", tag("th", fact, scope="row"), (tag("td", cell, class_="long") for cell in cells))
        for fact, *cells in comparison_rows(found)
    )
    made = tag("table", tag("thead", tag("tr", tag("th", "", scope="col"), links)), tag("tbody", rows))
    return tag("div", made, class_="wide", tabindex="0")
