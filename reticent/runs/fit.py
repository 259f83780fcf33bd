"""The whole way from a table to a folder: price, pay, prepare, train, evaluate, write.

    started     the folder is there and says what was asked for; nothing is charged or released
    paid        the whole cost is charged; noise may be drawn. What was released so far is in the folder
    failed      what was found privately cannot be trained on; it is not looked for a second time
    finished    the model and its guarantee are there

A run that was stopped goes on from what is in its folder. It is never charged twice: the run's own number
is the purpose of its charge, and is looked for before another is made. Nothing is released twice: what was
found is on the disk before it is said, and one process at a time works in a folder.

Of several processes that train together, each reads its own shard of the table. The first one has the
folder, and pays before any of them draws noise.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from reticent import __version__
from reticent.accounting.guarantee import Guarantee
from reticent.core.errors import (
    DataError,
    Inconclusive,
    IntegrityError,
    Interrupted,
    InvalidArgument,
    ProcessLost,
    ReticentError,
    Unavailable,
)
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Onlooker
from reticent.data.domain import Domain
from reticent.data.held_out import Split
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all, by_first, from_first, network, shared_keys
from reticent.mechanisms import events
from reticent.mechanisms.events import Event
from reticent.runs import folder as folders
from reticent.runs import spill
from reticent.runs.arrays import Arrays, Divided, divided_by, inputs_of, parts_as_inputs, with_public
from reticent.runs.learners import Learner, learner
from reticent.runs.method import Ingredients, Trained
from reticent.runs.methods import table as methods
from reticent.runs.order import Material, Order
from reticent.runs.payment import (
    COPIES,
    charge,
    found_domain,
    mark_paid,
    pay,
    preparation_noise,
    preparation_record,
    write_failure,
)
from reticent.runs.predict import params_in
from reticent.runs.pricing import event_of, price, promised
from reticent.runs.private import read_split, write_split
from reticent.runs.problem import Problem, checked_delta
from reticent.runs.resume_hints import paid_already, said_when_stopped
from reticent.runs.scoring import HISTORY, score
from reticent.training.checkpoint import Checkpoints, stamp_of
from reticent.training.clipping import paths_of

_CAN_GO_ON = (DataError, Interrupted, Unavailable, ProcessLost)  # not those that descend from them


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A run that is on disk: its folder, and the record in it."""

    folder: Path
    record: dict[str, Any]


def fit(order: Order, folder: Path, *, keys: Keys | None = None, onlooker: Onlooker = NOBODY) -> Finished:
    """Trains what the order asks for into a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    started = time.perf_counter()
    by_first(lambda: folders.require_new(folder))
    material = Material.of(order)
    _require_method(order)
    order = replace(order, delta=checked_delta(order.delta, material.rows))
    noise = _noise(order, material)
    recipe = price(order, material, noise)
    event = event_of(recipe, noise)
    number = collectives.of_first(secrets.token_hex(8))
    keys = shared_keys(keys)
    if not material.has_test:
        material.split = Split.drawn(order.test, keys)
    record = {
        "version": folders.VERSION,
        "state": "started",
        "number": number,
        "table": material.digest(number),  # until the run is finished
        "order": asdict(order),
        "records": material.rows,
        "rows": material.train_rows,
        "recipe": methods.to_json(order.method, recipe),
        "preparation": preparation_record(noise, delta=order.delta or 0.0),
        "event": events.to_json(event),
        "versions": {"reticent": __version__, "jax": jax.__version__, "numpy": np.__version__},
    }
    with spill.scratch() as scratch:
        # Where nothing has to be released first, what is wrong with the rows is found before it is paid.
        ready = None
        if noise is None:
            ready = by_all(
                lambda: divided_by(record, material, material.public_domain, onlooker, scratch=scratch)
            )
            learner(order.model, ready.problem)
        by_first(lambda: folders.create(folder))
        with _held_by_first(folder), said_when_stopped(folder, record, onlooker, what="train"):
            by_first(lambda: material.split and write_split(folder, material.split))
            again = partial(_event_for, order, material)
            by_first(lambda: pay(folder, record, event, onlooker, what="train", price=again))
            return _go_on(folder, record, material, noise, event, keys, onlooker, started, scratch, ready)


def _event_for(order: Order, material: Material, epsilon: float) -> Event:
    """What the same run would release if it were asked for with another epsilon."""
    order = replace(order, epsilon=epsilon)
    noise = _noise(order, material)
    return event_of(price(order, material, noise), noise)


def _about_rows(material: Material) -> tuple[str, ...]:
    """What the guarantee rests on, of how rows get to where they are used."""
    return (COPIES,) if material.table is not None and collectives.count() > 1 else ()


def _require_method(order: Order) -> None:
    """
    Raises:
        InvalidArgument: several processes were started for a method that one alone can follow.
    """
    if collectives.count() > 1 and methods.choose(order.method) not in methods.SHARED:
        raise InvalidArgument(
            f"Method '{order.method}' needs all rows, and {collectives.count()} processes share them.",
            remedy=f"Choose --method {' or '.join(methods.SHARED)}, or train in one process.",
        )


@contextmanager
def _held_by_first(folder: Path) -> Iterator[None]:
    """The folder, kept by the first process for all."""
    with ExitStack() as stack:
        by_first(lambda: stack.enter_context(folders.held(folder)))
        yield


def resume(folder: Path, *, keys: Keys | None = None, onlooker: Onlooker = NOBODY) -> Finished:
    """Goes on with a run that was stopped, as it was ordered; a finished one is returned as it is.

    Raises:
        DataError: another process is at work on it, or it has failed for good.
        IntegrityError: it was priced for something else, or something in the folder is damaged.
    """
    started = time.perf_counter()
    record = _record_of_first(folder)
    if record["state"] != "finished":
        with _held_by_first(folder), spill.scratch() as scratch:
            return _resume(folder, shared_keys(keys), onlooker, started, scratch)
    if collectives.is_first():
        with suppress(DataError), folders.held(folder):
            folders.tidy(folder)
    onlooker.say(f"{folder} is finished already.")
    return Finished(folder=folder, record=record)


def _record_of_first(folder: Path) -> dict[str, Any]:
    return collectives.of_first(by_first(lambda: folders.read_record(folder)))


def _split_of_first(folder: Path, order: Order) -> Split:
    found = by_first(lambda: read_split(folder, order.test))
    return Split(share=order.test, seed=collectives.of_first(None if found is None else found.seed))


def _resume(folder: Path, keys: Keys, onlooker: Onlooker, started: float, scratch: Path) -> Finished:
    record = _record_of_first(folder)
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
    try:
        order, recipe = Order(**record["order"]), methods.read(record["recipe"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise folders.damaged(folder) from None
    material = Material.of(order)
    _require_method(order)
    noise = _noise(order, material)
    event = event_of(recipe, noise)
    if events.to_json(event) != record["event"] or material.digest(record["number"]) != record["table"]:
        raise IntegrityError(
            f"The data or the domain of {folder} are not what the run was priced for.",
            remedy="Put them back as they were, or start anew in another folder.",
        )
    if not material.has_test:
        material.split = _split_of_first(folder, order)
    with said_when_stopped(folder, record, onlooker, what="train"):
        by_first(lambda: charge(record, event, onlooker, what="train"))
        return _go_on(folder, record, material, noise, event, keys, onlooker, started, scratch)


def _go_on(
    folder: Path,
    record: dict[str, Any],
    material: Material,
    noise: PreparationNoise | None,
    event: Event,
    keys: Keys,
    onlooker: Onlooker,
    started: float,
    scratch: Path,
    ready: Divided | None = None,
) -> Finished:
    """Everything after the payment. Whatever stops it says that the run is paid for, and how to go on."""
    order, recipe = material.order, methods.read(record["recipe"])
    try:
        mark_paid(record, *keys.assumptions, *network(), *_about_rows(material))
        by_first(lambda: folders.write_record(folder, record))
        domain = _prepared(folder, record, material, noise, keys, onlooker)
        divided = ready or by_all(lambda: divided_by(record, material, domain, onlooker, scratch=scratch))
        _require_classes(folder, record, divided.problem)
        divided, public = with_public(material, domain, divided, onlooker)
        learn = learner(order.model, divided.problem)
        onlooker.say(f"training {learn.name} on {folders.rows_in_words(record)}: {recipe.in_words}")
        train_on, held_out = parts_as_inputs(learn, divided, keys, onlooker)
        stamp = stamp_of(
            record["recipe"], record["event"], domain.to_toml() if domain else "", record["number"]
        )
        trained = _released(folder, learn) or recipe.follow(
            Ingredients(
                learner=learn,
                problem=divided.problem,
                train_on=train_on,
                held_out=held_out,
                keys=keys,
                checkpoints=Checkpoints(path=folder / folders.CHECKPOINT, stamp=stamp),
                public=None if public is None else inputs_of(learn, {"x": public}, onlooker)["x"],
                onlooker=onlooker,
                beside=noise.event if noise else None,
            )
        )
        record |= {"seconds": time.perf_counter() - started}
        return _finish(
            folder, record, divided.problem, learn, trained, held_out, promised(trained, record, event)
        )
    except ReticentError as error:
        said = [error.remedy]
        if type(error) in _CAN_GO_ON and "--resume" not in error.remedy:
            then = "Go on with" if isinstance(error, Interrupted) else "Then go on with"
            said.append(f"{then}: reticent train --resume {folder}.")
        said.append(paid_already(record, what="train"))
        raise type(error)(error.happened, remedy=" ".join(filter(None, said))) from error


def _require_classes(folder: Path, record: dict[str, Any], problem: Problem) -> None:
    """
    Raises:
        Inconclusive: the method is for classes, and preparation found a number: the run has failed for good.
    """
    if problem.is_classification or not methods.method_of(record["recipe"]).needs_classes:
        return
    error = Inconclusive(
        f"The method '{record['recipe']['method']}' is for classes, and the target was found to be a number.",
        remedy="Start anew in another folder, with another --method or a target that has classes.",
    )
    write_failure(folder, record, error)
    raise error


def _noise(order: Order, material: Material) -> PreparationNoise | None:
    assert order.delta is not None
    return preparation_noise(material.releases(), epsilon=order.epsilon, delta=order.delta)


def _prepared(
    folder: Path,
    record: dict[str, Any],
    material: Material,
    noise: PreparationNoise | None,
    keys: Keys,
    onlooker: Onlooker,
) -> Domain | None:
    """The public domain: declared, found just now, or found before the run was stopped."""
    if material.table is None:
        return None
    written = collectives.of_first(by_first(lambda: folders.domain_text(folder)))
    if written is not None:
        return Domain.from_toml(written, source=str(folder / folders.DOMAIN))
    if noise is None:
        assert material.public_domain is not None
        return folders.write_domain(folder, material.public_domain)
    declared, target = material.declared, material.order.target
    return found_domain(
        folder, record, material.table, noise, keys, onlooker, declared=declared, target=target
    )


def _released(folder: Path, learn: Learner) -> Trained | None:
    """The model that a process wrote before it was stopped: it is out, and is not drawn a second time."""
    assumptions = collectives.of_first(by_first(lambda: folders.assumptions_of_model(folder)))
    if assumptions is None:
        return None
    params = by_first(lambda: params_in(folder, learn, None))
    like = learn.model.init(jax.random.key(0)) if params is None else params
    return Trained(from_first(like), tuple(assumptions))


def _finish(
    folder: Path,
    record: dict[str, Any],
    problem: Problem,
    learn: Learner,
    trained: Trained,
    held_out: Arrays,
    sentence: Guarantee,
) -> Finished:
    named = dict(zip(paths_of(trained.params), map(np.asarray, jax.tree.leaves(trained.params)), strict=True))
    digest = by_first(lambda: folders.write_model(folder, named, trained.assumptions))
    record.pop("table", None)
    record |= {
        "state": "finished",
        "model": {"name": learn.name, "digest": digest},
        "problem": asdict(problem),
        "guarantee": sentence.to_json(),
        "sentence": str(sentence),
        "metrics": score(learn, trained.params, problem, held_out),
        "history": {"label": HISTORY, "moments": list(trained.history)},
        **({"unreleased": dict(trained.unreleased)} if trained.unreleased else {}),
    }
    by_first(lambda: folders.write_record(folder, record))
    by_first(lambda: folders.tidy(folder))
    return Finished(folder=folder, record=collectives.of_first(record))
