"""How well a model does on rows it was not trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import jax
import numpy as np

from reticent.core.trees import ArrayTree
from reticent.distributed import collectives
from reticent.runs import held_out_scores as names
from reticent.runs.held_out_scores import HeldOutScores, ReliabilityBin, ScoreDetails, ThresholdPoint
from reticent.runs.learners import Learner
from reticent.runs.problem import Problem
from reticent.runs.unclipped import NO_NUMBERS, HeldOutNumbers

UNRELEASED, NOBODY = "unreleased estimate on held-out rows", "no rows were held out"
MUCH_OUTSIDE = 0.05  # of the targets: above that there is a warning

_BINS = 10  # of confidence
_THRESHOLDS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def score(
    learn: Learner,
    params: ArrayTree,
    problem: Problem,
    test: Mapping[str, np.ndarray],
    numbers: HeldOutNumbers = NO_NUMBERS,
) -> HeldOutScores:
    """Measures how well a model does on rows it was not trained on.

    These rows belong to the same people as the others, and no noise is on the result: it is an estimate for
    whoever holds the data, not part of what may be published under the guarantee. How many rows there are is
    as secret as the coins that hold them out, and is not kept. Coins may hold out nobody: then there is no
    score.

    Args:
        numbers: targets as they are in the table, which a model is scored against; bounds clip those it is
            trained on.
    """
    scores = collectives.gather_rows(predict_scores(learn, params, test["x"]))
    own = test["y"] if numbers.targets is None else numbers.targets
    targets = collectives.gather_rows(np.asarray(own))
    outside = _shares_outside(numbers)
    if not len(targets):
        return HeldOutScores(label=NOBODY, values={})
    if targets.ndim == 2:
        values, details = _of_texts(scores, targets), ScoreDetails(outside={})
    elif problem.is_classification:
        values, details = _of_classes(problem, scores, targets, outside)
    else:
        values = _of_numbers(scores[:, 0], targets)
        details = ScoreDetails(outside=outside)
    return HeldOutScores(label=UNRELEASED, values=values, details=details)


def warnings_about(scores: HeldOutScores, problem: Problem, target: str | None) -> tuple[str, ...]:
    """What a reader of the scores should not overlook, in one sentence each."""
    if scores.details is None:
        return ()
    if problem.bounds is not None:
        return tuple(_about_numbers(scores, scores.details, problem.bounds, target))
    confusion = np.array(scores.details.confusion)
    if not confusion.size:
        return ()
    is_never = (confusion.sum(axis=0) == 0) & (confusion.sum(axis=1) > 0)
    never = [
        f"'{problem.classes[at]}' ({confusion[at].sum():.2%} of the held-out rows)"
        for at in np.flatnonzero(is_never)
    ]
    if not never:
        return ()
    listed = ", ".join(never[:4]) + (f" and {len(never) - 4} more" if len(never) > 4 else "")
    remedy = " Choose a lower threshold: reticent show RUN --thresholds." if problem.outputs == 2 else ""
    return (f"The model never predicts {listed}.{remedy}",)


def _about_numbers(
    scores: HeldOutScores, details: ScoreDetails, bounds: tuple[float, float], target: str | None
) -> Iterator[str]:
    share = details.outside.get(target or "", 0.0)
    if share > MUCH_OUTSIDE:
        yield (
            f"{share:.0%} of the held-out values of '{target}' lie outside the bounds {bounds[0]:g} to "
            f"{bounds[1]:g}, and the model predicts nothing beyond these. Declare wider ones: "
            f"--bounds {target}=LOW:HIGH."
        )
    if scores.values.get("R2", 0.0) < 0:
        yield (
            "On the held-out rows the model predicts worse than their mean does: noise is louder than what "
            "could be learned. More rows, a larger epsilon or fewer columns (--ignore) help."
        )


def predict_scores(learn: Learner, params: ArrayTree, inputs: np.ndarray) -> np.ndarray:
    """The scores of many rows, in pieces that fit into memory."""
    apply = jax.jit(jax.vmap(learn.scores, in_axes=(None, 0)))
    if not len(inputs):
        return np.asarray(apply(params, np.zeros((1, *inputs.shape[1:]), inputs.dtype)))[:0]
    pieces = [np.asarray(apply(params, inputs[at : at + 4096])) for at in range(0, len(inputs), 4096)]
    return np.concatenate(pieces)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities (rows, classes) of logits, in float64."""
    odds = np.exp(np.asarray(scores, np.float64) - np.max(scores, axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _shares_outside(numbers: HeldOutNumbers) -> dict[str, float]:
    """The share of each column's held-out cells, of all processes, that lie outside the bounds."""
    found = collectives.gather_json([dict(numbers.outside), dict(numbers.present)])
    shares = {}
    for name in dict.fromkeys(name for _, present in found for name in present):
        outside, present = (sum(counts[at].get(name, 0) for counts in found) for at in (0, 1))
        if outside:
            shares[name] = outside / present
    return shares


def _of_numbers(predictions: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Errors in the units of the target, beside those of the best constants."""
    wanted, found = np.asarray(targets, np.float64), np.asarray(predictions, np.float64)
    size = max(float(np.max(np.abs(wanted))), float(np.max(np.abs(found)))) or 1.0
    wanted, found = wanted / size, found / size  # their squares stay finite
    errors, around = found - wanted, wanted - wanted.mean()
    rmse, spread = (float(np.sqrt(np.mean(np.square(each)))) for each in (errors, around))
    return {
        names.R2: 1 - (rmse / spread) ** 2 if spread > 1e-12 else float("nan"),
        names.RMSE: size * rmse,
        names.MAE: size * float(np.mean(np.abs(errors))),
        names.RMSE_OF_MEAN: size * spread,
        names.MAE_OF_MEDIAN: size * float(np.mean(np.abs(wanted - np.median(wanted)))),
    }


def _of_classes(
    problem: Problem, scores: np.ndarray, targets: np.ndarray, outside: dict[str, float]
) -> tuple[dict[str, float], ScoreDetails]:
    count, classes = len(targets), problem.outputs
    shares, guesses = softmax(scores), scores.argmax(axis=1)
    confusion = np.zeros((classes, classes))
    np.add.at(confusion, (targets, guesses), 1 / count)
    sizes = confusion.sum(axis=1)
    present = np.flatnonzero(sizes)
    bins = _reliability(shares.max(axis=1), guesses == targets)
    values = {
        names.ACCURACY: float(np.mean(guesses == targets)),
        names.MAJORITY: float(np.bincount(targets, minlength=classes).max() / count),
        names.BALANCED: float(np.mean(np.diag(confusion)[present] / sizes[present])),
        names.CALIBRATION_ERROR: float(sum(each.share * abs(each.right - each.confidence) for each in bins)),
    }
    if len(present) > 1:
        ranked = scores[:, 1] - scores[:, 0] if classes == 2 else None
        name = names.AUROC if classes == 2 else names.AUROC_MEAN
        values[name] = (
            _auroc(ranked, targets) if ranked is not None else _mean_auroc(shares, targets, present)
        )
    details = ScoreDetails(
        outside=outside,
        confusion=() if classes > names.MOST_CLASSES else tuple(map(tuple, confusion.tolist())),
        reliability=bins,
        thresholds=_thresholds(shares[:, 1], targets == 1) if classes == 2 else (),
    )
    return values, details


def _of_texts(scores: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """The scores over all places with a next character, beside always predicting the most frequent one."""
    is_known = targets >= 0
    found, wanted = scores[is_known], targets[is_known]  # (places, symbols), (places,)
    if not len(wanted):
        return {}
    odds = np.take_along_axis(softmax(found), wanted[:, None], axis=1)[:, 0]
    return {
        names.ACCURACY: float(np.mean(found.argmax(axis=1) == wanted)),
        names.MAJORITY: float(np.bincount(wanted).max() / len(wanted)),
        names.BITS: float(-np.mean(np.log2(np.maximum(odds, 1e-30)))),
    }


def _auroc(ranked: np.ndarray, is_positive: np.ndarray) -> float:
    """The chance that a positive row is ranked above another; half of that for equal ones."""
    if not np.isfinite(ranked).all():
        return float("nan")
    _, place, counts = np.unique(ranked, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]  # from 1, shared by equal ones
    positives = int(np.sum(is_positive))
    above = float(ranks[is_positive.astype(bool)].sum()) - positives * (positives + 1) / 2
    return above / (positives * (len(ranked) - positives))


def _mean_auroc(shares: np.ndarray, targets: np.ndarray, present: np.ndarray) -> float:
    """Each class that has rows against all others; the mean over these classes."""
    return float(np.mean([_auroc(shares[:, at], targets == at) for at in present]))


def _reliability(confidence: np.ndarray, is_right: np.ndarray) -> tuple[ReliabilityBin, ...]:
    """Bins of equal width; empty ones are left out.

    Reference:
        Guo, Pleiss, Sun and Weinberger (2017), Section 2, arXiv:1706.04599v2: reliability diagrams and the
        expected calibration error.
    """
    which = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    return tuple(
        ReliabilityBin(
            float(confidence[which == at].mean()),
            float(is_right[which == at].mean()),
            float(np.mean(which == at)),
        )
        for at in range(_BINS)
        if (which == at).any()
    )


def _thresholds(shares: np.ndarray, is_positive: np.ndarray) -> tuple[ThresholdPoint, ...]:
    if not is_positive.any():
        return ()
    points = []
    for threshold in _THRESHOLDS:
        chosen = shares >= threshold
        found = float(np.mean(is_positive & chosen))
        predicted = float(np.mean(chosen))
        precision = found / predicted if predicted else None
        points.append(ThresholdPoint(threshold, predicted, precision, found / float(np.mean(is_positive))))
    return tuple(points)
