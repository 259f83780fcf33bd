"""Models: what a run does that trains one. The way there is that of every run: see `lifecycle`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from reticent.core.errors import Inconclusive, InvalidArgument
from reticent.core.files import write_whole
from reticent.core.keys import Keys
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain
from reticent.data.preparation.noise import PreparationNoise
from reticent.distributed import collectives
from reticent.distributed.consensus import broadcast_tree, by_first
from reticent.mechanisms import events
from reticent.pretraining.public_model import WEIGHTS
from reticent.runs import folder as folders
from reticent.runs import lifecycle
from reticent.runs.arrays import DividedRows, divided_by, inputs_of, parts_as_inputs, with_public
from reticent.runs.learners import Learner, learner
from reticent.runs.lifecycle import FinishedRun
from reticent.runs.method import Inputs, Method, Recipe, Trained
from reticent.runs.methods import table as methods
from reticent.runs.model_choice import choose_model
from reticent.runs.open_run import OpenRun
from reticent.runs.payment import delta_of
from reticent.runs.predict import params_in
from reticent.runs.pricing import price
from reticent.runs.private_part import HISTORY, PRIVATE
from reticent.runs.problem import Problem
from reticent.runs.record import ModelFile, RecipeRecord, RunKind, RunRecord
from reticent.runs.request import Request, request_of
from reticent.runs.scoring import score, warnings_about
from reticent.runs.source import Source
from reticent.runs.table_format import TableFormat
from reticent.runs.users import several_rows
from reticent.runs.work import Learned, Work
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


def resume(
    folder: Path, *, keys: Keys | None = None, observer: Observer = NOBODY, data: Path | str | None = None
) -> FinishedRun:
    """Resumes a run that was stopped, as it was requested; a finished one is returned as it is.

    Args:
        data: where its table is, if that was moved.

    Raises:
        DataError: another process is at work on it, or it has failed for good.
        IntegrityError: it was priced for something else, or something in the folder is damaged.
    """
    return lifecycle.resume(MODEL, folder, keys=keys, observer=observer, data=data)


class ModelProduct:
    """A model: see `lifecycle.Product`."""

    kind: RunKind = "model"
    says_what_is_left_out = False

    def open(self, request: Request, folder: Path | None = None) -> Source:
        source = Source.of(request, folder)
        _require_method(request)
        _require_weights(source)
        is_claim = methods.METHODS[methods.choose(request.method)].claims_delta
        asked = replace(source.request, delta=delta_of(request, source.rows, claims=is_claim))
        chosen = choose_model(asked, source)
        source.request, source.why_model = replace(asked, model=chosen.model), chosen.why
        return source

    def request_of(self, record: RunRecord) -> Request:
        return request_of(record)

    def method_name(self, request: Request) -> str:
        return methods.choose(request.method)

    def why(self, source: Source) -> str:
        return f"{source.request.model}: {source.why_model}" if source.why_model else ""

    def method_of(self, recipe: RecipeRecord) -> Method:
        return methods.method_of(recipe)

    def price(self, source: Source, noise: PreparationNoise | None) -> Recipe:
        return price(source, noise)

    def read(self, recipe: RecipeRecord, source: Source, noise: PreparationNoise | None) -> Recipe:
        return methods.read(recipe)

    def check_rows(self, source: Source, observer: Observer, scratch: Path) -> None:
        source.make_features(observer, scratch)

    def read_rows(
        self, source: Source, domain: Domain | None, observer: Observer, scratch: Path
    ) -> DividedRows:
        divided = divided_by(source, domain, observer, scratch=scratch)
        learner(source.request.model, divided.problem, source.start)  # or says that there is none for it
        if source.start is not None:
            source.start.require_no_overlap(divided.train_on["x"], is_public=source.request.overlap_is_public)
        return divided

    def require_usable(self, run: OpenRun, rows: DividedRows) -> None:
        _require_classes(run, rows.problem)
        _require_few_features(run, rows.problem)

    def table_format(self, source: Source) -> TableFormat | None:
        return None

    def learn(self, work: Work) -> Learned:
        run, source, recipe, observer = work.run, work.source, work.recipe, work.observer
        record = run.record
        if (features := source.features) is not None:
            by_first(lambda: features.keep(run.folder))
        divided, public = with_public(source, work.domain, work.rows, observer)
        learn = learner(source.request.model, divided.problem, source.start)
        if source.start is not None:
            content = source.start.weights.content
            by_first(lambda: write_whole(run.folder / WEIGHTS, content))
        if source.why_model:
            observer.say(f"auto chose {learn.name}: {source.why_model}")
        observer.say(f"training {learn.name} on {folders.rows_in_words(record)}: {recipe.in_words}")
        if reason := record.recipe.settings.get("reason"):
            observer.say(f"auto chose {reason}")
        train_on, held_out = parts_as_inputs(learn, divided, work.keys, observer, run.folder)
        domain = work.domain.to_toml() if work.domain else ""
        stamp = stamp_of(record.recipe.to_json(), events.to_json(record.event), domain, record.number)
        trained = _read_released(run.folder, learn) or recipe.follow(
            Inputs(
                learner=learn,
                problem=divided.problem,
                train_on=train_on,
                held_out=held_out,
                keys=work.keys,
                checkpoints=Checkpoints(
                    path=run.folder / folders.CHECKPOINT,
                    stamp=stamp,
                    history=run.folder / PRIVATE / HISTORY,
                ),
                public=None if public is None else inputs_of(learn, {"x": public}, observer)["x"],
                observer=observer,
                beside=work.noise.event if work.noise else None,
                users=_users(divided, source.request),
            )
        )
        digest = _write_model(run.folder, trained)
        scores = score(learn, trained.params, divided.problem, held_out, divided.numbers)
        return Learned(
            model=ModelFile(name=learn.name, digest=digest),
            assumptions=trained.assumptions,
            problem=divided.problem,
            scores=scores,
            history=trained.history,
            unreleased=dict(trained.unreleased) or None,
            warnings=warnings_about(scores, divided.problem, source.request.target),
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


def _users(divided: DividedRows, request: Request) -> np.ndarray | None:
    """The user of each row to train on, if a user may have several rows."""
    if divided.users is None or several_rows(request.rows_per_user) is None:
        return None
    return divided.users.train_on


def _require_weights(source: Source) -> None:
    """
    Raises:
        InvalidArgument: classes have weights, and what they are is not public yet: a name that is none of
            them would be found out when the run is paid for.
    """
    if source.request.class_weights and source.target_kind != "classes":
        raise InvalidArgument(
            f"Class weights need classes that are declared, and those of '{source.request.target}' are not.",
            remedy="Declare them: --classes no,yes, or in a domain file.",
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


def _require_few_features(run: OpenRun, problem: Problem) -> None:
    """
    Raises:
        InvalidArgument: there are more features than the method takes: the run has failed for good.
    """
    recipe, features = run.record.recipe, math.prod(problem.shape)
    most = methods.method_of(recipe).most_features
    if not most or features <= most:
        return
    error = InvalidArgument(
        f"The method '{recipe.method}' takes at most {most:,} features, and there are {features:,}.",
        remedy="Start a new run in another folder, with --method sgd, or with fewer columns.",
    )
    run.fail(error)
    raise error


def _read_released(folder: Path, learn: Learner) -> Trained | None:
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
