"""Asking teachers about a whole pool at once, within an allowance."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from reticent.core import checks
from reticent.core.generators import generator
from reticent.core.keys import Keys
from reticent.distributed.consensus import require_alone
from reticent.pate.aggregators import Aggregator, Confident, GaussianMax
from reticent.pate.allowance import Allowance
from reticent.pate.votes import Answers, Questions, Votes


class Teller:
    """Teachers that answer until the allowance ends: each round continues where the last one stopped.

    Example:
        >>> from reticent.pate.aggregators import GaussianMax
        >>> from reticent.pate.allowance import allowance_for
        >>> noise = GaussianMax(sigma=20.0)
        >>> teller = Teller(noise, allowance_for(noise, epsilon=1.0, delta=1e-6), Keys.seeded(0))
        >>> votes = Votes(counts=[[0, 100]] * 50, teachers=100)
        >>> answers = teller.answer(votes, Questions.first(50))
        >>> answers.asked, set(answers.labels.tolist())
        (11, {1})
    """

    def __init__(self, aggregator: Aggregator, allowance: Allowance, keys: Keys) -> None:
        require_alone("PATE")
        self.aggregator, self.allowance, self._keys = aggregator, allowance, keys
        self.asked = self.answered = self._rounds = 0

    def answer(
        self,
        votes: Votes,
        questions: Questions,
        *,
        beliefs: np.ndarray | None = None,
        most: int | None = None,
    ) -> Answers:
        """Asks in this order until the allowance ends, or `most` were answered.

        Args:
            votes: of the whole pool.
            beliefs: the student's probabilities for these questions, (questions, classes): Interactive-GNMax.

        Guarantee:
            All rounds together cost at most `allowance.event`.
        """
        about = votes.about(questions)
        source = generator(self._keys, step=self._rounds)
        self._rounds += 1
        passed = np.ones(len(questions), bool)
        if isinstance(self.aggregator, Confident):
            self.aggregator.require_reachable(votes.teachers)
            passed = self.aggregator.passes(source, about, beliefs)
        counts, labels = self._draw(source, about)
        if most is not None:
            passed = passed[
                : int(np.sum(np.cumsum(passed) - passed < most))
            ]  # up to the last that was wanted
        rest = self.allowance._replace(limit=self.allowance.left(asked=self.asked, answered=self.answered))
        asked = rest.most_asked(passed)
        kept = np.flatnonzero(passed[:asked])
        self.asked += asked
        self.answered += len(kept)
        return Answers(
            questions=Questions(rows=questions.rows[kept]),
            labels=labels[kept],
            asked=asked,
            counts=None if counts is None else counts[kept],
        )

    def _draw(self, source: np.random.Generator, about: Votes) -> tuple[np.ndarray | None, np.ndarray]:
        """Noisy counts, if they may be seen, and labels."""
        match self.aggregator:
            case Confident(vote=noise) | (GaussianMax() as noise):
                counts = noise.noisy(source, about)
                return counts, counts.argmax(axis=1)
            case other:
                return None, other.answer(source, about)


def join_answers(*parts: Answers) -> Answers:
    """Joins the answers of several rounds. No record may be answered in two of them.

    Example:
        >>> first = Answers(questions=Questions(rows=[0, 1]), labels=np.array([1, 0]), asked=2)
        >>> second = Answers(questions=Questions(rows=[7]), labels=np.array([1]), asked=3)
        >>> join_answers(first, second).labels.tolist(), join_answers(first, second).asked
        ([1, 0, 1], 5)
    """
    counts = [part.counts for part in parts if part.counts is not None]
    return Answers(
        questions=Questions(rows=np.concatenate([part.questions.rows for part in parts])),
        labels=np.concatenate([part.labels for part in parts]),
        asked=sum(part.asked for part in parts),
        counts=np.concatenate(counts) if len(counts) == len(parts) else None,
    )


def add_confident_labels(
    answers: Answers, asked: Questions, beliefs: Float[np.ndarray, "questions classes"], *, sure: float
) -> Answers:
    """Adds the student's own labels for refused questions of which it is sure.

    The second half of Interactive-GNMax: teachers that do not contradict a sure student confirm it. That they
    did not was paid for by the check, so this costs nothing more.

    Args:
        asked: the questions of that round, in their order; only the first `answers.asked` of them count.
        beliefs: the student's probabilities for them, (questions, classes).
        sure: the probability from which its own label is used.

    Example:
        >>> answers = Answers(questions=Questions(rows=[0]), labels=np.array([1]), asked=2)
        >>> beliefs = np.array([[0.5, 0.5], [0.99, 0.01]])
        >>> more = add_confident_labels(answers, Questions(rows=[0, 1]), beliefs, sure=0.95)
        >>> more.questions.rows.tolist(), more.labels.tolist()
        ([0, 1], [1, 0])

    Reference:
        Papernot et al. (2018), Algorithm 2, arXiv:1802.08908.
    """
    checks.inside_unit(sure=sure)
    rows, beliefs = asked.rows[: answers.asked], np.asarray(beliefs)[: answers.asked]
    own = ~np.isin(rows, answers.questions.rows) & (beliefs.max(axis=1) >= sure)
    return Answers(
        questions=Questions(rows=np.concatenate([answers.questions.rows, rows[own]])),
        labels=np.concatenate([answers.labels, beliefs[own].argmax(axis=1)]),
        asked=answers.asked,
    )
