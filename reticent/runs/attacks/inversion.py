"""Inversion of a run: what does a record of each class look like, according to its model?"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from reticent.attacks.reconstruction.inversion import Inverted, Likeness, invert, likeness
from reticent.core.errors import DataError
from reticent.core.observer import NOBODY, Observer
from reticent.runs.attacks.pool import require_classes
from reticent.runs.attacks.view import View, cells, view_of
from reticent.runs.reopen import Again

ALONE, AMONG = "from the label alone", "among records of its kind"

_STRONGEST = 8  # features that are named, of records without columns


@dataclass(frozen=True, kw_only=True)
class RunInversion:
    """A representative of each class of a run, by one method or two.

    Args:
        classes: by name, those that held-out rows have.
        pictures: of each method, and of the class means; empty for records that are not pictures.
        records: of each class the cells of its representative, for tables.
        strongest: of each class the features that are furthest from the mean, for records without names.
    """

    classes: tuple[str, ...]
    ways: dict[str, Inverted]
    alike: dict[str, Likeness]
    pictures: dict[str, np.ndarray] = field(repr=False)
    records: dict[str, dict[str, str]]
    strongest: dict[str, list[int]]

    def to_json(self) -> dict[str, Any]:
        found = {
            way: {"confidences": inverted.confidences.tolist(), **self.alike[way].to_json()}
            for way, inverted in self.ways.items()
        }
        return {
            "classes": list(self.classes),
            "ways": found,
            "records": self.records,
            "strongest": self.strongest,
        }

    @property
    def in_words(self) -> list[str]:
        said = [
            "A representative stands for a class and is not anybody's record, unless a class is one person."
        ]
        for way, alike in self.alike.items():
            count = len(self.classes)
            own = round(alike.recognised.value * count)
            said.append(
                f"Found {way}, {own} of {count} are most like their own class; "
                f"guessing gives {1 / count:.0%}."
            )
        return [*said, "A guarantee for records does not hide what the records of a class have in common."]


def invert_run(again: Again, *, observer: Observer = NOBODY) -> RunInversion:
    """Finds a representative of each class by gradient ascent on the confidence of the run's model.

    For pictures the search is also done from the label alone. An attacker with records of the same kind is
    given held-out ones, without their labels.

    Raises:
        DataError: the run predicts numbers, or the held-out rows have fewer than two classes.
    """
    require_classes(again, "Inversion")
    view = view_of(again)
    present = [label for label in range(again.problem.outputs) if (view.labels == label).any()]
    if len(present) < 2:
        raise DataError(
            f"The {len(view.labels)} held-out rows have {len(present)} class: there is nothing to compare.",
            remedy="Attack a run with more rows held out.",
        )
    ways: dict[str, Inverted] = {}
    with observer.watch("inversion") as on_progress:
        if view.draw is not None and view.is_direct:
            ways[ALONE] = _invert_classes(again, view, present, None)
            on_progress(0.5)
        ways[AMONG] = _invert_classes(again, view, present, view.public)
        on_progress(1.0)
    names = tuple(again.problem.classes[label] for label in present)
    means = np.stack([_records_to_compare(view)[view.labels == label].mean(axis=0) for label in present])
    drawn = {way: _draw_representatives(view, found) for way, found in ways.items()}
    records, strongest = _describe_representatives(again, view, names, ways[AMONG])
    return RunInversion(
        classes=names,
        ways=ways,
        alike={way: _measure_likeness(view, pictures, means) for way, pictures in drawn.items()},
        pictures={"class mean": means, **{way: found.pictures for way, found in drawn.items()}}
        if view.draw
        else {},
        records=records,
        strongest=strongest,
    )


def _invert_classes(again: Again, view: View, labels: list[int], public: np.ndarray | None) -> Inverted:
    params, shape = again.params, view.records.shape[1:]
    # Without public records, neighbouring pixels are kept alike: a row has to lie as the picture does.
    picture = shape if public is not None or view.pictures is None or len(shape) > 1 else _picture_shape(view)

    def logits(x: jax.Array) -> jax.Array:
        return again.learner.scores(params, x.reshape(shape))

    return invert(logits, picture, labels, box=view.box, public=public, steps=200)


def _picture_shape(view: View) -> tuple[int, ...]:
    assert view.pictures is not None
    sides = view.pictures.shape[1:]
    pixels = int(np.prod(sides))
    colours = view.records.shape[1] // pixels
    return (*sides, colours) if colours > 1 else sides


def _records_to_compare(view: View) -> np.ndarray:
    return view.records if view.pictures is None else view.pictures


def _draw_representatives(view: View, found: Inverted) -> Inverted:
    """Draws the representatives as pictures, numbered by their place."""
    pictures = found.pictures if view.draw is None else view.draw(found.pictures)
    return replace(found, pictures=pictures, labels=tuple(range(len(found.labels))))


def _measure_likeness(view: View, found: Inverted, means: np.ndarray) -> Likeness:
    """Compares with class means; for tables, around the mean row, because rows agree in most columns."""
    centre = 0 if view.draw is not None else _records_to_compare(view).mean(axis=0)
    return likeness(replace(found, pictures=found.pictures - centre), means - centre)


def _describe_representatives(
    again: Again, view: View, names: tuple[str, ...], found: Inverted
) -> tuple[dict[str, dict[str, str]], dict[str, list[int]]]:
    if view.draw is not None:
        return {}, {}
    rows = dict(zip(names, found.pictures, strict=True))
    if again.domain is not None:
        domain, scale = again.domain, again.problem.scale
        return {name: cells(domain, row / scale) for name, row in rows.items()}, {}
    centre = view.records.mean(axis=0)
    return {}, {name: np.argsort(-np.abs(row - centre))[:_STRONGEST].tolist() for name, row in rows.items()}
