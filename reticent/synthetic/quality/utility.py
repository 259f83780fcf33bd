"""The quality of synthetic rows: distances of marginals, correlations, a self-test, usefulness.

Everything here but the self-test compares with real rows, and nothing of it is noisy: such a number is for
the holder of the rows. It is marked `unreleased`, in its type and in its JSON, and never appears in a report.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Num

from reticent.core import checks
from reticent.core.errors import DataError
from reticent.synthetic.tables.codes import check_codes
from reticent.synthetic.tables.junction import Clique
from reticent.synthetic.tables.marginals import count
from reticent.synthetic.tables.table_model import TableModel

_FALSE_ALARM = 1e-6  # of a self-test


@dataclass(frozen=True, kw_only=True)
class Distances:
    """Total-variation distances between the marginals of two tables: 0 for the same, 1 for disjoint ones."""

    single_mean: float
    single_max: float
    pair_mean: float
    pair_max: float
    worst_pair: Clique
    unreleased: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SelfTest:
    """A model against its own sample, which touches no real row.

    `excess` is by how much the worst pair is further from the model than chance would have it; above zero
    the sampler is wrong, but for one sample in a million.
    """

    pair_mean: float
    pair_max: float
    worst_pair: Clique | None
    excess: float
    unreleased: bool = False

    @property
    def has_passed(self) -> bool:
        return self.excess <= 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"has_passed": self.has_passed}


@dataclass(frozen=True, kw_only=True)
class Correlations:
    """How far Pearson's correlations of numeric columns are off; None where there are no two of them."""

    mean_error: float | None
    max_error: float | None
    unreleased: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Usefulness:
    """How well a classifier trained on some rows does on real rows. No AUROC for a single class."""

    classifier: str
    accuracy: float
    auroc: float | None
    unreleased: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def distances(
    made: Int[np.ndarray, "made columns"], real: Int[np.ndarray, "real columns"], sizes: Sequence[int]
) -> Distances:
    """The distances of all marginals of one and of two columns, synthetic codes against real ones."""
    made, real = check_codes(made, sizes), check_codes(real, sizes)
    _require_rows(made, real)

    def distance(columns: Clique) -> float:
        return total_variation(count(made, columns, sizes), count(real, columns, sizes))

    singles = [distance((column,)) for column in range(len(sizes))]
    cliques: list[Clique] = list(itertools.combinations(range(len(sizes)), 2))
    pairs = {clique: distance(clique) for clique in cliques or [(0,)]}
    worst = max(pairs, key=lambda pair: pairs[pair])
    return Distances(
        single_mean=float(np.mean(singles)),
        single_max=max(singles),
        pair_mean=float(np.mean(list(pairs.values()))),
        pair_max=pairs[worst],
        worst_pair=worst,
    )


def total_variation(first: Num[np.ndarray, "*cells"], second: Num[np.ndarray, "*cells"]) -> float:
    """Half the absolute differences of two tables of counts, each divided by its sum.

    >>> total_variation(np.array([1, 1]), np.array([1, 0]))
    0.5
    """
    return float(np.abs(first / first.sum() - second / second.sum()).sum() / 2)


def self_test(model: TableModel, source: np.random.Generator, *, rows: int = 20_000) -> SelfTest:
    """Compares the pairs of a sample with the model's own: a sampler that invents correlations fails.

    The distance of an independent sample from its model is on average at most sum sqrt(p (1 - p) / n) / 2,
    and above that by t with probability exp(-2 n t^2) (McDiarmid 1989). Samples here are closer still.
    """
    checks.count(rows=rows)
    codes, expected = model.sample(rows, source), model.pairs()
    if not expected:
        return SelfTest(pair_mean=0.0, pair_max=0.0, worst_pair=None, excess=-1.0)
    found = {
        pair: total_variation(count(codes, pair, model.plan.sizes), table) for pair, table in expected.items()
    }
    margin = math.sqrt(math.log(len(found) / _FALSE_ALARM) / (2 * rows))
    excess = {
        pair: found[pair] - float(np.sqrt(table * (1 - table).clip(0) / rows).sum() / 2) - margin
        for pair, table in expected.items()
    }
    worst = max(excess, key=lambda pair: excess[pair])
    return SelfTest(
        pair_mean=float(np.mean(list(found.values()))),
        pair_max=max(found.values()),
        worst_pair=worst,
        excess=excess[worst],
    )


def correlations(made: Mapping[str, np.ndarray], real: Mapping[str, np.ndarray]) -> Correlations:
    """The correlations between all columns of `Coder.numbers`; rows with a missing cell are left out."""
    names = [name for name in real if name in made]
    errors = []
    for first, second in itertools.combinations(names, 2):
        pair = (_correlation(made[first], made[second]), _correlation(real[first], real[second]))
        errors.append(abs(pair[0] - pair[1]))
    if not errors:
        return Correlations(mean_error=None, max_error=None)
    return Correlations(mean_error=float(np.mean(errors)), max_error=float(max(errors)))


def one_hot(
    codes: Int[np.ndarray, "rows columns"], sizes: Sequence[int], *, without: int | None = None
) -> Float[np.ndarray, "rows features"]:
    """Codes as features for a classifier, one per value, without those of one column: float32."""
    codes = check_codes(codes, sizes)
    kept = [column for column in range(len(sizes)) if column != without]
    blocks = [codes[:, column, None] == np.arange(sizes[column]) for column in kept]
    return np.concatenate(blocks, axis=1).astype(np.float32)


def usefulness(
    x: np.ndarray, y: np.ndarray, x_test: np.ndarray, y_test: np.ndarray, *, seed: int = 0
) -> list[Usefulness]:
    """Logistic regression, boosted trees and one tree, learned from (x, y) and tested on real rows.

    For synthetic (x, y) it is what the rows are good for; for real ones it is the ceiling.
    """
    from threadpoolctl import threadpool_limits

    _require_rows(x, x_test)
    classifiers = _classifiers(seed)  # first, for only libraries that are loaded can be limited
    with threadpool_limits(limits=1):  # threads that wait for each other are slow on a busy machine
        return [
            _test(name, classifier, (x, np.asarray(y)), (x_test, np.asarray(y_test)))
            for name, classifier in classifiers.items()
        ]


def _classifiers(seed: int) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.tree import DecisionTreeClassifier

    return {
        "logistic regression": LogisticRegression(max_iter=1000),
        "gradient boosting": HistGradientBoostingClassifier(random_state=seed),
        "decision tree": DecisionTreeClassifier(max_depth=8, random_state=seed),
    }


def _test(
    name: str, classifier: Any, learned: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]
) -> Usefulness:
    from sklearn.metrics import roc_auc_score

    (x, y), (x_test, y_test) = learned, test
    if len(np.unique(y)) < 2:  # nothing to learn: it always says the same
        return Usefulness(classifier=name, accuracy=float(np.mean(y_test == y[0])), auroc=None)
    classifier.fit(x, y)
    accuracy = float(np.mean(classifier.predict(x_test) == y_test))
    known = list(classifier.classes_)
    is_known = np.isin(y_test, known)
    found, chances = y_test[is_known], classifier.predict_proba(x_test)[is_known]
    if len(np.unique(found)) < len(known):
        return Usefulness(classifier=name, accuracy=accuracy, auroc=None)
    if len(known) == 2:
        return Usefulness(
            classifier=name, accuracy=accuracy, auroc=float(roc_auc_score(found == known[1], chances[:, 1]))
        )
    auroc = roc_auc_score(found, chances, multi_class="ovr", labels=known)
    return Usefulness(classifier=name, accuracy=accuracy, auroc=float(auroc))


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's, and 0 where a column is constant."""
    is_there = np.isfinite(first) & np.isfinite(second)
    if is_there.sum() < 2:
        return 0.0
    a, b = first[is_there] - first[is_there].mean(), second[is_there] - second[is_there].mean()
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return float((a * b).sum()) / scale if scale > 0 else 0.0


def _require_rows(made: np.ndarray, real: np.ndarray) -> None:
    if not len(made) or not len(real):
        raise DataError("There are no rows to compare.", remedy="Give at least one row of each table.")
