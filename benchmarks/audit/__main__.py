"""Audits beside those of jax-privacy.

python -m benchmarks.audit                      everything; writes tables to stdout
python -m benchmarks.audit --json               the numbers behind them
python -m benchmarks.audit --only planted       one part: coverage, descent or planted
python -m benchmarks.audit --no-peer            without making the peer's environment
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.audit import coverage, descent, planted_bugs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only", choices=["coverage", "descent", "planted"])
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--peer-trials", type=int, default=40)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--canaries", type=int, default=60_000)
    parser.add_argument("--write", type=Path)
    asked = parser.parse_args()
    parts = {
        "coverage": lambda: coverage.measure(asked.trials, 0 if asked.no_peer else asked.peer_trials),
        "descent": lambda: descent.measure(asked.canaries, not asked.no_peer),
        "planted": lambda: planted_bugs.measure(asked.runs),
    }
    chosen = [asked.only] if asked.only else list(parts)
    found = {name: parts[name]() for name in chosen}
    if asked.json:
        print(json.dumps({name: raw for name, (_, raw) in found.items()}, indent=1))
        return
    page = "# Audits, measured\n\n" + "\n\n".join(section.markdown() for section, _ in found.values()) + "\n"
    print(page)
    if asked.write:
        asked.write.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
