"""A model divided into what learns and what is frozen, and the loss of the part that learns.

part = rt.trainable.divide(loss, params, example, rt.trainable.last_layer)
part.loss(part.params, example)          # trains with anything; `rt.train(trainable=...)` does this itself
whole = part.whole(part.params)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from reticent.core import trees
from reticent.core.trees import ArrayTree
from reticent.training.gradients.choices import explain
from reticent.training.gradients.tracing import Trace, trace
from reticent.training.loss_keys import AnyLoss
from reticent.training.trainable import low_rank
from reticent.training.trainable.factor_places import Place, find_place, run_with_factors
from reticent.training.trainable.low_rank import Lora, LowRankFactors
from reticent.training.trainable.named_leaves import NamedLeaves, model_of, trace_loss
from reticent.training.trainable.selection import Selector, chosen_leaves

Trainable = Callable[[str], bool] | Selector | Lora | Any
"""A function of a leaf's name, a mask, a tree with None for what is frozen, a selector, or `lora(...)`."""

FROZEN = "what is not trained was learned without these records"


@dataclass(frozen=True, eq=False)
class Division:
    """What learns, the loss of it, and the way back to the whole model; made by `divide`.

    Args:
        params: what learns, by name: leaves, or `LowRankFactors`.
        scale: what the product of two factors is multiplied with.
    """

    params: dict[str, Any]
    of_whole: AnyLoss
    model: NamedLeaves
    places: dict[str, Place]
    scale: float = 1.0

    @cached_property
    def loss(self) -> AnyLoss:
        """The loss of what learns. It takes a key if that of the whole model does."""

        def of_part(params: dict[str, Any], *rest: Any, **named: Any) -> Any:
            if self.places:
                return self._with_factors(params, *rest, **named)
            return self.of_whole(self.model.join(params), *rest, **named)

        of_part.__signature__ = inspect.signature(self.of_whole)
        return of_part

    def whole(self, params: dict[str, Any]) -> Any:
        """The whole model with what was learned: factors are multiplied and added to their weights."""
        return self.model.join({path: self._merge(path, part) for path, part in params.items()})

    def without(self, whole: Any, params: dict[str, Any]) -> Any:
        """The model from which `whole` was made: factors are taken off again, up to rounding."""
        model = model_of(whole)
        before = {
            path: model.floats[path] - self._added(path, part)
            if path in self.places
            else self.model.floats[path]
            for path, part in params.items()
        }
        return model.join(before)

    def explain(self, example: ArrayTree, *, examples: int = 1024) -> str:
        """The rule of every parameter that learns, as `rt.training.explain` gives it, and what is frozen."""
        table = explain(self.loss, self.params, example, examples=examples)
        return f"{table}\nFrozen: {self.frozen:,} numbers, without gradient, norm or noise."

    @property
    def numbers(self) -> int:
        """How many numbers learn."""
        return trees.size(self.params)

    @property
    def frozen(self) -> int:
        """How many numbers of the model stay as they are."""
        kept = (
            leaf for path, leaf in self.model.floats.items() if path in self.places or path not in self.params
        )
        return sum(leaf.size for leaf in kept)

    def _merge(self, path: str, part: Any) -> jax.Array:
        return self.model.floats[path] + self._added(path, part) if path in self.places else part

    def _added(self, path: str, factors: LowRankFactors) -> jax.Array:
        product = low_rank.product_of_factors(LowRankFactors(*factors), self.places[path])
        return (self.scale * product).astype(self.model.floats[path].dtype)

    def _with_factors(self, params: dict[str, Any], *rest: Any, **named: Any) -> Any:
        """The loss as traced for these shapes, with the factors where their weights meet the example."""
        leaves = {
            path: params.get(path, leaf)
            for path, leaf in self.model.floats.items()
            if path not in self.places
        }
        leaves |= {path: self.model.floats[path] for path in self.places}
        given, structure = jax.tree.flatten((rest, named))

        def of_row(floats: dict[str, Any], row: list[Any]) -> Any:
            rest, named = jax.tree.unflatten(structure, row)
            return self.of_whole(self.model.join(floats), *rest, **named)

        program = trace(of_row, leaves, given)
        found = {}
        for path, variable in zip(sorted(leaves), program.leaves, strict=True):
            if path in self.places:
                place = find_place(program, variable)
                if isinstance(place, str):
                    raise low_rank.refusal(path, place)
                found[id(place.equation)] = (place, LowRankFactors(*params[path]))
        ordered = [leaves[path] for path in sorted(leaves)]
        return run_with_factors(program, ordered, given, found, self.scale)


def divide(loss: AnyLoss, params: ArrayTree, example: ArrayTree, trainable: Trainable) -> Division:
    """Divides a model into what learns and what is frozen.

    Frozen leaves are constants of the new loss: they have no gradient, no norm and no noise. Leaves that
    are not arrays of floats, such as functions and counters, are always frozen.

    Args:
        loss: of the whole model and one example, and of a key if it takes one.
        example: one row, or its shapes.
        trainable: a function of a leaf's name, a mask, a tree with None for what is frozen, `biases`,
            `norms_and_biases`, `last_layer`, or `lora(rank)`.

    Raises:
        InvalidArgument: nothing is left to learn, or something that was named is not in the model.

    Example:
        >>> import jax.numpy as jnp
        >>> from reticent.training.trainable.selection import biases
        >>> loss = lambda params, x: jnp.sum(x @ params["w"] + params["b"])
        >>> model = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
        >>> part = divide(loss, model, jnp.ones(3), biases)
        >>> part.params, part.frozen
        ({'b': Array([0., 0.], dtype=float32)}, 6)
        >>> float(part.loss(part.params, jnp.ones(3)))
        6.0
    """
    model = model_of(params)
    programs: list[Trace] = []

    def program() -> Trace:
        if not programs:
            programs.append(trace_loss(loss, model, example))
        return programs[0]

    if not isinstance(trainable, Lora):
        return Division(chosen_leaves(trainable, model, program), loss, model, {})
    also = {} if trainable.also is None else chosen_leaves(trainable.also, model, program)
    factors, places = _factors(trainable, model, program(), also)
    return Division(also | factors, loss, model, places, trainable.scale)


def _factors(
    wanted: Lora, model: NamedLeaves, program: Trace, also: Collection[str]
) -> tuple[dict[str, Any], dict[str, Place]]:
    """The factors beside every weight that was asked for, and where they stand."""
    learned: dict[str, Any] = {}
    places: dict[str, Place] = {}
    key = jax.random.key(wanted.seed)
    for number, (path, variable) in enumerate(zip(sorted(model.floats), program.leaves, strict=True)):
        leaf = model.floats[path]
        if path in also or (wanted.on is not None and not wanted.on(path)):
            continue
        place = find_place(program, variable)
        if isinstance(place, str):
            if wanted.on is not None:
                raise low_rank.refusal(path, place)
            continue
        factors = low_rank.factors_for(
            leaf.shape, place, wanted.rank, jax.random.fold_in(key, number), leaf.dtype
        )
        if wanted.on is None and trees.size(factors) >= leaf.size:
            continue
        learned[path], places[path] = factors, place
    if not places:
        raise low_rank.unknown(wanted.on or (lambda path: False), list(model.floats))
    return learned, places
