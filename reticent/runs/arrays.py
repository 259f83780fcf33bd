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
from reticent.runs.kept_inputs import KeptInputs
from reticent.runs.learners import Learner, learner
from reticent.runs.problem import Problem, of_table, with_class_weights
from reticent.runs.request import HELD_OUT
from reticent.runs.source import Source, public_of_held_out
from reticent.runs.spill import Arrays
from reticent.runs.texts import text_problem
from reticent.runs.unclipped import NO_NUMBERS, HeldOutNumbers, Unclipped
from reticent.runs.users import RowsOfUsers, RowSplit, UserSplit, made_up_users, several_rows, split_of
from reticent.training.places import lay


class UsersOfRows(NamedTuple):
    """The users of the rows on either side; those held out are unknown if rows stay on disk."""

    train_on: np.ndarray
    held_out: np.ndarray | None = None


class DividedRows(NamedTuple):
    """A problem, the rows to train on, and the others."""

    problem: Problem
    train_on: Arrays
    held_out: Arrays
    are_inputs: bool = False  # as the learner takes them: rows that stay on disk are written that way
    numbers: HeldOutNumbers = NO_NUMBERS  # of the held-out rows, before bounds clipped them
    users: UsersOfRows | None = None


def divided_by(
    source: Source,
    domain: Domain | None,
    observer: Observer,
    *,
    scratch: Path | None = None,
) -> DividedRows:
    """The rows of a run as its split divides them: the same ones every time.

    Args:
        scratch: a folder for rows that are too many for the memory.
    """
    divided = _divide(source, domain, observer, scratch)
    return divided._replace(problem=with_class_weights(divided.problem, source.request.class_weights))


def _divide(source: Source, domain: Domain | None, observer: Observer, scratch: Path | None) -> DividedRows:
    rows, split = source.train_rows, source.split
    source.make_features(observer, scratch)
    if source.splits is not None:
        return of_catalog(source, source.splits)
    assert source.table is not None
    assert domain is not None
    assert split is not None
    split, users = split_of(split, source.table), _users_of(source.table)
    # Rows of users who have several are trained on from memory only.
    may_spill = scratch is not None and several_rows(source.request.rows_per_user) is None
    if scratch is not None and may_spill and spill.is_too_large(source.table, domain):
        problem = of_table(domain, len(feature_names(domain)), rows)
        learn = learner(source.request.model, problem)
        unclipped = Unclipped(domain, split, first=source.first)
        train_on, held_out = spill.write_rows(
            source.table,
            domain,
            split,
            first=source.first,
            learn=learn,
            into=scratch,
            observer=observer,
            unclipped=unclipped,
            take_in=source.take_in,
        )
        numbers = _take_numbers(held_out, unclipped, problem)
        owners = None if users is None else UsersOfRows(users[~split.is_held_out(0, len(users))])
        return DividedRows(problem, train_on, held_out, are_inputs=True, numbers=numbers, users=owners)
    return of_file(source, source.table, domain, split, observer)


def with_public(
    source: Source, domain: Domain | None, divided: DividedRows, observer: Observer
) -> tuple[DividedRows, np.ndarray | None]:
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
    users = divided.users
    if users is not None and users.held_out is not None:
        divided = divided._replace(users=users._replace(held_out=users.held_out[taken:]))
    targets = divided.numbers.targets
    numbers = divided.numbers._replace(targets=None if targets is None else targets[taken:])
    return divided._replace(held_out=kept, numbers=numbers), held_out["x"][:taken]


def parts_as_inputs(
    learn: Learner, divided: DividedRows, keys: Keys, observer: Observer, folder: Path | None = None
) -> tuple[Arrays, Arrays]:
    """The rows to train on and the others, as the learner takes them.

    Args:
        folder: of the run, which keeps inputs that take long to compute.
    """
    if divided.are_inputs:
        return divided.train_on, divided.held_out
    train_on, kept = divided.train_on, KeptInputs(learn, folder)

    def laid_out() -> np.ndarray:
        # One record more or less moves no other: see `training.places`.
        room = Poisson(examples=divided.problem.rows, batch_size=1).most
        places = lay(len(train_on["x"]), room, keys.place_key())
        laid = inputs_of(learn, {"x": places.lay(np.asarray(train_on["x"]))}, observer)["x"]
        return laid[places.of_units]

    is_laid = learn.rounds_by_place and collectives.count() == 1
    return kept.of(train_on, observer, laid_out if is_laid else None), kept.of(divided.held_out, observer)


def inputs_of(learn: Learner, part: Arrays, observer: Observer, folder: Path | None = None) -> Arrays:
    """Rows as the learner takes them; what takes long is kept in the folder of the run, if it is given."""
    return KeptInputs(learn, folder).of(part, observer)


def of_file(source: Source, table: Table, domain: Domain, split: RowSplit, observer: Observer) -> DividedRows:
    """The rows of a table, or of this process's shard of it, divided by chance."""
    first = source.first
    with observer.watch("encoding") as on_progress:
        unclipped = Unclipped(domain, split, first=first)
        data = encode(table, domain, on_progress=on_progress, on_numbers=unclipped.see)
    source.take_in(data.arrays, first)
    problem = of_table(domain, data["x"].shape[1], source.train_rows)
    whole = np.zeros(len(data))
    if (targets := unclipped.take_targets()) is not None:
        whole[split.is_held_out(first, len(data))] = targets
    users = _users_of(table)
    beside = {"unclipped": whole, **({} if users is None else {"user": users})}
    train_on, held_out = _by_chance(replace(data, arrays={**data.arrays, **beside}), split, first)
    known = has_target(held_out["y"])
    kept = {key: column[known] for key, column in held_out.items()}
    del train_on["unclipped"]
    owners = None if users is None else UsersOfRows(train_on.pop("user"), kept.pop("user"))
    numbers = _take_numbers(kept, unclipped, problem)
    return DividedRows(problem, train_on, kept, numbers=numbers, users=owners)


def _users_of(table: Table) -> np.ndarray | None:
    return table.users if isinstance(table, RowsOfUsers) else None


def _take_numbers(held_out: Arrays, unclipped: Unclipped, problem: Problem) -> HeldOutNumbers:
    """Takes the targets before clipping out of the held-out rows: no model is given them."""
    targets = held_out.pop("unclipped")
    return HeldOutNumbers(
        None if problem.is_classification else targets, dict(unclipped.outside), dict(unclipped.present)
    )


def of_catalog(source: Source, splits: catalog.Splits) -> DividedRows:
    """A named dataset, divided as its authors did, or by chance where they did not."""
    name, split, rows, is_shared = source.request.source, source.split, source.train_rows, source.is_shared
    entry = catalog.describe(name)
    if "x" not in splits.train.arrays or "y" not in splits.train.arrays:
        raise DataError(
            f"'{name}' is text, and this command trains on tables and images.",
            remedy="To continue a text: --task next-character. To classify texts: --text COLUMN.",
        )
    if splits.test is None:
        assert split is not None
        share = _share(len(splits.train), is_shared)
        data = splits.train.take(share)
        source.take_in(data.arrays, share.start)
        users = source.speakers
        if users is None:
            users = made_up_users(source.request, np.asarray(data["y"]))
        by_whom = split if users is None else UserSplit(split, users)
        if users is not None:
            data = replace(data, arrays={**data.arrays, "user": users})
        train_on, held_out = _by_chance(data, by_whom, share.start)
        owners = None if users is None else UsersOfRows(train_on.pop("user"), held_out.pop("user"))
    else:
        parts, shares = (splits.train, splits.test), []
        for part, first in zip(parts, (0, len(splits.train)), strict=True):
            share = _share(len(part), is_shared)
            shares.append({key: np.asarray(part[key][share]) for key in part})
            source.take_in(shares[-1], first + share.start)
        train_on, held_out = shares
        users = made_up_users(source.request, train_on["y"])
        owners = None if users is None else UsersOfRows(users)
    if splits.domain is not None and splits.domain.target is not None:
        problem = of_table(splits.domain, train_on["x"].shape[1], rows)
        return DividedRows(problem, train_on, held_out, users=owners)
    if source.speakers is not None:
        return DividedRows(text_problem(rows), train_on, held_out, users=owners)
    classes = tuple(str(number) for number in range(entry.classes))
    problem = Problem(rows=rows, shape=train_on["x"].shape[1:], classes=classes)
    return DividedRows(problem, train_on, held_out, users=owners)


def _share(rows: int, is_shared: bool) -> slice:
    return collectives.share(rows) if is_shared else slice(0, rows)


def _by_chance(data: Dataset, split: RowSplit, first: int) -> tuple[Arrays, Arrays]:
    """Rows to train on in their order, and the others in a random one: some may be taken for public."""
    if data.users is None:
        is_held_out = split.is_held_out(first, len(data))
    else:
        require_alone("A split by users")
        assert isinstance(split, Split)
        is_held_out = split.of_users(data.users)
    order = np.random.default_rng([split.seed, first]).permutation(np.flatnonzero(is_held_out))
    train_on, held_out = ({key: data[key][part] for key in data} for part in (~is_held_out, order))
    return (train_on if len(train_on["y"]) else _nobody(train_on)), held_out


def _nobody(rows: Arrays) -> Arrays:
    """One empty row, where coins left none: it adds nothing to any sum, and there is no error to notice."""
    y = rows["y"]
    missing = np.nan if np.issubdtype(y.dtype, np.floating) else NO_CLASS
    empty = {key: np.zeros((1, *column.shape[1:]), column.dtype) for key, column in rows.items()}
    return {**empty, "y": np.full((1, *y.shape[1:]), missing, y.dtype)}
