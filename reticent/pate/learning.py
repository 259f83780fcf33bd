"""Learns a student from paid answers and a public pool, with nothing to tune.

There are two ways, and the answers decide which is better: some are held back, and both ways predict
them. That is post-processing of what was released, and costs nothing.

    direct   a kernel machine on the answers, which knows their noise: for tables
    graph    answers spread over near neighbours in the pool first: for images, where neighbours are alike
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.core.observer import OnProgress
from reticent.models.model import Model, Params
from reticent.pate.kernel import KernelBasis, Regression, kernel_machine
from reticent.pate.propagation import Graph, neighbour_graph
from reticent.pate.student import check_answers, soft_labels

StudentWay = Literal["auto", "direct", "graph"]

_SPREAD_NOISE = 0.1  # of labels that the graph has smoothed
_LABEL_NOISE = 0.5  # of labels without counts
_FOLDS = 4
_FEWEST = 5 * _FOLDS  # answers of which some can be held back


@dataclass(frozen=True, kw_only=True)
class Student:
    """A model that may be published: it was made from public records and paid answers.

    Args:
        shares: (pool, classes) class shares for the pool; rows sum to 1. For another model: `fit_student`.
        way: "direct" or "graph", as above.
    """

    model: Model
    params: Params = field(repr=False)
    shares: np.ndarray = field(repr=False)
    way: StudentWay


def learn(
    pool: Any,  # (pool, features)
    asked: Any,  # (answers,) rows of the pool
    answers: Any,  # (answers,) labels, or (answers, classes) noisy counts
    *,
    classes: int,
    teachers: int | None = None,
    sigma: float | None = None,
    way: StudentWay = "auto",
    graph: Graph | None = None,
    centres: int = 2000,
    seed: int = 0,
    on_progress: OnProgress = lambda done: None,
) -> Student:
    """Learns a student from answers about part of a public pool.

    Args:
        pool: (pool, features) public records. Distances between rows must be meaningful: scattering
            features, or columns of similar scale (`scaling.PoolScale`).
        asked: (answers,) rows of the pool that were answered.
        answers: (answers,) classes, or better (answers, classes) noisy counts, which cost the same.
        teachers, sigma: how many voted, and the deviation of the noise on each count: needed with counts.
        graph: of the pool, if there is one already.
        centres: records of the pool that the model is built of, and that are published with it.
    """
    checks.one_of(("auto", "direct", "graph"), way=way)
    asked, values = check_answers(len(pool), asked, answers, classes)
    shares, noise = _scale_values(values, np.ndim(answers) == 2, teachers, sigma)
    basis = KernelBasis.of(pool, centres=centres, seed=seed)
    coordinates = basis(pool)
    on_progress(0.4)
    if way == "auto" and len(asked) < _FEWEST:
        way = "direct"
    if way != "direct" and graph is None:
        graph = neighbour_graph(pool)
    on_progress(0.6)
    ways: dict[StudentWay, _Fit] = {"direct": _fit_directly(coordinates, noise)}
    if graph is not None:
        ways["graph"] = _fit_by_graph(coordinates, graph, classes)
    if way == "auto":
        way = min(ways, key=lambda each: _prediction_error(ways[each], coordinates, asked, shares, seed))
    on_progress(0.9)
    weights, bias = ways[way](asked, shares)
    found = np.maximum(coordinates @ weights + bias + 1 / classes, 1e-6)
    on_progress(1.0)
    return Student(
        model=kernel_machine(len(basis.centres), basis.centres.shape[1], classes),
        params=basis.params(weights, bias),
        shares=found / found.sum(axis=1, keepdims=True),
        way=way,
    )


_Fit = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]  # of rows and shares


def _scale_values(
    values: np.ndarray, is_counts: bool, teachers: int | None, sigma: float | None
) -> tuple[np.ndarray, float]:
    """Shares of the vote around zero, and their noise's variance beside that of shares themselves."""
    classes = values.shape[1]
    around_zero = values - values.mean(axis=1, keepdims=True)
    if not is_counts:
        return around_zero, _LABEL_NOISE
    if teachers is None or sigma is None:
        raise InvalidArgument(
            "Noisy counts need the number of teachers and the noise to be read.",
            remedy="Pass teachers= and sigma=, or labels as answers.",
        )
    checks.count(teachers=teachers)
    checks.positive(sigma=sigma)
    # Shares that are 1 for one class have variance (1 - 1/c) / c, noise around zero (1 - 1/c) sigma^2.
    return around_zero / teachers, classes * (sigma / teachers) ** 2


def _fit_directly(coordinates: np.ndarray, noise: float) -> _Fit:
    return lambda asked, shares: Regression(coordinates[asked], noise)(shares)


def _fit_by_graph(coordinates: np.ndarray, graph: Graph, classes: int) -> _Fit:
    regression = Regression(coordinates, _SPREAD_NOISE)

    def fit(asked: np.ndarray, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return regression(soft_labels(graph, asked, shares, classes=classes) - 1 / classes)

    return fit


def _prediction_error(
    fit: _Fit, coordinates: np.ndarray, asked: np.ndarray, shares: np.ndarray, seed: int
) -> float:
    """The squared error of predicting each answer from the others, added up."""
    fold = np.random.default_rng(seed).permutation(len(asked)) % _FOLDS
    total = 0.0
    for held in range(_FOLDS):
        weights, bias = fit(asked[fold != held], shares[fold != held])
        foretold = coordinates[asked[fold == held]] @ weights + bias
        total += float(np.square(foretold - shares[fold == held]).sum())
    return total
