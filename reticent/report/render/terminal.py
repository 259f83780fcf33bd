"""Facts on a terminal."""

from __future__ import annotations

from typing import Any

from reticent.report.facts.facts import Bars, Chart, Facts, Section, Value
from reticent.report.render.console import draw_curve

_WIDEST = 8  # columns of a table that a terminal can show


def print_facts(facts: Facts, console: Any) -> None:
    """The first screen and the evidence; the record and the glossary are for the page."""
    from rich.panel import Panel
    from rich.text import Text

    tone = {"good": "green", "bad": "red", "plain": "cyan"}[facts.tone]
    console.print(Text(facts.title, style="bold"))
    console.print(Text(facts.subtitle, style="dim"))
    console.print(Panel(Text(facts.verdict, style=f"bold {tone}"), border_style=tone, expand=False))
    for line in facts.lead:
        console.print(Text(line))
    _print_values(facts.headline, console)
    for section in facts.sections:
        if not section.terms and not section.code:
            _print_section(section, console)


def _print_section(section: Section, console: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print()
    console.print(Text(section.title, style="bold"))
    for line in section.text:
        console.print(Text(line))
    _print_values(section.values, console)
    for table in section.tables:
        if len(table.headings) > _WIDEST:
            console.print(Text(f"{table.title}: {len(table.rows)} rows, on the page.", style="dim"))
            continue
        shown = Table(title=table.title, title_justify="left", box=None, pad_edge=False)
        for name in table.headings:
            shown.add_column(name)
        for row in table.rows:
            shown.add_row(*(Text(cell) for cell in row))
        console.print(shown)
    for chart in section.charts:
        _print_chart(chart, console)


def _print_values(values: tuple[Value, ...], console: Any) -> None:
    from rich.table import Table
    from rich.text import Text

    if not values:
        return
    shown = Table(box=None, pad_edge=False, show_header=False)
    for value in values:
        shown.add_row(
            Text(value.name),
            Text(value.shown, style="bold"),
            Text(value.kind.value, style="dim"),
            Text(value.note, style="dim"),
        )
    console.print(shown)


def _print_chart(chart: Chart | Bars, console: Any) -> None:
    from rich.text import Text

    if isinstance(chart, Bars):
        top = max(chart.amounts, default=0.0) or 1.0
        wide = max((len(name) for name in chart.names), default=0)
        for place, (name, amount) in enumerate(zip(chart.names, chart.amounts, strict=True)):
            said = chart.notes[place] if chart.notes else f"{amount:.4g}"
            console.print(Text(f"{name:>{wide}} {'█' * max(round(30 * amount / top), 0)} {said}"))
    elif len(chart.lines) == 1 and not chart.is_log_x and len(chart.lines[0].x) > 2:
        line = chart.lines[0]
        drawn = draw_curve(line.x, line.y, x_name=chart.x_label, y_name=chart.y_label, height=5)
        console.print(Text(drawn))
