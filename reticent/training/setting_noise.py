"""The noise of a setting by name: a strategy, or `auto`, the least expected error at equal privacy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from reticent.accounting.setting import Sampling, Setting
from reticent.core import checks
from reticent.core.errors import InvalidArgument
from reticent.mechanisms.adjacency import Adjacency


class ChosenNoise(NamedTuple):
    """What `auto` chose, beside independent noise at the same epsilon. Errors are in clipping norms."""

    noise: str
    noise_multiplier: float
    error: float
    independent_multiplier: float
    independent_error: float

    def __str__(self) -> str:
        return (
            f"auto chose {self.noise}, noise multiplier {self.noise_multiplier:.4g}: expected error "
            f"{self.error:.4g} of the sums of gradients. Independent noise at the same epsilon "
            f"({self.independent_multiplier:.4g}): {self.independent_error:.4g}."
        )


def with_noise(
    setting: Setting, name: str, bands: int | None, buffers: int | None, adjacency: Adjacency | None
) -> Setting:
    """The same setting with the noise of this name; random batches come from as many parts as bands."""
    from reticent.noise.named import NAMES, by_name

    checks.one_of((*NAMES, "auto"), noise=name)
    noise = by_name(name, bands=bands, buffers=buffers)
    if name == "independent":
        return setting
    changes: dict[str, Any] = {}
    if setting.sampling in (Sampling.POISSON, Sampling.CYCLIC_POISSON) and bands is not None and bands > 1:
        changes = {"sampling": Sampling.CYCLIC_POISSON, "parts": bands}
    drawn = replace(setting, **changes)
    found = noise if bands == 1 else noise.settle(max(setting.steps, 1), drawn.participation)
    return replace(drawn, noise=found, adjacency=adjacency or drawn.sampling.adjacencies[0])


def with_best_noise(
    setting: Setting, bands: int | None, buffers: int | None, *, delta: float, epsilon: float | None = None
) -> tuple[Setting, ChosenNoise]:
    """The noise of least expected error at this epsilon, and its multiplier.

    Without `epsilon`, that of independent noise with the setting's multiplier.
    """
    from reticent.accounting import calibrate
    from reticent.data.cyclic import CyclicPoisson
    from reticent.training.plan_checks import sampler_for
    from reticent.training.plan_noise import choose, error_of

    if bands is not None or buffers is not None:
        raise InvalidArgument(
            "'auto' noise finds the number of bands or buffers itself.",
            remedy="Leave out --bands and --buffers, or name the noise, such as --noise banded.",
        )
    checks.count(steps=setting.steps)
    if epsilon is None:
        epsilon, plain = calibrate.epsilon_of(setting, delta), setting.noise_multiplier
    else:
        plain = calibrate.noise_multiplier(setting, epsilon=epsilon, delta=delta)
    sampler: Any = sampler_for(setting.sampling.value, setting.examples, setting.batch_size, None, 1)
    found = choose(sampler, setting.steps, epsilon, delta, setting.adjacency)
    settled = replace(setting, noise_multiplier=plain)
    if found.noise.bands(setting.steps) > 1:
        drawn = setting
        if isinstance(found.sampler, CyclicPoisson):
            drawn = replace(setting, sampling=Sampling.CYCLIC_POISSON, parts=found.sampler.parts)
        noise = found.noise.settle(setting.steps, drawn.participation)
        correlated = replace(drawn, noise=noise)
        multiplier = calibrate.noise_multiplier(correlated, epsilon=epsilon, delta=delta)
        settled = replace(correlated, noise_multiplier=multiplier)
    error, plainly = (
        error_of(each.noise, each.noise_multiplier, drawn_by, setting.steps)
        for each, drawn_by in ((settled, found.sampler), (replace(setting, noise_multiplier=plain), sampler))
    )
    return settled, ChosenNoise(settled.noise.in_words, settled.noise_multiplier, error, plain, plainly)
