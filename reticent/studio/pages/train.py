"""The page of a training: a table, what is public about it, what the rest would cost, and a button."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from urllib.parse import quote

from reticent.core.errors import ReticentError
from reticent.data import catalog
from reticent.ledger.ledger import Ledger
from reticent.runs.methods.table import METHODS
from reticent.studio.columns import MOST_COLUMNS, PublicTable, look_at
from reticent.studio.jobs import Job
from reticent.studio.markup import Content, Markup, join, tag
from reticent.studio.pages.frame import empty, field, heading, page, section, select
from reticent.studio.pages.job import job_list
from reticent.studio.workspace import Workspace

_BUNDLED = ("breast_cancer", "digits")  # those that come with scikit-learn
_HIDDEN = ("pate", "federated")  # methods that need more than a table
_MODELS = (
    ("auto", "chosen by the table"),
    ("linear", "linear"),
    ("additive", "additive"),
    ("mlp", "network"),
)
_KINDS = (
    ("open", "find out privately"),
    ("number", "number between"),
    ("words", "one of"),
    ("out", "leave out"),
)


def choose_page(workspace: Workspace, jobs: Sequence[Job], *, folder: str) -> Markup:
    """The page on which a table is chosen: dropped, in the folder, or one that comes with the package."""
    found = [(name, f"train?file={quote(name, safe='/')}") for name in workspace.tables()]
    bundled = [(name, f"train?file={name}") for name in _BUNDLED]
    return page(
        "Train",
        heading("Train a private model", "Choose a table. No value of it is shown before it is paid for."),
        tag(
            "div",
            tag("h2", "Drop a table here"),
            tag(
                "p",
                "CSV, Parquet, JSON lines, Excel. It is copied into the folder, for you alone.",
                class_="note",
            ),
            tag("p", tag("label", "or choose a file", for_="file"), tag("input", type="file", id="file")),
            tag("progress", id="sent", max=1, value=0, aria_label="copied", hidden=True),
            tag("p", class_="error", role="alert", id="error", hidden=True),
            class_="drop card",
            id="drop",
        ),
        tag(
            "div",
            section("Tables in this folder", _links(found) if found else empty("None yet.")),
            section(
                "To try it",
                tag("p", "Data sets that come with scikit-learn.", class_="note"),
                _links(bundled),
            ),
            class_="pair",
        ),
        section("Commands of this studio", job_list(jobs)),
        tab="train",
        folder=folder,
        scripts=("drop.js",),
    )


def _links(found: Sequence[tuple[str, str]]) -> Markup:
    return tag("ul", (tag("li", tag("a", name, href=address)) for name, address in found), class_="plain")


def train_page(name: str, workspace: Workspace, *, folder: str) -> Markup:
    """
    Raises:
        DataError: there is no such table, or it cannot be read.
    """
    table = None if name in catalog.names() else look_at(name, workspace)
    about = (
        section(
            "What is known",
            tag(
                "p", f"'{name}' is a data set of the catalog: everything about it is public but its records."
            ),
        )
        if table is None
        else _columns(table)
    )
    form = tag(
        "form",
        tag("input", type="hidden", name="source", value=name),
        about,
        _target() if table is not None else None,
        tag("div", _budget(name, workspace), _price(), class_="pair"),
        tag(
            "section",
            tag("h2", "Train"),
            tag("pre", tag("code", "", class_="line", id="line"), tabindex="0"),
            tag("p", class_="error", role="alert", id="error", hidden=True),
            tag(
                "div",
                tag("button", "Pay and train", id="train"),
                tag("span", _PAYS, class_="note"),
                class_="actions",
            ),
        ),
        id="training",
        autocomplete="off",
        data_table=table is not None,
    )
    return page(
        f"Train on {name}",
        heading(name, _size(table)),
        form,
        tab="train",
        folder=folder,
        scripts=("train.js",),
    )


_PAYS = "The whole cost is charged before any noise is drawn; a run that is stopped can be resumed."


def _size(table: PublicTable | None) -> Content:
    if table is None:
        return "A data set to try things on."
    return f"{table.rows:,} rows, {len(table.names)} columns; {table.format}."


def _columns(table: PublicTable) -> Markup:
    shown = table.names[:MOST_COLUMNS]
    heads = ("column", "target", "public", "to be paid for, or declared by you")
    more = len(table.names) - len(shown)
    return section(
        "Columns",
        tag(
            "p",
            "Public, as for every run: the number of rows, the names of the columns, how the file is "
            "written. What a column holds is found privately with a tenth of the budget, unless you declare "
            "it. Declare only what you would publish anyway, never what you saw in the records.",
            class_="note",
        ),
        tag(
            "div",
            tag(
                "table",
                tag("thead", tag("tr", (tag("th", head, scope="col") for head in heads))),
                tag("tbody", (_row(place, name, table) for place, name in enumerate(shown))),
                class_="columns",
            ),
            class_="wide",
            tabindex="0",
        ),
        tag("p", f"{more} more columns are found privately; a domain file can declare them.", class_="note")
        if more > 0
        else None,
    )


def _row(place: int, name: str, table: PublicTable) -> Markup:
    if name in table.unsupported or name in table.identifiers:
        why = (
            f"holds {table.unsupported[name]}" if name in table.unsupported else "an identifier, by its name"
        )
        return tag(
            "tr",
            tag("th", name, scope="row"),
            tag("td"),
            tag("td", "its name"),
            tag("td", f"left out: {why}", class_="note"),
        )
    said = f"of {name}"
    tick = tag("input", type="radio", name="target", value=name, aria_label=f"predict {name}", required=True)
    bounds = join(
        tag(
            "input", name=f"low-{place}", inputmode="decimal", placeholder="least", aria_label=f"least {said}"
        ),
        tag(
            "input",
            name=f"high-{place}",
            inputmode="decimal",
            placeholder="largest",
            aria_label=f"largest {said}",
        ),
    )
    words = tag("input", name=f"values-{place}", placeholder="no, yes", aria_label=f"words {said}")
    kind = tag(
        "select",
        (tag("option", words_of, value=value) for value, words_of in _KINDS),
        name=f"kind-{place}",
        aria_label=f"what is known {said}",
    )
    return tag(
        "tr",
        tag("th", name, scope="row", class_="long"),
        tag("td", tick),
        tag("td", "its name", class_="public"),
        tag(
            "td",
            tag(
                "div",
                kind,
                tag("span", bounds, class_="bounds", hidden=True),
                tag("span", words, class_="words", hidden=True),
                class_="declare",
            ),
        ),
        data_column=place,
        data_name=name,
    )


def _target() -> Markup:
    return section(
        "What is predicted",
        tag(
            "div",
            field(
                "task",
                "The target is",
                select("task", (("auto", "a class, such as no or yes"), ("regress", "a number"))),
            ),
            tag(
                "div",
                field(
                    "known",
                    "Its classes",
                    select(
                        "known",
                        (
                            ("public", "are read off the table, and taken as public"),
                            ("declared", "are these"),
                            ("private", "are found privately"),
                        ),
                    ),
                    hint="Publishing a model publishes its classes; the guarantee says so.",
                ),
                id="known-field",
            ),
            tag(
                "div",
                field(
                    "classes", "Classes", tag("input", id="classes", name="classes", placeholder="no, yes")
                ),
                id="classes-field",
                hidden=True,
            ),
            class_="trio",
        ),
    )


def _budget(name: str, workspace: Workspace) -> Markup:
    methods = [("auto", "chosen (DP-SGD)")]
    methods += [(method, row.description) for method, row in METHODS.items() if method not in _HIDDEN]
    return section(
        "The budget",
        tag("div", *_budget_fields(name, workspace, methods), class_="fields"),
    )


def _budget_fields(name: str, workspace: Workspace, methods: list[tuple[str, str]]) -> list[Markup]:
    return [
        field(
            "epsilon",
            "Epsilon",
            tag("input", id="epsilon", name="epsilon", value="1", inputmode="decimal", required=True),
        ),
        field(
            "delta",
            "Delta",
            tag(
                "input",
                id="delta",
                name="delta",
                inputmode="decimal",
                placeholder="a tenth of 1 / rows, or less",
            ),
        ),
        field("model", "Model", select("model", _MODELS)),
        field("method", "Method", select("method", methods)),
        field(
            "prepare",
            "What you do not declare",
            select(
                "prepare",
                (("private", "is found privately"), ("assume-public", "is read off the table, as public")),
            ),
        ),
        _ledgers(workspace),
        field(
            "output",
            "Folder of the run",
            tag("input", id="output", name="output", value=_free(name, workspace), required=True),
        ),
    ]


def _ledgers(workspace: Workspace) -> Markup:
    """Budgets that a run can be charged to: each a ledger and a dataset in it."""
    choices = [("", "none: this run alone keeps to its epsilon")]
    for ledger in workspace.ledgers():
        try:
            with Ledger.open(str(workspace.find(ledger))) as opened:
                choices += [(f"{ledger}\n{each}", f"{each} in {ledger}") for each in opened.datasets()]
        except ReticentError:
            continue
    return field("account", "Charge it to", select("account", choices))


def _free(name: str, workspace: Workspace) -> str:
    """A name for the run that nothing has yet."""
    stem = name.rpartition("/")[2].partition(".")[0] or "run"
    plain = "".join(letter if letter.isalnum() else "-" for letter in stem).strip("-") or "run"
    for number in count(1):
        try:
            workspace.new(f"runs/{plain}-{number}")
            return f"runs/{plain}-{number}"
        except ReticentError:
            continue
    raise AssertionError("numbers do not end")


def _price() -> Markup:
    return section(
        "What it would cost",
        tag("p", "Choose what is to be predicted.", class_="empty", id="unpriced"),
        tag(
            "div",
            tag(
                "ul",
                _figure("price-epsilon", "epsilon in all", "hero"),
                _figure("price-preparation", "of it, to find what is not declared"),
                _figure("price-rows", "rows to train on, about"),
                class_="stats",
            ),
            tag("ul", id="price-found", class_="log"),
            tag("p", id="price-model", class_="note"),
            tag("p", id="price-method", class_="note"),
            tag(
                "p",
                tag("span", "estimate", class_="badge estimate"),
                " ",
                tag("span", id="price-expected"),
                class_="note",
            ),
            id="priced",
            hidden=True,
        ),
        tag("p", id="refused", class_="error", role="status", hidden=True),
        tag("p", "Nothing is charged, and no cell is looked at, for this price.", class_="hint"),
    )


def _figure(name: str, label: str, kind: str | None = None) -> Markup:
    return tag(
        "li", tag("span", label, class_="name"), tag("span", "…", class_="value", id=name), class_=kind
    )
