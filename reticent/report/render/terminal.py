"""Facts on a terminal."""

from __future__ import annotations

from typing import Any

from reticent.core.printable import printable
from reticent.report.facts.facts import Bars, Chart, Facts, Section, Value
from reticent.report.render.console import draw_curve

_WIDEST = 8  # columns of a table that a terminal can show


def print_facts(facts: Facts, console: Any) -> None:
    """The first screen and the evidence; the record and the glossary are for the page."""
    from rich.panel import Panel

    tone = {"good": "green", "bad": "red", "plain": "cyan"}[facts.tone]
    console.print(_text(facts.title, style="bold"))
    console.print(_text(facts.subtitle, style="dim"))
    console.print(Panel(_text(facts.verdict, style=f"bold {tone}"), border_style=tone, expand=False))
    for line in facts.lead:
        console.print(_text(line))
    _print_values(facts.headline, console)
    for section in facts.sections:
        if not section.terms and not section.code:
            _print_section(section, console)


def _text(words: str, style: str = "") -> Any:
    """Names and words may come from a stranger's file."""
    from rich.text import Text

    return Text(printable(words), style=style)


def _print_section(section: Section, console: Any) -> None:
    from rich.table import Table

    console.print()
    console.print(_text(section.title, style="bold"))
    for line in section.text:
        console.print(_text(line))
    _print_values(section.values, console)
    for table in section.tables:
        if len(table.headings) > _WIDEST:
            console.print(_text(f"{table.title}: {len(table.rows)} rows, on the page.", style="dim"))
            continue
        shown = Table(title=_text(table.title), title_justify="left", box=None, pad_edge=False)
        for name in table.headings:
            shown.add_column(_text(name))
        for row in table.rows:
            shown.add_row(*(_text(cell) for cell in row))
        console.print(shown)
    for chart in section.charts:
        _print_chart(chart, console)


def _print_values(values: tuple[Value, ...], console: Any) -> None:
    from rich.table import Table

    if not values:
        return
    shown = Table(box=None, pad_edge=False, show_header=False)
    for value in values:
        shown.add_row(
            _text(value.name),
            _text(value.shown, style="bold"),
            _text(value.kind.value, style="dim"),
            _text(value.note, style="dim"),
        )
    console.print(shown)


def _print_chart(chart: Chart | Bars, console: Any) -> None:
    is_curve = isinstance(chart, Chart) and len(chart.lines) == 1 and not chart.is_log_x
    if isinstance(chart, Bars) or (is_curve and len(chart.lines[0].x) > 2):
        console.print(_text(chart.title, style="dim"))
    if isinstance(chart, Bars):
        top = max(chart.amounts, default=0.0) or 1.0
        wide = max((len(name) for name in chart.names), default=0)
        for place, (name, amount) in enumerate(zip(chart.names, chart.amounts, strict=True)):
            said = chart.notes[place] if chart.notes else f"{amount:.4g}"
            console.print(_text(f"{name:>{wide}} {'█' * max(round(30 * amount / top), 0)} {said}"))
    elif is_curve and len(chart.lines[0].x) > 2:
        line = chart.lines[0]
        drawn = draw_curve(line.x, line.y, x_name=chart.x_label, y_name=chart.y_label, height=5)
        console.print(_text(drawn))
