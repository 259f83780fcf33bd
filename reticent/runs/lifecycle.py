"""The life of a run, from a request to a folder: open, price, pay, prepare, learn, write; and resume.

A run makes a model or a generator. What differs between the two is a `RunProduct`; everything else is here,
once. The states of a run are those of its record (`record`).

A run pays for each release before it is made: for its preparation, once the ledger has room for all of it,
and for the rest when preparation has found what can be used. So one whose preparation fails has paid for that
alone.

A run that was stopped resumes from what is in its folder. It is never charged twice: its number is in the
purpose of its charges, and is looked up before another charge is made. Nothing is released twice: each result
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
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from reticent import __version__
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.tight_epsilon import guarantee
from reticent.core.errors import DataError
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
from reticent.runs.declared import Declared
from reticent.runs.holder_warnings import tell_holder, write_holder_warnings
from reticent.runs.method import Method, Recipe
from reticent.runs.open_run import OpenRun
from reticent.runs.origin import require_own
from reticent.runs.payment import charge, charge_rest, data_of, pay, preparation_cost, preparation_noise
from reticent.runs.private_part import read_split, write_split
from reticent.runs.public_domain import domain_of
from reticent.runs.record import (
    RecipeRecord,
    RunKind,
    RunRecord,
    RunResult,
    as_requested,
)
from reticent.runs.resumable import require_kind, require_resumable, require_same_data, require_same_rows
from reticent.runs.row_fingerprint import RowDigest, digest_for, keep_or_compare
from reticent.runs.source import move, require_there
from reticent.runs.table_format import TableFormat
from reticent.runs.users import assumptions_about
from reticent.runs.work import Learned, Work

# Of a run whose processes each read a part of a file.
COPIES = "all processes read the same file (its size, its columns and both of its ends were compared)"


class RunSource(Protocol):
    """What a request is about, opened: a table with its domain, or a dataset of the catalog.

    Attributes:
        request: with its delta and its method filled in.
        rows: of all processes together: public.
        split: which rows are held out, where coins decide.
        row_digest: takes in the rows as they are read.
        declares: what is taken as public beside the domain, and what to say about it.
    """

    request: Any
    rows: int
    split: Split | None
    row_digest: RowDigest | None
    table: Table | None
    declared: Domain | None
    declares: Declared

    @property
    def train_rows(self) -> int: ...

    @property
    def has_coins(self) -> bool: ...

    @property
    def public_domain(self) -> Domain | None: ...

    def releases(self) -> tuple[PreparationRelease, ...]: ...

    def digest(self, key: str) -> str: ...


class RunProduct(Protocol):
    """What a run makes, a model or a generator: everything in which the two differ.

    Attributes:
        says_what_is_left_out: it says itself which columns it leaves out, resumed or not.
    """

    kind: RunKind
    says_what_is_left_out: bool

    def open(self, request: Any, folder: Path | None = None) -> RunSource:
        """What the request is about, the request completed; refuses what cannot be done here.

        Args:
            folder: of a run that is resumed.
        """
        ...

    def request_of(self, record: RunRecord) -> Any: ...

    def method_name(self, request: Any) -> str: ...

    def why(self, source: Any) -> str:
        """The model that `auto` stands for, and why; nothing if it was asked for by name."""
        ...

    def method_of(self, recipe: RecipeRecord) -> Method: ...

    def price(self, source: Any, noise: PreparationNoise | None) -> Recipe:
        """The recipe that spends what the request allows; decided from what is public alone."""
        ...

    def read(self, recipe: RecipeRecord, source: Any, noise: PreparationNoise | None) -> Recipe:
        """The recipe in a record."""
        ...

    def check_rows(self, source: Any, observer: Observer, scratch: Path) -> None:
        """Finds what is wrong with the rows and can be found before anything is released."""
        ...

    def read_rows(self, source: Any, domain: Domain | None, observer: Observer, scratch: Path) -> Any:
        """The rows, encoded; what is wrong with them is found here."""
        ...

    def require_usable(self, run: OpenRun, rows: Any) -> None:
        """Fails a run for good if what its preparation found is of no use to it, before the rest is paid."""
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
    product: RunProduct, request: Any, folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY
) -> FinishedRun:
    """Makes what the request asks for, in a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    began = time.perf_counter()
    by_first(lambda: folders.require_new(folder))
    source = product.open(request)
    warned = by_first(lambda: tell_holder(source, observer)) or ()
    noise = _noise(source)
    recipe = product.price(source, noise)
    keys = shared_keys(keys)
    if source.has_coins:
        source.split = Split.draw(source.request.test, keys)
    source.row_digest = RowDigest.draw()
    run = OpenRun(folder, _new_record(product, source, noise, recipe))
    with spill.scratch() as scratch:
        # Where nothing has to be released first, what is wrong with the rows is found before it is paid.
        rows = None
        by_all(lambda: product.check_rows(source, observer, scratch))
        if noise is None:
            rows = by_all(lambda: product.read_rows(source, source.public_domain, observer, scratch))
        by_first(lambda: folders.create(folder))
        with _hold_by_first(folder), run.said_when_stopped(observer):
            by_first(lambda: source.split and write_split(folder, source.split))
            by_first(lambda: write_holder_warnings(folder, warned))
            price = partial(_event_for, product, source)
            by_first(lambda: pay(folder, run.record, observer, data=data_of(source), price=price))
            for note in source.declares.notes:
                observer.say(note)
            return _go_on(product, run, source, noise, recipe, keys, observer, began, scratch, rows)


def resume(
    product: RunProduct,
    folder: Path,
    *,
    keys: Keys | None = None,
    observer: Observer = NOBODY,
    data: Path | str | None = None,
) -> FinishedRun:
    """Resumes a run that was stopped, as it was requested; a finished one is returned as it is.

    Args:
        data: where its table is, if that was moved.

    Raises:
        DataError: another process is at work on it, or it has failed for good.
        IntegrityError: it was priced for something else, or something in the folder is damaged.
    """
    began = time.perf_counter()
    record = _record_of_first(folder)
    require_kind(product.kind, folder, record)
    if record.state != "finished":
        with _hold_by_first(folder), spill.scratch() as scratch:
            return _resume(product, folder, shared_keys(keys), observer, began, scratch, data)
    if collectives.is_first():
        with suppress(DataError), folders.hold(folder):
            folders.tidy(folder)
    observer.say(f"{folder} is finished already.")
    return FinishedRun(folder=folder, record=record)


def _new_record(
    product: RunProduct, source: RunSource, noise: PreparationNoise | None, recipe: Recipe
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
            method=product.method_name(source.request),
            in_words=recipe.in_words,
            settings=recipe.to_json(),
            why=product.why(source),
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


def _event_for(product: RunProduct, source: RunSource, epsilon: float) -> Event:
    """What the same run would release if it were asked for with another epsilon."""
    other = copy(source)
    other.request = replace(source.request, epsilon=epsilon)
    noise = _noise(other)
    return _whole_event(product.price(other, noise), noise)


@contextmanager
def _hold_by_first(folder: Path) -> Iterator[None]:
    """The folder, kept by the first process for all."""
    with ExitStack() as stack:
        by_first(lambda: stack.enter_context(folders.hold(folder)))
        yield


def _record_of_first(folder: Path) -> RunRecord:
    """The record in the folder, as the first process reads it, for all."""
    found = by_first(lambda: folders.read_record(folder))
    return RunRecord.from_json(collectives.broadcast_json(None if found is None else found.to_json()))


def _resume(
    product: RunProduct,
    folder: Path,
    keys: Keys,
    observer: Observer,
    began: float,
    scratch: Path,
    data: Path | str | None,
) -> FinishedRun:
    record = _record_of_first(folder)
    if record.state == "finished":  # by another process, a moment ago
        return FinishedRun(folder=folder, record=record)
    require_resumable(folder, record)
    by_first(lambda: require_own(folder, record))
    request = move(product.request_of(record), data)
    require_there(request, folder)
    source = product.open(request, folder)
    require_same_rows(folder, record, source)
    noise = _noise(source)
    recipe = product.read(record.recipe, source, noise)
    is_priced = events.to_json(_whole_event(recipe, noise)) == events.to_json(record.event)
    require_same_data(folder, record, source, is_priced=is_priced)
    source.row_digest = digest_for(folder)
    if source.has_coins:
        source.split = _split_of_first(folder, source.request.test)
    run = OpenRun(folder, record)
    with run.said_when_stopped(observer):
        by_first(lambda: charge(record, observer, data=data_of(source)))
        return _go_on(product, run, source, noise, recipe, keys, observer, began, scratch)


def _split_of_first(folder: Path, share: float) -> Split:
    found = by_first(lambda: read_split(folder, share))
    return Split(share=share, seed=collectives.broadcast_json(None if found is None else found.seed))


def _go_on(
    product: RunProduct,
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
        public = (*(() if written is None else (written,)), *source.declares.assumptions)
        run.keep(run.record.preparing(*keys.assumptions, *network(), *copies, *public))
        by_first(lambda: folders.drop_partials(run.folder))
        quiet = observer._replace(warn=NOBODY.warn) if product.says_what_is_left_out else observer
        domain = domain_of(run, source, noise, keys, quiet)
        if rows is None:
            rows = by_all(lambda: product.read_rows(source, domain, observer, scratch))
        keep_or_compare(run.folder, source)
        product.require_usable(run, rows)
        by_first(lambda: charge_rest(run.record, run.folder, observer, data=data_of(source)))
        run.keep(run.record.paid())
        learned = product.learn(Work(run, source, recipe, noise, domain, rows, keys, observer))
        outcome = RunResult(
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
    is_declared = record.table in (None, "") or record.request.domain is not None
    names = () if is_declared and record.preparation is None else ("the names of the columns are public",)
    delta, users = record.request.delta, assumptions_about(record.request)
    return guarantee(
        record.event,
        delta,
        Adjacency.ADD_OR_REMOVE,
        unit=record.request.unit,
        rows_per_user=record.request.rows_per_user,
        arithmetic=method.sampler_share * delta,
        assumptions=tuple(dict.fromkeys((*assumptions, *names, *users, *record.assumptions))),
    )
