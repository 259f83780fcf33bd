"""The rows of a run as arrays: those to train on, and those held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from reticent.core.errors import DataError
from reticent.data import catalog
from reticent.data.dataset import Dataset
from reticent.data.domain import Domain
from reticent.data.encoding import encode, has_target
from reticent.data.files import Table
from reticent.runs.learners import Learner
from reticent.runs.onlooker import Onlooker
from reticent.runs.order import HELD_OUT, Material, public_of_held_out
from reticent.runs.problem import Problem, of_table

Arrays = dict[str, np.ndarray]


class Divided(NamedTuple):
    """A problem, the rows to train on, and the others."""

    problem: Problem
    train_on: Arrays
    held_out: Arrays


def divided_by(
    record: Mapping[str, Any], material: Material, domain: Domain | None, onlooker: Onlooker
) -> Divided:
    """The rows of a run as its record divides them: the same ones every time."""
    rows, seed = record["rows"], record["split"]
    if material.splits is not None:
        return of_catalog(material.order.source, material.splits, rows=rows, seed=seed)
    assert material.table is not None
    assert domain is not None
    return of_file(material.table, domain, rows=rows, seed=seed, onlooker=onlooker)


def with_public(
    material: Material, domain: Domain | None, divided: Divided, onlooker: Onlooker
) -> tuple[Divided, np.ndarray | None]:
    """The same, with the public rows that were asked for: those of a table, or most of the held-out ones."""
    if material.public is not None:
        assert domain is not None
        columns = {name: column for name, column in domain.columns.items() if name != domain.target}
        with onlooker.watch("encoding public rows") as on_progress:
            data = encode(
                material.public, replace(domain, columns=columns, target=None), on_progress=on_progress
            )
        return divided, np.asarray(data["x"])
    if material.order.public != HELD_OUT:
        return divided, None
    held_out = divided.held_out
    taken = public_of_held_out(len(held_out["y"]))
    kept = {key: column[taken:] for key, column in held_out.items()}
    return divided._replace(held_out=kept), held_out["x"][:taken]


def inputs_of(learn: Learner, part: Arrays, onlooker: Onlooker) -> Arrays:
    """Rows as the learner takes them."""
    with onlooker.watch(f"features for {learn.name}") as on_progress:
        return {**part, "x": learn.inputs(part["x"], on_progress)}


def of_file(table: Table, domain: Domain, *, rows: int, seed: int, onlooker: Onlooker) -> Divided:
    """The rows of a table, divided by chance: so many to train on, and the others."""
    with onlooker.watch("encoding") as on_progress:
        data = encode(table, domain, on_progress=on_progress)
    problem = of_table(domain, data["x"].shape[1], rows)
    train_on, held_out = _by_chance(data, rows, seed)
    known = has_target(held_out["y"])
    return Divided(problem, train_on, {key: column[known] for key, column in held_out.items()})


def of_catalog(name: str, splits: catalog.Splits, *, rows: int, seed: int) -> Divided:
    """A named dataset, divided as its authors did, or by chance where they did not."""
    entry = catalog.describe(name)
    if "x" not in splits.train.arrays or "y" not in splits.train.arrays or entry.task == "language model":
        raise DataError(
            f"'{name}' is text, and this command trains on tables and images.",
            remedy="Use the library: reticent.models.text_bag and rt.train.",
        )
    if splits.test is None:
        train_on, held_out = _by_chance(splits.train, rows, seed)
    else:
        train_on, held_out = (
            {key: np.asarray(part[key]) for key in part} for part in (splits.train, splits.test)
        )
    if splits.domain is not None and splits.domain.target is not None:
        return Divided(of_table(splits.domain, train_on["x"].shape[1], rows), train_on, held_out)
    classes = tuple(str(number) for number in range(entry.classes))
    problem = Problem(rows=rows, shape=train_on["x"].shape[1:], classes=classes)
    return Divided(problem, train_on, held_out)


def _by_chance(data: Dataset, rows: int, seed: int) -> tuple[Arrays, Arrays]:
    order = np.random.default_rng(seed).permutation(len(data))
    first, second = ({key: data[key][part] for key in data} for part in (order[:rows], order[rows:]))
    return first, second
