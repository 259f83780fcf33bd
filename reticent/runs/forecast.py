"""What to expect of an additive model, by what is public: how models did on other tables.

The figures are those of `make bench-strangers`, which writes them into docs/benchmarks/strangers.md.
"""

from __future__ import annotations

from typing import NamedTuple


class Expected(NamedTuple):
    """How the scores of private models differed from those of linear models without privacy.

    Args:
        signal: rows times epsilon, by column, from which on this was so.
        low, high: between these were the middle four fifths of the differences, of AUROC or R2.
    """

    signal: float
    low: float
    high: float


EXPECTED: tuple[Expected, ...] = (
    Expected(0.0, -0.5, -0.03),
    Expected(100.0, -0.15, 0.02),
    Expected(300.0, -0.06, 0.06),
    Expected(1000.0, -0.02, 0.05),
    Expected(3000.0, 0.0, 0.08),
    Expected(10000.0, -0.01, 0.3),
)


def forecast(*, rows: int, columns: int, epsilon: float) -> str:
    """What to expect of an additive model with so many rows, columns and so large an epsilon."""
    signal = rows * epsilon / max(columns, 1)
    found = [each for each in EXPECTED if each.signal <= signal]
    if not found:
        return ""
    low, high = found[-1].low, found[-1].high
    return (
        "On public tables with about as many rows per column and such an epsilon, AUROC or R2 was mostly "
        f"between {_difference(low)} and {_difference(high)} that of a linear model without privacy."
    )


def _difference(value: float) -> str:
    return f"{abs(value):.2f} {'below' if value < 0 else 'above'}"
