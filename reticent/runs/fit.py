"""Models: what a run does that trains one. The way there is that of every run: see `lifecycle`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from reticent.core.errors import Inconclusive, InvalidArgument
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed import collectives
from reticent.distributed.consensus import broadcast_tree, by_first
from reticent.mechanisms import events
from reticent.runs import folder as folders
from reticent.runs import lifecycle
from reticent.runs.arrays import Divided, divided_by, inputs_of, parts_as_inputs, with_public
from reticent.runs.learners import Learner, learner
from reticent.runs.lifecycle import FinishedRun, Learned, Work
from reticent.runs.method import Inputs, Method, Recipe, Trained
from reticent.runs.methods import table as methods
from reticent.runs.open_run import OpenRun
from reticent.runs.predict import params_in
from reticent.runs.pricing import price
from reticent.runs.problem import Problem, checked_delta
from reticent.runs.record import Kind, ModelFile, RecipeRecord, RunRecord, TableFormat
from reticent.runs.request import Request, request_of
from reticent.runs.scoring import score
from reticent.runs.source import Source
from reticent.training.checkpoint import Checkpoints, stamp_of
from reticent.training.clipping import paths_of


def fit(
    request: Request, folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY
) -> FinishedRun:
    """Trains what the request asks for into a new folder.

    Raises:
        DataError, DomainError, InvalidArgument, CannotMeet: before anything was charged.
        BudgetExceeded: the ledger does not cover it; nothing was charged.
    """
    return lifecycle.start(MODEL, request, folder, keys=keys, observer=observer)


def resume(folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY) -> FinishedRun:
    """Resumes a run that was stopped, as it was requested; a finished one is returned as it is.

    Raises:
        DataError: another process is at work on it, or it has failed for good.
        IntegrityError: it was priced for something else, or something in the folder is damaged.
    """
    return lifecycle.resume(MODEL, folder, keys=keys, observer=observer)


class ModelProduct:
    """A model: see `lifecycle.Product`."""

    kind: Kind = "model"
    says_what_is_left_out = False

    def open(self, request: Request) -> Source:
        source = Source.of(request)
        _require_method(request)
        source.request = replace(request, delta=checked_delta(request.delta, source.rows))
        return source

    def request_of(self, record: RunRecord) -> Request:
        return request_of(record)

    def method_name(self, request: Request) -> str:
        return methods.choose(request.method)

    def method_of(self, recipe: RecipeRecord) -> Method:
        return methods.method_of(recipe)

    def price(self, source: Source, noise: PreparationNoise | None) -> Recipe:
        return price(source, noise)

    def read(self, recipe: RecipeRecord, source: Source, noise: PreparationNoise | None) -> Recipe:
        return methods.read(recipe)

    def read_rows(self, source: Source, domain: Domain | None, observer: Observer, scratch: Path) -> Divided:
        divided = divided_by(source, domain, observer, scratch=scratch)
        learner(source.request.model, divided.problem)  # or says that there is none for it
        return divided

    def table_format(self, source: Source) -> TableFormat | None:
        return None

    def learn(self, work: Work) -> Learned:
        run, source, recipe, observer = work.run, work.source, work.recipe, work.observer
        record = run.record
        _require_classes(run, work.rows.problem)
        divided, public = with_public(source, work.domain, work.rows, observer)
        learn = learner(source.request.model, divided.problem)
        observer.say(f"training {learn.name} on {folders.rows_in_words(record)}: {recipe.in_words}")
        train_on, held_out = parts_as_inputs(learn, divided, work.keys, observer)
        domain = work.domain.to_toml() if work.domain else ""
        stamp = stamp_of(record.recipe.to_json(), events.to_json(record.event), domain, record.number)
        trained = _released(run.folder, learn) or recipe.follow(
            Inputs(
                learner=learn,
                problem=divided.problem,
                train_on=train_on,
                held_out=held_out,
                keys=work.keys,
                checkpoints=Checkpoints(path=run.folder / folders.CHECKPOINT, stamp=stamp),
                public=None if public is None else inputs_of(learn, {"x": public}, observer)["x"],
                observer=observer,
                beside=work.noise.event if work.noise else None,
            )
        )
        digest = _write_model(run.folder, trained)
        return Learned(
            model=ModelFile(name=learn.name, digest=digest),
            assumptions=trained.assumptions,
            problem=divided.problem,
            scores=score(learn, trained.params, divided.problem, held_out),
            history=trained.history,
            unreleased=dict(trained.unreleased) or None,
        )


MODEL = ModelProduct()


def _require_method(request: Request) -> None:
    """
    Raises:
        InvalidArgument: several processes were started for a method that one alone can follow.
    """
    if collectives.count() > 1 and methods.choose(request.method) not in methods.shared():
        raise InvalidArgument(
            f"Method '{request.method}' needs all rows, and {collectives.count()} processes share them.",
            remedy=f"Choose --method {' or '.join(methods.shared())}, or train in one process.",
        )


def _require_classes(run: OpenRun, problem: Problem) -> None:
    """
    Raises:
        Inconclusive: the method is for classes, and preparation found a number: the run has failed for good.
    """
    recipe = run.record.recipe
    if problem.is_classification or not methods.method_of(recipe).needs_classes:
        return
    error = Inconclusive(
        f"The method '{recipe.method}' is for classes, and the target was found to be a number.",
        remedy="Start a new run in another folder, with another --method or a target that has classes.",
    )
    run.fail(error)
    raise error


def _released(folder: Path, learn: Learner) -> Trained | None:
    """The model that a process wrote before it was stopped: it is out, and is not drawn a second time."""
    assumptions = collectives.broadcast_json(by_first(lambda: folders.assumptions_of_model(folder)))
    if assumptions is None:
        return None
    params = by_first(lambda: params_in(folder, learn, None))
    like = learn.model.init(jax.random.key(0)) if params is None else params
    return Trained(broadcast_tree(like), tuple(assumptions))


def _write_model(folder: Path, trained: Trained) -> str:
    """Puts the model on the disk; returns its digest, which all processes know."""
    named = dict(zip(paths_of(trained.params), map(np.asarray, jax.tree.leaves(trained.params)), strict=True))
    return collectives.broadcast_json(
        by_first(lambda: folders.write_model(folder, named, trained.assumptions))
    )
