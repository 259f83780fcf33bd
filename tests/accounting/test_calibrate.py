"""Calibration: whatever is left out comes back, delivers at most what was asked, and not much less."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.accounting import calibrate
from reticent.accounting.loss_distribution.dominating import Neighbours
from reticent.accounting.setting import Sampling, Setting, steps_for
from reticent.accounting.tight_epsilon import cost_within
from reticent.core.errors import CannotMeet, InvalidArgument, ReticentError, Unproven
from reticent.mechanisms.adjacency import Adjacency

_PLAIN = Setting(examples=10_000, batch_size=100, steps=500, noise_multiplier=1.0)


def _setting(examples: int, rate: float, steps: int, sampling: Sampling) -> Setting:
    return Setting(
        examples=examples,
        batch_size=max(1, min(examples, int(examples * rate))),
        steps=steps,
        noise_multiplier=1.0,
        sampling=sampling,
        adjacency=sampling.adjacencies[0],
    )


def _spent(setting: Setting, epsilon: float, delta: float) -> float:
    return cost_within(setting.event, epsilon, delta, Neighbours(setting.adjacency, setting.group))


@settings(max_examples=30)
@given(
    examples=st.integers(100, 10**6),
    rate=st.floats(1e-3, 1),
    steps=st.integers(1, 5000),
    epsilon=st.floats(0.2, 16),
    log_delta=st.floats(math.log(1e-10), math.log(1e-3)),
    sampling=st.sampled_from(list(Sampling)),
)
def test_noise_delivers_what_was_asked_and_not_a_thousandth_less(
    examples: int, rate: float, steps: int, epsilon: float, log_delta: float, sampling: Sampling
):
    setting, delta = _setting(examples, rate, steps, sampling), math.exp(log_delta)
    noise = calibrate.noise_multiplier(setting, epsilon=epsilon, delta=delta)
    delivered = _spent(replace(setting, noise_multiplier=noise), epsilon, delta)
    assert epsilon * (1 - 1e-3) <= delivered <= epsilon


@settings(max_examples=4)
@given(
    epsilon=st.floats(0.3, 10), noise=st.floats(0.8, 5), log_delta=st.floats(math.log(1e-9), math.log(1e-4))
)
def test_one_step_more_would_be_too_much(epsilon: float, noise: float, log_delta: float):
    setting, delta = replace(_PLAIN, noise_multiplier=noise), math.exp(log_delta)
    try:
        steps = calibrate.steps(setting, epsilon=epsilon, delta=delta)
    except CannotMeet:
        assert _spent(replace(setting, steps=1), epsilon, delta) > epsilon
        return
    assert _spent(replace(setting, steps=steps), epsilon, delta) <= epsilon
    assert _spent(replace(setting, steps=steps + 1), epsilon, delta) > epsilon


@settings(max_examples=4)
@given(epsilon=st.floats(0.5, 10), noise=st.floats(0.8, 3))
def test_the_smallest_delta_is_where_epsilon_is_met(epsilon: float, noise: float):
    setting = replace(_PLAIN, noise_multiplier=noise)
    delta = calibrate.delta(setting, epsilon=epsilon)
    assert 0 < delta < 1
    assert calibrate.epsilon_of(setting, delta) <= epsilon
    if delta > 1e-29:
        assert calibrate.epsilon_of(setting, delta * 0.99) >= epsilon * (1 - 5e-3)


@pytest.mark.parametrize(("epsilon", "epochs", "noise"), [(2.0, 10, 1.0), (8.0, 3, 0.7), (0.5, 1, 1.5)])
def test_the_largest_batch_is_within_the_target(epsilon: float, epochs: float, noise: float):
    setting = replace(_PLAIN, noise_multiplier=noise)
    size = calibrate.batch_size(setting, epochs=epochs, epsilon=epsilon, delta=1e-5)

    def cost(batch: int) -> float:
        steps = steps_for(epochs, setting.examples, batch)
        return calibrate.epsilon_of(replace(setting, batch_size=batch, steps=steps), 1e-5)

    assert cost(size) <= epsilon
    assert size == setting.examples or cost(size + 1) > epsilon


def test_calibration_of_a_full_batch_is_the_closed_form():
    setting = Setting(examples=10, batch_size=10, steps=16, noise_multiplier=1.0, sampling=Sampling.FULL)
    noise = calibrate.noise_multiplier(setting, epsilon=1.0, delta=1e-5)
    assert noise == pytest.approx(4 * 3.730631635, rel=1e-3)
    assert noise >= 4 * 3.730631634


def test_a_record_replaced_or_a_group_needs_more_noise():
    one = calibrate.noise_multiplier(_PLAIN, epsilon=1.0, delta=1e-5)
    for harder in (replace(_PLAIN, adjacency=Adjacency.REPLACE), replace(_PLAIN, group=2)):
        assert calibrate.noise_multiplier(harder, epsilon=1.0, delta=1e-5) > 1.3 * one


def test_targets_that_cannot_be_met_say_what_would_help():
    noisy = replace(_PLAIN, noise_multiplier=0.3)
    with pytest.raises(CannotMeet, match="noise multiplier of at least"):
        calibrate.steps(noisy, epsilon=0.01, delta=1e-5)
    with pytest.raises(CannotMeet, match="no steps"):
        calibrate.noise_multiplier(replace(_PLAIN, steps=0), epsilon=1.0, delta=1e-5)
    with pytest.raises(CannotMeet, match="Even batches of one"):
        calibrate.batch_size(noisy, epochs=10_000, epsilon=0.01, delta=1e-9)
    full = replace(_PLAIN, batch_size=10_000, noise_multiplier=1e-3, sampling=Sampling.FULL)
    with pytest.raises(CannotMeet, match="every delta below"):
        calibrate.delta(full, epsilon=0.1)
    quiet = replace(full, noise_multiplier=1e6)
    with pytest.raises(CannotMeet, match="stay below the target"):
        calibrate.steps(quiet, epsilon=20.0, delta=1e-2)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_a_target_that_is_no_epsilon_is_refused(epsilon: float):
    for call in (
        lambda: calibrate.noise_multiplier(_PLAIN, epsilon=epsilon, delta=1e-5),
        lambda: calibrate.steps(_PLAIN, epsilon=epsilon, delta=1e-5),
        lambda: calibrate.delta(_PLAIN, epsilon=epsilon),
        lambda: calibrate.batch_size(_PLAIN, epochs=1, epsilon=epsilon, delta=1e-5),
    ):
        with pytest.raises(InvalidArgument):
            call()


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 1.5, math.nan])
def test_a_delta_outside_the_unit_interval_is_refused(delta: float):
    for call in (
        lambda: calibrate.noise_multiplier(_PLAIN, epsilon=1.0, delta=delta),
        lambda: calibrate.steps(_PLAIN, epsilon=1.0, delta=delta),
        lambda: calibrate.batch_size(_PLAIN, epochs=1, epsilon=1.0, delta=delta),
    ):
        with pytest.raises(InvalidArgument):
            call()


# --- settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise_multiplier": 0.0},
        {"noise_multiplier": -1.0},
        {"noise_multiplier": math.nan},
        {"noise_multiplier": math.inf},
        {"steps": 1.5},
        {"steps": -1},
        {"steps": math.nan},
        {"steps": True},
        {"batch_size": 10_001},
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"examples": 0},
        {"examples": math.nan},
        {"group": 0},
        {"group": 1.5},
    ],
)
def test_a_setting_that_cannot_be_is_refused(wrong: dict):
    with pytest.raises(InvalidArgument):
        replace(_PLAIN, **wrong)


@pytest.mark.parametrize("sampling", list(Sampling))
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_a_sampling_is_accounted_for_only_under_its_adjacencies(sampling: Sampling, adjacency: Adjacency):
    if adjacency in sampling.adjacencies:
        setting = replace(_PLAIN, sampling=sampling, adjacency=adjacency)
        assert calibrate.epsilon_of(replace(setting, noise_multiplier=5.0), 1e-5) > 0
    else:
        with pytest.raises(Unproven):
            replace(_PLAIN, sampling=sampling, adjacency=adjacency)


def test_shuffled_epochs_that_were_begun_are_charged_whole():
    shuffled = replace(_PLAIN, sampling=Sampling.SHUFFLED, adjacency=Adjacency.ZERO_OUT, batch_size=3000)
    for steps, begun in [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3)]:
        assert replace(shuffled, steps=steps).epochs_begun == begun


@given(examples=st.integers(1, 10**9), data=st.data())
def test_the_rate_is_rounded_up_and_steps_too(examples: int, data):
    batch = data.draw(st.integers(1, examples))
    setting = Setting(examples=examples, batch_size=batch, steps=1, noise_multiplier=1.0)
    assert batch / examples <= setting.rate <= 1
    assert setting.rate * examples >= batch * (1 - 1e-15)
    steps = steps_for(3, examples, batch)
    assert steps * batch >= 3 * examples
    assert (steps - 1) * batch < 3 * examples


@pytest.mark.parametrize("epochs", [-1.0, math.nan, math.inf])
def test_epochs_that_are_none_are_refused(epochs: float):
    with pytest.raises(ReticentError):
        steps_for(epochs, 100, 10)
