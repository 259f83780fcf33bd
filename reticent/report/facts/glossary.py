"""The words of a report, in plain language."""

from __future__ import annotations

TERMS: tuple[tuple[str, str], ...] = (
    (
        "differential privacy",
        "A promise about the training, not about the data: whatever came out would have come out almost as "
        "likely without any one person.",
    ),
    (
        "epsilon",
        "How much likelier, at most, anything can become through one person: by a factor of e^epsilon. "
        "At 1 odds change by less than 2.72, at 0.1 by 1.11, at 10 by 22,026, which promises little.",
    ),
    (
        "delta",
        "The probability with which the promise may fail. It has to be far below 1 / the number of people.",
    ),
    (
        "bound",
        "A number that is proved: the truth is on the safe side of it, if the named assumptions hold.",
    ),
    ("estimate", "A number that was measured. Measured again, it would come out a little different."),
    ("member, outsider", "A person whose record was trained on, and one whose record was not."),
    (
        "membership attack",
        "Somebody who has the model and a person's record guesses whether that record was trained on.",
    ),
    (
        "true-positive rate at 0.1%",
        "The share of members an attack finds while it wrongly accuses one outsider in a thousand.",
    ),
    ("AUC", "How often an attack puts a member above an outsider; a coin has 50%."),
    (
        "audit",
        "An attempt to contradict the promise: made-up records join by coins, and somebody who watches the "
        "training guesses the coins. Too many right guesses prove the promise wrong.",
    ),
    ("ceiling", "The most that an audit of this size could have shown, had every guess been right."),
    (
        "noise multiplier",
        "The size of the random noise beside the most that one record can contribute.",
    ),
    ("clipping", "Cutting every record's contribution to a fixed length, so that noise can hide it."),
    ("ledger", "A file in which everything spent on a dataset is written down before it is spent."),
    (
        "unreleased",
        "Computed from private data without noise: for whoever holds the data, not for publication.",
    ),
)
