"""The first settings of `benchmarks.accounting_fuzz`, for as long as a test may take.

python -m benchmarks.accounting_fuzz --count 10000    # the whole run
"""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
import pytest

_SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "accounting_fuzz.py"
_SECONDS = 1  # of a shard, by the clock of the process
_SHARD = 40
_LEAST = 3  # settings that a shard gets through even on a slow machine


@pytest.fixture(scope="module")
def fuzz():
    spec = importlib.util.spec_from_file_location("accounting_fuzz", _SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accounting_fuzz"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shard", range(4))
@pytest.mark.thorough
def test_random_settings_give_a_bracket_without_warning_or_contradiction(fuzz, shard: int):
    start = time.process_time()
    for done, number in enumerate(range(shard * _SHARD, (shard + 1) * _SHARD), start=1):
        setting = fuzz.random_setting(np.random.default_rng([2, number]))
        assert not (failures := fuzz.check(setting).failures), f"setting {number}: {failures}\n{setting}"
        if time.process_time() - start > _SECONDS and done >= _LEAST:
            break


def test_planted_upper_bound_that_is_too_low_is_seen(fuzz, monkeypatch: pytest.MonkeyPatch):
    setting = fuzz.random_setting(np.random.default_rng([2, 0]))
    honest = fuzz.tight

    def too_low(*args, **options):
        found = honest(*args, **options)
        return found._replace(lower=found.lower * 0.98, upper=found.lower * 0.99)

    monkeypatch.setattr(fuzz, "tight", too_low)
    assert any("above the upper bound" in failure for failure in fuzz.check(setting).failures)
