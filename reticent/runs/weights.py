"""The weights of a linear model by the names of its features: post-processing of the model, at no cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from reticent.core.errors import DataError
from reticent.core.plain_numbers import plain_number
from reticent.data import catalog
from reticent.data.catalog.domains import public_domain
from reticent.data.domain import Category, Domain
from reticent.data.encoding import feature_names
from reticent.runs.methods import table as methods
from reticent.runs.methods.convex import Convex
from reticent.runs.predict import Predictor
from reticent.runs.predict_features import column_of

LARGEST = 20  # weights that a table shows
HOW_TO_READ = "for a number, from its lower to its upper bound; for a word, when the cell is that word"


class Weight(NamedTuple):
    """What a feature does to a score.

    Args:
        output: the class whose score it moves, or the target.
        effect: of a number, how far its whole range moves the score; of a word, how far that word does.
        deviation: the standard deviation of the noise in `effect`; None where the method does not know it.
    """

    feature: str
    output: str
    effect: float
    deviation: float | None = None


@dataclass(frozen=True, kw_only=True)
class LabelledWeights:
    """The weights of a linear model, the largest effect first.

    Args:
        unit: what effects are measured in, in words.
    """

    unit: str
    weights: tuple[Weight, ...]


def labelled_weights(predictor: Predictor) -> LabelledWeights:
    """The weights of a linear model by name.

    Two classes have one score between them, the log-odds of the second. With more classes, each weight is
    compared with the mean over the classes, since only differences matter. A number has the unit of the
    target.

    Raises:
        DataError: the model is not linear in named features.
    """
    domain = _domain_of(predictor)
    if column_of(domain) is not None:
        raise DataError(
            f"The model in {predictor.folder} learned from what a public model makes of a record, and those "
            "numbers have no names.",
            remedy="Weights can be listed for a run on columns of numbers and words.",
        )
    names = () if domain is None else feature_names(domain)
    if predictor.learner.name != "linear" or domain is None or predictor.problem.shape != (len(names),):
        raise DataError(
            f"The model in {predictor.folder} has no weights with names: it is "
            f"'{predictor.learner.name}', or was not trained on a table.",
            remedy="Weights can be listed for a run on a table with --model linear.",
        )
    problem = predictor.problem
    weights = np.asarray(predictor.params["w"], np.float64) * problem.scale  # (features, outputs)
    noise = _noise_deviation(predictor)
    if problem.bounds is not None:
        half = (problem.bounds[1] - problem.bounds[0]) / 2 or 1.0
        effects, outputs = weights * half, [predictor.record.request.target or "the target"]
        unit, factor = f"in the units of '{outputs[0]}'", problem.scale * half
    elif problem.outputs == 2:
        effects, outputs = weights[:, 1:] - weights[:, :1], [problem.classes[1]]
        unit, factor = f"in the log-odds of '{outputs[0]}'", problem.scale
    else:
        effects, outputs = weights - weights.mean(axis=1, keepdims=True), list(problem.classes)
        unit = "in the score of a class, compared with the mean of all classes"
        factor = problem.scale * math.sqrt(1 - 1 / problem.outputs)
    whole = np.array([_range_of(name, domain) for name in names])
    found = [
        Weight(name, output, float(width * effect), None if noise is None else float(width * factor * noise))
        for name, row, width in zip(names, effects, whole, strict=True)
        for output, effect in zip(outputs, row, strict=True)
    ]
    found.sort(key=lambda weight: -abs(weight.effect))
    return LabelledWeights(unit=unit, weights=tuple(found))


def weight_rows(found: LabelledWeights, *, most: int = LARGEST) -> list[tuple[str, ...]]:
    """The largest effects, each with the deviation of its noise where that is known."""
    return [
        (
            weight.feature,
            weight.output,
            show_effect(weight),
            "not known" if weight.deviation is None else plain_number(weight.deviation, digits=2),
        )
        for weight in found.weights[:most]
    ]


def show_effect(weight: Weight) -> str:
    sign = "+" if weight.effect >= 0 else "-"
    return f"{sign}{plain_number(abs(weight.effect), digits=3)}"


def _range_of(feature: str, domain: Domain) -> float:
    """How much a feature changes: a number from -1 to 1, a word or a mark for missing cells from 0 to 1."""
    column = domain.columns.get(feature)
    return 1.0 if column is None or isinstance(column, Category) else 2.0


def _domain_of(predictor: Predictor) -> Domain | None:
    """What names the features: the domain of the run, or that of a named dataset."""
    source = predictor.record.request.source
    named = public_domain(source) if source in catalog.names() else None  # it may be a stranger's path
    return predictor.domain or named


def _noise_deviation(predictor: Predictor) -> float | None:
    """The deviation of the noise on each weight, for rows of norm 1."""
    recipe = methods.read(predictor.record.recipe)
    return recipe.noise_deviation(predictor.problem) if isinstance(recipe, Convex) else None
