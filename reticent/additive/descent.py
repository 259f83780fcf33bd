"""Accelerated descent of all curves at once, on sums that were released: post-processing, free of charge.

How much noise is in a curve is known, because the same steps are taken beside it with noise alone, as if no
column told anything about another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from reticent.additive.columns import Columns
from reticent.additive.curves import CurveFeatures
from reticent.additive.model import AdditiveModel
from reticent.additive.sums import LEAST_CONSTANT, WEIGHT, PassSums, whole_tables
from reticent.additive.targets import UNIT, cut_scores

_REWEIGHTED = 0.4  # of the passes
_AVERAGED = (0.5, 0.8)  # of the passes: those after it, where there is much noise and where there is none
_EVEN = 0.2  # of the weights that stay even
_RIDGE_OF_NUMBER, _RIDGE_OF_CLASSES = 0.8, 1.0  # in units of the noise of all passes together
_SIMULATED = 16  # curves of noise alone

_CUT = (0.05, 0.01)  # of the residuals of a number: how many are cut, with much noise and with none
_LOUD = 2e-4  # noise of all passes together, by row: from there on it is much
_SHORTEST = 0.02  # of half the range, where residuals are cut
_SEEN = 0.03  # how well the share of cut residuals has to be known to follow it fully


class Curve:
    """The curve of one column, and curves of noise alone.

    Attributes:
        at, before: coefficients of the features now and a step ago, (features, outputs).
        noise_at, noise_before: the same for noise alone, (simulations, features, outputs).
    """

    def __init__(self, features: CurveFeatures, outputs: int) -> None:
        self.features = features
        shape = (features.table.shape[1], outputs)
        self.at = self.before = self.ahead = self.total = np.zeros(shape)
        self.noise_at = self.noise_before = self.noise_total = np.zeros((_SIMULATED, *shape))

    @property
    def strength(self) -> float:
        """The largest mean square of a feature."""
        return float(self.features.strengths[0])

    def look_ahead(self, momentum: float) -> np.ndarray:
        """Where the residuals of the next pass are taken; returns the curve there."""
        self.ahead = self.at + momentum * (self.at - self.before)
        return self.features.table @ self.ahead

    def step(self, moved: np.ndarray, noise: np.ndarray, momentum: float, decay: float, bent: float) -> None:
        """Moves by what a pass found.

        Args:
            moved: the step of the coefficients.
            noise: steps of noise alone, one per simulation.
            decay: what the ridge takes off.
            bent: how much a step of 1 takes off per mean square of a feature.
        """
        self.before, self.at = self.at, self.ahead * (1 - decay) + moved
        ahead = self.noise_at + momentum * (self.noise_at - self.noise_before)
        kept = 1 - decay - bent * self.features.strengths[:, None]
        self.noise_before, self.noise_at = self.noise_at, ahead * kept + noise

    def stop(self) -> None:
        """Forgets the speed, where steps change."""
        self.before, self.noise_before = self.at, self.noise_at

    def remember(self) -> None:
        """Adds the curve to the mean that is returned in the end."""
        self.total, self.noise_total = self.total + self.at, self.noise_total + self.noise_at

    def signal(self, coefficients: np.ndarray, noise: np.ndarray) -> tuple[float, float]:
        """The mean square of a curve over the data, and how much of it is noise."""
        weights = self.features.strengths[:, None]
        return float(np.sum(weights * coefficients**2)), float(
            np.mean(np.sum(weights * noise**2, axis=(1, 2)))
        )

    def finish(self, passes: int) -> tuple[np.ndarray, np.ndarray]:
        """The mean curve, shrunk by the share of noise in it, and the deviation of the noise before that."""
        mean, noise = self.total / passes, self.noise_total / passes
        whole, of_noise = self.signal(mean, noise)
        kept = max(0.0, 1 - of_noise / whole) if whole > 0 else 0.0
        table = self.features.table
        return kept * (table @ mean), np.sqrt(np.mean(np.square(table @ noise), axis=0))


class CurveDescent:
    """All curves, the constant, and where residuals are cut.

    Args:
        examples: the declared, public number of rows.
        curvature: how much residuals move when scores do, at most.
        cuts: whether residuals are cut where few are longer: those of numbers.
        reach: where residuals are cut at first, and to the end unless `cuts`.
    """

    def __init__(
        self,
        features: Sequence[CurveFeatures],
        constant: np.ndarray,
        *,
        curvature: float,
        passes: int,
        examples: int,
        cuts: bool,
        reach: float = 1.0,
    ) -> None:
        self._constant, self._curvature = np.asarray(constant, np.float64), curvature
        self._curves = [Curve(part, len(self._constant)) for part in features]
        self._passes, self._examples, self._cuts = passes, examples, cuts
        self._pass = self._since = self._remembered = 0
        self._reach = reach
        self._simulation = np.random.default_rng(0)  # of noise alone: nothing that has to be secret
        self._weigh(np.full(len(features), 1 / len(features)))

    def _weigh(self, shares: np.ndarray) -> None:
        """Gives each column this share of the squared length of what a row adds."""
        self._weights = np.sqrt(shares)
        features = [curve.features for curve in self._curves]
        self.tables = whole_tables([part.released for part in features], self._weights)
        away = sum(
            float(share * (part.shift @ part.shift)) for share, part in zip(shares, features, strict=True)
        )
        # Its noise enters every curve, and its weight makes all noise larger: here both cost the least.
        self.constant_weight = max(int(WEIGHT * (away / len(shares)) ** 0.25), LEAST_CONSTANT)

    @property
    def reach(self) -> int:
        """Where residuals are cut, in steps of a score."""
        return max(int(self._reach * UNIT), 1)

    @property
    def _momentum(self) -> float:
        return self._since / (self._since + 3)

    def scores(self, places: Sequence[np.ndarray]) -> np.ndarray:
        """The scores of rows in steps, (rows, outputs), by the bin of each column that a row is in."""
        total = np.repeat(_in_steps(self._constant)[:, None], len(places[0]), axis=1)  # (outputs, rows)
        for place, curve in zip(places, self._curves, strict=True):
            for output, values in enumerate(_in_steps(curve.look_ahead(self._momentum)).T):
                total[output] += values[place]
        return total.T

    def step(self, released: PassSums) -> None:
        """Takes a step by what a pass released."""
        rows = self._examples
        noise = released.deviation / (np.sqrt(self._passes) * rows)
        ridge = (_RIDGE_OF_NUMBER if self._cuts else _RIDGE_OF_CLASSES) * noise
        pairs = zip(self._weights, self._curves, strict=True)
        bend = self._curvature * sum(weight**2 * curve.strength for weight, curve in pairs)
        length = 1 / max(bend + ridge, 1e-12)
        outputs = (_SIMULATED, 1, len(self._constant))
        shared = self._simulation.normal(0.0, released.constant_deviation, outputs)
        for weight, curve, found in zip(self._weights, self._curves, released.columns, strict=True):
            unit = length * weight * self._reach / rows
            shift = weight * curve.features.shift[:, None]
            found = found - shift * released.constant
            alone = self._simulation.normal(0.0, released.deviation, curve.noise_at.shape)
            alone = unit * (alone - shift * shared)
            bent = length * self._curvature * weight**2
            curve.step(unit * found, alone, self._momentum, length * ridge, bent)
        if released.constant_deviation * self._reach < rows / 20:
            self._constant = self._constant + released.constant * self._reach / (2 * rows * self._curvature)
        self._pass, self._since = self._pass + 1, self._since + 1
        if self._cuts:
            wanted = 1 - between(*_CUT, noise)
            self._follow(released.inside / rows, released.inside_deviation / rows, wanted)
        if self._pass == int(_REWEIGHTED * self._passes):
            self._reweigh()
        if self._pass > int(between(*_AVERAGED, noise) * self._passes):
            self._remembered += 1
            for curve in self._curves:
                curve.remember()

    def _follow(self, share: float, deviation: float, wanted: float) -> None:
        """Moves the cut towards the length that the wanted share of the residuals does not exceed."""
        trusted = 1 / (1 + (deviation / _SEEN) ** 2)
        moved = float(np.clip(4 * (wanted - share), -0.5, 0.5)) * trusted
        self._reach = float(np.clip(self._reach * np.exp(moved), _SHORTEST, 1.0))

    def _reweigh(self) -> None:
        """Gives columns whose curves stand out of the noise more weight, and starts the steps afresh."""
        squares = [curve.signal(curve.at, curve.noise_at) for curve in self._curves]
        signals = np.sqrt([max(whole - noise, 0.0) for whole, noise in squares])
        if signals.sum() > 0:
            self._weigh((1 - _EVEN) * signals / signals.sum() + _EVEN / len(signals))
        for curve in self._curves:
            curve.stop()
        self._since = 0

    def result(self, columns: Columns) -> AdditiveModel:
        """The model that is released."""
        finished = [curve.finish(self._remembered) for curve in self._curves]
        values, deviations = (
            np.concatenate(
                [part[curve.features.of_cell] for part, curve in zip(parts, self._curves, strict=True)]
            )
            for parts in zip(*finished, strict=True)
        )
        return AdditiveModel(columns=columns, constant=self._constant, curve=values, deviation=deviations)


def between(loud: float, quiet: float, noise: float) -> float:
    """A setting between that for much noise and that for none, by the noise of all passes together by row.

    Cutting residuals bends the curves, and averaging holds them back: both are worth it against noise alone.

    >>> between(0.05, 0.01, noise=1e-3), round(between(0.05, 0.01, noise=0.0), 6)
    (0.05, 0.01)
    """
    return loud + (quiet - loud) * (1 - min(math.sqrt(noise / _LOUD), 1.0))


def _in_steps(scores: np.ndarray) -> np.ndarray:
    """Scores as whole numbers of steps."""
    return cut_scores(np.rint(np.clip(np.nan_to_num(scores), -1e4, 1e4) * UNIT))
