"""Pictures made of characters, for terminals."""

from __future__ import annotations

import math
from collections.abc import Sequence

_EIGHTHS = " ▁▂▃▄▅▆▇█"


def draw_curve(
    x: Sequence[float], y: Sequence[float], *, x_name: str, y_name: str, width: int = 60, height: int = 8
) -> str:
    """A curve as columns of blocks, with its axes named; values that are not finite leave a gap.

    >>> print(draw_curve([0, 1, 2], [0, 1, 2], x_name="epochs", y_name="epsilon", width=3, height=2))
    epsilon
      2 │  █
        │ ██
        └───
         0 to 2 epochs
    """
    columns = [_interpolate(x, y, x[0] + (x[-1] - x[0]) * i / max(width - 1, 1)) for i in range(width)]
    top = max((value for value in columns if math.isfinite(value)), default=0.0) or 1.0
    label = f"{top:.3g}"
    margin = max(len(label), 3)
    lines = [y_name]
    for row in range(height, 0, -1):
        cells = "".join(_cell(value / top * height - (row - 1)) for value in columns)
        lines.append(f"{label if row == height else '':>{margin}} │{cells}".rstrip())
    lines.append(f"{'':>{margin}} └{'─' * width}")
    lines.append(f"{'':>{margin}}  {x[0]:.4g} to {x[-1]:.4g} {x_name}")
    return "\n".join(lines)


def _cell(fill: float) -> str:
    if not math.isfinite(fill):
        return " "
    return _EIGHTHS[min(max(math.ceil(fill * 8 - 1e-9), 0), 8)]


def _interpolate(x: Sequence[float], y: Sequence[float], at: float) -> float:
    for left, right, low, high in zip(x, x[1:], y, y[1:], strict=False):
        if left <= at <= right:
            share = (at - left) / (right - left) if right > left else 0.0
            return low + share * (high - low)
    return y[-1]
