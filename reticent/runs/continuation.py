"""Text from a run that learned to continue text, one character after the other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.data.speeches import codes_of, text_of
from reticent.runs.predict import Predictor
from reticent.runs.texts import NEXT_CHARACTER, is_text


def continue_text(
    predictor: Predictor,
    prompt: str = "\n",
    *,
    characters: int = 300,
    temperature: float = 0.8,
    seed: int | None = None,
) -> str:
    """What the model makes of a prompt: post-processing of the model, at no cost.

    Args:
        temperature: below 1, likelier characters are taken more often; 0 takes the likeliest.

    Raises:
        DataError: the run does not continue texts.
    """
    checks.count(characters=characters)
    checks.not_negative(temperature=temperature)
    problem = predictor.problem
    if not is_text(problem):
        raise DataError(
            f"The run in {predictor.folder} does not continue texts.",
            remedy=f"Train one that does: reticent train tinyshakespeare --task {NEXT_CHARACTER}.",
        )
    length, rng = problem.shape[0], np.random.default_rng(seed)
    scores_of = jax.jit(predictor.learner.scores)
    codes = list(codes_of(prompt or "\n"))
    for _ in range(characters):
        seen = np.array(codes[-length:], np.int32)
        window = np.zeros(length, np.int32)
        window[: len(seen)] = seen
        scores = np.asarray(scores_of(predictor.params, jnp.asarray(window)), np.float64)[len(seen) - 1]
        if temperature > 0:
            scores = scores / temperature + rng.gumbel(size=len(scores))
        codes.append(int(scores.argmax()))
    return text_of(np.array(codes[-characters:]))
