"""Arrow's functions on columns.

They are made when Arrow is imported, so no type checker can see them; here they are, typed as anything.
"""

from __future__ import annotations

from typing import Any

from pyarrow import compute as _compute

compute: Any = _compute
