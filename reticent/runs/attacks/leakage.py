"""Gradient leakage from a run's model: what a server could reconstruct from the gradient of one record.

The gradients are those of the run's own model on rows that it never saw, one row each: the worst case. They
are sent as they are, clipped as the run clipped, and with as much noise as the run added. A run on one
machine sends none to anybody; this is what its noise would hide in federated learning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from reticent.attacks.metrics import Estimate
from reticent.attacks.reconstruction.leakage import (
    LeakAt,
    gradient_matcher,
    mean_of,
    noise_curve,
    psnr,
    recover_analytically,
    recover_from_outputs,
    recover_label,
)
from reticent.core.errors import DataError
from reticent.core.observer import NOBODY, Observer
from reticent.data.domain import Domain
from reticent.data.encoding import has_target
from reticent.runs.attacks.pool import require_classes
from reticent.runs.attacks.recipes import plan_of
from reticent.runs.attacks.view import View, cells, view_of
from reticent.runs.methods import table
from reticent.runs.methods.additive import Additive
from reticent.runs.reopen import Again

_DIVIDED, _MATCHED = 24, 4  # records: one is read at once, for the other gradients are matched
_STEPS = 300  # of matching
_UNCLIPPED = 1e9
_CLEAR = 20.0  # decibels, from which a copy is clear
_NEAR = 0.05  # of the range of a number, within which it was read right
_SHOWN = 8  # pictures in a line


class Leak(NamedTuple):
    """What was reconstructed at one amount of noise.

    Args:
        cells: the share of a record's cells that are right, for tables.
    """

    name: str
    at: LeakAt
    cells: Estimate | None


@dataclass(frozen=True, kw_only=True)
class RunLeakage:
    """What is left of records in gradients of a run's model.

    Args:
        how: the method of reconstruction.
        own_noise: the noise multiplier of the run; None if it was not trained in steps.
        baseline: how similar the mean record is, which needs no gradient.
        commonest: the share of the most frequent class, which needs none either.
        pictures: those that were sent, and those reconstructed at each amount of noise; none for tables.
    """

    how: str
    rows: tuple[Leak, ...]
    own_noise: float | None
    baseline: Estimate
    commonest: float
    pictures: dict[str, np.ndarray] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        rows = [
            {
                "sent": leak.name,
                **leak.at.to_json(),
                **({} if leak.cells is None else {"cells": leak.cells._asdict()}),
            }
            for leak in self.rows
        ]
        return {
            "how": self.how,
            "noise_multiplier_of_the_run": self.own_noise,
            "mean_record_psnr": self.baseline._asdict(),
            "commonest_label": self.commonest,
            "rows": rows,
        }

    @property
    def in_words(self) -> list[str]:
        raw, last = self.rows[0], self.rows[-1]
        what = "a clear copy" if raw.at.psnr.value >= _CLEAR else "a rough copy"
        if raw.at.psnr.low <= self.baseline.high:
            what = "no better a copy than the mean record, which needs no gradient"
        clipped = self.rows[1].at.psnr
        hides = "nothing" if clipped.high >= raw.at.psnr.low else "some of it"
        said = [
            f"The gradient of one record gives away {what} ({raw.at.psnr.value:.1f} dB, {self.how}) and "
            f"{raw.at.label.value:.0%} of the labels. Clipping hides {hides}.",
        ]
        if self.own_noise is None:
            return [
                *said,
                "This run was not trained in steps, so it has no noise on gradients to compare with.",
            ]
        verdict = "nothing is left" if last.at.psnr.low <= self.baseline.high else "something is left"
        return [
            *said,
            f"With the run's own noise {verdict}: {last.at.psnr.value:.1f} dB, against "
            f"{self.baseline.value:.1f} dB for the mean record, and {last.at.label.value:.0%} of the labels, "
            f"against {self.commonest:.0%} for always naming the most frequent one.",
            "In a batch the other records hide one as well; over many steps, epsilon limits what leaks.",
        ]


def reconstruct_from_gradients(again: Again, *, observer: Observer = NOBODY) -> RunLeakage:
    """Reconstructs held-out records from gradients of the run's model: raw, clipped, and with growing noise.

    Raises:
        DataError: the run predicts numbers, or has too few rows held out.
    """
    require_classes(again, "Reconstruction of a record and its class from a gradient")
    if isinstance(table.read(again.record.recipe), Additive):
        raise DataError(
            "An additive model is made from noisy sums over all rows: no gradient of a record is ever sent.",
            remedy="Leave out leakage, or attack a run with --model linear or mlp.",
        )
    view = view_of(again)
    reader = _reader(again, view)
    plan = plan_of(again)
    own = None if plan is None else plan.noise_multiplier
    max_norm = 1.0 if plan is None else plan.clipping.sensitivity
    sent, rows = _amounts(own, max_norm, is_few=reader.is_slow), []
    with observer.watch("gradient leakage") as on_progress:
        for number, (name, noise, norm) in enumerate(sent):
            (at,) = noise_curve(
                again.learner.loss,
                again.params,
                reader.examples,
                reader.recover,
                noise_multipliers=(noise,),
                max_norm=norm,
                box=reader.box,
                read_label=reader.read_label,
                truth=reader.truth,
            )
            rows.append(Leak(name, at, _cells_right(again, reader.truth, at.recovered)))
            on_progress((number + 1) / len(sent))
    return RunLeakage(
        how=reader.how,
        rows=tuple(rows),
        own_noise=own,
        baseline=mean_of(
            [psnr(one, reader.mean, peak=reader.box[1] - reader.box[0]) for one in reader.truth]
        ),
        commonest=float(
            np.bincount(view.labels[has_target(view.labels)].astype(int)).max() / len(view.labels)
        ),
        pictures=_pictures(view, reader, rows),
    )


class _Reader(NamedTuple):
    """Records to send, and the way to reconstruct them: what comes out, and in which box it lies."""

    how: str
    examples: dict[str, np.ndarray]
    truth: np.ndarray
    mean: np.ndarray
    box: tuple[float, float]
    recover: Callable[[Any], np.ndarray]
    read_label: Callable[[Any], int]
    is_slow: bool


def _reader(again: Again, view: View) -> _Reader:
    name = again.learner.name
    count = _MATCHED if name == "cnn" else _DIVIDED
    chosen = np.flatnonzero(has_target(view.labels))[:count]
    if len(chosen) < count:
        raise DataError(
            f"{len(chosen)} held-out rows are too few for gradient leakage.",
            remedy=f"Attack a run with at least {count} held-out rows.",
        )
    examples = {"x": view.records[chosen], "y": view.labels[chosen]}
    truth, mean, box = examples["x"], view.records.mean(axis=0), view.box
    if name == "cnn":
        match = gradient_matcher(again.learner.loss, shape=truth.shape[1:], box=box, steps=_STEPS, restarts=1)
        return _Reader(
            "by matching gradients",
            examples,
            truth,
            mean,
            box,
            partial(match, again.params),
            recover_label,
            True,
        )
    if not view.is_direct:
        assert view.draw is not None
        assert view.pictures is not None
        length, draw = float(np.linalg.norm(view.public, axis=1).mean()), view.draw
        return _Reader(
            "from its features",
            examples,
            view.pictures[chosen],
            view.pictures.mean(axis=0),
            (0.0, 1.0),
            lambda gradient: draw(recover_from_outputs(gradient["w"], length=length)[0][None])[0],
            lambda gradient: recover_from_outputs(gradient["w"], length=length)[1],
            False,
        )
    return _Reader(
        "by division",
        examples,
        truth,
        mean,
        box,
        lambda gradient: recover_analytically(gradient.get("dense1", gradient)),
        recover_label,
        False,
    )


def _amounts(own: float | None, max_norm: float, *, is_few: bool) -> list[tuple[str, float, float]]:
    """Lists what is sent: its name, the noise multiplier and the clipping norm."""
    found = [("as it is", 0.0, _UNCLIPPED), (f"clipped to {max_norm:g}", 0.0, max_norm)]
    if own is None:
        return found + [(f"noise {noise:g}", noise, max_norm) for noise in (0.001, 0.01, 0.1, 1.0)]
    parts = (100,) if is_few else (1000, 100, 10)
    found += [(f"noise {own:.3g} / {part}", own / part, max_norm) for part in parts]
    return [*found, (f"noise {own:.3g}, the run's", own, max_norm)]


def _cells_right(again: Again, truth: np.ndarray, recovered: np.ndarray) -> Estimate | None:
    """Measures the share of cells that are right; numbers may be off by a twentieth of their range."""
    domain = again.domain
    if domain is None:
        return None
    shares = []
    for one, other in zip(truth / again.problem.scale, recovered / again.problem.scale, strict=True):
        sent, read = cells(domain, one), cells(domain, other)
        shares.append(np.mean([_is_same(domain, name, sent[name], read[name]) for name in sent]))
    return mean_of(shares)


def _is_same(domain: Domain, name: str, sent: str, read: str) -> bool:
    bounds = getattr(domain.columns[name], "bounds", None)
    if bounds is None or "(missing)" in (sent, read):
        return sent == read
    return abs(float(sent) - float(read)) <= _NEAR * (bounds[1] - bounds[0])


def _pictures(view: View, reader: _Reader, rows: Sequence[Leak]) -> dict[str, np.ndarray]:
    if view.draw is None:
        return {}
    draw = view.draw if view.is_direct else np.asarray
    lines = {"sent": reader.truth} | {leak.name: leak.at.recovered for leak in rows}
    return {name: draw(line[:_SHOWN]) for name, line in lines.items()}
