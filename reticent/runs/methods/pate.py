"""PATE as a method of a run: teachers on private rows vote on public ones, and a student learns from that.

The whole allowance is paid before the first question. Answers are on the disk, in one piece, before the
student sees them: a stopped run resumes with those, and asks nothing twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optax

from reticent.accounting.rounding import at_most
from reticent.accounting.theorems import gaussian_dp
from reticent.core.errors import CannotMeet, DataError, Inconclusive, IntegrityError
from reticent.core.files import MISFITS, read_json_inside, write_whole
from reticent.core.generators import generator
from reticent.core.keys import Stream
from reticent.mechanisms.events import Event
from reticent.pate import Answers, Confident, GaussianMax, Questions, Teller, Votes, unreleased_cost
from reticent.pate.allowance import about_samplers, allowance_of, multiplier_for, release_of
from reticent.pate.asking import Settings, choose_far_apart, choose_settings
from reticent.pate.learning import learn
from reticent.pate.partition import partition
from reticent.pate.propagation import Graph, neighbour_graph
from reticent.pate.scaling import PoolScale
from reticent.pate.student import fit_student
from reticent.pate.teachers import teach
from reticent.runs.method import Inputs, Method, Terms, Trained, require_enough
from reticent.runs.private_part import PRIVATE, make_private

ANSWERS = "answers.json"

_ROWS_EACH = 20  # the fewest, on average, that a teacher can be taught with
_MOST_TEACHERS = 250
_RATES = {"mlp": 0.02, "cnn": 0.005}  # of Adam, for models that are not a single product


class _View:
    """Rows as teachers and student see them: columns of a table of like size, by the public rows alone.

    In pictures neighbours are mostly of one class, and votes may be smoothed over them.
    """

    def __init__(self, inputs: Inputs) -> None:
        assert inputs.public is not None
        self.pool, self.rows = inputs.public, inputs.train_on["x"]
        self.graph: Graph | None = None
        if inputs.problem.is_image:
            self.graph = neighbour_graph(self.pool)
        else:
            scale = PoolScale.of(self.pool)
            self.pool, self.rows = scale(self.pool), scale(self.rows)


class Pate(NamedTuple):
    """A number of teachers, and the one Gaussian release that all their answers together are worth.

    Args:
        delta: at which the answers alone are worth what the settings were chosen for.
        rows_per_user: the most rows of a user; with more than one, all of them go to the same teacher.
    """

    teachers: int
    noise_multiplier: float
    delta: float
    model: str
    rows_per_user: int = 1

    @property
    def event(self) -> Event:
        return release_of(self.noise_multiplier)

    @property
    def in_words(self) -> str:
        return f"{self.teachers} teachers, whose answers cost no more than {at_most(self._epsilon)}"

    @property
    def _epsilon(self) -> float:
        return gaussian_dp.epsilon(1 / self.noise_multiplier, self.delta)

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    def follow(self, inputs: Inputs) -> Trained:
        problem, public = inputs.problem, inputs.public
        assert public is not None
        assert problem.is_classification
        view = _View(inputs)
        kept = inputs.checkpoints.path.parent / PRIVATE / ANSWERS
        found = _read(kept, inputs.checkpoints.stamp, len(public), problem.outputs)
        if found is None:
            found = self._ask(inputs, view)
            if inputs.checkpoints.stamp:  # before anybody learns from them
                make_private(inputs.checkpoints.path.parent)
                _write(kept, inputs.checkpoints.stamp, *found)
        answers, seen = found
        if not len(answers):
            raise Inconclusive(
                f"None of {answers.asked} questions was answered: the teachers disagree.",
                remedy="Use fewer teachers, so that each knows more, or a larger --epsilon.",
            )
        with inputs.observer.watch("student") as on_progress:
            student = learn(
                view.pool,
                answers.questions.rows,
                answers.evidence,
                classes=problem.outputs,
                teachers=self.teachers,
                sigma=self._settings(view, problem.outputs).sigma_vote,
                graph=view.graph,
                on_progress=lambda done: on_progress(done / 2),
            )
            params = fit_student(
                inputs.learner.model,
                public,
                student.shares,
                optimizer=_optimizer(self.model, 150),
                on_progress=lambda done: on_progress(0.5 + done / 2),
            )
        drawn = self._settings(view, problem.outputs).queries * problem.outputs
        said = (*_assumptions(problem.rows, inputs.users is not None), *about_samplers(drawn))
        return Trained(params, said, unreleased=seen)

    def _settings(self, view: _View, classes: int) -> Settings:
        return choose_settings(self.teachers, classes, len(view.pool), self._epsilon, self.delta)

    def _ask(self, inputs: Inputs, view: _View) -> tuple[Answers, dict[str, Any]]:
        """Teaches, and buys as many answers as the allowance covers."""
        chosen = self._settings(view, inputs.problem.outputs)
        noise = chosen.aggregator
        teller = Teller(noise, allowance_of(noise, self.noise_multiplier), inputs.keys)
        votes = self._votes(inputs, view)
        questions = choose_far_apart(view.pool, chosen.queries, seed=0)
        with inputs.observer.watch("questions") as on_progress:
            answers = teller.answer(votes, Questions(rows=questions))
            on_progress(1.0)
        inputs.observer.say(
            f"{len(answers)} of {answers.asked} questions about {len(view.pool):,} public rows were answered"
        )
        return answers, _describe_agreement(
            votes, Questions(rows=questions[: answers.asked]), answers, noise, self.delta
        )

    def _votes(self, inputs: Inputs, view: _View) -> Votes:
        y = inputs.train_on["y"]
        shards = partition(
            len(y),
            self.teachers,
            # How many there are is as secret as the coins that chose them.
            examples=inputs.problem.rows * self.rows_per_user,
            seed=generator(inputs.keys, stream=Stream.SAMPLING),
            content=(view.rows, y),
            users=inputs.users,
        )
        learner, observer = inputs.learner, inputs.observer
        with observer.watch(f"{self.teachers} teachers") as on_progress:
            teachers = teach(
                learner.model,
                shards,
                view.rows,
                y,
                optimizer=_optimizer(self.model, 100),
                on_progress=on_progress,
            )
        with observer.watch("votes") as on_progress:
            smooth = None if view.graph is None else view.graph.smooth
            labels = teachers.vote(view.pool, smooth=smooth, on_progress=on_progress)
        return Votes.of_labels(labels, classes=inputs.problem.outputs)


METHOD_DESCRIPTION = "PATE: teachers vote with noise on public rows, and a student learns from that"


def method() -> Method:
    """The row of PATE in the table of methods."""
    return Method(
        description=METHOD_DESCRIPTION,
        price=_price,
        read=_read_recipe,
        needs_classes=True,
        is_for_users=True,
        claims_delta=True,
    )


def _price(terms: Terms) -> Pate:
    require_enough(terms)
    if terms.public < 2:
        raise CannotMeet(
            f"There are {terms.public} public rows, and a student needs some to learn from.",
            remedy="Pass --public TABLE with unlabelled rows that are public.",
        )
    most = terms.rows // _ROWS_EACH
    teachers = min(_MOST_TEACHERS, max(terms.rows // 100, 2)) if terms.teachers is None else terms.teachers
    if teachers > most:
        raise CannotMeet(
            f"{teachers} teachers for {terms.rows} rows have {terms.rows / teachers:.1f} each.",
            remedy=f"Ask for at most {max(most, 2)} teachers, or collect more rows.",
        )
    multiplier = multiplier_for(epsilon=terms.epsilon, delta=terms.delta, beside=terms.beside)
    return Pate(teachers, multiplier, terms.delta, terms.model, terms.rows_per_user or 1)


def _read_recipe(value: Mapping[str, Any]) -> Pate:
    return Pate(
        int(value["teachers"]),
        float(value["noise_multiplier"]),
        float(value["delta"]),
        str(value["model"]),
        int(value.get("rows_per_user", 1)),
    )


def _optimizer(model: str, steps: int) -> optax.GradientTransformation | None:
    rate = _RATES.get(model)
    return None if rate is None else optax.adam(optax.linear_schedule(rate, 0.0, steps))


def _assumptions(rows: int, has_users: bool) -> tuple[str, ...]:
    return (
        f"the number of {'users' if has_users else 'records'}, {rows}, is public",
        "the public rows are public",
        "each user was given to one teacher by a coin, with all rows"
        if has_users
        else "each row was given to one teacher by its own coin",
    )


def _describe_agreement(
    votes: Votes, questions: Questions, answers: Answers, noise: GaussianMax | Confident, delta: float
) -> dict[str, Any]:
    """What only the holder of the data may look at: how far the teachers agree, and what that would cost."""
    asked = votes.about(questions)
    answered = np.isin(questions.rows, answers.questions.rows)
    agreement = votes.counts.max(axis=1) / votes.teachers
    counts, _ = np.histogram(agreement, bins=20, range=(0.0, 1.0))
    return {
        "label": "unreleased: computed from private votes without noise; not to be published",
        "agreement": counts.tolist(),
        "epsilon of the answers with their votes in view": unreleased_cost(
            asked, noise, is_answered=answered
        ).epsilon(delta),
        "questions": answers.asked,
        "answers": len(answers),
    }


def _write(path: Path, stamp: str, answers: Answers, seen: Mapping[str, Any]) -> None:
    content = {
        "stamp": stamp,
        "asked": answers.asked,
        "rows": answers.questions.rows.tolist(),
        "labels": answers.labels.tolist(),
        "counts": None if answers.counts is None else answers.counts.tolist(),
        "unreleased": dict(seen),
    }
    write_whole(path, (json.dumps(content) + "\n").encode(), is_private=True)


def _read(path: Path, stamp: str, pool: int, classes: int) -> tuple[Answers, dict[str, Any]] | None:
    """The answers that a process bought before it was stopped.

    Raises:
        IntegrityError: they are damaged, or of another run.
    """
    if not stamp or not path.exists():
        return None
    try:
        value = read_json_inside(path.parent, path.name, most=1 << 28)
        answers = Answers(
            questions=Questions(rows=np.asarray(value["rows"], np.int64)),
            labels=np.asarray(value["labels"], np.int64),
            asked=int(value["asked"]),
            counts=None if value["counts"] is None else np.asarray(value["counts"], np.float64),
        )
        answers.questions.require_within(pool)
        known = np.isin(answers.labels, np.arange(classes))
        if value["stamp"] == stamp and known.all():
            return answers, dict(value["unreleased"])
    except (OSError, DataError, *MISFITS):
        pass
    raise IntegrityError(
        f"{path} does not hold the answers of this run.",
        remedy="Restore it from a copy, or start a new run in another folder.",
    )
