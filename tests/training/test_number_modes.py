"""JAX may compute in 64 bits, or refuse to mix types of numbers: training works in both modes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("number_modes.py")


@pytest.mark.parametrize(
    ("kind", "promotion"),
    [("float32", "strict"), pytest.param("float64", "standard", marks=pytest.mark.thorough)],
)
def test_training_works_with_64_bits_and_strict_promotion(kind: str, promotion: str) -> None:
    """Parameters have 32 bits, so rows of 64 need the usual promotion."""
    modes = {"JAX_ENABLE" + "_X64": "1", "JAX_NUMPY_DTYPE_PROMOTION": promotion}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", SCRIPT, kind],
        env={**os.environ, **modes},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == f"trained float64 {promotion}\n", done.stderr[-3000:]
