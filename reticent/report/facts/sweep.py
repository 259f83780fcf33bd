"""A sweep as facts: what tighter accounting buys, and how far attacks stay below the bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from reticent.report.facts.facts import Chart, Facts, Line, RowsTable, Section, estimate
from reticent.runs.sweep import Cell, SweepRequest, as_rows

CAUTION = (
    "An attack that fails proves nothing: another may succeed, on other records, or tomorrow. Measured "
    "leakage is below the bound, often far below it; but a promise at epsilon 100 promises nothing, whatever "
    "these attacks find."
)


def sweep_facts(request: SweepRequest, cells: Sequence[Cell]) -> Facts:
    sections = []
    for model in request.models:
        own = [cell for cell in cells if cell.model == model]
        plain = next(cell for cell in own if cell.accounting == "none")
        sections.append(
            Section(
                id=f"model-{model}",
                title=f"{model}: {request.source}",
                values=(
                    estimate(
                        "accuracy without privacy", plain.accuracy or 0.0, form=".1%", note=_spread(plain)
                    ),
                ),
                charts=(_utility(request, model, own, plain), *_leakage(request, model, own)),
            )
        )
    sections.append(Section(id="table", title="Every cell", tables=(_table(cells),)))
    is_wrong = any(
        found["advantage"]["low"] > cell.bound for cell in cells for found in (cell.leakage or {}).values()
    )
    return Facts(
        title=f"Theory against practice: {request.source}",
        subtitle=f"{request.seeds} models per cell, at most {request.rows:,} rows, delta {request.delta:g}",
        verdict="An attack exceeds the bound: something is wrong."
        if is_wrong
        else "Every attack stays below the bound.",
        tone="bad" if is_wrong else "plain",
        lead=(
            "Each accounting method requires its own noise for the same promise. The tighter the method, the "
            "less noise it needs, and the more accuracy is left.",
            CAUTION,
        ),
        headline=tuple(_gain(cells, model) for model in request.models),
        sections=tuple(sections),
    )


def _gain(cells: Sequence[Cell], model: str) -> Any:
    """The most accuracy that the tightest accounting gains over the loosest that was tried."""
    best, at = 0.0, math.nan
    for epsilon in sorted({cell.epsilon for cell in cells if math.isfinite(cell.epsilon)}):
        found = [
            cell.accuracy
            for cell in cells
            if cell.model == model and cell.epsilon == epsilon and cell.accuracy is not None
        ]
        if found and max(found) - min(found) > best:
            best, at = max(found) - min(found), epsilon
    return estimate(
        f"accuracy gained by tight accounting, {model}",
        100 * best,
        form=".1f",
        note=f"percentage points, at epsilon {at:g}",
    )


def _utility(request: SweepRequest, model: str, cells: Sequence[Cell], plain: Cell) -> Chart:
    lines = []
    for method in request.accounting:
        known = [cell for cell in cells if cell.accounting == method and cell.accuracy is not None]
        x = tuple(cell.epsilon for cell in known)
        y = tuple(100 * max((plain.accuracy or 0.0) - (cell.accuracy or 0.0), 0.0) for cell in known)
        if x:
            lines.append(Line(name=method, x=x, y=y))
    return Chart(
        id=f"utility-{model}",
        title="Accuracy lost to privacy, by accounting method",
        description="; ".join(
            f"{line.name}: {line.y[0]:.0f} points at {line.x[0]:g}, {line.y[-1]:.0f} at {line.x[-1]:g}"
            for line in lines
        ),
        x_label="epsilon",
        y_label="accuracy lost, percentage points (estimate)",
        lines=tuple(lines),
        is_log_x=True,
    )


def _leakage(request: SweepRequest, model: str, cells: Sequence[Cell]) -> list[Chart]:
    """For the tightest method that was swept: it has the least noise, and leaks the most."""
    method = request.accounting[-1]
    known = [cell for cell in cells if cell.accounting == method and cell.leakage]
    if not known:
        return []
    x = tuple(cell.epsilon for cell in known)
    lines = [
        Line(
            name=name,
            x=x,
            y=tuple(max((cell.leakage or {})[name]["advantage"]["value"], 1e-3) for cell in known),
        )
        for name in request.attacks
    ]
    lines.append(Line(name="bound", x=x, y=tuple(cell.bound for cell in known), is_dashed=True))
    return [
        Chart(
            id=f"leakage-{model}",
            title=f"Advantage of attacks, and the bound on any attack (noise by '{method}')",
            description="; ".join(f"{line.name}: {line.y[0]:.3f} to {line.y[-1]:.3f}" for line in lines),
            x_label="epsilon",
            y_label="true-positive rate minus false-positive rate",
            lines=tuple(lines),
            is_log_x=True,
            is_log_y=True,
        )
    ]


def _table(cells: Sequence[Cell]) -> RowsTable:
    rows = as_rows(cells)
    headings = tuple(dict.fromkeys(key for row in rows for key in row))
    return RowsTable(
        title="Every cell (accuracies and leakage are estimates; noise and bound are not)",
        headings=headings,
        rows=tuple(tuple(_format_cell(row.get(key)) for key in headings) for row in rows),
    )


def _format_cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _spread(cell: Cell) -> str:
    return f"standard deviation between models: {100 * (cell.deviation or 0.0):.1f} points"
