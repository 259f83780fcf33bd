"""Evaluates a generator against its training rows and held-out rows.

All of it but the self-test is computed from private rows without noise: unreleased.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reticent.core.errors import DataError
from reticent.core.observer import NOBODY, Observer
from reticent.runs.origin import require_own
from reticent.runs.row_fingerprint import KnownRows, row_count_differs, warn_unchecked
from reticent.runs.source import move, require_there
from reticent.runs.users import with_users
from reticent.synthetic.generators import Generator
from reticent.synthetic.pipeline import is_held_out
from reticent.synthetic.quality import utility
from reticent.synthetic.quality.privacy_metrics import density_attack, nearness
from reticent.synthetic.request import SynthSource
from reticent.synthetic.tables.plausibility import fit_to_counts

LABEL = "unreleased: computed from private rows without noise; not to be published"


def evaluate(
    generator: Generator,
    *,
    rows: int | None = None,
    seed: int = 0,
    data: Path | str | None = None,
    observer: Observer = NOBODY,
) -> dict[str, Any]:
    """Measures the quality and the privacy of synthetic rows, as plain values.

    Each fact has a name, to print, and a `kind`, which says what its other fields are: self-test, measured
    fit, distances, correlations, nearness, membership or usefulness.

    Args:
        rows: how many to make and judge; as many as were learned from, unless given.
        data: where the table is, if it was moved.

    Raises:
        DataError: nothing was held out to judge by, the data are not there any more, or the folder came
            without its private part.
        IntegrityError: they are not the rows that the generator was made from, or not in the same order.
    """
    folder, record = generator.folder, generator.record
    require_own(folder, record)
    request = move(generator.request, data)
    require_there(request, folder)
    material = SynthSource(request)
    if material.rows != record.records:
        raise row_count_differs(folder, material.request.source, material.rows, record.records)
    known = KnownRows.read(folder)
    if known is None:
        warn_unchecked(folder, material.request.source, observer)
    others = np.flatnonzero(is_held_out(folder, material))
    if len(others) < 20:
        raise DataError(
            f"{len(others)} rows were held out from this generator, too few to evaluate it.",
            remedy="Make one with --evaluate, which holds out a fifth of the rows.",
        )
    arrays = _rows_of(generator, material)
    if known is not None:
        known.digest.add(with_users(material.table, arrays), 0)
        known.require_same(known.digest.total(), material.request.source)
    if generator.is_images:
        return _images(generator, arrays, others, rows, seed)
    return _table(generator, arrays["codes"], others, rows, seed)


def _rows_of(generator: Generator, material: SynthSource) -> dict[str, np.ndarray]:
    if material.splits is not None:
        return {name: np.asarray(material.splits.train[name]) for name in ("x", "y")}
    assert material.table is not None
    return {"codes": generator.coder.encode(material.table)}


def _table(
    generator: Generator, codes: np.ndarray, others: np.ndarray, rows: int | None, seed: int
) -> dict[str, Any]:
    coder, model = generator.coder, generator.model
    held = codes[others]
    training = np.delete(codes, others, axis=0)
    source = np.random.default_rng(seed)
    made = model.sample(rows or len(training), source)
    near, attacked = nearness(made, training, held, coder.ordered, coder.sizes, seed=seed)
    found: dict[str, Any] = {
        "label": LABEL,
        "self-test": {"kind": "self-test"} | utility.self_test(model, source).to_json(),
        "fit to released counts": {"kind": "measured fit"} | fit_to_counts(model).to_json(),
        "distances to held-out rows": _distances(made, held, coder.sizes),
        "distances between training and held-out rows": _distances(training, held, coder.sizes),
        "correlations": {"kind": "correlations"}
        | utility.correlations(coder.numbers(made, source), coder.numbers(held, source)).to_json(),
        "nearness": {"kind": "nearness"} | near.to_json(),
        "membership by distance": {"kind": "membership"} | attacked.to_json(),
        "membership by density": {"kind": "membership"}
        | density_attack(model, _draw(training, len(held), source), held).to_json(),
    }
    if coder.target is not None:
        at = coder.target
        x_test, y_test = utility.one_hot(held, coder.sizes, without=at), held[:, at]
        for trained_on, some in (("synthetic", made), ("real", training)):
            known = some[np.isin(some[:, at], y_test)]  # a made row may have no class
            x, y = utility.one_hot(known, coder.sizes, without=at), known[:, at]
            scored = utility.usefulness(x, y, x_test, y_test, seed=seed)
            found[f"learned from {trained_on} rows"] = _usefulness(trained_on, scored)
    return found


def _draw(rows: np.ndarray, count: int, source: np.random.Generator) -> np.ndarray:
    """Draws rows at random: the first rows of a table are often the oldest, and unlike the others."""
    return rows if len(rows) <= count else rows[source.choice(len(rows), count, replace=False)]


def _distances(made: np.ndarray, real: np.ndarray, sizes: Sequence[int]) -> dict[str, Any]:
    return {"kind": "distances"} | utility.distances(made, real, sizes).to_json()


def _usefulness(trained_on: str, scored: Sequence[utility.Usefulness]) -> dict[str, Any]:
    return {"kind": "usefulness", "trained_on": trained_on, "scores": [one.to_json() for one in scored]}


def _images(
    generator: Generator, arrays: dict[str, np.ndarray], others: np.ndarray, rows: int | None, seed: int
) -> dict[str, Any]:
    """The accuracy of classifiers trained on synthetic images, and on real ones."""
    x, y = arrays["x"], arrays["y"]
    scale = 255.0 if x.dtype == np.uint8 else 1.0
    made = generator.images.sample(rows or generator.record.rows, seed)
    test = (x[others].reshape(len(others), -1) / scale, y[others])
    kept = np.delete(np.arange(len(y)), others)
    found: dict[str, Any] = {"label": LABEL}
    for trained_on, (images, labels) in (("synthetic", made), ("real", (x[kept], y[kept]))):
        flat = images.reshape(len(images), -1) / scale
        scored = utility.usefulness(flat, labels, *test, seed=seed)
        found[f"learned from {trained_on} images"] = _usefulness(trained_on, scored)
    return found
