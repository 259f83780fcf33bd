"""A generator is a function of what was released: other records behind the same releases change nothing.

What the games of `test_generator_audits` find in the releases is then all that there is to find in a table or
an embedding. For a GAN see `test_the_generator_is_a_function_of_what_was_released`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from generator_games import DELTA, EPSILON, lonely_vector

from reticent.core.keys import Keys
from reticent.synthetic.images import embedding
from reticent.synthetic.tables import table_model
from reticent.synthetic.tables.marginals import Marginal, count

TABLE = table_model.plan((2, 2, 2), 60, EPSILON, DELTA, "aim")
SUM = embedding.plan(epsilon=EPSILON, delta=DELTA, examples=20, prior="none", radius=1.0)


def model_of(codes: np.ndarray, replies: list[Any] | None = None) -> tuple[list[np.ndarray], list[Any]]:
    """The model of a table, and what was released for it; or the model that given releases make of it."""
    drawn: list[Any] = []
    left = iter(replies or [])

    def once(draw: Callable[..., Any]) -> Callable[..., Any]:
        def reply(*given: Any, **named: Any) -> Any:
            drawn.append(draw(*given, **named) if replies is None else _used(next(left), given))
            return drawn[-1]

        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_model, "measure", once(table_model.measure))
        patch.setattr(table_model, "select", once(table_model.select))
        found = table_model.fit(codes, TABLE, keys=Keys.seeded(1))
    return [*found.model.potentials, *found.merging.groups, *found.merging.shares], drawn


def _used(reply: Any, given: Any) -> Any:
    """A choice that is replied takes its events from the plan, as a real one does."""
    if isinstance(reply, list):
        assert len(list(given[2])) == len(reply)
    return reply


def is_made_of_releases_alone() -> bool:
    mine, released = model_of(np.eye(60, 3, dtype=np.int32))
    theirs, _ = model_of(np.ones((61, 3), np.int32), released)
    return all(np.array_equal(one, other) for one, other in zip(mine, theirs, strict=True))


def test_a_table_is_a_function_of_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_made_of_releases_alone()
    fitting: Any = table_model._Fitting
    honest = fitting._estimate

    def peeking(self: Any, sizes: Any, *given: Any) -> Any:  # the planted bug: exact frequencies in the model
        exact = count(self._codes, (0,), self._plan.sizes)
        self._marginals = [*self._marginals[1:], Marginal((0,), exact, 1.0)]
        return honest(self, sizes, *given)

    monkeypatch.setattr(fitting, "_estimate", peeking)
    assert not is_made_of_releases_alone()


def follows_from_the_sum(monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether an embedding of other records is the same, if the noisy sum is."""
    (x, y), _ = lonely_vector()
    said = np.random.default_rng(0).standard_normal((2, 6)) + 3
    with monkeypatch.context() as patch:
        patch.setattr(embedding, "release", lambda *given: said)
        mine, theirs = (
            embedding.fit(rows, labels, SUM, classes=2, keys=Keys.seeded(1))
            for rows, labels in ((x, y), (1 - x, 1 - y))
        )
    tensors = (np.array_equal(mine.tensors[name], theirs.tensors[name]) for name in mine.tensors)
    return np.array_equal(mine.frequencies, theirs.frequencies) and all(tensors)


def test_an_embedding_is_a_function_of_its_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    assert follows_from_the_sum(monkeypatch)
    labels: list[np.ndarray] = []
    sums = embedding.sum_embeddings

    def watched(records: Any, y: np.ndarray, *given: Any) -> Any:
        labels.append(y)
        return sums(records, y, *given)

    monkeypatch.setattr(embedding, "sum_embeddings", watched)
    monkeypatch.setattr(
        embedding,
        "released_frequencies",
        lambda noisy: np.bincount(labels[-1], minlength=2) / len(labels[-1]),
    )
    assert not follows_from_the_sum(monkeypatch)
