"""The life of a run, from a request to a folder: open, price, pay, prepare, learn, write; and resume.

A run makes a model or a generator. What differs between the two is a `Product`; everything else is here,
once. The states of a run are those of its record (`record`).

A run that was stopped resumes from what is in its folder. It is never charged twice: its number is the
purpose of its charge, and is looked up before another charge is made. Nothing is released twice: each result
is on disk before it is printed, and only one process at a time works in a folder.

When several processes train together, each reads its own shard of the table. The first one owns the folder,
and pays before any of them draws noise.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from reticent import __version__
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight_epsilon import guarantee
from reticent.core.errors import DataError, IntegrityError
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain
from reticent.data.files import Table
from reticent.data.held_out import Split
from reticent.data.preparation.noise import PreparationNoise, PreparationRelease
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all, by_first, network, shared_keys
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event
from reticent.runs import folder as folders
from reticent.runs import spill
from reticent.runs.method import Method, Recipe
from reticent.runs.open_run import OpenRun
from reticent.runs.origin import require_own
from reticent.runs.payment import charge, pay, preparation_cost, preparation_noise
from reticent.runs.private import read_split, write_split
from reticent.runs.problem import Problem
from reticent.runs.public_domain import domain_of
from reticent.runs.record import (
    COMMANDS,
    HistoryPoint,
    Kind,
    ModelFile,
    Outcome,
    RecipeRecord,
    RunRecord,
    Scores,
    TableFormat,
    as_requested,
)

# Of a run whose processes each read a part of a file.
COPIES = "all processes read the same file (its size, its columns and both of its ends were compared)"


class RunSource(Protocol):
    """What a request is about, opened: a table with its domain, or a dataset of the catalog.

    Attributes:
        request: with its delta and its method filled in.
        rows: of all processes together: public.
        split: which rows are held out, where coins decide.
    """

    request: Any
    rows: int
    split: Split | None
    table: Table | None
    declared: Domain | None

    @property
    def train_rows(self) -> int: ...

    @property
    def has_coins(self) -> bool: ...

    @property
    def public_domain(self) -> Domain | None: ...

    def releases(self) -> tuple[PreparationRelease, ...]: ...

    def digest(self, key: str) -> str: ...


class Learned(NamedTuple):
    """What a product left in the folder, and what is to be said of it.

    Args:
        assumptions: what the guarantee rests on because of the method.
        unreleased: what was seen on the way and is private.
    """

    model: ModelFile
    assumptions: tuple[str, ...]
    problem: Problem | None = None
    scores: Scores | None = None
    history: tuple[HistoryPoint, ...] = ()
    unreleased: dict[str, Any] | None = None
    warnings: tuple[str, ...] = ()


class Work(NamedTuple):
    """What a product learns with, once it is paid for.

    Args:
        rows: what `Product.read_rows` returned.
    """

    run: OpenRun
    source: Any
    recipe: Recipe
    noise: PreparationNoise | None
    domain: Domain | None
    rows: Any
    keys: Keys
    observer: Observer


class Product(Protocol):
    """What a run makes, a model or a generator: everything in which the two differ.

    Attributes:
        says_what_is_left_out: it says itself which columns it leaves out, resumed or not.
    """

    kind: Kind
    says_what_is_left_out: bool

    def open(self, request: Any) -> RunSource:
        """What the request is about, the request completed; refuses what cannot be done here."""
        ...

    def request_of(self, record: RunRecord) -> Any: ...

    def method_name(self, request: Any) -> str: ...

    def method_of(self, recipe: RecipeRecord) -> Method: ...

    def price(self, source: Any, noise: PreparationNoise | None) -> Recipe:
        """The recipe that spends what the request allows; decided from what is public alone."""
        ...

    def read(self, recipe: RecipeRecord, source: Any, noise: PreparationNoise | None) -> Recipe:
        """The recipe in a record."""
        ...

    def read_rows(self, source: Any, domain: Domain | None, observer: Observer, scratch: Path) -> Any:
        """The rows, encoded; what is wrong with them is found here."""
        ...

    def table_format(self, source: Any) -> TableFormat | None: ...

    def learn(self, work: Work) -> Learned:
        """Learns, and writes what was learned; takes what a stopped process wrote instead, if it did."""
        ...


@dataclass(frozen=True, kw_only=True)
class FinishedRun:
    """A run that is on disk: its folder, and the record in it."""

    folder: Path
    record: RunRecord


def start(
    product: Product, request: Any, folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY
) -> FinishedRun:
    """Makes what the request asks for, in a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    began = time.perf_counter()
    by_first(lambda: folders.require_new(folder))
    source = product.open(request)
    if source.table is not None and (doubt := source.table.doubt) is not None:
        observer.warn(doubt)
    noise = _noise(source)
    recipe = product.price(source, noise)
    keys = shared_keys(keys)
    if source.has_coins:
        source.split = Split.draw(source.request.test, keys)
    run = OpenRun(folder, _new_record(product, source, noise, recipe))
    with spill.scratch() as scratch:
        # Where nothing has to be released first, what is wrong with the rows is found before it is paid.
        rows = None
        if noise is None:
            rows = by_all(lambda: product.read_rows(source, source.public_domain, observer, scratch))
        by_first(lambda: folders.create(folder))
        with _held_by_first(folder), run.said_when_stopped(observer):
            by_first(lambda: source.split and write_split(folder, source.split))
            by_first(
                lambda: pay(folder, run.record, observer, price=lambda e: _event_for(product, source, e))
            )
            return _go_on(product, run, source, noise, recipe, keys, observer, began, scratch, rows)


def resume(
    product: Product, folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY
) -> FinishedRun:
    """Resumes a run that was stopped, as it was requested; a finished one is returned as it is.

    Raises:
        DataError: another process is at work on it, or it has failed for good.
        IntegrityError: it was priced for something else, or something in the folder is damaged.
    """
    began = time.perf_counter()
    record = _record_of_first(folder)
    _require_kind(product, folder, record)
    if record.state != "finished":
        with _held_by_first(folder), spill.scratch() as scratch:
            return _resume(product, folder, shared_keys(keys), observer, began, scratch)
    if collectives.is_first():
        with suppress(DataError), folders.held(folder):
            folders.tidy(folder)
    observer.say(f"{folder} is finished already.")
    return FinishedRun(folder=folder, record=record)


def _new_record(
    product: Product, source: RunSource, noise: PreparationNoise | None, recipe: Recipe
) -> RunRecord:
    request = as_requested(source.request)
    number = collectives.broadcast_json(secrets.token_hex(8))
    return RunRecord(
        kind=product.kind,
        state="started",
        number=number,
        request=request,
        records=source.rows,
        rows=source.train_rows,
        recipe=RecipeRecord(
            method=product.method_name(source.request), in_words=recipe.in_words, settings=recipe.to_json()
        ),
        preparation=preparation_cost(noise, delta=request.delta),
        event=_whole_event(recipe, noise),
        versions={"reticent": __version__, "jax": jax.__version__, "numpy": np.__version__},
        table=source.digest(number),
        written_as=product.table_format(source),
    )


def _whole_event(recipe: Recipe, noise: PreparationNoise | None) -> Event:
    """What the whole run releases: the preparation, then what the method does."""
    return recipe.event if noise is None else Composed(events=(noise.event, recipe.event))


def _noise(source: RunSource) -> PreparationNoise | None:
    request = source.request
    return preparation_noise(source.releases(), epsilon=request.epsilon, delta=request.delta)


def _event_for(product: Product, source: RunSource, epsilon: float) -> Event:
    """What the same run would release if it were asked for with another epsilon."""
    other = copy(source)
    other.request = replace(source.request, epsilon=epsilon)
    noise = _noise(other)
    return _whole_event(product.price(other, noise), noise)


@contextmanager
def _held_by_first(folder: Path) -> Iterator[None]:
    """The folder, kept by the first process for all."""
    with ExitStack() as stack:
        by_first(lambda: stack.enter_context(folders.held(folder)))
        yield


def _record_of_first(folder: Path) -> RunRecord:
    """The record in the folder, as the first process reads it, for all."""
    found = by_first(lambda: folders.read_record(folder))
    return RunRecord.from_json(collectives.broadcast_json(None if found is None else found.to_json()))


def _require_kind(product: Product, folder: Path, record: RunRecord) -> None:
    """
    Raises:
        DataError: another command made it.
    """
    if record.kind != product.kind:
        raise DataError(
            f"{folder} holds a {record.kind}, not a {product.kind}.",
            remedy=f"Use: reticent {COMMANDS[record.kind]} --resume {folder}.",
        )


def _resume(
    product: Product, folder: Path, keys: Keys, observer: Observer, began: float, scratch: Path
) -> FinishedRun:
    record = _record_of_first(folder)
    if record.state == "finished":  # by another process, a moment ago
        return FinishedRun(folder=folder, record=record)
    if record.state == "failed":
        raise DataError(
            f"The run in {folder} has failed for good: {record.failure}",
            remedy="Start a new run in another folder; what this one cost stays spent.",
        )
    version = record.versions.get("reticent")
    if version != __version__:
        raise IntegrityError(
            f"{folder} was started with version {version}, and this is {__version__}.",
            remedy="Resume it with that version, or start a new run in another folder.",
        )
    by_first(lambda: require_own(folder, record))
    source = product.open(product.request_of(record))
    noise = _noise(source)
    recipe = product.read(record.recipe, source, noise)
    is_priced = events.to_json(_whole_event(recipe, noise)) == events.to_json(record.event)
    if not is_priced or source.digest(record.number) != record.table:
        raise IntegrityError(
            f"The data or the domain of {folder} are not what the run was priced for.",
            remedy="Put them back as they were, or start a new run in another folder.",
        )
    if source.has_coins:
        source.split = _split_of_first(folder, source.request.test)
    run = OpenRun(folder, record)
    with run.said_when_stopped(observer):
        by_first(lambda: charge(record, observer))
        return _go_on(product, run, source, noise, recipe, keys, observer, began, scratch)


def _split_of_first(folder: Path, share: float) -> Split:
    found = by_first(lambda: read_split(folder, share))
    return Split(share=share, seed=collectives.broadcast_json(None if found is None else found.seed))


def _go_on(
    product: Product,
    run: OpenRun,
    source: RunSource,
    noise: PreparationNoise | None,
    recipe: Recipe,
    keys: Keys,
    observer: Observer,
    began: float,
    scratch: Path,
    rows: Any = None,
) -> FinishedRun:
    """Everything after the payment. Whatever stops it says that the run is paid for, and how to resume it."""
    with run.said_when_refused():
        copies = (COPIES,) if source.table is not None and collectives.count() > 1 else ()
        written = None if source.table is None else source.table.format_assumption
        public = () if written is None else (written,)
        run.keep(run.record.paid(*keys.assumptions, *network(), *copies, *public))
        by_first(lambda: folders.drop_partials(run.folder))
        quiet = observer._replace(warn=NOBODY.warn) if product.says_what_is_left_out else observer
        domain = domain_of(run, source, noise, keys, quiet)
        if rows is None:
            rows = by_all(lambda: product.read_rows(source, domain, observer, scratch))
        learned = product.learn(Work(run, source, recipe, noise, domain, rows, keys, observer))
        outcome = Outcome(
            model=learned.model,
            guarantee=_promise(run.record, product.method_of(run.record.recipe), learned.assumptions),
            seconds=time.perf_counter() - began,
            problem=learned.problem,
            scores=learned.scores,
            history=learned.history,
            unreleased=learned.unreleased,
            warnings=learned.warnings,
        )
        run.keep(run.record.finished(outcome))
        by_first(lambda: folders.tidy(run.folder))
    return FinishedRun(folder=run.folder, record=_record_of_first(run.folder))


def _promise(record: RunRecord, method: Method, assumptions: tuple[str, ...]) -> Guarantee:
    """The sentence about a whole run."""
    names = ("the names of the columns are public",) if record.preparation is not None else ()
    delta = record.request.delta
    return guarantee(
        record.event,
        delta,
        Adjacency.ADD_OR_REMOVE,
        arithmetic=method.sampler_share * delta,
        assumptions=tuple(dict.fromkeys((*assumptions, *names, *record.assumptions))),
    )
