"""One private step: sum of clipped gradients, noise, a fixed divisor, the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from reticent.core import trees
from reticent.core.errors import InvalidArgument
from reticent.core.keys import step_key
from reticent.core.trees import ArrayTree
from reticent.core.whole_normals import floor_deviation, whole_normals
from reticent.data.sampling import Batch
from reticent.mechanisms.gaussian import (
    MOST_PARTS,
    NoiseGrid,
    Wide,
    add_blocks,
    add_no_noise,
    add_noise,
    add_whole_noise,
    multiple_for,
    round_by_chance,
    to_block_sum,
    whole_noise_like,
)
from reticent.training.contributions import Contribution, DeviceRows, Seeds
from reticent.training.devices.exchange import ALONE, Exchange
from reticent.training.gradients import GradientSum, UnreleasedExamples
from reticent.training.gradients.totals import Grid
from reticent.training.noise_streams import Draws, Memory, NoiseStream
from reticent.training.places import place_count
from reticent.training.plan import Plan
from reticent.training.projection import Projection
from reticent.training.step_noise import Amounts, amounts_in, grid_of, noise_stream

Tree = TypeVar("Tree")

_LARGEST = 2**30  # of a noisy count

# What of a step's key the noise on each is made from, public coins, and coins for rounding noise.
_GRADIENT, _COUNT, _DITHER, _ROUNDING = 0, 1, 2, 3


class TrainState(NamedTuple):
    """What the next step needs. Holds no key, so it is safe to save."""

    step: Int[Array, ""]
    params: Any
    opt_state: Any
    max_norm: Float[Array, ""]  # the clipping norm; it moves only when it is adaptive
    average: Any  # of the iterates, if one is kept


class Remembering(NamedTuple):
    """The state of a run with correlated noise, and what it keeps of it: never saved or released."""

    state: TrainState
    memory: Memory

    @property
    def step(self) -> Int[Array, ""]:
        return self.state.step


def safe_state(state: TrainState | Remembering) -> TrainState:
    """What may be saved."""
    return state.state if isinstance(state, Remembering) else state


class Unreleased(NamedTuple):
    """Private facts about a step, computed on the training data: never part of a guarantee."""

    loss: Float[Array, ""]
    clipped: Float[Array, ""]  # the share of examples whose gradient was cut
    size: Int[Array, ""]
    not_finite: Int[Array, ""]  # how many losses were NaN or infinite


class Roots(NamedTuple):
    """The root key of each stream that a run draws from.

    Args:
        amounts: how much noise is drawn, where that is not a constant of the program.
    """

    sampling: Key[Array, ""]
    noise: Key[Array, ""]
    views: Key[Array, ""]
    loss: Key[Array, ""] | None = None  # for losses that draw at random
    amounts: Amounts | None = None


# Of a `TrainState`, or of a `Remembering` if the noise of the plan is correlated.
Step = Callable[[Any, DeviceRows, Batch, Roots], tuple[Any, Unreleased]]


def private_step(
    gradient_sum: GradientSum,
    plan: Plan,
    optimizer: optax.GradientTransformation,
    project: Projection | None,
    keep_average: Callable[[Any, Any, jax.Array], Any],
    *,
    contribution: Contribution,
    blocks: Blocks,
    exchange: Exchange = ALONE,
    moves_others: bool = False,
) -> Step:
    """Makes the function that takes one step; see the paper's Algorithm 1.

    Args:
        contribution: what a unit of the data is to the gradient sum.
        blocks: how much of a batch is worked on at once.
        exchange: what the devices that take the step together tell each other.
        moves_others: a unit that comes or goes may move the others to other rows of a batch.

    Guarantee:
        The new state is a post-processing of the old one and of `plan.event_after(1)`: the noise is that
        of the plan times the norm that clipped, whoever is in the batch, even nobody.

    Reference:
        Abadi et al. (2016), Algorithm 1, arXiv:1607.00133v2.
    """
    stream = noise_stream(plan)
    structure = grid_of(plan, blocks.main)
    additions = blocks.additions  # on each device, whose sum is whole before it meets the others

    def block(state: TrainState, units: Any, batch: Batch, amounts: Amounts) -> tuple[Any, _Seen]:
        most, max_norm = plan.sampler.capacity, state.max_norm
        sums = Grid(amounts.steps, most, additions, rows=blocks.main, moves_others=moves_others)
        total, unreleased = gradient_sum.on_grid(
            state.params, units, batch.is_real, sums, max_norm=max_norm, margin=amounts.growth
        )
        total = jax.tree.map(_in_32_bits, total)
        return total, _seen(batch, unreleased, max_norm)

    def step(given: Any, source: DeviceRows, batch: Batch, roots: Roots) -> tuple[Any, Unreleased]:
        state, memory = _opened(given, stream)
        key = step_key(roots.noise, state.step)
        whole = state._replace(params=exchange.whole(state.params))
        numbers = trees.size(whole.params)
        amounts = amounts_in(roots.amounts, plan, structure, numbers, exchange.devices)
        grid = amounts.on(structure)

        def of_block(part: Batch, seeds: Seeds) -> tuple[Any, _Seen]:
            return block(whole, contribution.fetch(source, part.indices, seeds), part, amounts)

        total, seen = _summed(
            of_block,
            blocks,
            grid,
            *blocks.padded((batch, _seeds(contribution, plan, roots, state.step, batch))),
        )
        total = round_by_chance(exchange.own_key(jax.random.fold_in(key, _DITHER)), total, grid)
        total, seen = _exchanged(exchange, total, seen)
        parts = exchange.parts(total.low if isinstance(total, Wide) else total)
        noisy, memory = _with_noise(plan, stream, memory, roots.noise, state.step, total, grid, parts)
        # In units of the norm that clipped, so that no other norm can reach the noise.
        mean = trees.scale(trees.scale(noisy, state.max_norm), 1 / plan.sampler.batch_size)
        mean = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), mean, state.params)
        updates, opt_state = optimizer.update(mean, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        params = project(params) if project is not None else params
        max_norm = _next_norm(plan, state.max_norm, seen, key)
        average = keep_average(state.average, params, state.step)
        state = TrainState(state.step + 1, params, opt_state, max_norm, average)
        return state if memory is None else Remembering(state, memory), seen.means()

    return step


def _opened(given: Any, stream: NoiseStream | None) -> tuple[TrainState, Memory | None]:
    if isinstance(given, Remembering) != (stream is not None):
        raise InvalidArgument(
            "The noise of this plan takes back some of that of earlier steps, and this step is taken alone.",
            remedy="Use rt.train, or a plan with noise=rt.noise.independent().",
        )
    return (given.state, given.memory) if isinstance(given, Remembering) else (given, None)


def _with_noise(
    plan: Plan,
    stream: NoiseStream | None,
    memory: Memory | None,
    root: jax.Array,
    at: jax.Array,
    total: ArrayTree,
    grid: NoiseGrid,
    parts: Any,
) -> tuple[Any, Memory | None]:
    """The sum in units of the norm with noise, and what is kept of it; a plan without privacy has none."""
    if not plan.is_private:
        return add_no_noise(total, grid), None

    def key_of(step: jax.Array) -> jax.Array:
        return jax.random.fold_in(step_key(root, step), _GRADIENT)

    if stream is None or memory is None:
        return add_whole_noise(key_of(at), total, grid, parts=parts), None
    coins = jax.random.fold_in(step_key(root, at), _ROUNDING)
    draws = Draws(lambda step: whole_noise_like(key_of(step), total, grid, parts), coins, parts)
    noise, memory = stream.next(memory, at, draws)
    return add_noise(total, noise, grid), memory


def _exchanged(exchange: Exchange, total: ArrayTree, seen: _Seen) -> tuple[Any, _Seen]:
    """The sums over all devices: of whole numbers, in which order they are added makes no difference."""
    if not isinstance(total, Wide):
        return exchange.total(total, seen)
    if exchange.devices > MOST_PARTS:
        raise InvalidArgument(
            f"Sums over {exchange.devices} devices are too large beside their noise: at most {MOST_PARTS}.",
            remedy="Use fewer devices, smaller batches or more noise.",
        )
    (high, seen), (low, _) = exchange.total(total.high, seen), exchange.total(total.low, ())
    return Wide(high, low), seen


def _seeds(contribution: Contribution, plan: Plan, roots: Roots, step: jax.Array, batch: Batch) -> Seeds:
    """What each place draws with: by its place in the whole batch, wherever it is held."""
    views = step_key(roots.views, step)
    loss = None if roots.loss is None else step_key(roots.loss, step)
    if batch.places is None:
        return contribution.seeds(views, len(batch.indices), loss)
    found = contribution.seeds(views, plan.sampler.capacity, loss)
    return jax.tree.map(lambda leaf: leaf[batch.places], found)


class _Seen(NamedTuple):
    """Sums over the examples of a batch."""

    loss: jax.Array
    below: jax.Array  # how many gradients were no longer than the norm
    size: jax.Array
    not_finite: jax.Array

    def means(self) -> Unreleased:
        """The same facts per example."""
        size = jnp.maximum(self.size, 1)
        clipped = 1 - (self.below / size).astype(jnp.float32)
        return Unreleased(self.loss / size.astype(jnp.float32), clipped, self.size, self.not_finite)


def _seen(batch: Batch, found: UnreleasedExamples, max_norm: jax.Array) -> _Seen:
    below = _count(batch.is_real & (found.norms <= max_norm))
    bad = _count(batch.is_real & ~jnp.isfinite(found.losses))
    return _Seen(jnp.sum(found.losses), below, _count(batch.is_real), bad)


def _count(is_one: jax.Array) -> jax.Array:
    return jnp.sum(is_one, dtype=jnp.int32)


def _in_32_bits(total: jax.Array) -> jax.Array:
    """A sum as it is meant to be: where JAX has 64 bits, sums of whole numbers get them."""
    return total.astype(jnp.int32) if jnp.issubdtype(total.dtype, jnp.integer) else total


def _summed(
    block: Callable[[Batch, Seeds], tuple[Any, _Seen]],
    blocks: Blocks,
    grid: NoiseGrid,
    batch: Batch,
    seeds: Seeds,
) -> tuple[Any, _Seen]:
    """The clipped sum over a batch: whole blocks up to its expected size, then chunks while there is more.

    Room for the largest draw would make every step pay for what happens once in a million; a chunk
    is paid for when it is needed. Neither are blocks worked on that hold nobody.
    """
    count = batch.drawn

    def at(start: jax.Array | int, size: int) -> tuple[Any, _Seen]:
        rows = batch._replace(end=None)
        total, seen = block(*jax.tree.map(lambda leaf: _slice(leaf, start, size), (rows, seeds)))
        return to_block_sum(total, grid), seen

    def add_until(end: jax.Array, size: int, carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        def more(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
            start, sums = carry
            more, seen = at(start, size)
            return start + size, (add_blocks(sums[0], more), trees.add(sums[1], seen))

        return jax.lax.while_loop(lambda carry: carry[0] < end, more, carry)

    certain = blocks.whole * blocks.main
    if blocks.whole == 1:
        sums = at(0, blocks.main)
    else:
        shapes = jax.eval_shape(lambda: at(0, blocks.main))
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        _, sums = add_until(jnp.minimum(count, certain), blocks.main, (jnp.int32(0), nothing))
    if certain < blocks.places:
        _, sums = add_until(count, blocks.chunk, (jnp.int32(certain), sums))
    return sums


def _slice(leaf: jax.Array, start: jax.Array | int, size: int) -> jax.Array:
    return jax.lax.dynamic_slice_in_dim(leaf, start, size)


def _expected_places(plan: Plan) -> int:
    """How many places a batch has on average: those of records, and empty ones that are drawn as well."""
    examples = plan.sampler.examples
    return -(-plan.sampler.batch_size * place_count(plan, examples) // examples)


class Blocks(NamedTuple):
    """How a batch is divided: `whole` blocks of size `main`, then chunks, up to `places` in all."""

    main: int
    whole: int
    chunk: int
    places: int

    @property
    def additions(self) -> int:
        """How many sums of blocks are added, at most."""
        return self.whole + (self.places - self.whole * self.main) // self.chunk

    @classmethod
    def of(cls, plan: Plan, microbatch: int | None = None, devices: int = 1) -> Blocks:
        """At most `microbatch` units at once; None for no limit. Each device has room for a whole batch."""
        expected = -(-min(_expected_places(plan), plan.sampler.capacity) // devices)
        whole = 1 if microbatch is None else -(-expected // microbatch)
        main = expected // whole
        # A Poisson draw is larger than expected by about the root of its size.
        chunk = min(main, max(-(-main // 16), math.isqrt(expected - 1) + 1))
        certain = whole * main
        return cls(main, whole, chunk, certain + -(-(plan.sampler.capacity - certain) // chunk) * chunk)

    def padded(self, batch: Tree) -> Tree:
        """The arrays of a batch with a place for every row of every block."""

        def filled(leaf: jax.Array) -> jax.Array:
            extra = self.places - leaf.shape[0]
            return jnp.pad(leaf, [(0, extra)] + [(0, 0)] * (leaf.ndim - 1)) if extra > 0 else leaf

        return jax.tree.map(lambda leaf: filled(leaf) if jnp.ndim(leaf) else leaf, batch)


def _next_norm(plan: Plan, max_norm: Float[Array, ""], seen: _Seen, key: Key[Array, ""]) -> Float[Array, ""]:
    """The norm for the next step, from a noisy count of who was below this one's."""
    adaptive = plan.adaptive
    if adaptive is None:
        return max_norm
    # An example adds 1 if it was below and takes 1 away if not: a whole number, whose noise is whole as well.
    multiple = multiple_for(adaptive.noise_multiplier)
    parts = math.floor(floor_deviation(multiple) / adaptive.noise_multiplier)  # of 1 that noise is counted in
    parts = min(parts, _LARGEST // plan.sampler.capacity)
    if not parts >= 1:
        raise InvalidArgument(
            f"An adaptive norm counts up to {plan.sampler.capacity} examples, too many beside its noise.",
            remedy="Use smaller batches, or leave out adaptive.",
        )
    noise = whole_normals(jax.random.fold_in(key, _COUNT), 1, multiple=multiple)[0]
    noisy = (2 * seen.below - seen.size) * parts + noise
    share = noisy.astype(jnp.float32) / (2 * parts * plan.sampler.batch_size) + 0.5
    return max_norm * jnp.exp(-adaptive.rate * (jnp.clip(share, 0.0, 1.0) - adaptive.quantile))
