"""The publishable recipe of a private run: everything that decides its cost, in one value.

The event comes from the plan and the epsilon from the event, so the run and its accounting cannot
disagree. Nothing in a plan is private: `examples` is a declared number, not a count of the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from reticent.accounting import calibrate
from reticent.accounting.accountants import ACCOUNTANTS
from reticent.accounting.guarantee import Guarantee, Unit
from reticent.accounting.loss_distribution.dominating import Neighbours, without_truncation
from reticent.accounting.reserve import TRAINING, delta_left, delta_left_for
from reticent.accounting.rounding import at_most
from reticent.accounting.search import smallest_count
from reticent.accounting.setting import steps_for
from reticent.accounting.tight_epsilon import guarantee, upper_bound
from reticent.core import checks
from reticent.core.errors import CannotMeet, InvalidArgument, Unproven
from reticent.core.html_summary import html_table
from reticent.core.whole_normals import DISTANCE
from reticent.data.cyclic import correlated_event
from reticent.data.sampling import SAMPLING_DISTANCE, FullBatch, Sampler, require_sampler
from reticent.mechanisms.adjacency import Adjacency, AdjacencyName
from reticent.mechanisms.events import Composed, Event, Gaussian, NonPrivate
from reticent.mechanisms.gaussian import DITHER_FAILURE
from reticent.noise.named import independent
from reticent.noise.strategies import NoiseStrategy
from reticent.training.adaptive_norm import AdaptiveNorm
from reticent.training.clipping import Clipping
from reticent.training.plan_checks import (
    SamplingName,
    as_adjacency,
    assumed_of_sampler,
    one_clipping,
    plan_in_words,
    require_small_delta,
    require_spent,
    require_theorem,
    sampler_for,
)
from reticent.training.plan_noise import (
    NoiseChoice,
    bands_of,
    choose,
    error_of,
    is_correlated,
    require_length,
    settled_noise,
)

Analysis = Literal["tight", "first", "basic", "advanced", "zcdp", "moments", "rdp", "pld"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """A private run: how batches are drawn, how gradients are clipped and noised, how often.

    Args:
        noise_multiplier: noise over the clipping norm.
        delta: at which the cost is reported.
        adjacency: what a neighbouring dataset may do to one unit.
        unit: whom the guarantee is for. With `user`, the sampler's examples are users, and all the rows
            of a user make one clipped contribution.
        rows_per_user: the most rows that a user contributes.
        is_private: False for a dry run without noise, which promises nothing; see `without_privacy`.
        noise: whether the noise of a step takes back some of that of earlier ones; see `rt.noise`.

    Example:
        >>> plan = Plan.for_budget(
        ...     epsilon=2, delta=1e-5, examples=1000, batch_size=100, epochs=3, max_norm=1.0
        ... )
        >>> plan
        Plan(Poisson 100 of 1000, 30 steps, noise 1.505, clipping 1, add-or-remove one record, delta 1e-05)
        >>> print(plan.guarantee())
        (2.000, 1e-05)-differential privacy for adding or removing one record (privacy loss
        distribution, numerical upper bound). No analysis of the same releases can claim less than
        1.998. Assuming that the number of records, 1000, is public.
    """

    sampler: Sampler
    clipping: Clipping
    noise_multiplier: float
    steps: int
    delta: float
    adjacency: Adjacency
    unit: Unit = "record"
    rows_per_user: int | None = None
    adaptive: AdaptiveNorm | None = None
    is_private: bool = True
    noise: NoiseStrategy = field(default_factory=independent)

    def __post_init__(self) -> None:
        if self.is_private:
            checks.positive(noise_multiplier=self.noise_multiplier)
        elif self.noise_multiplier != 0 or self.adaptive is not None:
            raise InvalidArgument(
                "A plan without privacy has no noise and no adaptive norm.",
                remedy="Make it with Plan.without_privacy.",
            )
        checks.count(minimum=0, steps=self.steps)
        checks.inside_unit(delta=self.delta)
        object.__setattr__(self, "adjacency", as_adjacency(self.adjacency))
        require_theorem(require_sampler(self.sampler), self.adjacency)
        checks.one_of(get_args(Unit), unit=self.unit)
        require_small_delta(self.delta, self.sampler.examples, self.unit)
        if (self.unit == "user") != (self.rows_per_user is not None):
            raise InvalidArgument(
                f"unit={self.unit!r} and rows_per_user={self.rows_per_user} do not go together.",
                remedy="Pass both unit='user' and the most rows a user may contribute, or neither.",
            )
        if self.rows_per_user is not None:
            checks.count(rows_per_user=self.rows_per_user)
        if self.adaptive is not None and self.clipping.kind != "flat":
            raise InvalidArgument(
                f"An adaptive norm goes with flat clipping, not with {self.clipping.kind}.",
                remedy="Pass max_norm, or leave out adaptive.",
            )
        is_adaptive = self.adaptive is not None
        noise = settled_noise(self.noise, self.sampler, self.steps, is_adaptive=is_adaptive)
        object.__setattr__(self, "noise", noise)

    @classmethod
    def for_budget(
        cls,
        *,
        epsilon: float,
        delta: float,
        examples: int | None = None,
        batch_size: int | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        noise_multiplier: float | None = None,
        max_norm: float | None = None,
        clipping: Clipping | None = None,
        sampling: SamplingName | Sampler = "poisson",
        largest_batch: int | None = None,
        adjacency: Adjacency | AdjacencyName | None = None,
        unit: Unit = "record",
        rows_per_user: int | None = None,
        adaptive: AdaptiveNorm | None = None,
        analysis: Analysis = "tight",
        beside: Event | None = None,
        noise: NoiseChoice | None = None,
    ) -> Plan:
        """The plan that spends (epsilon, delta) and hardly less.

        Give the length of the run, and the noise is solved for; give the noise instead, and the run
        goes on until the budget is spent.

        Args:
            examples: the declared, public number of records, or of users.
            sampling: the name of a sampler, or one of your own, which says itself how many examples there
                are and how large a batch is.
            largest_batch: of a Poisson draw that has more, a random so many are kept, at a cost that is
                counted. Without it, there is room for every draw that will ever happen.
            analysis: how the noise is solved for. All but `tight` are there to be compared with it:
                they add more noise than is needed, and the guarantee shows what it really bought.
                `first` is the course's first analysis of gradient descent.
            beside: another release that the same budget pays for, such as private preparation.
            noise: independent unless given, or "auto" for the least expected error at this privacy. With
                bands, Poisson batches are drawn from as many parts in turn.

        Raises:
            CannotMeet: no noise, or not even one step, fits the budget.
            Unproven: no theorem covers the sampler.
        """
        checks.positive(epsilon=epsilon)
        noise = independent() if noise is None else noise
        require_length(noise, noise_multiplier)
        sampler = sampler_for(sampling, examples, batch_size, largest_batch, bands_of(noise))
        if sum(given is not None for given in (epochs, steps, noise_multiplier)) != 1:
            raise InvalidArgument(
                "Either the length of the run or its noise is fixed.",
                remedy="Pass exactly one of epochs, steps and noise_multiplier.",
            )
        if epochs is not None:
            steps = steps_for(epochs, sampler.examples, sampler.batch_size)
        draft = cls(
            sampler=sampler,
            clipping=one_clipping(max_norm, clipping),
            noise_multiplier=1.0 if noise_multiplier is None else noise_multiplier,
            steps=1 if steps is None else steps,
            delta=delta,
            adjacency=require_theorem(sampler)[0] if adjacency is None else as_adjacency(adjacency),
            unit=unit,
            rows_per_user=rows_per_user,
            adaptive=adaptive,
            noise=independent() if noise == "auto" else noise,
        )
        checks.one_of(get_args(Analysis), analysis=analysis)
        if noise_multiplier is not None:
            return draft._until(epsilon, beside)
        if noise == "auto" and adaptive is None and draft.steps:
            found = choose(sampler, draft.steps, epsilon, delta, draft.adjacency)
            draft = replace(draft, noise=found.noise, sampler=found.sampler)
        return draft._with_noise_for(epsilon, analysis, beside)

    @classmethod
    def without_privacy(
        cls,
        *,
        examples: int | None = None,
        batch_size: int | None = None,
        epochs: float | None = None,
        steps: int | None = None,
        max_norm: float | None = None,
        clipping: Clipping | None = None,
        sampling: SamplingName | Sampler = "poisson",
        unit: Unit = "record",
        rows_per_user: int | None = None,
    ) -> Plan:
        """A dry run: the same batches, clipping and steps, without noise and without any promise.

        For finding out whether a model learns at all, on data that are public or made up. `rt.train` follows
        it as it follows any other plan; its epsilon is infinite, and no budget pays for it.

        Example:
            >>> plan = Plan.without_privacy(examples=1000, batch_size=100, epochs=3, max_norm=1.0)
            >>> plan.steps, plan.guarantee().epsilon
            (30, inf)
            >>> print(plan.guarantee())
            No privacy guarantee: epsilon is infinite.
        """
        if (epochs is None) == (steps is None):
            raise InvalidArgument(
                "The length of the run must be given once.", remedy="Pass either epochs or steps."
            )
        sampler = sampler_for(sampling, examples, batch_size, None)
        if epochs is not None:
            steps = steps_for(epochs, sampler.examples, sampler.batch_size)
        return cls(
            sampler=sampler,
            clipping=one_clipping(max_norm, clipping),
            noise_multiplier=0.0,
            steps=steps or 0,
            delta=0.5 / (sampler.examples + 1),  # of a promise that is not made
            adjacency=require_theorem(sampler)[0],
            unit=unit,
            rows_per_user=rows_per_user,
            is_private=False,
        )

    @property
    def event(self) -> Event:
        """What the whole run releases."""
        return self.event_after(self.steps)

    def event_after(self, steps: int) -> Event:
        """What the first `steps` steps release."""
        if not self.is_private:
            return NonPrivate()
        if is_correlated(self.noise, self.steps):
            return correlated_event(self.noise, self.noise_multiplier, self.sampler, steps)
        release: Event = Gaussian(noise_multiplier=self.noise_multiplier)
        if self.adaptive is not None:
            release = Composed(events=(release, Gaussian(noise_multiplier=self.adaptive.noise_multiplier)))
        return self.sampler.event(release, steps)

    def __repr__(self) -> str:
        return f"Plan({', '.join(value for _, value in plan_in_words(self))})"

    def _repr_html_(self) -> str:
        return html_table("Plan", plan_in_words(self))

    @property
    def epochs(self) -> float:
        return self.steps * self.sampler.batch_size / self.sampler.examples

    @property
    def noise_deviation(self) -> float:
        """The standard deviation of the noise on every entry of a mean gradient, if each step has its own."""
        if is_correlated(self.noise, self.steps):
            raise InvalidArgument(
                "Correlated noise has no one deviation: that of a step is taken back later.",
                remedy="Ask plan.expected_error, or use noise=rt.noise.independent().",
            )
        return self.noise_multiplier * self.clipping.sensitivity / self.sampler.batch_size

    @property
    def expected_error(self) -> float:
        """The noise on an entry of the sum of all gradients so far, in clipping norms: root mean square."""
        return error_of(self.noise, self.noise_multiplier, self.sampler, self.steps)

    @property
    def assumptions(self) -> tuple[str, ...]:
        count = f"the number of {self.unit}s, {self.sampler.examples}, is public"
        return (count, *assumed_of_sampler(self.sampler))

    def guarantee(
        self,
        steps: int | None = None,
        assumptions: tuple[str, ...] = (),
        *,
        beside: Event | None = None,
        numbers: int = 0,
    ) -> Guarantee:
        """What the run, or its first `steps` steps, promises.

        Args:
            beside: another release that the same budget pays for.
            numbers: how many parameters each step adds noise to. The distance of that much noise from its law
                is taken off delta.
        """
        steps = self.steps if steps is None else steps
        distance = steps * ((numbers + 1) * DISTANCE + DITHER_FAILURE + SAMPLING_DISTANCE)
        return guarantee(
            _together(self.event_after(steps), beside),
            self.delta,
            self.adjacency,
            unit=self.unit,
            assumptions=self.assumptions + assumptions,
            arithmetic=TRAINING * self.delta,
            distance=distance,
        )

    @property
    def _delta_left(self) -> float:
        """What is left for the accountant, however many parameters will be trained."""
        return delta_left(self.delta, TRAINING * self.delta)

    def epsilon_after(self, steps: int, beside: Event | None = None) -> float:
        """An upper bound on what the first `steps` steps cost; quicker than a whole guarantee."""
        event = _together(self.event_after(steps), beside) if steps else beside
        return 0.0 if event is None else upper_bound(event, self._delta_left, Neighbours(self.adjacency))

    def _with_noise_for(self, epsilon: float, analysis: Analysis, beside: Event | None) -> Plan:
        if self.steps == 0:
            raise CannotMeet("A run of no steps needs no noise.", remedy="Ask for at least one step.")
        if analysis == "first" and beside is None:
            return self._with_noise_of_first_analysis(epsilon)
        if analysis == "first":
            raise Unproven("The first analysis is of descent alone.", remedy="Choose another analysis.")
        if beside is not None and not (spent := self.epsilon_after(0, beside)) < epsilon:
            raise CannotMeet(
                f"What is released beside training costs epsilon {at_most(spent)} of "
                f"{epsilon:.4g} by itself.",
                remedy="Add noise there, or ask for a larger epsilon.",
            )
        rate = self.sampler.batch_size / self.sampler.examples
        noise = calibrate.noise_for(
            lambda value: _comparable(
                _together(replace(self, noise_multiplier=value).event, beside), analysis
            ),
            Neighbours(self.adjacency),
            epsilon=epsilon,
            delta=self._delta_left,
            guess=max(self.adjacency.reach * rate * math.sqrt(self.steps) / epsilon * 2, 0.5),
            accountant=None if analysis == "tight" else ACCOUNTANTS[analysis],
        )
        found = replace(self, noise_multiplier=noise)
        if analysis == "tight":
            left = delta_left_for(epsilon, self._delta_left)
            bought = upper_bound(_together(found.event, beside), left, Neighbours(self.adjacency))
            require_spent(epsilon, bought, noise)
        return found

    def _with_noise_of_first_analysis(self, epsilon: float) -> Plan:
        if not isinstance(self.sampler, FullBatch) or self.adaptive is not None:
            raise Unproven(
                "The first analysis is of full-batch gradient descent with a norm that stays.",
                remedy="Pass sampling='full', or another analysis.",
            )
        noise = calibrate.first_analysis(steps=self.steps, epsilon=epsilon, delta=self.delta)
        return replace(self, noise_multiplier=noise)

    def _until(self, epsilon: float, beside: Event | None) -> Plan:
        if not self.epsilon_after(1, beside) <= epsilon:
            raise CannotMeet(
                f"One step with noise {self.noise_multiplier:g} costs more than epsilon {epsilon:g}.",
                remedy="Add noise, or draw smaller batches.",
            )
        high = 2
        while self.epsilon_after(high, beside) <= epsilon:
            high *= 2
        first_too_many = smallest_count(
            lambda count: not self.epsilon_after(count, beside) <= epsilon, high // 2, high
        )
        return replace(self, steps=first_too_many - 1)


def _together(event: Event, beside: Event | None) -> Event:
    return event if beside is None else Composed(events=(beside, event))


def _comparable(event: Event, analysis: Analysis) -> Event:
    """What an older analysis is asked about: it knows no batches with a largest size."""
    return event if analysis == "tight" else without_truncation(event)
