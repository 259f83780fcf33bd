"""What the pages of the course compute: the package's own functions, on small settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.setting import Sampling, Setting
from reticent.accounting.theorems import amplification, composition, gaussian_dp
from reticent.accounting.tight_epsilon import upper_bound
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Repeated
from reticent.pate.aggregators import LaplaceMax
from reticent.report.facts.facts import bound_from_above

_DELTA = 1e-5  # of every page
_POINTS = 30
_ONE = Neighbours(Adjacency.ADD_OR_REMOVE)


def compose(words: Mapping[str, str]) -> dict[str, Any]:
    """Epsilon of many releases, by every theorem of the lectures and by the best that is possible."""
    epsilon, most = _within(words, "epsilon", 0.001, 5), int(_within(words, "times", 2, 2000))
    times = sorted({max(round(most * place / _POINTS), 1) for place in range(1, _POINTS + 1)})
    lines = {
        "basic": [composition.basic([(epsilon, 0.0)] * each)[0] for each in times],
        "advanced, as printed": [composition.advanced_first(epsilon, 0.0, each, _DELTA)[0] for each in times],
        "advanced, sharper": [composition.advanced(epsilon, 0.0, each, _DELTA)[0] for each in times],
        "optimal": [composition.optimal(epsilon, 0.0, each, _DELTA) for each in times],
    }
    return {"x": times, "lines": {name: [_finite(value) for value in line] for name, line in lines.items()}}


def amplify(words: Mapping[str, str]) -> dict[str, Any]:
    """What is left of an epsilon when a record joins a batch by a coin."""
    epsilon = _within(words, "epsilon", 0.01, 10)
    rates = [10 ** (-4 + 4 * place / _POINTS) for place in range(_POINTS + 1)]
    return {"x": rates, "y": [amplification.poisson(epsilon, 0.0, rate)[0] for rate in rates]}


def gaussian(words: Mapping[str, str]) -> dict[str, Any]:
    """The epsilon of one Gaussian release."""
    multiplier = _within(words, "multiplier", 0.01, 1000)
    found = gaussian_dp.epsilon(1 / multiplier, _DELTA)
    return {"epsilon": _finite(found), "shown": bound_from_above("", found).shown, "delta": _DELTA}


def vote(words: Mapping[str, str]) -> dict[str, Any]:
    """The epsilon of answers by noisy votes."""
    rule, answers = (
        LaplaceMax(gamma=_within(words, "gamma", 0.001, 10)),
        int(_within(words, "answers", 1, 5000)),
    )
    found = upper_bound(Repeated(event=rule.event, times=answers), _DELTA, _ONE)
    one = composition.basic([(rule.gamma, 0.0)] * 2)[0]  # a vote moves two counts
    return {"one": bound_from_above("", one).shown, "all": bound_from_above("", found).shown, "delta": _DELTA}


def descend(words: Mapping[str, str]) -> dict[str, Any]:
    """The noise of descent on all records: by the exact composition, and by the lecture's first analysis."""
    epsilon, steps = _within(words, "epsilon", 0.05, 20), int(_within(words, "steps", 1, 500))
    run = Setting(examples=1, batch_size=1, steps=steps, noise_multiplier=1.0, sampling=Sampling.FULL)
    first = calibrate.first_analysis(steps=steps, epsilon=epsilon, delta=_DELTA) if epsilon < 1 else None
    return {
        "multiplier": calibrate.noise_multiplier(run, epsilon=epsilon, delta=_DELTA),
        "first": first,
        "delta": _DELTA,
    }


LESSONS: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {
    "compose": compose,
    "amplify": amplify,
    "gaussian": gaussian,
    "vote": vote,
    "descend": descend,
}


def _within(words: Mapping[str, str], name: str, low: float, high: float) -> float:
    try:
        value = float(words.get(name, ""))
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InvalidArgument(f"{name} has to lie between {low:g} and {high:g}.", remedy="Move the slider.")
    return value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
