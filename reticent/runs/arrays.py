"""The rows of a run as arrays: those to train on, and those held out.

Each row has a coin of its own, by its number in the table and a secret seed. So each of several processes
divides its own shard, and all of them together divide the table as one process would. How many rows there are
on a side is as secret as the coins: what a run may say is how many can be expected.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from reticent.core.errors import DataError
from reticent.core.keys import Keys
from reticent.core.observer import Observer
from reticent.data import catalog
from reticent.data.dataset import Dataset
from reticent.data.domain import Domain
from reticent.data.encoding import NO_CLASS, encode, feature_names, has_target
from reticent.data.files import Table
from reticent.data.held_out import Split
from reticent.data.sampling import Poisson
from reticent.distributed import collectives
from reticent.distributed.consensus import require_alone
from reticent.runs import spill
from reticent.runs.learners import Learner, learner
from reticent.runs.problem import Problem, of_table
from reticent.runs.request import HELD_OUT
from reticent.runs.source import Source, public_of_held_out
from reticent.training.places import lay

Arrays = dict[str, np.ndarray]


class Divided(NamedTuple):
    """A problem, the rows to train on, and the others."""

    problem: Problem
    train_on: Arrays
    held_out: Arrays
    are_inputs: bool = False  # as the learner takes them: rows that stay on disk are written that way


def divided_by(
    source: Source,
    domain: Domain | None,
    observer: Observer,
    *,
    scratch: Path | None = None,
) -> Divided:
    """The rows of a run as its split divides them: the same ones every time.

    Args:
        scratch: a folder for rows that are too many for the memory.
    """
    rows, split = source.train_rows, source.split
    if source.splits is not None:
        return of_catalog(source.request.source, source.splits, split, rows=rows, is_shared=source.is_shared)
    assert source.table is not None
    assert domain is not None
    assert split is not None
    if scratch is not None and spill.is_too_large(source.table, domain):
        problem = of_table(domain, len(feature_names(domain)), rows)
        learn = learner(source.request.model, problem)
        parts = spill.written(
            source.table, domain, split, first=source.first, learn=learn, into=scratch, observer=observer
        )
        return Divided(problem, *parts, are_inputs=True)
    return of_file(source.table, domain, split, rows=rows, first=source.first, observer=observer)


def with_public(
    source: Source, domain: Domain | None, divided: Divided, observer: Observer
) -> tuple[Divided, np.ndarray | None]:
    """The same, with the public rows that were asked for: those of a table, or most of the held-out ones."""
    if source.public is not None:
        assert domain is not None
        columns = {name: column for name, column in domain.columns.items() if name != domain.target}
        with observer.watch("encoding public rows") as on_progress:
            data = encode(
                source.public, replace(domain, columns=columns, target=None), on_progress=on_progress
            )
        return divided, np.asarray(data["x"])
    if source.request.public != HELD_OUT:
        return divided, None
    held_out = divided.held_out
    taken = public_of_held_out(len(held_out["y"]))
    kept = {key: column[taken:] for key, column in held_out.items()}
    return divided._replace(held_out=kept), held_out["x"][:taken]


def parts_as_inputs(
    learn: Learner, divided: Divided, keys: Keys, observer: Observer
) -> tuple[Arrays, Arrays]:
    """The rows to train on and the others, as the learner takes them."""
    if divided.are_inputs:
        return divided.train_on, divided.held_out
    train_on = divided.train_on
    if learn.rounds_by_place and collectives.count() == 1:
        # One record more or less moves no other: see `training.places`.
        room = Poisson(examples=divided.problem.rows, batch_size=1).most
        places = lay(len(train_on["x"]), room, keys.place_key())
        laid = inputs_of(learn, {"x": places.laid(np.asarray(train_on["x"]))}, observer)["x"]
        train_on = {**train_on, "x": laid[places.of_units]}
    else:
        train_on = inputs_of(learn, train_on, observer)
    return train_on, inputs_of(learn, divided.held_out, observer)


def inputs_of(learn: Learner, part: Arrays, observer: Observer) -> Arrays:
    """Rows as the learner takes them."""
    with observer.watch(f"features for {learn.name}") as on_progress:
        return {**part, "x": learn.inputs(part["x"], on_progress)}


def of_file(
    table: Table, domain: Domain, split: Split, *, rows: int, first: int, observer: Observer
) -> Divided:
    """The rows of a table, which begin at row `first` of all, divided by chance.

    Args:
        rows: how many are expected to be trained on, of all processes.
    """
    with observer.watch("encoding") as on_progress:
        data = encode(table, domain, on_progress=on_progress)
    problem = of_table(domain, data["x"].shape[1], rows)
    train_on, held_out = _by_chance(data, split, first)
    known = has_target(held_out["y"])
    return Divided(problem, train_on, {key: column[known] for key, column in held_out.items()})


def of_catalog(
    name: str, splits: catalog.Splits, split: Split | None, *, rows: int, is_shared: bool = False
) -> Divided:
    """A named dataset, divided as its authors did, or by chance where they did not.

    Args:
        rows: how many are expected to be trained on, of all processes.
        is_shared: this process takes its share of the rows only.
    """
    entry = catalog.describe(name)
    if "x" not in splits.train.arrays or "y" not in splits.train.arrays or entry.task == "language model":
        raise DataError(
            f"'{name}' is text, and this command trains on tables and images.",
            remedy="Use the library: reticent.models.text_bag and rt.train.",
        )
    if splits.test is None:
        assert split is not None
        share = _share(len(splits.train), is_shared)
        train_on, held_out = _by_chance(splits.train.take(share), split, share.start)
    else:
        train_on, held_out = (
            {key: np.asarray(part[key][_share(len(part), is_shared)]) for key in part}
            for part in (splits.train, splits.test)
        )
    if splits.domain is not None and splits.domain.target is not None:
        return Divided(of_table(splits.domain, train_on["x"].shape[1], rows), train_on, held_out)
    classes = tuple(str(number) for number in range(entry.classes))
    problem = Problem(rows=rows, shape=train_on["x"].shape[1:], classes=classes)
    return Divided(problem, train_on, held_out)


def _share(rows: int, is_shared: bool) -> slice:
    return collectives.share(rows) if is_shared else slice(0, rows)


def _by_chance(data: Dataset, split: Split, first: int) -> tuple[Arrays, Arrays]:
    """Rows to train on in their order, and the others in a random one: some may be taken for public."""
    if data.users is None:
        is_held_out = split.is_held_out(first, len(data))
    else:
        require_alone("A split by users")
        is_held_out = split.of_users(data.users)
    order = np.random.default_rng([split.seed, first]).permutation(np.flatnonzero(is_held_out))
    train_on, held_out = ({key: data[key][part] for key in data} for part in (~is_held_out, order))
    return (train_on if len(train_on["y"]) else _nobody(train_on)), held_out


def _nobody(rows: Arrays) -> Arrays:
    """One empty row, where coins left none: it adds nothing to any sum, and there is no error to notice."""
    y = rows["y"]
    missing = np.nan if np.issubdtype(y.dtype, np.floating) else NO_CLASS
    empty = {key: np.zeros((1, *column.shape[1:]), column.dtype) for key, column in rows.items()}
    return {**empty, "y": np.full(1, missing, y.dtype)}
