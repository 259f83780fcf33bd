"""Synthetic images from ONE noisy release: the sum of bounded features of all records, class by class.

    plan = embedding.plan(epsilon=1.0, delta=1e-5, examples=60_000)
    model = embedding.fit(x, y, plan, classes=10)
    images, labels = model.sample(10_000, 7)

A record puts a vector phi(x) of length at most 1 into the block of its class, and nothing into the others.
The first number of phi is a constant, so that the noisy sums hold noisy class counts too; nothing is
counted exactly. Its numbers are cut to a public grid on which sums are exact, and noise is whole numbers of
another. All that follows, a Gaussian for each class or a trained generator, is post-processing.

    moments   (default) phi = (g, a u, b uu'): first and second moments in a public basis
    fourier   phi = (g, a cos(Wu), a sin(Wu)): random Fourier features, as DP-MERF has them

Reference:
    Harder, Adamczewski and Park (2021), DP-MERF: differentially private mean embeddings with random features,
    arXiv:2002.11603.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from reticent.accounting import calibrate
from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.reserve import TRAINING, delta_left
from reticent.accounting.rounding import at_most
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import guarantee, upper_bound
from reticent.core import checks, strict_json
from reticent.core.errors import CannotMeet, InvalidArgument
from reticent.core.generators import generator
from reticent.core.keys import Keys, Stream
from reticent.core.observer import OnProgress
from reticent.distributed.consensus import require_alone
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Gaussian
from reticent.mechanisms.sensitivity import BoundedSum
from reticent.mechanisms.whole import add_whole_normals
from reticent.synthetic.images.basis import (
    PRIORS,
    ImageBasis,
    Prior,
    check_records,
    exact_product,
    public_basis,
)
from reticent.synthetic.images.image_model import ImageModel, Tensors, flatten, released_frequencies
from reticent.synthetic.images.matching import match

Features = Literal["moments", "fourier"]

MAX_NORM = 1.0  # of phi, hence of what one record adds to the released sum
# What of phi is the count, the first and the second part: squares that add up to 1.
_COUNT, _FIRST, _SECOND = math.sqrt(0.1), math.sqrt(0.25), math.sqrt(0.65)
_SHRUNK = 1 - 2.0**-30  # of phi, for what rounding may add to its length
_SMALLEST = 1e-3  # variance along a direction in which the noise leaves none
_AT_ONCE = 4_000_000  # numbers
_WAVES = 1000  # random frequencies


@dataclass(frozen=True, kw_only=True)
class EmbeddingPlan:
    """Everything that decides what is released. Public.

    Args:
        examples: the declared number of records; it need not be exact.
        radius: how long a record's coordinates usually are; for moments, longer ones are shortened to it. A
            public guess, not a statistic.
        kept: how many directions of the prior are used.
        noise_multiplier: deviation of the noise on every number of the sum, over `MAX_NORM`.
        beside: what else the same budget pays for, such as preparation.

    Example:
        >>> plan(epsilon=1.0, delta=1e-6, examples=1000, kept=10).kept
        10
    """

    examples: int
    epsilon: float
    delta: float
    noise_multiplier: float
    features: Features = "moments"
    prior: Prior = "strokes"
    kept: int = 60
    radius: float = 7.0
    beside: Event | None = None

    def __post_init__(self) -> None:
        checks.count(examples=self.examples, kept=self.kept)
        checks.positive(epsilon=self.epsilon, noise_multiplier=self.noise_multiplier, radius=self.radius)
        checks.inside_unit(delta=self.delta)
        checks.one_of(("moments", "fourier"), features=self.features)
        checks.one_of(PRIORS, prior=self.prior)

    @property
    def event(self) -> Event:
        """All that is released about the records, class counts included. Without `beside`."""
        return Gaussian(noise_multiplier=self.noise_multiplier)

    @property
    def whole(self) -> Event:
        """`event` and what was planned beside it: this is what costs (epsilon, delta)."""
        return self.event if self.beside is None else Composed(events=(self.beside, self.event))

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """What the generator promises by itself, without what is beside it."""
        said = (_is_public(self.examples), *assumptions)
        return guarantee(self.event, self.delta, assumptions=said, arithmetic=TRAINING * self.delta)

    def to_json(self) -> str:
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        beside = None if self.beside is None else events.to_json(self.beside)
        return json.dumps(plain | {"beside": beside}, allow_nan=False)

    @classmethod
    def read(cls, text: str) -> EmbeddingPlan:
        """The plan that `to_json` wrote, checked.

        Raises:
            InvalidArgument: it is not JSON, or a field is missing, unknown or out of its range.
        """
        try:
            found = strict_json.parse_object(text)
            if found["beside"] is not None:
                found["beside"] = events.from_json(found["beside"])
            return cls(**found)
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(
                "This is not a plan of an embedding.", remedy="Write one with to_json."
            ) from None


def plan(
    *,
    epsilon: float,
    delta: float,
    examples: int,
    features: Features = "moments",
    prior: Prior = "strokes",
    kept: int = 60,
    radius: float = 7.0,
    beside: Event | None = None,
) -> EmbeddingPlan:
    """The plan whose whole cost is (epsilon, delta), by the tight accountant.

    Raises:
        CannotMeet: what is beside it costs that much already.

    Example:
        >>> found = plan(epsilon=1.0, delta=1e-6, examples=1000)
        >>> round(found.noise_multiplier, 1), found.guarantee().epsilon <= 1
        (4.2, True)
    """
    draft = EmbeddingPlan(
        examples=examples,
        epsilon=epsilon,
        delta=delta,
        noise_multiplier=1.0,
        features=features,
        prior=prior,
        kept=kept,
        radius=radius,
        beside=beside,
    )
    near = Neighbours(Adjacency.ADD_OR_REMOVE)
    if beside is not None and not (spent := upper_bound(beside, delta, near)) < epsilon:  # NaN too
        raise CannotMeet(
            f"What is released alongside the embedding costs epsilon {at_most(spent)} of "
            f"{epsilon:.4g} by itself.",
            remedy="Add noise there, or ask for a larger epsilon.",
        )
    noise = calibrate.noise_for(
        lambda value: replace(draft, noise_multiplier=value).whole,
        near,
        epsilon=epsilon,
        delta=delta_left(
            delta, TRAINING * delta
        ),  # the rest pays for samplers that are a little off their law
        guess=gaussian_dp.noise_multiplier(epsilon, delta),
    )
    return replace(draft, noise_multiplier=noise)


def fit(
    x: ArrayLike,
    y: ArrayLike,
    plan: EmbeddingPlan,
    *,
    classes: int,
    keys: Keys | None = None,
    budget: Budget | None = None,
    on_progress: OnProgress | None = None,
) -> ImageModel:
    """A class-conditional generator of records like these.

    Args:
        x: (n, height, width), (n, height, width, colours) or (n, columns); bytes, or numbers from 0 to 1.
        y: (n,) classes from 0 to `classes` - 1, a public number.
        budget: charged with the plan's event before any noise is drawn.

    Guarantee:
        The model costs `plan.event`: it is a function of one noisy sum, to which a record adds a vector of
        length at most `MAX_NORM`, whatever it holds (see `embed`).

    Raises:
        DataError: records and labels do not fit together or to the plan. BudgetExceeded: nothing was drawn.
    """
    require_alone("A generator of images")
    keys = Keys.from_os() if keys is None else keys
    tell = on_progress or (lambda share: None)
    records, labels = check_records(x, y, classes, plan.examples)
    basis = public_basis(records.shape[1:], plan.prior, plan.kept)
    tell(0.1)
    if budget is not None:
        budget.charge(plan.event, adjacency=Adjacency.ADD_OR_REMOVE, purpose="synthesize", unit="record")
    total = sum_embeddings(records, labels, basis, plan, classes)
    tell(0.2)
    noisy = release(total, plan, generator(keys, stream=Stream.NOISE))
    counts = noisy[:, 0] / _COUNT
    if plan.features == "moments":
        maker, tensors = "gaussians", gaussians(noisy, plan.radius, basis.directions.shape[1])
    else:
        share = math.sqrt(1 - _COUNT**2)
        target = noisy[:, 1:] / share / np.maximum(counts, 1.0)[:, None]
        init = keys.take(Stream.INITIALISATION)
        waves = _frequencies(basis)
        found = match(target, waves, basis.scales / plan.radius, init, lambda part: tell(0.2 + 0.8 * part))
        maker, tensors = "network", flatten(found)
    tell(1.0)
    return ImageModel(
        method="embedding",
        maker=maker,
        tensors=tensors,
        basis=basis,
        frequencies=released_frequencies(counts),
        shape=records.shape[1:],
        is_bytes=records.dtype == np.uint8,
        plan=plan.to_json(),
        guarantee=plan.guarantee(keys.assumptions),
    )


def embed(records: np.ndarray, basis: ImageBasis, plan: EmbeddingPlan) -> np.ndarray:
    """phi of each record, (records, features), in float64.

    Guarantee:
        Every row has length at most 1, for all records, and numbers on a grid so coarse that sums of up to
        twice `plan.examples` rows are exact in any order. u is the vector of coordinates over the radius,
        finite since NaN and infinity became 0 before. With g^2 + a^2 + b^2 = 1:
        moments   u is shortened to length at most 1; |phi|^2 = g^2 + a^2 |u|^2 + b^2 |uu'|^2, and
                  |uu'| = |u|^2 <= 1 (entries off the diagonal are kept once, times the root of 2);
        fourier   |phi|^2 = g^2 + (1 - g^2) mean(cos^2 + sin^2) = 1, for every u.
        Floats make phi longer by less than (kept + 20) 2^-52, for which it is shrunk by 2^-30; cutting
        numbers to the grid, towards zero, makes it no longer.
    """
    u = basis.coordinates(records).astype(np.float64) / plan.radius
    count = np.full((len(u), 1), _COUNT)
    if plan.features == "moments":
        u /= np.maximum(_lengths(u)[:, None], 1.0)
        rows, columns = np.triu_indices(u.shape[1])
        twice = np.where(rows == columns, 1.0, math.sqrt(2))
        parts = [count, _FIRST * u, _SECOND * twice * u[:, rows] * u[:, columns]]
    else:
        frequencies = _frequencies(basis)
        longest = 2 * math.sqrt(len(basis.centre)) / plan.radius
        angles = exact_product(u, frequencies, longest, float(np.abs(frequencies).max()))
        share = math.sqrt((1 - _COUNT**2) / angles.shape[1])
        parts = [count, share * np.cos(angles), share * np.sin(angles)]
    cell = 2.0 ** (plan.examples.bit_length() + 1 - 53)
    return np.trunc(np.concatenate(parts, axis=1) * (_SHRUNK / cell)) * cell


def _lengths(rows: np.ndarray) -> np.ndarray:
    """The length of each row; columns are added one after the other, so that its place decides nothing."""
    squares = np.zeros(len(rows))
    for column in rows.T:
        squares += column * column
    return np.sqrt(squares)


def sum_embeddings(
    records: np.ndarray, labels: np.ndarray, basis: ImageBasis, plan: EmbeddingPlan, classes: int
) -> BoundedSum:
    """The sum of phi over the records of each class, (classes, features): private until noise is added.

    Guarantee:
        Exact: one record more or less moves it by its own phi, which depends on that record alone, to the
        last bit.
    """
    total = np.zeros((classes, embed(records[:0], basis, plan).shape[1]))
    size = max(_AT_ONCE // total.shape[1], 1)
    for start in range(0, len(records), size):
        here = slice(start, start + size)
        total += np.eye(classes)[:, labels[here]] @ embed(records[here], basis, plan)
    return BoundedSum(value=total, max_norm=MAX_NORM)


def release(
    total: BoundedSum, plan: EmbeddingPlan, rng: np.random.Generator
) -> Float[np.ndarray, "classes features"]:
    """The sum with Gaussian noise on every number of it, on a grid: the one thing that leaves the data.

    Guarantee:
        Costs `plan.event`, up to 2^-64 per number. Moving the sum to the grid is hidden by the noise too.

    Example:
        >>> total = BoundedSum(value=np.zeros((2, 5)), max_norm=MAX_NORM)
        >>> release(total, plan(epsilon=1.0, delta=1e-6, examples=100), np.random.default_rng(0)).shape
        (2, 5)
    """
    deviation = plan.noise_multiplier * total.max_norm
    return add_whole_normals(rng, total.value, max_norm=total.max_norm, deviation=deviation)


def gaussians(noisy: np.ndarray, radius: float, kept: int) -> Tensors:
    """The mean of each class, and a root of its covariance, from noisy moments: post-processing.

    A covariance with noise has negative eigenvalues; they are raised to almost nothing.

    Example:
        >>> noisy = np.zeros((2, 1 + 3 + 6))  # a count, 3 means and 6 products for each of two classes
        >>> noisy[:, 0] = 1.0
        >>> sorted(gaussians(noisy, radius=1.0, kept=3))
        ['means', 'spreads']
    """
    rows, columns = np.triu_indices(kept)
    counts = np.maximum(noisy[:, 0] / _COUNT, 1.0)
    means = noisy[:, 1 : 1 + kept] / _FIRST / counts[:, None]  # over the radius
    upper = noisy[:, 1 + kept :] / _SECOND / counts[:, None]
    spreads = []
    for mean, entries in zip(means, upper, strict=True):
        second = np.zeros((kept, kept))
        second[rows, columns] = second[columns, rows] = np.where(
            rows == columns, entries, entries / math.sqrt(2)
        )
        variances, directions = np.linalg.eigh(second - np.outer(mean, mean))
        spreads.append(directions * np.sqrt(np.maximum(variances, _SMALLEST / radius**2)))
    return {
        "means": np.asarray(radius * means, np.float32),
        "spreads": np.asarray(radius * np.stack(spreads), np.float32),
    }


def _frequencies(basis: ImageBasis) -> np.ndarray:
    """The same random frequencies for everybody, (coordinates, waves): public, from a fixed seed."""
    return np.random.default_rng(0).standard_normal((basis.directions.shape[1], _WAVES))


def _is_public(examples: int) -> str:
    return f"the number of records, about {examples}, is public"
