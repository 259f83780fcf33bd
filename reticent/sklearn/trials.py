"""The runs of a private search: their cost, their number, and which was best."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.theorems import renyi, tuning
from reticent.accounting.tight_epsilon import cost_within
from reticent.core import checks
from reticent.core.errors import CannotMeet, InvalidArgument
from reticent.core.generators import generator
from reticent.core.keys import Stream, step_key
from reticent.data.held_out import Split, expected_rows
from reticent.mechanisms.events import BestOfTrials, Composed, Event, Gaussian, Laplace
from reticent.mechanisms.trials import draw_trials
from reticent.mechanisms.whole import add_whole_laplace, add_whole_normals, to_grid
from reticent.sklearn.private import PrivateEstimator
from reticent.sklearn.spending import PrepaidBudget, Spending, keys_for, quote_cost, seed_of

_FIXED = (
    "epsilon",
    "delta",
    "examples",
    "norm",
    "classes",
    "bounds",
    "adjacency",
    "preparation",
    "random_state",
    "budget",
)
_CLAIMED = 0.25  # the share of delta for runs that are only known by an epsilon and a delta
_SEARCHED = 11  # halvings
_STEP = 2.0**-20  # of the grid of gains
_QUOTED = 2  # rows
_LEAST = 1e-3  # of epsilon: if a run may not even cost that, there is no search


class BestRun(NamedTuple):
    """The released run."""

    model: PrivateEstimator
    params: dict[str, Any]
    score: float


class Price(NamedTuple):
    """What each setting is fitted with, and the costliest of their events."""

    epsilon: float
    delta: float
    events: tuple[Event, ...]
    worst: Event


def settings_of(grid: Mapping[str, Any], model: PrivateEstimator) -> list[dict[str, Any]]:
    """Every setting of a grid.

    Raises:
        InvalidArgument: a parameter does not exist, or would change what a run costs or knows.
    """
    for name in grid:
        if name in _FIXED or name not in model.get_params():
            raise InvalidArgument(
                f"'{name}' is not a parameter of {type(model).__name__}, or decides its cost.",
                remedy="Tune parameters such as 'regularisation' or 'radius'.",
            )
    found = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    if not found:
        raise InvalidArgument(
            "The grid has no settings.", remedy="List at least one value for each parameter."
        )
    return found


class Search:
    """One search: priced from public values alone, paid, then run.

    Args:
        model: knows its norm and classes or bounds.
        mean, shape: of the number of runs.
        holdout: the probability that a row scores. Every row has a secret coin of its own.

    Guarantee:
        Costs `BestOfTrials` of the costliest setting, under the adjacency of the budget. Let D' be D without
        one row r, and let each other row carry the same coin in both: coins are independent and alike, so
        those of D' have the law that they should have. Fix all coins, that of r included. Either r is fitted:
        then the rows that score are the same, and a run is a private fit followed by what can be computed
        from it. Or r scores: then the fitted rows are the same, and for each model the sum of gains differs
        by one term of at most 1/2, hidden by noise that costs no more than the fit (`score_noise`). So a run
        costs at most `Price.worst` at every order, and the theorem about trials holds for these coins. It
        bounds P(S) - e^epsilon Q(S), which is linear in P and Q, so it holds for their averages over the
        coins. Replacing a row is the same with one coin for both versions, and blanking it out too.

        Nothing else depends on how many rows there are: fits declare, and scores are divided by, the numbers
        that the coins leave of `examples` on average.

    Reference:
        Papernot and Steinke (2022), arXiv:2110.03620v2, Lemma 7, for the trials.
    """

    def __init__(
        self,
        model: PrivateEstimator,
        settings: list[dict[str, Any]],
        spending: Spending,
        *,
        mean: float,
        shape: float,
        holdout: float,
        seed: int | None,
    ) -> None:
        checks.inside_unit(holdout=holdout)
        self._model, self._settings, self._spending = model, settings, spending
        self._shape, self._gamma = shape, tuning.gamma_for(mean, shape)
        self._mean, self._seed = mean, seed
        if spending.examples < 2:
            raise InvalidArgument(
                "A search divides the rows into two parts, and there is only 1 sample.",
                remedy="Pass at least two rows; fewer than a thousand give poor results.",
            )
        self._holdout = holdout
        self._fitted = min(max(expected_rows(spending.examples, holdout), 1), spending.examples - 1)

    def best(self, x: Any, targets: np.ndarray) -> BestRun:
        price = self._price(x.shape[1])
        event = self._event(price.worst)
        self._spending.pay(event, f"search for a {type(self._model).__name__}")
        root = self._spending.keys.take(Stream.SAMPLING, steps=range(2))
        chance = np.random.default_rng(np.asarray(jax.random.bits(step_key(root, 1), (4,), np.uint32)))
        is_held_out = Split.draw(self._holdout, self._spending.keys).is_held_out(0, len(targets))
        score, fitted = np.flatnonzero(is_held_out), np.flatnonzero(~is_held_out)
        best: BestRun | None = None
        for trial in range(draw_trials(step_key(root, 0), event)):
            place = int(chance.integers(len(self._settings)))
            run = self._run(price, place, trial, x, targets, fitted, score)
            if best is None or run.score > best.score:
                best = run
        assert best is not None
        return best

    def _run(
        self,
        price: Price,
        place: int,
        trial: int,
        x: Any,
        targets: np.ndarray,
        fitted: np.ndarray,
        score: np.ndarray,
    ) -> BestRun:
        """One run: a setting fitted to some rows, and its noisy score on the others."""
        seed = None if self._seed is None else seed_of(self._seed, trial)
        model = self._candidate(place, price).set_params(
            budget=PrepaidBudget(price.events[place]), random_state=seed
        )
        model._fewest_rows = 0  # an error would tell what coins have left
        model.fit(x[fitted], targets[fitted])
        del model._fewest_rows
        gains = _gains(model, x[score], targets[score])
        source = generator(keys_for(self._seed, ["score", trial, x, gains]))
        noise = score_noise(price.worst, Neighbours(self._spending.adjacency))
        noisy = _with_noise(source, gains, noise)
        return BestRun(model, self._settings[place], noisy / (self._spending.examples - self._fitted) + 0.5)

    def _candidate(self, place: int, price: Price | None = None) -> Any:
        model: Any = clone(self._model)
        model.set_params(**self._settings[place])
        if price is None:
            return model
        return model.set_params(epsilon=price.epsilon, delta=price.delta, examples=self._fitted)

    def _event(self, run: Event) -> BestOfTrials:
        return BestOfTrials(event=run, shape=self._shape, gamma=self._gamma)

    def _price(self, features: int) -> Price:
        """The most that a run may cost, for the whole to stay within the budget."""
        spending = self._spending
        known = () if spending.is_untouched else (spending.event,)

        def fits(epsilon: float) -> bool:
            whole = Composed(events=(*known, self._event(self._at(epsilon, features).worst)))
            near = Neighbours(spending.adjacency)
            return cost_within(whole, spending.epsilon, spending.delta, near) <= spending.epsilon

        low, high = _LEAST * spending.epsilon, spending.epsilon
        if spending.delta == 0 or not fits(low):
            raise CannotMeet(
                f"No run is cheap enough for a search within epsilon {spending.epsilon:g} and delta "
                f"{spending.delta:g}.",
                remedy="Use a larger epsilon or delta, or try fewer settings: a smaller mean.",
            )
        for _ in range(_SEARCHED):
            middle = (low * high) ** 0.5
            low, high = (middle, high) if fits(middle) else (low, middle)
        return self._at(low, features)

    def _at(self, epsilon: float, features: int) -> Price:
        delta = _CLAIMED * self._spending.delta / self._mean
        draft = Price(epsilon, delta, (), Composed(events=()))
        events = tuple(self._quote(place, draft, features) for place in range(len(self._settings)))
        return draft._replace(events=events, worst=costliest(events, Neighbours(self._spending.adjacency)))

    def _quote(self, place: int, draft: Price, features: int) -> Event:
        """The cost of a setting, found by fitting rows of zeros: how many there are does not matter."""
        model = self._candidate(place, draft)
        classes = model.get_params().get("classes")
        targets = np.zeros(_QUOTED) if classes is None else np.resize(classes, _QUOTED)
        empty = sparse.csr_matrix((_QUOTED, features))
        return quote_cost(lambda asking: model.set_params(budget=asking).fit(empty, targets))


def costliest(events: tuple[Event, ...], neighbours: Neighbours) -> Event:
    """The event that costs no less than any other, at every order.

    Raises:
        InvalidArgument: there is none.
    """
    curves = {event: renyi.approximate(event, neighbours) for event in dict.fromkeys(events)}
    for event, found in curves.items():
        if all(
            (found.curve >= other.curve * (1 - 1e-12)).all()
            and found.delta >= other.delta
            and found.slack >= other.slack
            for other in curves.values()
        ):
            return event
    raise InvalidArgument(
        "The settings of the grid differ in cost, and none costs the most at every order.",
        remedy="Tune settings of one method: leave 'method' out of the grid.",
    )


def score_noise(run: Event, neighbours: Neighbours) -> Gaussian | Laplace:
    """The quieter of two noises, each of which costs no more than `run` at every order."""
    reach = neighbours.adjacency.reach
    curve = renyi.approximate(run, neighbours).curve
    gaussian = reach / np.sqrt(2 * float((curve / renyi.ORDERS).min())) * (1 + 1e-9)
    laplace = reach / renyi.pure_epsilon(run, neighbours) * (1 + 1e-9)
    if laplace == 0 or gaussian < np.sqrt(2) * laplace:
        return Gaussian(noise_multiplier=gaussian)
    return Laplace(noise_multiplier=laplace)


def _with_noise(source: np.random.Generator, gains: np.ndarray, noise: Gaussian | Laplace) -> float:
    """The sum of gains less one half each, in whole numbers of a fixed step, with whole-number noise.

    Each gain goes to the grid by itself and the sum is exact, so no row moves it by more than its own half.

    Guarantee:
        Costs `noise`, up to 2^-64.
    """
    each = to_grid(np.clip(np.nan_to_num(gains, nan=0.0), 0, 1) - 0.5, _STEP)
    farthest = 0.5 / _STEP
    scale = noise.noise_multiplier * farthest
    if isinstance(noise, Gaussian):
        noisy = add_whole_normals(source, each.sum(), max_norm=farthest, deviation=scale, are_whole=True)
    else:
        noisy = add_whole_laplace(source, each.sum(), max_norm=farthest, scale=scale, are_whole=True)
    return float(noisy) * _STEP


def _gains(model: Any, x: Any, targets: np.ndarray) -> np.ndarray:
    """For each row how good a prediction is, from 0 to 1."""
    if not len(targets):
        return np.zeros(0)
    predicted = model.predict(x)
    if is_classifier(model):
        return (predicted == targets).astype(np.float64)
    low, high = model.bounds_
    return 1 - np.clip((predicted - np.clip(targets, low, high)) / (high - low), -1, 1) ** 2
