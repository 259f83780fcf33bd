"""Facts as one HTML file: no script, nothing fetched, light and dark, on a phone and on paper."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

from reticent.report.facts.facts import Bars, Chart, Facts, RowsTable, Section, Value, ValueKind
from reticent.report.figures import charts
from reticent.report.figures.charts import escape

_KINDS = {
    ValueKind.BOUND: "proved, under the stated assumptions",
    ValueKind.ESTIMATE: "measured, with random error",
    ValueKind.ASSUMPTION: "assumed, not proved",
    ValueKind.SETTING: "chosen by the person who ran it",
}
_NARROW = 4  # columns of a table that stands beside another


def page(facts: Facts) -> str:
    """The whole document."""
    style = resources.files("reticent.report").joinpath("page.css").read_text(encoding="utf-8")
    links = "".join(
        f'<li><a href="#{section.id}">{escape(section.title)}</a></li>' for section in facts.sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{escape(facts.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#content">Skip to the content</a>\n'
        f"{_first_screen(facts)}"
        f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
        f'<main id="content">\n{"".join(_section(section) for section in facts.sections)}</main>\n'
        "<footer><p>Numbers are labelled: "
        f"{'; '.join(f'{_badge(kind)} {words}' for kind, words in _KINDS.items())}. "
        "The same facts are in report.json.</p></footer>\n</body>\n</html>\n"
    )


def _first_screen(facts: Facts) -> str:
    lead = "".join(f"<p>{escape(line)}</p>" for line in facts.lead)
    cards = "".join(
        f'<li><span class="name">{escape(value.name)}</span><span class="big">{escape(value.shown)}</span>'
        f'{_badge(value.kind)}<span class="note">{escape(value.note)}</span></li>'
        for value in facts.headline
    )
    return (
        f'<header>\n<h1>{escape(facts.title)}</h1>\n<p class="subtitle">{escape(facts.subtitle)}</p>\n'
        f'<p class="verdict {facts.tone}">{escape(facts.verdict)}</p>\n<div class="lead">{lead}</div>\n'
        f'<ul class="cards">{cards}</ul>\n</header>\n'
    )


def _section(section: Section) -> str:
    parts = [f'<section id="{section.id}" aria-labelledby="{section.id}-h">']
    parts.append(f'<h2 id="{section.id}-h">{escape(section.title)}</h2>')
    parts += [f"<p>{escape(line)}</p>" for line in section.text]
    figures = "".join(_figure(chart) for chart in section.charts)
    if section.values and len(section.charts) == 1:
        parts.append(f'<div class="beside">{_values(section.values)}{figures}</div>')
    else:
        parts += [_values(section.values)] if section.values else []
        parts += [f'<div class="figures">{figures}</div>'] if figures else []
    narrow = [table for table in section.tables if len(table.headings) <= _NARROW]
    if len(narrow) > 1:
        parts.append(f'<div class="tables">{"".join(_table(table) for table in narrow)}</div>')
    parts += [_table(table) for table in section.tables if len(narrow) < 2 or table not in narrow]
    for title, text in section.code:
        parts.append(
            f"<details><summary>{escape(title)}</summary>"
            f'<pre tabindex="0"><code>{escape(text)}</code></pre></details>'
        )
    if section.terms:
        terms = "".join(f"<dt>{escape(word)}</dt><dd>{escape(said)}</dd>" for word, said in section.terms)
        parts.append(f"<dl>{terms}</dl>")
    return "\n".join([*parts, "</section>\n"])


def _values(values: Sequence[Value]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(value.name)}</th><td class="number">{escape(value.shown)}</td>'
        f"<td>{_badge(value.kind)}</td><td>{escape(value.note)}</td></tr>"
        for value in values
    )
    head = "".join(f'<th scope="col">{name}</th>' for name in ("what", "value", "kind", "note"))
    return (
        f'<div class="wide" tabindex="0"><table class="values"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _figure(chart: Chart | Bars) -> str:
    return (
        f"<figure><figcaption>{escape(chart.title)}</figcaption>"
        f'<div class="wide" tabindex="0">{charts.draw(chart)}</div>'
        f'<p class="alt">{escape(chart.description)}</p></figure>'
    )


def _table(table: RowsTable) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.headings)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in table.rows)
    return (
        f'<div class="wide" tabindex="0"><table><caption>{escape(table.title)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _badge(kind: ValueKind) -> str:
    return f'<span class="badge {kind.value}">{kind.value}</span>'
