"""Memory and time as a file on disk grows, with rows streamed from arrays or encoded from a table."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.scale.asking import answer_of, watched_answer_of
from benchmarks.scale.files import arrays, folder_with_room, forget, parquet
from benchmarks.training.tables import Check, Section, shown

_FLAT = 1.10  # the memory of the largest over that of the smallest
_LINEAR = 1.25  # the time of a step of the largest over that of the smallest
_GROWTH = (1, 4, 16)


class Size(NamedTuple):
    rows: int  # of the smallest file
    width: int
    batch: int
    fixed: int  # steps, whatever the size

    def bytes(self, times: int) -> int:
        return self.rows * times * self.width * 4


TEXT = """`rt.train` of a linear model on rows of {width} float32 in `.npy` files, memory-mapped, B =
{batch}, the usual buffer of 268 MB. Files are written in blocks, taken out of the kernel's cache before
each run, and removed. Each run is a process of its own: {fixed} steps, and an epoch's worth. Seconds a
step are counted after the first compiled call. In equally many steps, rows of a small
file come from the kernel's cache more often: those times are shown and not compared."""


def streamed(parent: Path, *, quick: bool) -> tuple[Section, dict[str, Any]]:
    size = Size(6_912, 3072, 128, 24) if quick else Size(55_296, 3072, 1024, 40)
    raw: list[dict[str, Any]] = []
    reading: dict[str, Any] = {}
    with folder_with_room(parent, size.bytes(_GROWTH[-1]) * 5 // 4) as folder:
        for times in _GROWTH:
            rows = size.rows * times
            with arrays(folder, rows, size.width) as files:
                for kind, steps in (("fixed", size.fixed), ("epoch", rows // size.batch)):
                    forget(files["x"])
                    asked = {"files": files, "batch": size.batch, "steps": steps}
                    if quick:
                        asked["buffer"] = 1 << 25
                    answer = watched_answer_of("streamed", asked)
                    raw.append(
                        {"times": times, "kind": kind, "bytes": size.bytes(times), "asked": steps, **answer}
                    )
                if times == _GROWTH[-1]:
                    reading = _reading(files["x"], size.batch)
    text = TEXT.format(width=f"{size.width:,}", batch=size.batch, fixed=size.fixed)
    rows = [
        (
            f"{run['times']}x, {run['bytes'] / 1e9:.2f} GB",
            str(run["asked"]),
            f"{run['peak']:,.0f}",
            f"{run['anonymous']:,.0f}",
            shown(run["seconds"] / run["steps"] * 1000),
            f"{run['total']:.1f}",
        )
        for run in raw
    ]
    header = ("file", "steps", "peak MB", "of it anonymous", "ms per step", "seconds in all")
    checks = [*_checks(raw), Check("largest file", size.bytes(_GROWTH[-1]) / 1e9, ">=", 10, "GB")]
    return Section("Rows on disk", text, header, rows, checks), {"runs": raw, "reading": reading}


def _reading(path: str, batch: int) -> dict[str, Any]:
    asked = {"x": path, "batch": batch, "batches": 40}
    forget(path)
    cold = answer_of("reading", asked)
    warm = answer_of("reading", asked)  # the same rows
    return {"cold": cold, "warm": warm}


def _checks(raw: list[dict[str, Any]]) -> list[Check]:
    checks = []
    for kind in ("fixed", "epoch"):
        small, large = (
            next(r for r in raw if r["kind"] == kind and r["times"] == t) for t in (1, _GROWTH[-1])
        )
        name = f"{kind if kind == 'epoch' else 'equally many'} steps, 16x / 1x"
        checks.append(Check(f"{name}: peak memory", large["peak"] / small["peak"], "<=", _FLAT))
        if kind == "epoch":
            ratio = (large["seconds"] / large["steps"]) / (small["seconds"] / small["steps"])
            checks.append(Check(f"{name}: time of a step", ratio, "<=", _LINEAR))
    return checks


ENCODED = """`reticent train` on a Parquet file of {width} numbers and a label, under a
declared domain, made to believe that no table fits into the memory: rows are encoded to a scratch folder
once, then streamed. The recipe is that of the command: 200 steps, B = 4096. Preparing is everything before
the first step, the pricing and the digest of the table too."""


def encoded(parent: Path, *, quick: bool) -> tuple[Section, dict[str, Any]]:
    base, width = (375_000 if quick else 1_500_000), 64
    raw: list[dict[str, Any]] = []
    with folder_with_room(parent, base * 4 * width * 4 * 3) as folder:
        for times in _GROWTH[:2]:
            with parquet(folder, base * times, width) as files:
                run = folder / "run"
                answer = watched_answer_of(
                    "encoded", {**files, "folder": str(run)}, environment={"TMPDIR": str(folder)}
                )
                shutil.rmtree(run)
            raw.append({"times": times, "rows": base * times, "bytes": base * times * width * 4, **answer})
    rows = [
        (
            f"{run['times']}x, {run['rows']:,} rows, {run['bytes'] / 1e9:.2f} GB encoded",
            f"{run['peak']:,.0f}",
            f"{run['anonymous']:,.0f}",
            f"{run['preparing']:.1f}",
            f"{run['seconds']:.1f}",
        )
        for run in raw
    ]
    header = ("table", "peak MB", "of it anonymous", "preparing, s", "in all, s")
    small, large = raw
    checks = [
        Check("4x / 1x: peak memory", large["peak"] / small["peak"], "<=", _FLAT),
        Check("4x / 1x: time to prepare, over 4", large["preparing"] / small["preparing"] / 4, "<=", _LINEAR),
    ]
    return Section("A table on disk", ENCODED.format(width=width), header, rows, checks), {"runs": raw}
