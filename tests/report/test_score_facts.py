"""Scores in words: a fixed order, each beside what no model is needed for."""

from __future__ import annotations

from reticent.report.facts.scores import outside_in_words, score_lines
from reticent.runs.held_out_scores import HeldOutScores, ScoreDetails


def test_errors_stand_beside_their_baselines_in_plain_numbers_and_a_fixed_order() -> None:
    values = {
        "mean absolute error": 9294.2,
        "mean absolute error of the median": 10562.0,
        "root mean squared error": 14460.4,
        "root mean squared error of the mean": 28699.0,
        "R2": 0.7461,
        "something of another version": 0.25,
    }
    lines = score_lines(HeldOutScores(label="unreleased", values=values))
    assert [(line.name, line.shown) for line in lines] == [
        ("R2", "0.7461"),
        ("root mean squared error", "14,460"),
        ("mean absolute error", "9,294"),
        ("something of another version", "0.25"),
    ]
    assert lines[1].note == "always predicting the mean: 28,699"
    assert lines[2].note == "always predicting the median: 10,562"


def test_an_accuracy_stands_beside_the_most_frequent_class() -> None:
    values = {"accuracy of the most frequent class": 0.744, "accuracy": 0.757}
    (line,) = score_lines(HeldOutScores(label="unreleased", values=values))
    assert (line.shown, line.note) == ("75.7%", "always predicting the most frequent class: 74.4%")


def test_cells_outside_the_bounds_are_counted_by_column_the_worst_first() -> None:
    shares = {"income": 0.09, "age": 0.01, "gain": 0.2, **{f"c{at}": 0.001 for at in range(9)}}
    target, features = outside_in_words(ScoreDetails(outside=shares), "income")
    assert target == ("targets outside the bounds", "9.0% of the held-out rows")
    assert features[1].startswith("gain 20.0%, age 1.0%, ")
    assert features[1].endswith("and 5 more of the held-out rows")
    assert outside_in_words(ScoreDetails(outside={}), "income") == []
