"""The whole way from a table to a folder: price, pay, prepare, train, evaluate, write.

    started     the folder is there and says what was asked for; nothing is charged or released
    paid        the whole cost is charged; noise may be drawn. What was released so far is in the folder
    failed      what was found privately cannot be trained on; it is not looked for a second time
    finished    the model and its guarantee are there

A run that was stopped goes on from what is in its folder. It is never charged twice: the run's own number
is the purpose of its charge, and is looked for before another is made. Nothing is released twice: what was
found is on the disk before it is said, and one process at a time works in a folder.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reticent import __version__
from reticent.core.errors import DataError, IntegrityError, ReticentError, Unavailable
from reticent.core.keys import Keys
from reticent.data import catalog
from reticent.data.dataset import Dataset
from reticent.data.domain import Domain
from reticent.data.encoding import encode
from reticent.data.preparation import Inconclusive, prepare
from reticent.data.preparation.noise import PreparationNoise
from reticent.ledger.ledger import Ledger
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Event
from reticent.runs import folder as folders
from reticent.runs.learners import Learner, learner
from reticent.runs.methods import METHODS, Recipe, choose
from reticent.runs.order import Material, Order, held_out_rows
from reticent.runs.pricing import event_of, in_words, preparation_noise, price, promised
from reticent.runs.problem import Problem, checked_delta, of_table
from reticent.runs.scoring import score
from reticent.training.checkpoint import Checkpoints, stamp_of
from reticent.training.clipping import paths_of
from reticent.training.loop import Run

Say = Callable[[str], None]
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that is on disk: its folder, and the record in it."""

    folder: Path
    record: dict[str, Any]


def fit(order: Order, folder: Path, *, keys: Keys | None = None, say: Say = lambda line: None) -> Finished:
    """Trains what the order asks for into a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    started = time.perf_counter()
    folders.require_new(folder)
    material = Material(order)
    order = replace(order, delta=checked_delta(order.delta, material.rows))
    train_rows = material.rows if material.has_test else material.rows - held_out_rows(order, material.rows)
    noise = preparation_noise(order, material)
    recipe = price(order, material, train_rows, noise)
    event = event_of(recipe, noise)
    record = {
        "version": folders.VERSION,
        "state": "started",
        "number": secrets.token_hex(8),
        "order": asdict(order),
        "rows": train_rows,
        "recipe": recipe.to_json(),
        "preparation": None if noise is None else {"noise_multiplier": noise.noise_multiplier},
        "event": events.to_json(event),
        "split": secrets.randbits(63),
        "versions": {"reticent": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    folders.create(folder)
    with folders.held(folder):
        folders.require_new(folder)
        folders.write_record(folder, record)
        try:
            _charge(record, order, event, say)
        except ReticentError:
            folders.discard(folder)
            raise
        return _go_on(folder, record, material, noise, event, keys or Keys.from_os(), say, started)


def resume(folder: Path, *, keys: Keys | None = None, say: Say = lambda line: None) -> Finished:
    """Goes on with a run that was stopped, as it was ordered; a finished one is returned as it is.

    Raises:
        DataError: another process is at work on it, or it has failed for good.
        IntegrityError: it was priced for something else, or something in the folder is damaged.
    """
    started = time.perf_counter()
    if folders.read_record(folder)["state"] != "finished":
        with folders.held(folder):
            return _resume(folder, keys or Keys.from_os(), say, started)
    with suppress(DataError), folders.held(folder):
        folders.tidy(folder)
    say(f"{folder} is finished already.")
    return Finished(folder=folder, record=folders.read_record(folder))


def _resume(folder: Path, keys: Keys, say: Say, started: float) -> Finished:
    record = folders.read_record(folder)
    if record["state"] == "finished":  # by another process, a moment ago
        return Finished(folder=folder, record=record)
    if record["state"] == "failed":
        raise DataError(
            f"The run in {folder} has no model, and what was found is not looked for again: "
            f"{record['failure']}",
            remedy="Start anew in another folder; what this one cost stays spent.",
        )
    if record["versions"]["reticent"] != __version__:
        raise IntegrityError(
            f"{folder} was started with version {record['versions']['reticent']}, and this is {__version__}.",
            remedy="Go on with that version, or start anew in another folder.",
        )
    order = Order(**record["order"])
    material = Material(order)
    noise = preparation_noise(order, material)
    event = event_of(Recipe.from_json(record["recipe"]), noise)
    if events.to_json(event) != record["event"]:
        raise IntegrityError(
            f"The data or the domain of {folder} are not what the run was priced for.",
            remedy="Put them back as they were, or start anew in another folder.",
        )
    _charge(record, order, event, say)
    return _go_on(folder, record, material, noise, event, keys, say, started)


def _go_on(
    folder: Path,
    record: dict[str, Any],
    material: Material,
    noise: PreparationNoise | None,
    event: Event,
    keys: Keys,
    say: Say,
    started: float,
) -> Finished:
    """Everything after the payment. Whatever stops it says that the run is paid for, and how to go on."""
    order, recipe = material.order, Recipe.from_json(record["recipe"])
    try:
        if record["state"] != "paid":
            record["state"] = "paid"
            folders.write_record(folder, record)
        domain = _prepared(folder, record, material, noise, keys, say)
        problem, train_on, held_out = _arrays(material, domain, record)
        learn = learner(order.model, problem)
        say(f"{learn.model}: {problem.rows} rows, {in_words(recipe)}")
        inputs = {"x": learn.inputs(train_on["x"]), "y": train_on["y"]}
        test = {"x": learn.inputs(held_out["x"]), "y": held_out["y"]}
        stamp = stamp_of(
            record["recipe"], record["event"], domain.to_toml() if domain else "", record["number"]
        )
        checkpoints = Checkpoints(path=folder / folders.CHECKPOINT, stamp=stamp)
        method = METHODS[choose(order.method)]
        run = method.fit(recipe, learn, problem, inputs, keys=keys, checkpoints=checkpoints, evaluate=test)
        if not run.is_complete:
            raise DataError(
                f"Interrupted after {int(run.state.step)} of {recipe.plan.steps} steps.",
                remedy=f"Go on with: reticent train --resume {folder}.",
            )
        return _finish(folder, record, problem, learn, run, test, event, keys, time.perf_counter() - started)
    except ReticentError as error:
        paid = "" if order.ledger is None else " This run is charged already, and is not charged again."
        if type(error) in (DataError, Unavailable) and "--resume" not in error.remedy:
            paid = f" Then go on with: reticent train --resume {folder}.{paid}"
        raise type(error)(error.happened, remedy=f"{error.remedy}{paid}") from error


def _charge(record: dict[str, Any], order: Order, event: Event, say: Say) -> None:
    """Pays for the whole run, unless that was done before."""
    if record["state"] == "paid" or order.ledger is None or order.dataset is None:
        return
    purpose = f"train, run {record['number']}"
    with Ledger.open(order.ledger) as ledger:
        if not any(purpose in str(entry.values) for entry in ledger.entries(order.dataset)):
            budget = ledger.for_dataset(order.dataset)
            budget.charge(event, adjacency=Adjacency.ADD_OR_REMOVE, purpose=purpose, unit="record")
    say(f"Charged to '{order.dataset}' in {order.ledger}.")


def _prepared(
    folder: Path,
    record: dict[str, Any],
    material: Material,
    noise: PreparationNoise | None,
    keys: Keys,
    say: Say,
) -> Domain | None:
    """The public domain: declared, found just now, or found before the run was stopped."""
    path = folder / folders.DOMAIN
    if material.table is None:
        return None
    if path.exists():
        return Domain.read(path)
    target = material.order.target
    if noise is None:
        assert material.declared is not None
        return folders.write_domain(
            folder, material.declared.with_target(target) if target else material.declared
        )
    try:
        found = prepare(material.table, noise, keys, domain=material.declared, target=target)
    except Inconclusive as error:  # the answer is a release too: a second one was not paid for
        record |= {"state": "failed", "failure": str(error)}
        folders.write_record(folder, record)
        raise
    domain = folders.write_domain(folder, found.domain)  # before a word of it is said
    for line in found.found:
        say(f"found privately: {line}")
    return domain


def _arrays(
    material: Material, domain: Domain | None, record: dict[str, Any]
) -> tuple[Problem, Arrays, Arrays]:
    """The problem, the rows to train on, and those held out."""
    if material.splits is not None:
        return _of_catalog(material.order.source, material.splits, record)
    assert material.table is not None
    assert domain is not None
    data = encode(material.table, domain)
    train_on, held_out = _divided(data, record)
    return of_table(domain, data["x"].shape[1], record["rows"]), train_on, held_out


def _divided(data: Dataset, record: dict[str, Any]) -> tuple[Arrays, Arrays]:
    """The rows to train on and the others, by chance alone."""
    order, cut = np.random.default_rng(record["split"]).permutation(len(data)), record["rows"]
    first, second = ({key: data[key][rows] for key in data} for rows in (order[:cut], order[cut:]))
    return first, second


def _of_catalog(name: str, splits: catalog.Splits, record: dict[str, Any]) -> tuple[Problem, Arrays, Arrays]:
    """A named dataset, divided as its authors did, or by chance where they did not."""
    entry = catalog.describe(name)
    if "x" not in splits.train.arrays or "y" not in splits.train.arrays or entry.task == "language model":
        raise DataError(
            f"'{name}' is text, and this command trains on tables and images.",
            remedy="Use the library: reticent.models.text_bag and rt.train.",
        )
    if splits.test is None:
        train_on, held_out = _divided(splits.train, record)
    else:
        train_on, held_out = (
            {key: np.asarray(part[key]) for key in part} for part in (splits.train, splits.test)
        )
    rows = record["rows"]
    if splits.domain is not None and splits.domain.target is not None:
        return of_table(splits.domain, train_on["x"].shape[1], rows), train_on, held_out
    classes = tuple(str(number) for number in range(entry.classes))
    return Problem(rows=rows, shape=train_on["x"].shape[1:], classes=classes), train_on, held_out


def _finish(
    folder: Path,
    record: dict[str, Any],
    problem: Problem,
    learn: Learner,
    run: Run,
    test: dict[str, np.ndarray],
    event: Event,
    keys: Keys,
    seconds: float,
) -> Finished:
    leaves = dict(zip(paths_of(run.params), map(np.asarray, jax.tree.leaves(run.params)), strict=True))
    sentence = promised(record, event, keys)
    record |= {
        "state": "finished",
        "model": {"name": learn.name, "digest": folders.write_model(folder, leaves)},
        "problem": asdict(problem),
        "guarantee": sentence.to_json(),
        "sentence": str(sentence),
        "metrics": score(learn, run.params, problem, test),
        "history": [
            {"epoch": moment.epoch, "epsilon": moment.epsilon, "held_out": dict(moment.held_out)}
            for moment in run.history
        ],
        "seconds": seconds,
    }
    folders.write_record(folder, record)
    folders.tidy(folder)
    return Finished(folder=folder, record=record)
