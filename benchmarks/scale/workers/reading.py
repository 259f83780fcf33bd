"""Random rows of a file on disk, by `pread`, as training reads them."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.scale.workers.telling import asked, say
from reticent.data.disk_rows import DiskRows


def main() -> None:
    wanted = asked()
    x = np.load(wanted["x"], mmap_mode="r")
    draw, batch = np.random.default_rng(1), wanted["batch"]
    out = np.empty((batch, *x.shape[1:]), x.dtype)
    with DiskRows({"x": x}) as rows:
        start = time.perf_counter()
        for _ in range(wanted["batches"]):
            rows.take(draw.integers(0, len(x), batch), {"x": out})
        seconds = time.perf_counter() - start
    say(rows=batch * wanted["batches"] / seconds, bytes=x.nbytes // len(x))


if __name__ == "__main__":
    main()
