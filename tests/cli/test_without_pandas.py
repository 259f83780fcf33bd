"""Arrow would import pandas for every table that a command reads."""

from __future__ import annotations

import sys

import pytest

from reticent.cli.without_pandas import leave_pandas_out


@pytest.mark.parametrize(("words", "is_there"), [(["train", "t.csv"], False), (["attack", "run"], True)])
def test_commands_on_tables_do_without_pandas(
    monkeypatch: pytest.MonkeyPatch, words: list[str], is_there: bool
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    with monkeypatch.context() as gone:
        for name in [each for each in sys.modules if each.split(".")[0] == "pandas"]:
            gone.delitem(sys.modules, name)
        leave_pandas_out(words)
        refused = [each for each in sys.meta_path if type(each).__module__ == leave_pandas_out.__module__]
        assert bool(refused) is not is_there
        if not is_there:
            with pytest.raises(ModuleNotFoundError, match="do without pandas"):
                __import__("pandas")
