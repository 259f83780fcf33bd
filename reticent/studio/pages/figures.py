"""Facts of a report as parts of a page: the same values, charts and tables, in the studio's own style."""

from __future__ import annotations

from collections.abc import Sequence

from reticent.report.facts.facts import Bars, Chart, RowsTable, Section, Value
from reticent.report.figures.charts import draw
from reticent.studio.markup import Markup, tag


def facts_section(found: Section) -> Markup:
    """A section of a report."""
    return tag(
        "section",
        tag("h2", found.title),
        (tag("p", line) for line in found.text),
        values_table(found.values) if found.values else None,
        tag("div", (figure(chart) for chart in found.charts), class_="figures") if found.charts else None,
        (rows_table(table) for table in found.tables),
        (
            tag(
                "details", tag("summary", title), tag("pre", tag("code", text), class_="output", tabindex="0")
            )
            for title, text in found.code
        ),
        id=found.id,
    )


def headline(values: Sequence[Value]) -> Markup:
    """The numbers of the first screen; the first of them large."""
    items = (
        tag(
            "li",
            tag("span", value.name, " ", badge(value), class_="name"),
            tag("span", value.shown, class_="value"),
            tag("span", value.note, class_="small"),
            class_="hero" if place == 0 else None,
        )
        for place, value in enumerate(values)
    )
    return tag("ul", items, class_="stats")


def values_table(values: Sequence[Value]) -> Markup:
    rows = (
        tag(
            "tr",
            tag("th", value.name, scope="row"),
            tag("td", value.shown, class_="number" if len(value.shown) < 20 else "long"),
            tag("td", badge(value)),
            tag("td", value.note),
        )
        for value in values
    )
    head = tag("tr", (tag("th", name, scope="col") for name in ("what", "value", "kind", "note")))
    return tag(
        "div",
        tag("table", tag("thead", head), tag("tbody", rows), class_="values"),
        class_="wide",
        tabindex="0",
    )


def rows_table(table: RowsTable) -> Markup:
    """A table; that of confusions is aligned like numbers."""
    is_matrix = table.title.startswith("Confusion")
    head = tag("tr", (tag("th", name, scope="col") for name in table.headings))
    rows = (
        tag("tr", tag("th", row[0], scope="row"), (tag("td", cell) for cell in row[1:])) for row in table.rows
    )
    made = tag(
        "table",
        tag("caption", table.title),
        tag("thead", head),
        tag("tbody", rows),
        class_="matrix" if is_matrix else None,
    )
    return tag("div", made, class_="wide", tabindex="0")


def figure(chart: Chart | Bars) -> Markup:
    """A chart below its title, and in words."""
    return tag(
        "figure",
        tag("figcaption", chart.title),
        tag("div", Markup(draw(chart)), class_="wide", tabindex="0"),
        tag("p", chart.description, class_="alt"),
    )


def badge(value: Value) -> Markup:
    return tag("span", value.kind.value, class_=f"badge {value.kind.value}")
