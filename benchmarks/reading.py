"""How fast and in how much memory a CSV file becomes arrays, beside what the disk and the parser allow.

    python -m benchmarks.reading

Writes covtype (581,012 rows: 10 numbers, wilderness, soil, label) as CSV into a temporary folder,
and reads it in fresh processes: by pyarrow alone, which parses and does nothing else, and by
`open_table` and `encode`. The data is looked for in the folder RETICENT_DATA, else in
../shared/data. Memory is read from /proc, so this runs on Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

from reticent.data.domain import Category, Column, Domain, Integer, Label
from reticent.data.encoding import encode
from reticent.data.files import open_table

REPEATS = 3  # fresh processes each; the fastest counts, the memory of the largest


def main() -> None:
    source = _shared_data() / "covtype" / "covtype.npz"
    if not source.is_file():
        print("reading: not measured, for there is no covtype/covtype.npz in RETICENT_DATA or ../shared/data")
        return
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "covtype.csv"
        write_covtype(source, table)
        plain, ours = _best("parse_only", table), _best("read_and_encode", table)
    rows, encoded = ours["rows"], ours["encoded"]
    print(f"covtype.csv: {rows:,} rows, {ours['file'] / 1e6:.1f} MB of text")
    print(f"pyarrow.csv.read_csv alone   {plain['seconds']:6.2f} s")
    print(f"open_table + encode          {ours['seconds']:6.2f} s   {rows / ours['seconds']:,.0f} rows/s")
    print(f"encoded arrays               {encoded / 1e6:6.1f} MB")
    ratio = ours["grown"] / encoded
    print(f"peak memory over imports     {ours['grown'] / 1e6:6.1f} MB, {ratio:.2f} x the arrays")


def covtype_domain() -> Domain:
    """What the dataset's own documentation says: 4 areas, 40 soils, 7 kinds of forest."""
    columns: dict[str, Column] = {f"n{i}": Integer(bounds=(-1000, 8000)) for i in range(10)}
    columns["wilderness"] = Category(values=tuple(str(code) for code in range(1, 5)))
    columns["soil"] = Category(values=tuple(str(code) for code in range(1, 41)))
    columns["label"] = Label(values=tuple(str(code) for code in range(1, 8)))
    return Domain(columns=columns, target="label")


def write_covtype(source: Path, path: Path) -> None:
    with np.load(source) as arrays:
        columns = {f"n{i}": arrays["numeric"][:, i] for i in range(10)}
        columns |= {name: arrays[name] for name in ("wilderness", "soil", "label")}
    csv.write_csv(pa.table(columns), path)


def parse_only(path: Path) -> dict[str, Any]:
    start = time.perf_counter()
    table = csv.read_csv(path)
    return {"seconds": time.perf_counter() - start, "rows": table.num_rows}


def read_and_encode(path: Path) -> dict[str, Any]:
    domain = covtype_domain()
    before, start = _memory("VmRSS"), time.perf_counter()
    data = encode(open_table(path), domain)
    seconds = time.perf_counter() - start
    return {
        "seconds": seconds,
        "rows": len(data),
        "encoded": sum(array.nbytes for array in data.arrays.values()),
        "grown": _memory("VmHWM") - before,
        "file": path.stat().st_size,
    }


def _shared_data() -> Path:
    named = os.environ.get("RETICENT_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def _best(what: str, path: Path) -> dict[str, Any]:
    """One of the functions above, each time in a process of its own so that memory peaks are its own."""
    command = [sys.executable, "-m", "benchmarks.reading", what, str(path)]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(REPEATS)
    ]
    best = min(runs, key=lambda run: run["seconds"])
    return best | {"grown": max(run.get("grown", 0) for run in runs)}


def _memory(what: str) -> int:
    """Bytes of this process: "VmRSS" for now, "VmHWM" for the most it ever held.

    Not `resource.getrusage`: on Linux a fresh process inherits the peak of the one that started it.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(what)).split()[1])


_PARTS = {"parse_only": parse_only, "read_and_encode": read_and_encode}

if __name__ == "__main__":
    if len(sys.argv) == 3:
        print(json.dumps(_PARTS[sys.argv[1]](Path(sys.argv[2]))))
    else:
        main()
