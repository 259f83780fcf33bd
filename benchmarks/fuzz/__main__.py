"""Feeds damaged files to every reader, guided by the code that they reach.

    python -m benchmarks.fuzz --seconds 120 --only csv,record,generator

needs atheris, which is not a dependency: pip install atheris. Each target starts from a valid specimen. A
reader may return or raise a `ReticentError`; anything else, 30 seconds or 4 GB is a finding. What was found
stays in the folder that is printed, and belongs into `tests/fuzz/test_damaged_files.py` once it is mended.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests" / "fuzz"


def main() -> int:
    arguments = _arguments()
    if importlib.util.find_spec("atheris") is None:
        print("This needs atheris, a fuzzer: pip install atheris", file=sys.stderr)
        return 1
    sys.path.insert(0, str(TESTS))
    import specimens  # pyright: ignore[reportMissingImports]
    from targets import TARGETS  # pyright: ignore[reportMissingImports]

    names = arguments.only.split(",") if arguments.only else list(TARGETS)
    if unknown := [name for name in names if name not in TARGETS]:
        print(f"There is no target '{unknown[0]}'. Available: {', '.join(TARGETS)}.", file=sys.stderr)
        return 1
    at = Path(tempfile.mkdtemp(prefix="reticent-fuzz-"))
    home = at / "home"
    home.mkdir()
    specimens.make(home)
    for folder in dict.fromkeys(TARGETS[name].folder for name in names):
        if folder is not None:
            specimens.make_run(home, folder)
    print(f"{'target':18}{'inputs':>10}{'branches':>10}  found")
    found = [name for name in names if _fuzz(name, home, at, arguments.seconds)]
    print(f"Kept in {at}." if found else "Nothing was found.")
    return int(bool(found))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="for each target")
    parser.add_argument("--only", default="", help="targets, separated by commas")
    return parser.parse_args()


def _fuzz(name: str, home: Path, at: Path, seconds: int) -> bool:
    """Fuzzes one target in a process of its own; says how far it got, and whether it found something."""
    room = at / name
    room.mkdir()
    words = [sys.executable, "-m", "benchmarks.fuzz.one", name, str(home), str(room), str(seconds)]
    log = room / "log"
    with log.open("wb") as file, suppress(subprocess.TimeoutExpired):
        # Threads of Arrow may hold up a process that is done: it has written its numbers by then.
        subprocess.run(words, stdout=file, stderr=file, check=False, timeout=seconds + 300)
    text = log.read_text(errors="replace")
    inputs = re.findall(r"^#(\d+)", text, re.MULTILINE)
    branches = re.findall(r"cov: (\d+)", text)
    what = re.findall(r"^(?:\w+\.)*(\w+(?:Error|Exception|Exhausted|Slow)\b.*)$", text, re.MULTILINE)
    is_wrong = any(room.glob("found-*")) or "stat::number_of_executed_units" not in text
    shown = (what or ["see the log"])[0][:60] if is_wrong else "nothing"
    print(f"{name:18}{(inputs or ['0'])[-1]:>10}{(branches or ['0'])[-1]:>10}  {shown}", flush=True)
    return is_wrong


if __name__ == "__main__":
    sys.exit(main())
