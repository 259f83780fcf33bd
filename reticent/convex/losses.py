"""Losses of linear models, with the constants that the proofs need.

A loss sees a record only through its scores, the products of the record's features with the weights:

    logistic()           log(1 + e^-m) of the margin m, the signed score; labels 0 and 1
    huber_hinge(0.5)     the hinge of a support vector machine with its corner rounded; labels 0 and 1
    softmax(7)           cross-entropy over so many classes; labels 0, 1, ..., 6
    squared(1.0)         half the squared residual; targets from -bound to bound
    huber(1.0, bound=9)  squared near zero, linear beyond `width`; targets from -bound to bound
    absolute(bound=9)    the absolute residual, whose minimiser is a median; targets from -bound to bound

All constants are about the scores. A record of norm R multiplies slopes by R and curvatures by R^2; the
package rescales rows to norm 1 and never has to remember that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

import numpy as np

from reticent.convex.elementary import exp_below, expit
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument

Array = np.ndarray
_LARGEST = 1e9  # times the largest slope: a target beside which floats still tell losses apart

Targets = Literal["binary", "classes", "numbers"]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """A convex function of a record's scores, (rows, outputs), and of its label or target, (rows,).

    Args:
        outputs: scores per record: one, or one per class.
        lipschitz: no gradient in the scores is longer.
        smoothness: no eigenvalue of the Hessian in the scores is larger; infinite for a loss with a corner.
        rank: of that Hessian.
        trace: no trace of that Hessian is larger.
        corners: for one label, all gradients lie in the hull of 0 and of so many points.
        undecided: no gradient at scores of zero is longer: that of a record about which nothing is known yet.
        targets: what a label is.
        bound: of numbers as targets, the largest: others are brought back to it. Infinite for classes.
        value, gradient: of (scores, labels). `value` takes `xp=jax.numpy` as well.
        hessian: of (scores, labels): a function that multiplies each record's Hessian by its direction.
    """

    name: str
    outputs: int
    lipschitz: float
    smoothness: float
    rank: int
    trace: float
    corners: int
    undecided: float
    targets: Targets
    bound: float = math.inf
    value: Callable[..., Any]
    gradient: Callable[[Array, Array], Array]
    hessian: Callable[[Array, Array], Callable[[Array], Array]]

    def __post_init__(self) -> None:
        checks.count(outputs=self.outputs, rank=self.rank, corners=self.corners)
        if self.targets == "numbers" and not (0 < self.bound <= _LARGEST * self.lipschitz):
            raise InvalidArgument(
                f"The loss '{self.name}' has a bound of {self.bound:g} on its targets, beside which floats "
                f"cannot tell slopes of {self.lipschitz:g} apart: one target would drown all others.",
                remedy=f"Pass the largest possible target, at most {_LARGEST * self.lipschitz:g}; "
                "larger ones are clipped to it.",
            )
        for name in ("lipschitz", "smoothness", "trace", "undecided"):
            value = getattr(self, name)
            is_bound = value > 0 and (math.isfinite(value) or name in ("smoothness", "trace"))
            if not is_bound:
                raise InvalidArgument(
                    f"The loss '{self.name}' has {name} {value}, for which no proof holds.",
                    remedy=f"Give it a positive, finite {name}, or choose another loss.",
                )

    @property
    def is_smooth(self) -> bool:
        return math.isfinite(self.smoothness)

    @property
    def is_classifier(self) -> bool:
        return self.targets != "numbers"

    def probabilities(self, scores: Array) -> Array:
        """The chance of each class, (rows, classes), that the scores of a perfect fit would mean.

        The mean loss is least where the slopes of the two labels balance: p f'(s, 1) + (1 - p) f'(s, 0) = 0.
        For the plain logistic loss that is the usual 1 / (1 + e^-s).
        """
        if self.targets == "classes":
            return _shares(scores)
        if self.targets == "numbers":
            raise InvalidArgument(
                f"'{self.name}' predicts numbers, not classes.", remedy="Use a classification loss."
            )
        of_one = np.abs(self.gradient(scores, np.ones(len(scores))))[:, 0]
        of_zero = np.abs(self.gradient(scores, np.zeros(len(scores))))[:, 0]
        share = of_zero / (of_zero + of_one)
        return np.stack([1 - share, share], axis=1)

    def check_labels(self, y: Any) -> Array:
        """Checks labels (rows,) and returns them as float64; targets beyond `bound` are clipped to it.

        Raises:
            DataError: a label is not a declared class, or a target is not finite.
        """
        labels = np.asarray(y)
        if labels.dtype == bool:
            labels = labels.astype(np.float64)
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.number):
            raise DataError(
                f"Labels are one number per row; these are {labels.dtype} of shape {labels.shape}.",
                remedy="Pass a vector: classes counted from 0, or targets.",
            )
        labels = labels.astype(np.float64)
        if not np.isfinite(labels).all():
            raise DataError("A label is NaN or infinite.", remedy="Remove such rows first.")
        if self.targets == "numbers":
            return np.clip(labels, -self.bound, self.bound)
        classes = 2 if self.targets == "binary" else self.outputs
        if not (np.isin(labels, np.arange(classes)).all()):
            raise DataError(
                f"'{self.name}' needs classes from 0 to {classes - 1}, and a label is not one of them.",
                remedy="Number the declared classes from 0.",
            )
        return labels


def logistic(steepest: float = 1.0) -> Loss:
    """log(1 + e^-m) of the margin m, the score times +1 for label 1 and -1 for label 0.

    Args:
        steepest: the largest slope, from 1/2 to 1. Where the logistic loss is steeper, it continues as
            a straight line. With 1/2 a record on the wrong side pulls no harder than an undecided one,
            so half the noise hides it; the sign of the best score is the same.

    Example:
        >>> import numpy as np
        >>> loss = logistic()
        >>> loss.gradient(np.zeros((1, 1)), np.ones(1)).item(), loss.lipschitz, loss.smoothness
        (-0.5, 1.0, 0.25)
    """
    if not 0.5 <= steepest <= 1:
        raise InvalidArgument(
            f"steepest must be from 0.5 to 1, got {steepest}.", remedy="Pass 1 for the plain logistic loss."
        )
    start = math.log(1 / steepest - 1) if steepest < 1 else -math.inf  # below this margin the loss is a line

    def value(scores: Any, labels: Any, xp: ModuleType = np) -> Any:  # (rows, outputs), (rows,) -> (rows,)
        margin = _sign(labels) * scores[:, 0]
        if steepest == 1:
            return xp.logaddexp(0.0, -margin)
        bent = xp.maximum(margin, start)
        return xp.logaddexp(0.0, -bent) + steepest * (bent - margin)

    def gradient(scores: Array, labels: Array) -> Array:  # -> (rows, outputs)
        signs = _sign(labels)
        return (-signs * np.minimum(expit(-signs * scores[:, 0]), steepest))[:, None]

    def hessian(scores: Array, labels: Array) -> Callable[[Array], Array]:
        share = expit(scores[:, 0])
        is_bent = _sign(labels) * scores[:, 0] >= start
        return _times((is_bent * share * (1 - share))[:, None])

    return Loss(
        name="logistic" if steepest == 1 else f"logistic({steepest:g})",
        outputs=1,
        lipschitz=steepest,
        smoothness=0.25,
        rank=1,
        trace=0.25,
        corners=1,
        undecided=0.5,
        targets="binary",
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def huber_hinge(width: float = 0.5) -> Loss:
    """The hinge max(0, 1 - m) with the corner at margin 1 rounded over `width` on each side.

    Reference:
        Chaudhuri, Monteleoni and Sarwate (2011), Section 3.4.2: curvature 1/(2 width).
    """
    checks.positive(width=width)

    def value(scores: Any, labels: Any, xp: ModuleType = np) -> Any:  # (rows, outputs), (rows,) -> (rows,)
        short = 1 - _sign(labels) * scores[:, 0]  # of the margin that is wanted
        inside = xp.clip(short, -width, width)
        return (inside + width) ** 2 / (4 * width) + xp.maximum(short - width, 0.0)

    def gradient(scores: Array, labels: Array) -> Array:  # -> (rows, outputs)
        signs = _sign(labels)
        short = np.clip(1 - signs * scores[:, 0], -width, width)
        return (-signs * (short + width) / (2 * width))[:, None]

    def hessian(scores: Array, labels: Array) -> Callable[[Array], Array]:
        is_round = np.abs(1 - _sign(labels) * scores[:, 0]) < width
        return _times((is_round / (2 * width))[:, None])

    return Loss(
        name="huber_hinge",
        outputs=1,
        lipschitz=1.0,
        smoothness=1 / (2 * width),
        rank=1,
        trace=1 / (2 * width),
        corners=1,
        undecided=min(1.0, (1 + width) / (2 * width)),
        targets="binary",
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def softmax(classes: int) -> Loss:
    """Cross-entropy over `classes` classes, all in one proof: no budget is split among them.

    The gradient p - e_y lies between the corners e_k - e_y, each of length sqrt(2). The Hessian
    diag(p) - p p' has eigenvalues up to 1/2, rank classes - 1 and trace at most 1 - 1/classes.

    Example:
        >>> softmax(3).outputs
        3
    """
    checks.count(minimum=2, classes=classes)

    def value(scores: Any, labels: Any, xp: ModuleType = np) -> Any:  # (rows, outputs), (rows,) -> (rows,)
        top = scores.max(axis=1, keepdims=True)
        log_sum = top[:, 0] + xp.log(xp.exp(scores - top).sum(axis=1))
        picked = xp.take_along_axis(scores, labels.astype(int)[:, None], axis=1)[:, 0]
        return log_sum - picked

    def gradient(scores: Array, labels: Array) -> Array:  # -> (rows, outputs)
        shares = _shares(scores)
        shares[np.arange(len(labels)), labels.astype(int)] -= 1
        return shares

    def hessian(scores: Array, labels: Array) -> Callable[[Array], Array]:
        shares = _shares(scores)

        def product(direction: Array) -> Array:
            mean = np.einsum("ik,ik->i", shares, direction)
            return shares * (direction - mean[:, None])

        return product

    return Loss(
        name="softmax",
        outputs=classes,
        lipschitz=math.sqrt(2),
        smoothness=0.5,
        rank=classes - 1,
        trace=1 - 1 / classes,
        corners=classes - 1,
        undecided=math.sqrt(1 - 1 / classes),
        targets="classes",
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def squared(bound: float) -> Loss:
    """Half the squared residual, for targets from -bound to bound.

    A score beyond the targets' range is charged by the tangent at its end: the slope, which is the score
    brought into the range minus the target, then never exceeds 2 bound, whatever the weights. Predictions
    inside the range, the only useful ones, have the plain squared loss.

    Example:
        >>> import numpy as np
        >>> squared(2.0).value(np.array([[0.5]]), np.array([1.5])).item()
        0.5
    """
    checks.positive(bound=bound)

    def value(scores: Any, targets: Any, xp: ModuleType = np) -> Any:  # (rows, outputs), (rows,) -> (rows,)
        inside = xp.clip(scores[:, 0], -bound, bound)
        residual = inside - targets
        return residual**2 / 2 + residual * (scores[:, 0] - inside)

    def gradient(scores: Array, targets: Array) -> Array:  # -> (rows, outputs)
        return (np.clip(scores[:, 0], -bound, bound) - targets)[:, None]

    def hessian(scores: Array, targets: Array) -> Callable[[Array], Array]:
        return _times((np.abs(scores) < bound).astype(np.float64))

    return Loss(
        name="squared",
        outputs=1,
        lipschitz=2 * bound,
        smoothness=1.0,
        rank=1,
        trace=1.0,
        corners=2,
        undecided=bound,
        targets="numbers",
        bound=bound,
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def huber(width: float = 1.0, *, bound: float) -> Loss:
    """Half the squared residual up to `width`, linear with slope `width` beyond: no target can pull harder.

    Args:
        bound: the largest target; larger ones are brought back to it.
    """
    checks.positive(width=width)

    def value(scores: Any, targets: Any, xp: ModuleType = np) -> Any:  # (rows, outputs), (rows,) -> (rows,)
        residual = scores[:, 0] - targets
        inside = xp.clip(residual, -width, width)
        return inside * (residual - inside / 2)

    def gradient(scores: Array, targets: Array) -> Array:  # -> (rows, outputs)
        return np.clip(scores[:, 0] - targets, -width, width)[:, None]

    def hessian(scores: Array, targets: Array) -> Callable[[Array], Array]:
        return _times((np.abs(scores - targets[:, None]) < width).astype(np.float64))

    return Loss(
        name="huber",
        outputs=1,
        lipschitz=width,
        smoothness=1.0,
        rank=1,
        trace=1.0,
        corners=2,
        undecided=min(width, bound),
        targets="numbers",
        bound=bound,
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def absolute(*, bound: float) -> Loss:
    """The absolute residual. It has a corner, so no method that needs curvature takes it.

    Args:
        bound: the largest target; larger ones are brought back to it.
    """

    def value(scores: Any, targets: Any, xp: ModuleType = np) -> Any:  # (rows, outputs), (rows,) -> (rows,)
        return xp.abs(scores[:, 0] - targets)

    def gradient(scores: Array, targets: Array) -> Array:  # -> (rows, outputs)
        return np.sign(scores[:, 0] - targets)[:, None]

    def hessian(scores: Array, targets: Array) -> Callable[[Array], Array]:
        return np.zeros_like

    return Loss(
        name="absolute",
        outputs=1,
        lipschitz=1.0,
        smoothness=math.inf,
        rank=1,
        trace=math.inf,
        corners=2,
        undecided=1.0,
        targets="numbers",
        bound=bound,
        value=value,
        gradient=gradient,
        hessian=hessian,
    )


def _times(bends: Array) -> Callable[[Array], Array]:
    return lambda direction: bends * direction


def _sign(labels: Any) -> Any:
    return 2 * labels - 1


def _shares(scores: Array) -> Array:
    exponentials = exp_below(scores - scores.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)
