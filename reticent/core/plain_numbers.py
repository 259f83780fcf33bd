"""Numbers as people write them: 14,457 and 0.0031, not 1.446e+04."""

from __future__ import annotations

import math

_LARGEST, _SMALLEST = 1e15, 1e-9  # beyond these an exponent is easier to read


def plain_number(value: float, *, digits: int = 4) -> str:
    """A number with at least so many significant digits, thousands separated, and no exponent.

    >>> [plain_number(number) for number in (14457.3, 0.00312, -2.5, -0.0, 99.996, 1e300)]
    ['14,457', '0.00312', '-2.5', '0', '100', '1e+300']
    """
    if value == 0:
        return "0"  # of minus zero too
    if not math.isfinite(value):
        return f"{value:g}"
    if not (_SMALLEST <= abs(value) < _LARGEST):
        return f"{value:.{digits}g}"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    shown = f"{value:,.{places}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
