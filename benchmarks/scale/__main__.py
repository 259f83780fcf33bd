"""Beyond one machine, measured on one: throughput, communication, memory, and the constants of a model.

python -m benchmarks.scale                           everything, about ten minutes; needs 14 GB on the disk
python -m benchmarks.scale --quick                   small sizes, to try it out: its numbers mean nothing
python -m benchmarks.scale --only streamed --folder FOLDER
python -m benchmarks.scale --write docs/scale.md --json scale.json

Files are made below --folder, in a folder whose name begins with `reticent-bench-scale-`, and removed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.scale import communication, constants, memory, page, prediction, throughput
from benchmarks.training.tables import Section

PARTS = ("throughput", "communication", "streamed", "encoded", "constants", "accounting")


def main() -> None:
    options = _options()
    started = time.perf_counter()
    sections, raw = [], {}
    for name, (section, numbers) in _measured(options, raw):
        print(f"\n{section.markdown()}\n\n({time.perf_counter() - started:.0f} s so far)", flush=True)
        sections.append(section)
        raw[name] = numbers
    minutes = (time.perf_counter() - started) / 60
    checks = [check for section in sections for check in section.checks]
    met = sum(check.is_met is True for check in checks)
    print(f"\n{met} of {len(checks)} bars met, {minutes:.1f} minutes")
    if options.write:
        tables = page.written(sections, minutes=minutes, remark=options.remark, command=_command(options))
        page.put_into(options.write, "measured", tables)
        page.put_into(options.write, "model", page.source_of_model())
        if "constants" in raw:
            here = constants.device(raw["constants"], "mlp")
            page.put_into(options.write, "constants", page.constants_as_python(here))
    if options.json:
        rows = [{**check._asdict(), "is_met": check.is_met} for check in checks]
        options.json.write_text(json.dumps({"checks": rows, "raw": raw}, indent=1) + "\n")
    sys.exit(0 if met == len(checks) else 1)


def _measured(
    options: argparse.Namespace, raw: dict[str, Any]
) -> Iterator[tuple[str, tuple[Section, dict[str, Any]]]]:
    """One part after the other; later ones look at what earlier ones found."""
    wanted, quick = set(options.only or PARTS), options.quick
    if "throughput" in wanted:
        yield "throughput", throughput.measure(quick=quick)
    if "communication" in wanted:
        yield "communication", communication.measure(quick=quick)
    if "streamed" in wanted:
        yield "streamed", memory.streamed(options.folder, quick=quick)
    if "encoded" in wanted:
        yield "encoded", memory.encoded(options.folder, quick=quick)
    if "constants" in wanted:
        yield "constants", constants.measure(quick=quick, reading=raw.get("streamed", {}).get("reading"))
    if "throughput" in raw and "constants" in raw:
        yield "model", constants.beside_measured(raw["constants"], raw["throughput"])
    if "accounting" in wanted:
        yield "accounting", prediction.accounted()
        here = constants.device(raw["constants"], "mlp") if "constants" in raw else None
        yield "prediction", prediction.predicted(here)


def _command(options: argparse.Namespace) -> str:
    """The command that makes the tables again, without the paths of one machine."""
    words = ["python -m benchmarks.scale", *(f"--only {name}" for name in options.only or ())]
    return " ".join([*words, *["--quick"] * options.quick, "--write docs/scale.md"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=PARTS, help="a part; may be given again")
    parser.add_argument("--quick", action="store_true", help="small sizes: to try it out")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where files are made"
    )
    parser.add_argument("--remark", default="", help="a sentence for the page, such as: Beside other work.")
    parser.add_argument("--write", type=Path, help="put the tables between the marks of this Markdown file")
    parser.add_argument("--json", type=Path, help="write every answer to this file")
    return parser.parse_args()


if __name__ == "__main__":
    main()
