"""The peer of `benchmarks.synthetic`: MST or AIM of OpenDP, run by the Python of its own environment.

python synthetic_opendp.py CODES.npz OUT.npz ALGORITHM RHO

`codes` (rows, columns) and `sizes` come in; `codes` of as many rows go out, sampled independently, and by the
library's default method ("round"), and how long it took.
"""

import resource
import sys
import time

import numpy as np
import opendp.prelude as dp  # pyright: ignore[reportMissingImports]
import polars as pl  # pyright: ignore[reportMissingImports]


def main() -> None:
    source, out, algorithm, rho = sys.argv[1:]
    given = np.load(source)
    codes, sizes = given["codes"], given["sizes"].tolist()
    names = [f"c{column:02d}" for column in range(len(sizes))]
    dp.enable_features("contrib")
    started = time.perf_counter()
    context = dp.Context.compositor(
        data=pl.LazyFrame({name: codes[:, at].astype(np.int64) for at, name in enumerate(names)}),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=float(rho)),
    )
    keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
    chosen = {"mst": dp.mbi.MST, "aim": dp.mbi.AIM}[algorithm]()
    table = context.query(rho=float(rho)).contingency_table(keys=keys, algorithm=chosen).release()
    seconds = time.perf_counter() - started
    made = {}
    for method in ("sample", "round"):
        rows = table.synthesize(rows=len(codes), method=method)
        made[method] = np.stack([rows[name].fill_null(0).to_numpy() for name in names], axis=1)
    used = resource.getrusage(resource.RUSAGE_SELF)
    np.savez(out, **made, seconds=seconds, processor=used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    main()
