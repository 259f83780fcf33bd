"""A conditional GAN whose discriminator is trained by DP-SGD: synthetic images, or vectors from 0 to 1.

    plan = gan.plan(epsilon=10.0, delta=1e-5, examples=60_000)
    model = gan.fit(x, y, plan, classes=10)
    images, labels = model.sample(10_000, 7)

What is released: class counts with noise, and the discriminator's noisy gradients. The generator is a
function of these (`reticent.synthetic.images.adversary`), so what it makes may be used for anything.

Reference:
    Xie, Lin, Wang, Wang and Zhou (2018), arXiv:1802.06739; many discriminator steps for one of the generator:
    Bie, Kamath and Zhang (2023), arXiv:2302.02936.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import ArrayLike

from reticent.accounting.budget import Budget
from reticent.accounting.guarantee import Guarantee, Unit
from reticent.accounting.reserve import TRAINING
from reticent.accounting.theorems import gaussian_dp
from reticent.accounting.tight_epsilon import guarantee
from reticent.core import checks, strict_json
from reticent.core.errors import Interrupted, InvalidArgument
from reticent.core.generators import generator_of
from reticent.core.keys import Keys, Stream, step_key
from reticent.core.observer import OnProgress
from reticent.distributed.consensus import require_alone
from reticent.mechanisms import events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Composed, Event, Gaussian
from reticent.mechanisms.whole import add_whole_normals
from reticent.models.model import Params
from reticent.synthetic.images import networks
from reticent.synthetic.images.adversary import adversary, real_loss
from reticent.synthetic.images.basis import PRIORS, Prior, check_records, public_basis
from reticent.synthetic.images.image_model import ImageModel, flatten, released_frequencies
from reticent.training import plan_json
from reticent.training.checkpoint import Checkpoints, stamp_of
from reticent.training.data_warnings import without_data_warnings
from reticent.training.loop import Run, train
from reticent.training.payment import account_of
from reticent.training.plan import Plan

_BATCH = 2000  # records; of more, a step would cost as much and take longer
_COUNTS = 10.0  # noise on class counts, over that of a single release that would spend the whole budget


@dataclass(frozen=True, kw_only=True)
class GanPlan:
    """Everything that decides the cost, and the sizes of the networks. Public.

    Args:
        training: of the discriminator; its noise, batches and steps.
        count_noise: deviation of the noise on every class count, to which a record adds 1.
        each: discriminator steps for one of the generator.
        prior, kept: the public basis in which records are seen and made; see `public_basis`.
        hidden, generator_hidden: units of the hidden layers.
        rate, generator_rate: of Adam.
        penalty: on the discriminator's slope at fakes.
        beside: what else the same budget pays for, such as preparation.
    """

    training: Plan
    count_noise: float
    epsilon: float
    each: int = 5
    prior: Prior = "strokes"
    kept: int = 60
    hidden: tuple[int, ...] = (128, 128)
    generator_hidden: tuple[int, ...] = (256, 256)
    rate: float = 1e-3
    generator_rate: float = 1e-3
    penalty: float = 0.3
    beside: Event | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "generator_hidden"):
            sizes = tuple(getattr(self, name))
            object.__setattr__(self, name, sizes)
            checks.count(**{f"{name}[{at}]": size for at, size in enumerate(sizes)})
        checks.positive(epsilon=self.epsilon, count_noise=self.count_noise)
        checks.positive(rate=self.rate, generator_rate=self.generator_rate)
        checks.not_negative(penalty=self.penalty)
        checks.count(each=self.each, kept=self.kept)
        checks.one_of(PRIORS, prior=self.prior)
        if self.training.unit != "record":
            raise InvalidArgument(
                "A GAN is trained on records, not on users.", remedy="Make a plan with unit='record'."
            )

    @property
    def event(self) -> Event:
        """All that is released about the records. Without `beside`."""
        return Composed(events=(Gaussian(noise_multiplier=self.count_noise), self.training.event))

    @property
    def whole(self) -> Event:
        """`event` and what was planned beside it: this is what costs (epsilon, delta)."""
        return self.event if self.beside is None else Composed(events=(self.beside, self.event))

    @property
    def beside_training(self) -> Event:
        """What is released beside the discriminator's steps: class counts, and `beside`."""
        return _together(Gaussian(noise_multiplier=self.count_noise), self.beside)

    def guarantee(self, assumptions: tuple[str, ...] = ()) -> Guarantee:
        """What the generator promises by itself, without what is beside it."""
        said = tuple(dict.fromkeys(self.training.assumptions + assumptions))
        delta, adjacency = self.training.delta, self.training.adjacency
        return guarantee(self.event, delta, adjacency, assumptions=said, arithmetic=TRAINING * delta)

    def to_json(self) -> str:
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        beside = None if self.beside is None else events.to_json(self.beside)
        nested = {"training": plan_json.to_json(self.training), "beside": beside}
        return json.dumps(plain | nested, allow_nan=False)

    @classmethod
    def read(cls, text: str) -> GanPlan:
        """The plan that `to_json` wrote, checked.

        Raises:
            InvalidArgument: it is not JSON, or a field is missing, unknown or out of its range.
        """
        try:
            found = strict_json.parse_object(text)
            found["training"] = plan_json.from_json(found["training"])
            if found["beside"] is not None:
                found["beside"] = events.from_json(found["beside"])
            return cls(**found)
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument("This is not a plan of a GAN.", remedy="Write one with to_json.") from None


def _together(counts: Event, beside: Event | None) -> Event:
    return counts if beside is None else Composed(events=(beside, counts))


def plan(
    *,
    epsilon: float,
    delta: float,
    examples: int,
    batch_size: int | None = None,
    steps: int = 6000,
    max_norm: float = 1.0,
    beside: Event | None = None,
    **networks_and_rates: Any,
) -> GanPlan:
    """The plan whose whole cost is (epsilon, delta), by the tight accountant.

    Args:
        examples: the declared, public number of records.
        batch_size: expected; 2000, or a quarter of fewer records, unless given.
        networks_and_rates: other fields of `GanPlan`.

    Raises:
        CannotMeet: what is beside it costs that much already, or no noise is enough.

    Example:
        >>> found = plan(epsilon=4.0, delta=1e-6, examples=1000, batch_size=100, steps=10)
        >>> found.training.steps
        10
    """
    count_noise = _COUNTS * gaussian_dp.noise_multiplier(epsilon, delta)
    counts = Gaussian(noise_multiplier=count_noise)
    training = Plan.for_budget(
        epsilon=epsilon,
        delta=delta,
        examples=examples,
        batch_size=batch_size or min(_BATCH, max(examples // 4, 1)),
        steps=steps,
        max_norm=max_norm,
        beside=_together(counts, beside),
    )
    return GanPlan(
        training=training, count_noise=count_noise, epsilon=epsilon, beside=beside, **networks_and_rates
    )


@without_data_warnings()
def fit(
    x: ArrayLike,
    y: ArrayLike,
    plan: GanPlan,
    *,
    classes: int,
    keys: Keys | None = None,
    budget: Budget | None = None,
    checkpoints: Checkpoints | None = None,
    on_progress: OnProgress | None = None,
) -> ImageModel:
    """A class-conditional generator of records like these.

    Args:
        x: (n, height, width), (n, height, width, colours) or (n, columns); bytes, or numbers from 0 to 1.
        y: (n,) classes from 0 to `classes` - 1, a public number.
        budget: charged with the plan's event before any noise is drawn. A resumed run is not charged again to
            the same account for the same records.
        checkpoints: where to save the state and resume from, after an interrupt or a kill.

    Guarantee:
        The model costs `plan.event`. A record adds 1 to one class count. In each step it adds to the sum of
        gradients at most one, that of its own loss, cut to the plan's norm: the loss sees one record and
        the discriminator's parameters; there are no batch statistics and no penalty between records. Fakes
        are drawn from released values alone, and enter after the noise. What is not a number in a record
        counts as 0. Assumed is what the keys of every process that took some of the steps assume.

    Raises:
        DataError: records and labels do not fit together or to the plan. BudgetExceeded: nothing was drawn.
        Interrupted: from the keyboard; what was reached is not a generator yet.
    """
    require_alone("A generator of images")
    keys = Keys.from_os() if keys is None else keys
    steps = plan.training.steps
    if checkpoints is not None:  # they belong to all of the plan; `train` knows a part of it
        checkpoints = replace(checkpoints, stamp=stamp_of(checkpoints.stamp, plan.to_json()))
    records, labels = check_records(x, y, classes, plan.training.sampler.examples)
    basis = public_basis(records.shape[1:], plan.prior, plan.kept)
    is_resumed = checkpoints is not None and checkpoints.path.exists()
    paying = None if budget is None else _WholePlan(budget, plan)
    if paying is not None and not is_resumed:
        paying.pay()
    root = keys.take(Stream.NOISE, steps=range(steps, steps + 1))  # the steps before are the discriminator's
    counts = noisy_counts(labels, classes, plan, generator_of(step_key(root, steps)))
    critic, optimizer = _players(counts, basis.directions.shape[1], plan, keys.take(Stream.INITIALISATION))
    run = train(
        real_loss(classes),
        critic,
        {"x": basis.coordinates(records) / basis.scales, "y": labels},
        plan.training,
        optimizer=optimizer,
        budget=paying,
        keys=keys,
        checkpoints=checkpoints,
        on_progress=on_progress and (lambda moment: on_progress(moment.step / steps)),
        beside=plan.beside_training,
    )
    _require_complete(run, checkpoints)
    game = run.state.opt_state
    return ImageModel(
        method="gan",
        maker="network",
        tensors=flatten(game.average),
        basis=basis,
        frequencies=released_frequencies(game.frequencies),
        shape=records.shape[1:],
        is_bytes=records.dtype == np.uint8,
        plan=plan.to_json(),
        guarantee=plan.guarantee(run.guarantee.assumptions),
    )


class _WholePlan:
    """Charges the whole plan in the place of its training, once, so that `train` can note who has paid.

    Of a resumed run the counts that are drawn here are thrown away: those of the checkpoint count.
    """

    def __init__(self, budget: Budget, plan: GanPlan) -> None:
        self.account = account_of(budget)
        self._budget, self._plan, self._is_paid = budget, plan, False

    def pay(self) -> None:
        adjacency = self._plan.training.adjacency
        self._budget.charge(self._plan.event, adjacency=adjacency, purpose="synthesize", unit="record")
        self._is_paid = True

    def charge(self, event: Event, *, adjacency: Adjacency, purpose: str, unit: Unit) -> None:
        if not self._is_paid:
            self.pay()


def _require_complete(run: Run, checkpoints: Checkpoints | None) -> None:
    if not run.is_complete:
        kept = "Nothing is kept, and what was charged stays spent. Pass checkpoints to be able to resume."
        raise Interrupted(
            f"Interrupted after {int(run.state.step)} of {run.plan.steps} steps.",
            remedy=kept if checkpoints is None else f"What was done is kept in {checkpoints.path}.",
        )


def _players(
    counts: np.ndarray, width: int, plan: GanPlan, key: jax.Array
) -> tuple[Params, optax.GradientTransformation]:
    """A fresh discriminator, and the optimizer that holds a fresh generator."""
    of_critic, of_generator, of_fakes = (jax.random.fold_in(key, number) for number in range(3))
    classes = len(counts)
    optimizer = adversary(
        networks.new(of_generator, networks.generator_starts(classes, plan.generator_hidden, width)),
        jnp.asarray(released_frequencies(counts), jnp.float32),
        of_fakes,
        clipping=plan.training.clipping,
        steps=plan.training.steps,
        each=plan.each,
        rate=plan.rate,
        generator_rate=plan.generator_rate,
        penalty=plan.penalty,
    )
    return networks.new(of_critic, networks.discriminator_starts(classes, plan.hidden, width)), optimizer


def noisy_counts(labels: np.ndarray, classes: int, plan: GanPlan, rng: np.random.Generator) -> np.ndarray:
    """How many records each class has, with Gaussian noise in whole parts of one.

    Guarantee:
        Costs Gaussian(noise_multiplier=plan.count_noise), up to 2^-64 a count: a record adds 1 to one.

    Example:
        >>> found = plan(epsilon=4.0, delta=1e-6, examples=1000, batch_size=100, steps=10)
        >>> noisy_counts(np.array([0, 0, 1]), 2, found, np.random.default_rng(0)).shape
        (2,)
    """
    counts = np.bincount(labels, minlength=classes)
    return add_whole_normals(rng, counts, max_norm=1.0, deviation=plan.count_noise, are_whole=True)
