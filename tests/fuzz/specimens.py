"""One valid specimen of everything that reticent reads from a disk, for tests that damage them."""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
from pyarrow import parquet

from reticent.attacks.shadows.outputs import Shadows, balanced_halves
from reticent.core.keys import Keys
from reticent.data.domain import Domain, Label, Number
from reticent.ledger.ledger import Ledger
from reticent.mechanisms import events
from reticent.runs.fit import fit
from reticent.runs.request import Request
from reticent.synthetic import pipeline
from reticent.synthetic.images import embedding
from reticent.synthetic.request import SynthRequest

ROWS = 120
QUICK_EPSILON = 40.0  # a table of so few rows drowns in the noise of less
MODEL, DESCENT, TABLE, IMAGES = "model", "descent", "table", "images"  # folders of runs
RUNS = (MODEL, DESCENT, TABLE, IMAGES)


def make(home: Path) -> Path:
    """Fills a folder: a table in each format with its domain, an event and a ledger."""
    write_tables(home)
    write_outputs(home)
    home.joinpath("event.json").write_text(json.dumps(events.to_json(event())))
    with Ledger.create(home / "our.ledger") as ledger:
        ledger.limit("people", epsilon=9.0, delta=1e-3)
    return home


def make_run(home: Path, kind: str) -> None:
    """Adds a run to such a folder."""
    _RUNS[kind](home)


def _make_model(home: Path) -> None:
    ledger: dict[str, Any] = {"ledger": str(home / "our.ledger"), "dataset": "people"}
    fit(Request(method="output", epsilon=2.0, **_asked(home), **ledger), home / MODEL, keys=Keys.seeded(1))
    write_evidence(home / MODEL)


def _make_descent(home: Path) -> None:
    request = Request(method="sgd", model="linear", epsilon=2.0, **_asked(home))
    fit(request, home / DESCENT, keys=Keys.seeded(2))


def _make_table(home: Path) -> None:
    request = SynthRequest(method="mst", epsilon=QUICK_EPSILON, **_asked(home))
    pipeline.make(request, home / TABLE, keys=Keys.seeded(3))


def _make_images(home: Path) -> None:
    whole, embedding.plan = embedding.plan, partial(embedding.plan, kept=4)
    try:
        request = SynthRequest(source="digits", epsilon=5.0, method="embedding")
        pipeline.make(request, home / IMAGES, keys=Keys.seeded(4))
    finally:
        embedding.plan = whole


_RUNS = {MODEL: _make_model, DESCENT: _make_descent, TABLE: _make_table, IMAGES: _make_images}


def _asked(home: Path) -> dict[str, Any]:
    return {"source": str(home / "t.csv"), "target": "y", "domain": str(home / "domain.toml")}


def event() -> events.Event:
    sampled = events.PoissonSampled(rate=0.01, event=events.Gaussian(noise_multiplier=1.5))
    return events.Composed(
        events=(events.Repeated(event=sampled, times=100), events.Laplace(noise_multiplier=3.0))
    )


def write_tables(home: Path) -> None:
    """The same rows in every format, and their domain."""
    chance = np.random.default_rng(0)
    numbers, words = chance.uniform(-1, 1, (ROWS, 2)).round(2), chance.choice(["no", "yes"], ROWS)
    rows = [f"{a},{b},{word}" for (a, b), word in zip(numbers, words, strict=True)]
    text = "\n".join(["a,b,y", *rows, ""])
    home.joinpath("t.csv").write_text(text)
    home.joinpath("t.tsv").write_text(text.replace(",", "\t"))
    home.joinpath("t.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    home.joinpath("t.blanks").write_text(text.replace(",", "  "))
    records = [{"a": a, "b": b, "y": str(word)} for (a, b), word in zip(numbers, words, strict=True)]
    home.joinpath("t.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    _write_database(home / "t.db", [tuple(record.values()) for record in records])
    _write_workbook(home / "t.xlsx", [["a", "b", "y"], *(list(record.values()) for record in records)])
    home.joinpath("t.libsvm").write_text("".join(f"{int(a > 0)} 1:{a} 3:{b}\n" for a, b in numbers))
    columns = {"a": numbers[:, 0], "b": numbers[:, 1], "y": words}
    parquet.write_table(
        pa.table({name: list(column) for name, column in columns.items()}), home / "t.parquet"
    )
    np.save(home / "t.npy", numbers)
    np.savez(home / "t.npz", **columns)
    Domain(
        columns={
            "a": Number(bounds=(-1, 1)),
            "b": Number(bounds=(-1, 1)),
            "y": Label(values=("no", "yes")),
        },
        target="y",
    ).write(home / "domain.toml")


def _write_database(path: Path, rows: list[tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("create table rows (a real, b real, y text)")
        database.executemany("insert into rows values (?, ?, ?)", rows)


def _write_workbook(path: Path, rows: list[list[Any]]) -> None:
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(path)


def write_outputs(home: Path) -> None:
    """What a model and its shadows say about records, and finished scores."""
    chance = np.random.default_rng(0)
    labels, logits = chance.integers(0, 2, 30), chance.normal(size=(4, 30, 2)).astype(np.float32)
    np.savez(home / "outputs.npz", labels=labels, probabilities=chance.dirichlet([1, 1], 30))
    is_member = balanced_halves(30, 4, seed=0)
    Shadows(logits=logits, is_member=is_member, labels=labels).save(home / "shadows.npz")
    rows = [f"{score:.3f},{row % 2}" for row, score in enumerate(chance.normal(size=30))]
    home.joinpath("scores.csv").write_text("\n".join(["score,is_member", *rows, ""]))


def write_evidence(folder: Path) -> None:
    """Attacks and an audit beside a run, as the commands write them."""
    at = str(Path(__file__).parents[1])
    if at not in sys.path:
        sys.path.insert(0, at)
    from made_runs import with_attacks, with_audit

    with_attacks(folder)
    with_audit(folder)
