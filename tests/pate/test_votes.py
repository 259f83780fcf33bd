from __future__ import annotations

import numpy as np
import pytest

from reticent.core.errors import DataError, InvalidArgument
from reticent.pate import Answers, Questions, Votes, costs
from reticent.pate.aggregators import GaussianMax

VOTES = Votes(counts=np.array([[7, 2, 1], [0, 10, 0], [3, 3, 4]]), teachers=10)


def test_single_votes_are_counted():
    labels = np.array([[0, 2, 1, 0], [0, 1, 1, 2]])
    found = Votes.of_labels(labels, classes=3)
    assert found.teachers == 2
    assert found.counts.tolist() == [[2, 0, 0], [0, 1, 1], [0, 2, 0], [1, 0, 1]]
    assert Votes.of_labels(np.zeros((5, 0), int), classes=2).queries == 0


@pytest.mark.parametrize(
    ("counts", "teachers", "words"),
    [
        ([[5, 4]], 10, "row 0 add up to 9"),
        ([[10, 0], [6, 5]], 10, "row 1 add up to 11"),
        ([[11, -1]], 10, "negative"),
        ([[5.5, 4.5]], 10, "whole numbers"),
        ([[np.nan, 10]], 10, "whole numbers"),
        ([10, 0], 10, "shape"),
        ([[10], [10]], 10, "shape"),
    ],
)
def test_counts_that_no_ensemble_makes_are_refused(counts: list, teachers: int, words: str):
    with pytest.raises(DataError, match=words):
        Votes(counts=np.array(counts), teachers=teachers)


def test_labels_outside_the_classes_are_refused():
    with pytest.raises(DataError, match="0 to 3"):
        Votes.of_labels(np.array([[0, 3]]), classes=3)
    with pytest.raises(DataError, match="shape"):
        Votes.of_labels(np.array([0, 1]), classes=3)


def test_labels_cannot_be_taken_for_row_numbers():
    labels = np.array([0, 1, 1, 2, 0])
    with pytest.raises(DataError, match="class labels"):
        Questions(rows=labels)
    with pytest.raises(InvalidArgument, match="Questions"):
        VOTES.about(labels)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is_answered"):
        costs.unreleased_cost(VOTES, GaussianMax(sigma=4.0), is_answered=np.array([0, 2, 1]))


def test_questions_choose_their_votes_in_order():
    assert VOTES.about(Questions(rows=np.array([2, 0]))).counts.tolist() == [[3, 3, 4], [7, 2, 1]]
    with pytest.raises(DataError, match="has 3 rows"):
        VOTES.about(Questions(rows=np.array([3])))


def test_answers_need_a_label_each():
    with pytest.raises(DataError, match="labels"):
        Answers(questions=Questions.first(3), labels=np.array([1, 2]), asked=3)
    with pytest.raises(DataError, match="labels"):
        Answers(questions=Questions.first(3), labels=np.array([1, 2, 0]), asked=2)


def test_nobody_changes_votes_afterwards():
    counts = np.array([[7, 3]])
    votes = Votes(counts=counts, teachers=10)
    counts[0] = 0
    assert votes.counts.tolist() == [[7, 3]]
    with pytest.raises(ValueError, match="read-only"):
        votes.counts[0, 0] = 1
