"""The notebooks run from their top to their end, as Jupyter runs them: cell by cell, in one namespace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def code_of(path: Path) -> list[str]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.thorough
def test_a_notebook_runs_from_its_top_to_its_end(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(code_of(path)):
        exec(compile(cell, f"{path.name}, cell {number}", "exec"), namespace)


def test_notebooks_are_described_and_hold_no_outputs():
    assert len(NOTEBOOKS) >= 3
    described = (FOLDER / "README.md").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        assert f"]({path.name})" in described
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert notebook["nbformat"] == 4
        for cell in notebook["cells"]:
            assert not cell.get("outputs"), (
                f"{path.name}: an output may hold somebody's rows, and grows stale"
            )
            assert not cell.get("execution_count")
