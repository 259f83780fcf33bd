"""The page of seven models says how many lines each takes, and is right."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models.md"


def test_the_line_counts_of_the_models_are_those_of_their_snippets():
    text = PAGE.read_text(encoding="utf-8")
    said = {anchor: int(lines) for anchor, lines in re.findall(r"\]\(#([\w-]+)\) \| (\d+) \|", text)}
    found = {}
    for section in text.split("\n## ")[1:]:
        (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        title = section.splitlines()[0].lower().replace(" ", "-")
        found[re.sub(r"[^\w-]", "", title)] = len([line for line in code.splitlines() if line.strip()])
    assert len(found) == 7
    assert said == found
