"""What comes out of training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reticent.accounting.guarantee import Guarantee
from reticent.core import trees
from reticent.core.html_summary import html_table
from reticent.training.evaluation import Moment
from reticent.training.plan import Plan
from reticent.training.step import TrainState


@dataclass(frozen=True, repr=False)
class Run:
    """What came out of training.

    Args:
        params: may be published under `guarantee`.
        guarantee: of the whole plan, and of what was released beside it, whether the run is complete or not.
            Who stops a run may do so because of what they saw, and a step chosen by looking is not covered
            by what that many steps cost; the whole plan covers every moment of stopping.
        history: how it went, for whoever holds the data: scores on held-out rows are unreleased.
        is_complete: whether all steps of the plan were taken.
        stopped_by: who ended the run before its last step, such as the reason given to `rt.Stop`.
        learned: what was trained of `params`, where `trainable` chose a part of them.

    Example:
        >>> import jax.numpy as jnp
        >>> import optax
        >>> from reticent.training.loop import train
        >>> plan = Plan.for_budget(
        ...     epsilon=2, delta=1e-5, examples=200, sampling="full", steps=4, max_norm=1
        ... )
        >>> rows = {"x": jnp.linspace(-1, 1, 200)}
        >>> loss = lambda w, example: (w - example["x"]) ** 2
        >>> run = train(loss, jnp.float32(0.5), rows, plan, optimizer=optax.sgd(0.1))
        >>> run.is_complete, run.guarantee.epsilon <= 2
        (True, True)
    """

    params: Any
    guarantee: Guarantee
    plan: Plan
    history: tuple[Moment, ...]
    state: TrainState
    is_complete: bool
    seconds: float
    stopped_by: str = ""
    learned: Any = None

    def __repr__(self) -> str:
        return f"Run({', '.join(value for _, value in self._in_words())})"

    def _repr_html_(self) -> str:
        return html_table("Run", [*self._in_words(), ("in words", str(self.guarantee))])

    def _in_words(self) -> list[tuple[str, str]]:
        end = "complete" if self.is_complete else f"stopped by {self.stopped_by or 'somebody'}"
        said = [
            ("guarantee", self.guarantee.short),
            ("steps", f"{int(self.state.step)} of {self.plan.steps} steps, {end}"),
            ("parameters", self._parameters_in_words()),
            ("time", f"{self.seconds:.1f} s"),
        ]
        last = self.history[-1].held_out if self.history else {}
        scores = ", ".join(f"{name} {value:.4g}" for name, value in list(last.items())[:3])
        return [*said, ("held out", f"held out (unreleased): {scores}")] if scores else said

    def _parameters_in_words(self) -> str:
        if self.learned is None:
            return f"{trees.size(self.params):,} parameters"
        return f"{trees.size(self.learned):,} trained parameters"
