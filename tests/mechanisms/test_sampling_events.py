"""One maker of sampling events: a run in plain numbers and the sampler that draws it cost the same."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from reticent.accounting.loss_distribution.dominating import without_truncation
from reticent.accounting.setting import Setting
from reticent.data.sampling import FixedSize, FullBatch, Poisson, Shuffled
from reticent.mechanisms import sampling_events
from reticent.mechanisms.adjacency import Adjacency
from reticent.mechanisms.events import Gaussian
from reticent.mechanisms.sampling_events import Sampling

_RELEASE = Gaussian(noise_multiplier=1.0)


def _setting(sampling: Sampling, examples: int, batch_size: int, steps: int) -> Setting:
    return Setting(
        examples=examples,
        batch_size=examples if sampling is Sampling.FULL else batch_size,
        steps=steps,
        noise_multiplier=_RELEASE.noise_multiplier,
        sampling=sampling,
        adjacency=sampling.adjacencies[0],
    )


sizes = st.integers(1, 40).flatmap(
    lambda examples: st.tuples(st.just(examples), st.integers(1, examples), st.integers(0, 200))
)


@given(sizes)
@example((10, 4, 3))  # the third batch of an epoch is short: no second epoch was begun
@example((10, 4, 4))
def test_a_setting_and_its_sampler_make_the_same_event(numbers: tuple[int, int, int]):
    examples, batch_size, steps = numbers
    samplers = {
        Sampling.FIXED: FixedSize(examples=examples, batch_size=batch_size),
        Sampling.SHUFFLED: Shuffled(examples=examples, batch_size=batch_size),
        Sampling.FULL: FullBatch(examples=examples),
    }
    for sampling, sampler in samplers.items():
        assert _setting(sampling, *numbers).event == sampler.event(_RELEASE, steps)
        assert sampling.adjacencies == sampler.adjacencies


@given(sizes)
@example((10, 4, 3))
def test_a_poisson_setting_never_costs_less_than_its_sampler(numbers: tuple[int, int, int]):
    """The sampler's coin is a multiple of 2^-32, not above what is declared; a setting's is rounded up."""
    examples, batch_size, steps = numbers
    sampler, setting = (
        Poisson(examples=examples, batch_size=batch_size),
        _setting(Sampling.POISSON, *numbers),
    )
    assert setting.rate - 2.0**-31 <= sampler.rate <= setting.rate
    assert setting.event == sampling_events.poisson(_RELEASE, rate=setting.rate, steps=steps)
    drawn = without_truncation(sampler.event(_RELEASE, steps))
    assert drawn == sampling_events.poisson(_RELEASE, rate=sampler.rate, steps=steps)
    assert Sampling.POISSON.adjacencies == sampler.adjacencies


@given(sizes)
def test_shuffled_epochs_are_counted_as_they_are_drawn(numbers: tuple[int, int, int]):
    """Counted by walking: a new epoch begins when every record of the last one was dealt."""
    examples, batch_size, steps = numbers
    begun, undealt = 0, 0
    for _ in range(steps):
        if undealt <= 0:
            begun, undealt = begun + 1, examples
        undealt -= batch_size
    assert sampling_events.epochs_begun(examples=examples, batch_size=batch_size, steps=steps) == begun


def test_shuffled_batches_are_not_covered_where_a_record_may_come_or_go():
    assert Adjacency.ADD_OR_REMOVE not in Sampling.SHUFFLED.adjacencies
