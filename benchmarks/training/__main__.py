"""Private training beside its peers, in one interleaved run: time, memory, sampling, first step, growth.

python -m benchmarks.training                                   everything; makes the peers' environments
python -m benchmarks.training --only cnn-256 --peers none       one case, ours beside plain JAX
python -m benchmarks.training --write docs/benchmarks/training.md --json training.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.training import ourselves, step_time
from benchmarks.training.cases import CASES
from benchmarks.training.environments import PEERS, default_folder, interpreter
from benchmarks.training.tables import Section

PARTS = ("memory", "sampling", "first-step", "growth")


def main() -> None:
    options = _options()
    started = time.perf_counter()
    chosen = PEERS if options.peers == "all" else {k: v for k, v in PEERS.items() if k == options.peers}
    pythons = {name: interpreter(peer, options.environments) for name, peer in chosen.items()}
    sections, raw = [], {}
    for name, (section, numbers) in _measured(options, pythons):
        print(f"\n{section.markdown()}", flush=True)
        sections.append(section)
        raw[name] = numbers
    minutes = (time.perf_counter() - started) / 60
    checks = [check for section in sections for check in section.checks]
    print(
        f"\n{sum(check.is_met is True for check in checks)} of {len(checks)} bars met, {minutes:.0f} minutes"
    )
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(_page(sections, options, minutes))
    if options.json:
        rows = [{**check._asdict(), "is_met": check.is_met} for check in checks]
        options.json.write_text(json.dumps({"checks": rows, "raw": raw}, indent=1))


def _measured(options: argparse.Namespace, pythons: dict[str, Path]) -> Iterator[tuple[str, Any]]:
    rounds, seconds = options.rounds, 0.2 if options.quick else 1.5
    wanted = set(options.only or [*PARTS, *(case.name for case in CASES)])
    cases = [case for case in CASES if case.name in wanted]
    parts: dict[str, Callable[[], Any]] = {
        "memory": lambda: ourselves.memory(min(rounds, 2), seconds),
        "sampling": lambda: ourselves.sampling(rounds, seconds),
        "first-step": lambda: ourselves.first_step(min(rounds, 3)),
        "growth": lambda: ourselves.growth(min(rounds, 5), seconds),
    }
    if cases:
        section, answers = step_time.measure(cases, pythons, rounds, seconds)
        yield "steps", (section, answers)
        yield "reach", step_time.reach(answers, min(rounds, 3), seconds)
    for name, part in parts.items():
        if name in wanted:
            yield name, part()


def _page(sections: list[Section], options: argparse.Namespace, minutes: float) -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    head = (
        "# Private training, measured\n\n"
        f"Written by `{_command(options)}` on "
        f"{datetime.date.today()}, with {options.rounds} rounds in {minutes:.0f} minutes, on a machine with "
        f"{cores} {platform.machine()} cores and no accelerator, Python {platform.python_version()}. Every "
        "implementation is a process of its own, and they take turns, so that a busy machine slows all. "
        "All keep the memory that they free (`GLIBC_TUNABLES`; set it empty to see what that is worth)."
    )
    return "\n\n".join([head, *(section.markdown() for section in sections)]) + "\n"


def _command(options: argparse.Namespace) -> str:
    """The command that makes the page again, without the paths of one machine."""
    words = ["python -m benchmarks.training"]
    words += [f"--only {name}" for name in options.only or ()]
    words += [f"--peers {options.peers}"] * (options.peers != "all") + ["--quick"] * options.quick
    return " ".join([*words, f"--rounds {options.rounds}", "--write docs/benchmarks/training.md"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*(case.name for case in CASES), *PARTS]
    parser.add_argument("--only", action="append", choices=names, help="a case or a part; may be given again")
    parser.add_argument("--peers", choices=["none", *PEERS, "all"], default="all")
    parser.add_argument("--rounds", type=int, help="turns of each worker (9)")
    parser.add_argument("--quick", action="store_true", help="2 rounds of short turns: to try it out")
    parser.add_argument("--environments", type=Path, default=default_folder(), help="where the peers live")
    parser.add_argument("--write", type=Path, help="write the tables to this Markdown file")
    parser.add_argument("--json", type=Path, help="write every answer to this file")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 9)
    return options


if __name__ == "__main__":
    sys.exit(main())
