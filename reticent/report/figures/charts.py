"""Charts as SVG text: lines, bands and bars in the page's own colours, readable aloud.

Drawn here rather than by matplotlib because they have to follow the page: its light and dark colours, its
width, its fonts; and because a picture in the page has to say what it shows to whoever cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape as escape_html

from reticent.core.printable import printable
from reticent.report.facts.facts import Bars, Chart

_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 14, 46
_COLOURS = 8
_DASHES = ("", "9 3", "2 3", "9 3 2 3")  # so that nobody has to tell many colours apart

Scale = Callable[[float], float]


def escape(text: str) -> str:
    """Text as it stands in a page: no markup, nothing invisible, nothing that turns the reading direction."""
    return escape_html(printable(text))


def draw(chart: Chart | Bars) -> str:
    """The picture as an `svg` element."""
    return _bars(chart) if isinstance(chart, Bars) else _lines(chart)


def _lines(chart: Chart) -> str:
    xs = [x for line in (*chart.lines, *chart.bands) for x in line.x]
    ys = [y for line in chart.lines for y in line.y]
    ys += [y for band in chart.bands for y in (*band.low, *band.high)]
    x_range = _range(xs, is_log=chart.is_log_x)
    y_range = chart.y_range or _range(ys, is_log=chart.is_log_y, from_zero=not chart.is_log_y)
    across = _scale(x_range, (_LEFT, _WIDTH - _RIGHT), is_log=chart.is_log_x)
    up = _scale(y_range, (_HEIGHT - _BOTTOM, _TOP), is_log=chart.is_log_y)
    parts = [*_axes(chart, x_range, y_range, across, up)]
    for band in chart.bands:
        there = [f"{across(x):.1f},{up(y):.1f}" for x, y in zip(band.x, band.high, strict=True)]
        back = [f"{across(x):.1f},{up(y):.1f}" for x, y in zip(band.x, band.low, strict=True)]
        parts.append(f'<polygon class="band" points="{" ".join([*there, *reversed(back)])}"/>')
    for number, line in enumerate(chart.lines):
        points = [(across(x), up(y)) for x, y in zip(line.x, line.y, strict=True)]
        pattern = "5 4" if line.is_dashed else _DASHES[number // 2 % len(_DASHES)]
        dashed = f' stroke-dasharray="{pattern}"' if pattern else ""
        parts.append(f'<path class="line c{number % _COLOURS}" d="{_path(points, chart.style)}"{dashed}/>')
    return _frame(chart.id, chart.title, chart.description, _HEIGHT, parts) + _legend(chart)


def _path(points: Sequence[tuple[float, float]], style: str) -> str:
    words = []
    for place, (x, y) in enumerate(points):
        if place and style == "steps":
            words.append(f"H{x:.1f}")
        words.append(f"{'L' if place else 'M'}{x:.1f} {y:.1f}")
    return "".join(words)


def _axes(
    chart: Chart, x_range: tuple[float, float], y_range: tuple[float, float], across: Scale, up: Scale
) -> list[str]:
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in _ticks(y_range, is_log=chart.is_log_y):
        y = up(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
        parts.append(
            f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>'
        )
    for tick in _ticks(x_range, is_log=chart.is_log_x):
        x = across(tick)
        parts.append(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 17}" text-anchor="middle">{_number(tick)}</text>'
        )
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>')
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text class="label" x="{middle:.0f}" y="{_HEIGHT - 8}" text-anchor="middle">'
        f"{escape(chart.x_label)}</text>"
    )
    height = (_TOP + bottom) / 2
    parts.append(
        f'<text class="label" transform="translate(14 {height:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(chart.y_label)}</text>"
    )
    return parts


def _bars(chart: Bars) -> str:
    row, left = 34, 230
    height = _TOP + row * len(chart.names) + 34
    reached = [*chart.amounts, *chart.high, *((chart.mark,) if chart.mark is not None else ())]
    top = max((value for value in reached if math.isfinite(value)), default=1.0) or 1.0
    across = _scale((0.0, top * 1.08), (left, _WIDTH - 70), is_log=False)
    parts = []
    for place, (name, amount) in enumerate(zip(chart.names, chart.amounts, strict=True)):
        y = _TOP + row * place
        width = max(across(min(amount, top)) - left, 0.5)
        parts.append(
            f'<text class="label" x="{left - 8}" y="{y + 20}" text-anchor="end">{escape(name)}</text>'
        )
        parts.append(f'<rect class="bar c0" x="{left}" y="{y + 6}" width="{width:.1f}" height="20" rx="3"/>')
        end = across(min(chart.high[place], top)) if chart.high else left + width
        if chart.high:
            start = across(chart.low[place])
            parts.append(f'<path class="whisker" d="M{start:.1f} {y + 16}H{end:.1f}"/>')
        said = chart.notes[place] if chart.notes else _number(amount)
        parts.append(
            f'<text class="tick" x="{max(end, left + width) + 6:.1f}" y="{y + 20}">{escape(said)}</text>'
        )
    bottom = _TOP + row * len(chart.names)
    if chart.mark is not None:
        x = across(chart.mark)
        parts.append(f'<path class="mark" d="M{x:.1f} {_TOP}V{bottom}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">'
            f"{escape(chart.mark_name)}</text>"
        )
    parts.append(
        f'<text class="label" x="{(left + _WIDTH - 70) / 2:.0f}" y="{height - 4}" text-anchor="middle">'
        f"{escape(chart.unit)}</text>"
    )
    return _frame(chart.id, chart.title, chart.description, height, parts)


def _frame(identity: str, title: str, description: str, height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="{identity}-t {identity}-d">'
        f'<title id="{identity}-t">{escape(title)}</title>'
        f'<desc id="{identity}-d">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _legend(chart: Chart) -> str:
    names = [(f"c{place % _COLOURS}", line.name) for place, line in enumerate(chart.lines)]
    names += [("band", band.name) for band in chart.bands]
    if len(names) < 2:
        return ""
    items = "".join(f'<li><span class="key {kind}"></span>{escape(name)}</li>' for kind, name in names)
    return f'<ul class="legend">{items}</ul>'


def _range(values: Sequence[float], *, is_log: bool, from_zero: bool = False) -> tuple[float, float]:
    usable = [value for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    if not usable:
        return (0.1, 1.0) if is_log else (0.0, 1.0)
    low, high = min(usable), max(usable)
    if is_log:
        return (low / 2, high * 2) if low == high else (low, high)
    low = min(low, 0.0) if from_zero else low
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _scale(values: tuple[float, float], places: tuple[float, float], *, is_log: bool) -> Scale:
    low, high = (math.log(value) for value in values) if is_log else values
    start, end = places

    def scale(value: float) -> float:
        value = math.log(max(value, 1e-300)) if is_log else value
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return start + share * (end - start)

    return scale


def _ticks(values: tuple[float, float], *, is_log: bool) -> list[float]:
    low, high = values
    if is_log:
        powers = range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
        every = max(len(powers) // 6, 1)
        return [10.0**power for power in powers][::every]
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((unit * factor for factor in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    first = math.ceil(low / step - 1e-9)
    return [step * place for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1e5 or abs(value) < 1e-3:
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.4g}"
