"""Evaluates a generator against its training rows and held-out rows.

All of it but the self-test is computed from private rows without noise: unreleased.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from reticent.core.errors import DataError, IntegrityError
from reticent.runs.origin import require_own
from reticent.synthetic.generators import Generator
from reticent.synthetic.pipeline import is_held_out
from reticent.synthetic.quality import utility
from reticent.synthetic.quality.privacy_metrics import density_attack, nearness
from reticent.synthetic.request import SynthSource

LABEL = "unreleased: computed from private rows without noise; not to be published"


def evaluate(generator: Generator, *, rows: int | None = None, seed: int = 0) -> dict[str, Any]:
    """Measures the quality and the privacy of synthetic rows, as plain values.

    Args:
        rows: how many to make and judge; as many as were learned from, unless given.

    Raises:
        DataError: nothing was held out to judge by, the data are not there any more, or the folder came
            without its private part.
    """
    require_own(generator.folder, generator.record)
    material = SynthSource(generator.request)
    if material.rows != generator.record.records:
        raise IntegrityError(
            "The data are not those the generator was made from.", remedy="Restore the original data."
        )
    others = np.flatnonzero(is_held_out(generator.folder, generator.request, material.rows))
    if len(others) < 20:
        raise DataError(
            f"{len(others)} rows were held out from this generator, too few to evaluate it.",
            remedy="Make one with --evaluate, which holds out a fifth of the rows.",
        )
    if generator.is_images:
        return _images(generator, material, others, rows, seed)
    return _table(generator, material, others, rows, seed)


def _table(
    generator: Generator, material: SynthSource, others: np.ndarray, rows: int | None, seed: int
) -> dict[str, Any]:
    assert material.table is not None
    coder, model = generator.coder, generator.model
    codes = coder.encode(material.table)
    held = codes[others]
    training = np.delete(codes, others, axis=0)
    source = np.random.default_rng(seed)
    made = model.sample(rows or len(training), source)
    near, attacked = nearness(made, training, held, coder.ordered, coder.sizes, seed=seed)
    found: dict[str, Any] = {
        "label": LABEL,
        "self-test": utility.self_test(model, source).to_json(),
        "distances to held-out rows": utility.distances(made, held, coder.sizes).to_json(),
        "distances between training and held-out rows": utility.distances(
            training, held, coder.sizes
        ).to_json(),
        "correlations": utility.correlations(
            coder.numbers(made, source), coder.numbers(held, source)
        ).to_json(),
        "nearness": near.to_json(),
        "membership by distance": attacked.to_json(),
        "membership by density": density_attack(model, training[: len(held)], held).to_json(),
    }
    if coder.target is not None:
        at = coder.target
        x_test, y_test = utility.one_hot(held, coder.sizes, without=at), held[:, at]
        for name, some in (("learned from synthetic rows", made), ("learned from real rows", training)):
            known = some[np.isin(some[:, at], y_test)]  # a made row may have no class
            x, y = utility.one_hot(known, coder.sizes, without=at), known[:, at]
            found[name] = [one.to_json() for one in utility.usefulness(x, y, x_test, y_test, seed=seed)]
    return found


def _images(
    generator: Generator, material: SynthSource, others: np.ndarray, rows: int | None, seed: int
) -> dict[str, Any]:
    """The accuracy of classifiers trained on synthetic images, and on real ones."""
    assert material.splits is not None
    x, y = (np.asarray(material.splits.train[name]) for name in ("x", "y"))
    scale = 255.0 if x.dtype == np.uint8 else 1.0
    made = generator.images.sample(rows or generator.record.rows, seed)
    test = (x[others].reshape(len(others), -1) / scale, y[others])
    kept = np.delete(np.arange(len(y)), others)
    found: dict[str, Any] = {"label": LABEL}
    for name, (images, labels) in (
        ("learned from synthetic images", made),
        ("learned from real images", (x[kept], y[kept])),
    ):
        flat = images.reshape(len(images), -1) / scale
        found[name] = [one.to_json() for one in utility.usefulness(flat, labels, *test, seed=seed)]
    return found
