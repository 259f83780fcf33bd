"""Runs that learn to continue a text: `--task next-character`, with a speaker as the unit of privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from reticent.core.errors import InvalidArgument
from reticent.data import catalog
from reticent.data.catalog import Splits
from reticent.data.dataset import Dataset
from reticent.data.speeches import ALPHABET, windows_of
from reticent.runs.problem import Problem

NEXT_CHARACTER, LANGUAGE = "next-character", "language"
LENGTH = 64  # characters that the model sees

_SPEAKER, _MOST = "speaker", 16  # windows of each, unless something else is asked for


def as_windows(request: Any, splits: Splits) -> tuple[Any, Splits, np.ndarray | None]:
    """A play as windows of text with the speaker of each; every other dataset as it is.

    Raises:
        InvalidArgument: the dataset is not a text, or text is to be used for something else.
    """
    if request.task != NEXT_CHARACTER:
        if request.model == LANGUAGE:
            raise InvalidArgument(
                "The model 'language' continues texts.", remedy=f"Pass --task {NEXT_CHARACTER}."
            )
        return request, splits, None
    if catalog.describe(request.source).task != "language model" or "x" not in splits.train:
        raise InvalidArgument(
            f"'{request.source}' is not a text whose characters follow one another.",
            remedy=f"Use --task {NEXT_CHARACTER} with tinyshakespeare, or leave it out.",
        )
    refuse_others(request)
    request = replace(request, user=_SPEAKER, rows_per_user=request.rows_per_user or _MOST, model=LANGUAGE)
    text = bytes(np.asarray(splits.train["x"])).decode("ascii")
    found = windows_of(text, LENGTH, request.rows_per_user)
    train = Dataset(arrays={"x": found.x, "y": found.y}, name=request.source)
    return request, Splits(train=train), found.speakers


def refuse_others(request: Any) -> None:
    """
    Raises:
        InvalidArgument: something was asked for that does not go with continuing a text.
    """
    if request.model not in ("auto", LANGUAGE) or request.method not in ("auto", "sgd", "gd"):
        raise InvalidArgument(
            f"Texts are continued by the model '{LANGUAGE}', trained with sgd or gd.",
            remedy="Leave out --model and --method.",
        )
    if request.user not in (None, _SPEAKER) or request.start or request.features:
        raise InvalidArgument(
            "A text is divided by its speakers, and nothing public is a part of its model.",
            remedy=f"Leave out --user, or pass --user {_SPEAKER} --rows-per-user {_MOST}.",
        )


def text_problem(rows: int) -> Problem:
    """The problem of continuing a text, for so many speakers."""
    return Problem(rows=rows, shape=(LENGTH,), classes=ALPHABET)


def is_text(problem: Problem) -> bool:
    return problem.classes == ALPHABET
