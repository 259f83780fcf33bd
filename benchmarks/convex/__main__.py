"""Private linear models: a9a by every method, a search, a peer, and the time on covtype.

python -m benchmarks.convex                      everything, 5 seeds; makes the peer's environment
python -m benchmarks.convex --only methods       one part; may be given again
python -m benchmarks.convex --write docs/benchmarks/convex.md --json convex.json

A part that is not run keeps its place on the page if FILE.json has it from an earlier run.
Seeds are for benchmarks: whoever knows one can subtract the noise. A real run takes no seed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks.convex import census, datasets, timing
from benchmarks.training.environments import default_folder
from benchmarks.training.tables import Check, Section
from reticent import __version__

PARTS = ("methods", "chain", "search", "peer", "timing")


def main() -> None:
    options = _options()
    every = {
        "methods": lambda: census.methods(options.seeds),
        "chain": lambda: census.chain(options.seeds),
        "search": lambda: census.search(options.seeds),
        "peer": lambda: census.peer(options.seeds, options.environments),
        "timing": lambda: timing.timing(),
    }
    kept: dict[str, Any] = {}
    if options.json and options.json.is_file():
        kept = json.loads(options.json.read_text())
    for name in options.only or PARTS:
        try:
            section, raw = every[name]()
        except datasets.NotHere as error:
            print(f"{name}: not measured, for {error}")
            continue
        print(f"\n{section.markdown()}", flush=True)
        kept[name] = {"section": section, "raw": raw}
        if options.json:
            options.json.write_text(json.dumps(kept, indent=1) + "\n")
    sections = [_section(kept[name]["section"]) for name in PARTS if name in kept]
    checks = [check for section in sections for check in section.checks]
    met = sum(check.is_met is True for check in checks)
    print(f"\n{met} of {len(checks)} bars met")
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(_page(sections, options.seeds))
    sys.exit(0 if met == len(checks) else 1)


def _section(stored: Any) -> Section:
    """A section as it was, or as JSON brought it back."""
    title, text, header, rows, checks = stored
    return Section(title, text, header, rows, [Check(*check) for check in checks])


def _page(sections: list[Section], seeds: int) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    command = f"python -m benchmarks.convex --seeds {seeds} --write docs/benchmarks/convex.md"
    head = (
        "# Private linear models, measured\n\n"
        f"Written by `{command}` on {datetime.date.today()}, on a machine with {cores} {platform.machine()} "
        f"cores and no accelerator, Python {platform.python_version()}, reticent {__version__}. Methods and "
        "proofs: [convex.md](../convex.md)."
    )
    return "\n\n".join([head, *(section.markdown() for section in sections)]) + "\n"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.convex",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be given again")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--environments", type=Path, default=default_folder(), help="where the peer lives")
    parser.add_argument("--write", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--json", type=Path, metavar="FILE.json", help="keep every part here")
    return parser.parse_args()


if __name__ == "__main__":
    main()
