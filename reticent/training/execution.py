"""How a run is carried out: what decides its speed and memory, and nothing that decides its privacy."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from jax.sharding import Mesh

from reticent.core import checks
from reticent.training.devices.feeding import BUFFER
from reticent.training.gradients import Strategy, require_strategy


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How the steps of a plan are computed; the guarantee is the same for every choice.

    Args:
        strategy: how gradients are clipped one by one: `auto`, `vmap` or `book-keeping`.
        microbatch: the most examples worked on at once; by default, as many as fit into memory.
        mesh: the devices that share the work; by default, all of them.
        divide_params: keep a part of parameters, optimizer state and noise on each device.
        buffer: bytes of rows in memory, where the data are memory-mapped and larger than that.
        program: names the loss, the optimizer, the metrics and the projection. Runs of the same name and
            shapes in one process share what was compiled, if their plans differ in nothing but epsilon,
            delta, noise and the clipping norm. Whatever these functions depend on has to be part of the name:
            they are not looked at again.

    Raises:
        InvalidArgument: an unknown strategy, or a microbatch below 1.

    Example:
        >>> Execution(microbatch=256).strategy
        'auto'
    """

    strategy: Strategy = "auto"
    microbatch: int | None = None
    mesh: Mesh | None = None
    divide_params: bool = False
    buffer: int = BUFFER
    program: Hashable | None = None

    def __post_init__(self) -> None:
        require_strategy(self.strategy)
        if self.microbatch is not None:
            checks.count(microbatch=self.microbatch)
