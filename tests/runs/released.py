"""What runs released, counted from the diary of the processes that made them: not from what they record.

An entry says who (the number of a process) did what:

    noise     drew the noise of preparation            load      read this checkpoint, or none
    steps     drew the noise of steps first..stop-1    writing   is about to give a file its name
    said      told somebody a line                     written   has done so
    seen      (the parent) found this file after a kill

A result is released once a file with it has its name, or a line about it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

Entry = Mapping[str, Any]


class Released(NamedTuple):
    """Which processes drew what was released: one each, unless something was released twice.

    preparation: of what was found about the table. steps: of each step of training.
    too_early: lines that were said before what they tell was on the disk.
    """

    preparation: set[int]
    steps: dict[int, set[int]]
    too_early: list[str]

    @property
    def twice(self) -> list[str]:
        """What was drawn by two processes and released by both."""
        names = ["preparation"] if len(self.preparation) > 1 else []
        return names + [f"step {step}" for step, who in sorted(self.steps.items()) if len(who) > 1]


def released(diary: Iterable[Entry]) -> Released:
    found = Released(set(), {}, [])
    drawn: dict[int, dict[int, int]] = {}  # by process: who drew each step that its state is made of
    looked: set[int] = set()  # processes that drew the noise of preparation
    made_of: dict[str, dict[int, int]] = {}  # by content of a checkpoint or model
    found_by: dict[str, int] = {}  # by content of a domain
    for entry in diary:
        who, digest = entry["who"], entry.get("digest") or ""
        match entry["what"]:
            case "noise":
                looked.add(who)
            case "load":
                drawn[who] = dict(made_of[digest]) if digest else {}
            case "steps":
                drawn.setdefault(who, {}).update((step, who) for step in range(entry["first"], entry["stop"]))
            case "writing" if entry["name"] in ("checkpoint", "model.safetensors"):
                steps = drawn.get(who, {})
                made_of[digest] = {step: steps[step] for step in steps if step < entry["step"]}
            case "writing" if entry["name"] == "domain.toml" and who in looked:
                found_by[digest] = who
            case "written" | "seen":
                for step, drawer in made_of.get(digest, {}).items():
                    found.steps.setdefault(step, set()).add(drawer)
                if digest in found_by:
                    found.preparation.add(found_by[digest])
            case "said":
                if entry["line"].startswith("found privately") and not entry["has_domain"]:
                    found.too_early.append(entry["line"])
                    found.preparation.add(who)
            case _:
                pass
    return found
