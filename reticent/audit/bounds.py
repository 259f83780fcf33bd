"""Lower bounds on epsilon from audits, at a stated confidence.

    one_run(scores, included, delta=1e-5)           one run, a coin for each canary
    gaussian_one_run(scores, included, delta=1e-5)  shows more, if the trade-off curve is a Gaussian's
    many_runs(inside, outside, delta=1e-5)          one canary, a score from each of many runs
    gaussian_estimate(inside, outside, delta=1e-5)  an estimate, not a bound

Higher scores say "was in". Scores of several runs may be pooled, each with coins of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from reticent.accounting.theorems import gaussian_dp
from reticent.audit import binomial, tradeoff
from reticent.audit.evidence import Evidence, EvidenceKind
from reticent.audit.guesses import (
    GuessRule,
    Refutation,
    Selection,
    Test,
    by_bonferroni,
    by_rule,
    by_split,
    check_scores,
    fixed_rule,
    rules,
)
from reticent.core import checks
from reticent.core.errors import DataError

TestName = Literal["curve", "binomial"]

_TESTS = {"curve": tradeoff.smallest_epsilon, "binomial": binomial.smallest_epsilon}
_METHODS = {
    "curve": "one run, trade-off curve of (epsilon, delta)",
    "binomial": "one run, binomial tail",
    "gaussian": "one run, Gaussian trade-off curve",
}
GAUSSIAN = "the trade-off curve of the training is a Gaussian's"


def one_run(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    select: Selection | int = "bonferroni",
    test: TestName = "curve",
    threat: str = "scores of unknown origin",
) -> Evidence:
    """A lower bound on epsilon from one run with many canaries, each in by a fair coin of its own.

    Args:
        scores: one per canary, from whatever the training released; higher says "was in".
        included: how the coins fell.
        select: how the guesses are chosen: a short fixed list that shares the error, a choice on half the
            canaries that is tested on the other half, or a number of guesses fixed in advance.
        test: `curve` is nearly always the stronger one; both are valid.

    Guarantee:
        If the training is (epsilon, delta)-private when one canary's coin is turned, the result exceeds
        epsilon with probability at most 1 - confidence, however the scores came about.

    Example:
        >>> coins = np.arange(1000) % 2 == 0
        >>> one_run(np.zeros(1000), coins, delta=1e-5).epsilon  # constant scores show nothing
        0.0
        >>> round(one_run(coins.astype(float), coins, delta=1e-5).epsilon, 1)  # perfect ones, the most
        5.3

        constant scores                             0
        a score that is NaN                         DataError
        fewer than four canaries                    DataError

    Reference:
        Steinke, Nasr and Jagielski (2023), Theorem 5.2, arXiv:2305.08846 (`binomial`); Mahloujifar, Melis
        and Chaudhuri (2024), arXiv:2410.22235, with the curve of (epsilon, delta) (`curve`).
    """
    checks.one_of(get_args(TestName), test=test)
    tester = partial(_TESTS[test], delta=delta)
    return _one_run(
        scores, included, tester, test, EvidenceKind.BOUND, None, delta, confidence, select, threat
    )


def gaussian_one_run(
    scores: ArrayLike,
    included: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    select: Selection | int = "bonferroni",
    threat: str = "scores of unknown origin",
) -> Evidence:
    """As `one_run`, *under the assumption* that the trade-off curve is a Gaussian's; it then shows more.

    On randomised response, whose curve is not, it exceeds the truth. It contradicts no claim by itself.

    Example:
        >>> included = np.arange(1000) % 2 == 1
        >>> found = gaussian_one_run(included * 10.0, included, delta=1e-5)
        >>> found.correct, found.assumption is not None
        (1000, True)
    """
    checks.inside_unit(delta=delta)
    tester = partial(tradeoff.smallest_gaussian_epsilon, delta=delta)
    return _one_run(
        scores,
        included,
        tester,
        "gaussian",
        EvidenceKind.CONDITIONAL,
        GAUSSIAN,
        delta,
        confidence,
        select,
        threat,
    )


def many_runs(
    inside: ArrayLike,
    outside: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    threshold: float | Sequence[float] | Literal["split"] = "split",
    threat: str = "scores of unknown origin",
) -> Evidence:
    """A lower bound on epsilon from many independent runs, with the canary and without it.

    Args:
        inside, outside: one score per run.
        threshold: fixed in advance; or a list fixed in advance, which shares the error; or `split`: chosen
            on every other run, tested on the rest.

    Guarantee:
        If the training is (epsilon, delta)-private, the result exceeds epsilon with probability at most
        1 - confidence: both error rates are inside their one-sided Clopper-Pearson bounds at once.

    Example:
        >>> found = many_runs(np.full(1000, 1.0), np.zeros(1000), delta=1e-5, threshold=0.5)
        >>> round(found.epsilon, 2)  # as much as 2,000 runs can show
        5.6
    """
    _check_levels(delta, confidence)
    inside, outside = _run_scores(inside, "inside"), _run_scores(outside, "outside")
    if isinstance(threshold, str):
        checks.one_of(["split"], threshold=threshold)
        first, second = inside[::2], outside[::2]
        points = np.unique(np.concatenate([first, second]))
        chosen = [float(max(points, key=lambda point: _rates_epsilon(first, second, point, delta, 0.5)))]
        inside, outside = inside[1::2], outside[1::2]
        selection = "threshold chosen on half the runs"
    else:
        chosen = [float(value) for value in np.atleast_1d(np.asarray(threshold, np.float64))]
        selection = "threshold fixed in advance" if len(chosen) == 1 else f"Bonferroni over {len(chosen)}"
    error = (1 - confidence) / len(chosen)
    found = [_rates_epsilon(inside, outside, point, delta, error) for point in chosen]
    best = chosen[int(np.argmax(found))]
    return Evidence(
        epsilon=max(found),
        kind=EvidenceKind.BOUND,
        method="many runs, Clopper-Pearson",
        delta=delta,
        confidence=confidence,
        canaries=len(inside) + len(outside),
        guesses=len(inside) + len(outside),
        correct=int((inside > best).sum() + (outside <= best).sum()),
        selection=selection,
        threat=threat,
        ceiling=many_runs_ceiling(len(inside), len(outside), delta=delta, error=error),
    )


def gaussian_estimate(
    inside: ArrayLike, outside: ArrayLike, *, delta: float, threat: str = "scores of unknown origin"
) -> Evidence:
    """Estimates the epsilon that the scores show, if they are Gaussian: *an estimate, not a bound*.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> found = gaussian_estimate(rng.normal(1, 1, 500), rng.normal(0, 1, 500), delta=1e-5)
        >>> 3 < found.epsilon < 6  # of noise 1 it is 4.4
        True
    """
    checks.inside_unit(delta=delta)
    inside, outside = _run_scores(inside, "inside"), _run_scores(outside, "outside")
    spread = math.sqrt((inside.var(ddof=1) + outside.var(ddof=1)) / 2)
    apart = float(inside.mean() - outside.mean())
    mu = apart / spread if spread > 0 else (math.inf if apart > 0 else 0.0)
    middle = (inside.mean() + outside.mean()) / 2
    return Evidence(
        epsilon=gaussian_dp.epsilon(min(mu, 100.0), delta) if mu > 0 else 0.0,
        kind=EvidenceKind.ESTIMATE,
        method="difference of means",
        delta=delta,
        confidence=None,
        canaries=len(inside) + len(outside),
        guesses=len(inside) + len(outside),
        correct=int((inside > middle).sum() + (outside <= middle).sum()),
        selection="nothing chosen",
        threat=threat,
        ceiling=None,
    )


def one_run_ceiling(
    canaries: int,
    *,
    delta: float,
    confidence: float = 0.95,
    select: Selection | int = "bonferroni",
    test: TestName = "curve",
) -> float:
    """The most that `one_run` could show with so many canaries: every guess is right.

    >>> round(one_run_ceiling(1000, delta=0.0, select=1000, test="binomial"), 2)
    5.81
    """
    _check_levels(delta, confidence)
    return _ceiling(canaries, partial(_TESTS[test], delta=delta), 1 - confidence, select)


def many_runs_ceiling(inside: int, outside: int, *, delta: float = 0.0, error: float = 0.05) -> float:
    """The most that `many_runs` could show: no run is on the wrong side of one threshold.

    >>> round(many_runs_ceiling(500, 500, error=0.01), 2)
    4.54
    """
    return _rates_bound(inside, inside, 0, outside, delta, error)


def _one_run(
    scores: ArrayLike,
    included: ArrayLike,
    test: Test,
    name: str,
    kind: EvidenceKind,
    assumption: str | None,
    delta: float,
    confidence: float,
    select: Selection | int,
    threat: str,
) -> Evidence:
    _check_levels(delta, confidence)
    scores, included = check_scores(scores, included)
    found, selection, canaries = _select(scores, included, test, 1 - confidence, select)
    return Evidence(
        epsilon=found.epsilon,
        kind=kind,
        method=_METHODS[name],
        delta=delta,
        confidence=confidence,
        canaries=canaries,
        guesses=found.rule.guesses,
        correct=found.correct,
        selection=selection,
        threat=threat,
        ceiling=_ceiling(len(scores), test, 1 - confidence, select),
        assumption=assumption,
    )


def _select(
    scores: np.ndarray, included: np.ndarray, test: Test, error: float, select: Selection | int
) -> tuple[Refutation, str, int]:
    """What was found, how it was chosen, and on how many canaries."""
    count = len(scores)
    if not isinstance(select, str):
        return by_rule(scores, included, test, error, fixed_rule(select, count)), "fixed in advance", count
    checks.one_of(get_args(Selection), select=select)
    if select == "split":
        found = by_split(scores, included, test, error)
        return found, "chosen on half the canaries", count // 2
    found = by_bonferroni(scores, included, test, error)
    return found, f"Bonferroni over {len(rules(count))} rules", count


def _ceiling(canaries: int, test: Test, error: float, select: Selection | int) -> float:
    if isinstance(select, str):
        count = canaries // 2 if select == "split" else canaries
        tried: tuple[GuessRule, ...] = rules(count)
        share = error if select == "split" else error / len(tried)
    else:
        count, tried, share = canaries, (fixed_rule(select, canaries),), error
    return max(
        test(canaries=count, guesses=rule.guesses, correct=rule.guesses, error=share) for rule in tried
    )


def _rates_epsilon(
    inside: np.ndarray, outside: np.ndarray, point: float, delta: float, error: float
) -> float:
    hits, alarms = int((inside > point).sum()), int((outside > point).sum())
    return _rates_bound(hits, len(inside), alarms, len(outside), delta, error)


def rate_bounds(hits: int, inside: int, alarms: int, outside: int, error: float) -> tuple[float, float]:
    """The least share of hits and the most of alarms: one-sided Clopper-Pearson, each with half the error."""
    least_hits = float(betaincinv(hits, inside - hits + 1, error / 2)) if hits else 0.0
    most_alarms = float(betaincinv(alarms + 1, outside - alarms, 1 - error / 2)) if alarms < outside else 1.0
    return least_hits, most_alarms


def _rates_bound(hits: int, inside: int, alarms: int, outside: int, delta: float, error: float) -> float:
    """From two bounds that hold at once, and so for both directions of the inequality."""
    least_hits, most_alarms = rate_bounds(hits, inside, alarms, outside, error)
    forward = _log_ratio(least_hits - delta, most_alarms)
    backward = _log_ratio(1 - most_alarms - delta, 1 - least_hits)
    return max(forward, backward, 0.0)


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 and below > 0 else 0.0


def _run_scores(scores: ArrayLike, name: str) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    if scores.ndim != 1 or len(scores) < 4 or np.isnan(scores).any():
        raise DataError(
            f"The scores '{name}' have shape {scores.shape} and {int(np.isnan(scores).sum())} NaN.",
            remedy="Give one number per run, from at least four runs.",
        )
    return scores


def _check_levels(delta: float, confidence: float) -> None:
    checks.inside_unit(confidence=confidence)
    checks.probability(delta=delta)
