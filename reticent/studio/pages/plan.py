"""The page of a plan: fields on one side, what they cost on the other."""

from __future__ import annotations

import json
from collections.abc import Mapping

from reticent.studio.estimates import MEASURED
from reticent.studio.markup import Markup, join, tag
from reticent.studio.pages.frame import command_line, field, heading, page, section, select
from reticent.studio.planning import NOISES, SAMPLINGS

DEFAULTS = {
    "rows": "60000",
    "batch": "1024",
    "epochs": "20",
    "multiplier": "1.1",
    "delta": "1e-6",
    "target": "1",
    "sampling": "poisson",
    "noise": "independent",
    "bands": "8",
}
_SAMPLINGS = {
    "poisson": "Poisson: a coin for each row",
    "shuffled": "shuffled: a new order each epoch",
    "fixed": "fixed size, drawn anew",
    "full": "full: all rows in every step",
    "cyclic": "cyclic: one order for all epochs",
    "allocation": "allocation: once per epoch, at random",
}
_NOISES = {
    "independent": "independent, as in DP-SGD",
    "banded": "banded: takes back some of the last",
    "toeplitz": "Toeplitz, of least error",
    "blt": "buffered (BLT)",
    "tree": "tree",
}
_TAKES = (
    ("multiplier", "noise multiplier"),
    ("epochs", "epochs"),
    ("rows", "rows"),
    ("delta", "delta"),
    ("batch", "batch size, epochs fixed"),
)


def plan_page(words: Mapping[str, str], *, folder: str) -> Markup:
    """The page with these fields filled in."""
    given = {name: words.get(name) or usual for name, usual in DEFAULTS.items()}
    return page(
        "Plan",
        heading("Plan a private run", "What a training run would cost, before any data is opened."),
        tag("div", _form(given), tag("div", _error(), _results(), class_="results"), class_="split"),
        _measured(),
        tab="plan",
        folder=folder,
        scripts=("plan.js",),
        is_wide=True,
    )


def _form(given: Mapping[str, str]) -> Markup:
    return tag(
        "form",
        tag("h2", "The run"),
        _number("rows", "Rows", given, hint="Declared and public."),
        _number("batch", "Batch size", given, hint="The expected size."),
        _number("epochs", "Epochs", given),
        _number("multiplier", "Noise multiplier", given, hint="Noise over clipping norm: sigma."),
        _number("delta", "Delta", given, hint="Well below 1 / rows."),
        field("sampling", "Batches", select("sampling", _listed(SAMPLINGS, _SAMPLINGS), given["sampling"])),
        field("noise", "Noise", select("noise", _listed(NOISES, _NOISES), given["noise"])),
        tag(
            "div",
            field("bands", "Bands", _input("bands", given["bands"])),
            id="bands-field",
            hidden=given["noise"] != "banded",
        ),
        _number("target", "Target epsilon", given, hint="For “What would it take?”."),
        id="plan",
        class_="card",
        autocomplete="off",
        aria_label="The run",
    )


def _listed(known: object, said: Mapping[str, str]) -> list[tuple[str, str]]:
    assert isinstance(known, tuple)
    return [(str(name), said[str(name)]) for name in known]


def _input(name: str, value: str, hint: str | None = None) -> Markup:
    return tag(
        "input",
        id=name,
        name=name,
        value=value,
        inputmode="decimal",
        aria_describedby=f"{name}-hint" if hint else None,
    )


def _number(name: str, label: str, given: Mapping[str, str], *, hint: str | None = None) -> Markup:
    slider = tag(
        "input", type="range", min=0, max=1000, step="any", data_for=name, aria_label=f"{label}, slider"
    )
    control = tag("div", slider, _input(name, given[name], hint), class_="row")
    return tag("div", field(name, label, control, hint=hint), id=f"{name}-field")


def _error() -> Markup:
    return tag("p", id="error", class_="error", role="alert", hidden=True)


def _results() -> Markup:
    return tag(
        "div",
        tag(
            "section",
            tag("h2", "What it promises"),
            tag(
                "ul",
                _stat("epsilon", "epsilon", note=("bound", "proved"), is_hero=True),
                _stat("guess", "best possible guess", said="whether one person was in; guessing gives 50%"),
                _stat(
                    "belief",
                    "a belief of 1% grows to at most",
                    said="about one person, after seeing the model",
                ),
                _stat("factor", "odds change by at most"),
                _stat("steps", "steps"),
                class_="stats",
                aria_live="polite",
            ),
            tag("p", id="lower", class_="note"),
            tag("details", tag("summary", "The sentence to publish"), tag("p", id="sentence")),
        ),
        tag(
            "div",
            section("Epsilon over epochs", tag("div", id="curve"), tag("p", id="curve-note", class_="hint")),
            section("By every accountant", _accountants()),
            class_="pair",
        ),
        tag(
            "div",
            section("What anybody may come to believe", tag("div", id="beliefs")),
            section("What any attack can find", tag("div", id="tradeoff")),
            class_="pair",
        ),
        tag("div", _take(), _expected(), class_="pair"),
        section(
            "The same without this page",
            tag("h3", "Command line"),
            command_line("", id="command"),
            tag("h3", "Python"),
            command_line("", id="python"),
        ),
        id="results",
        hidden=True,
    )


def _stat(
    name: str, label: str, *, said: str = "", note: tuple[str, str] | None = None, is_hero: bool = False
) -> Markup:
    badge = None if note is None else join(" ", tag("span", note[1], class_=f"badge {note[0]}"))
    return tag(
        "li",
        tag("span", label, badge, class_="name"),
        tag("span", "…", class_="value", id=name),
        tag("span", said, class_="small") if said else None,
        class_="hero" if is_hero else None,
    )


def _accountants() -> Markup:
    head = tag(
        "tr",
        tag("th", "theorem", scope="col"),
        tag("th", "epsilon", scope="col"),
        tag("th", "on a logarithmic scale", scope="col"),
    )
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", id="accountants"), class_="accountants"),
        tag("p", "All of them are upper bounds on the same run; the smallest holds.", class_="hint"),
        class_="wide",
    )


def _take() -> Markup:
    rows = (
        tag("tr", tag("th", said, scope="row"), tag("td", "…", data_take=name), tag("td"))
        for name, said in _TAKES
    )
    return section(
        "What would it take?",
        tag("p", "To reach the target epsilon by changing one thing, the others as they are.", class_="note"),
        tag("div", tag("table", tag("tbody", rows)), class_="wide"),
    )


def _expected() -> Markup:
    choices = [(str(place), each.name) for place, each in enumerate(MEASURED)]
    return section(
        "What to expect",
        tag("p", tag("span", "estimate", class_="badge estimate"), " ", tag("span", id="expected")),
        field("like", "On data like", select("like", choices)),
        tag("div", id="accuracy"),
        tag("p", tag("span", id="measured-from"), " Your data will differ.", class_="hint"),
    )


def _measured() -> Markup:
    """The figures for the script, as data that no browser runs."""
    plain = [
        {
            **{key: value for key, value in each._asdict().items() if key != "points"},
            "points": [{"epsilon": epsilon, "score": score} for epsilon, score in each.points],
        }
        for each in MEASURED
    ]
    safe = json.dumps(plain).replace("<", "\\u003c")
    return tag("script", Markup(safe), id="measured", type="application/json")
