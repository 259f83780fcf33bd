"""What a compiled call of many steps is fed with: data that lie on the device, or the next rows from disk.

Both give every step the same batch: it is drawn by the same function from the same key.

    resident    all rows are on the device; a batch is drawn and looked up inside the compiled call
    streamed    rows stay on disk or in a source; the batches of the next few steps are drawn first, their
                rows read by another thread while the device works, and handed over as a window
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from reticent.core.errors import DataError, InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.data.dataset import Dataset
from reticent.data.disk_rows import DiskRows
from reticent.data.sampling import Batch, Sampler, Shuffled, places_among
from reticent.distributed import collectives
from reticent.distributed.consensus import by_all
from reticent.training.contributions import DeviceRows
from reticent.training.devices.mesh import Held, Layout, Range, brought, held_source, own_part, without_empty
from reticent.training.places import Places, in_order, places_for
from reticent.training.plan import Plan
from reticent.training.step import Roots, Step, TrainState, Unreleased

ManySteps = Callable[..., tuple[TrainState, Unreleased]]

MOST_STEPS = 64  # in one compiled call; a progress bar moves after each
BUFFER = 2**28  # bytes
_MOST_PLACES = 2**20  # of all batches of one call, where that is more than an epoch
_WINDOWS = 3  # one that the device works on, a copy of it, and the next one


class Feed(Protocol):
    """Where the rows of a run come from."""

    @property
    def units(self) -> int:
        """How many units there are, over all processes."""
        ...

    @property
    def steps_at_once(self) -> int: ...

    def many(self, step: Step) -> ManySteps:
        """The steps of one call, to be compiled: of (state, what was served, stop, roots)."""
        ...

    @property
    def shape(self) -> Hashable:
        """What the steps of a call depend on, besides the step and the plan."""
        ...

    def serve(self, steps: range, then: range) -> tuple[Any, Roots]:
        """What a call that takes these steps is given; `then` are the steps of the call after it."""
        ...

    def close(self) -> None: ...


def feed_for(
    dataset: Dataset,
    plan: Plan,
    layout: Layout,
    keys: Keys,
    buffer: int,
    order: str | None = None,
    at_once: int | None = None,
) -> Feed:
    """The rows on the device, unless they lie elsewhere and are more than the buffer holds.

    Processes whose shards differ in size do alike: rows of all stay where they are if those of one do.

    Args:
        order: names a run that may be resumed with other keys. It then decides the order of shuffled rows,
            which is not a secret; new keys within an epoch would take some records twice.
        at_once: the most steps in one call, if somebody wants to hear after so many; by default, at most an
            epoch.
    """
    at_once = _most_steps(plan, at_once)
    drawing = _Drawing(keys, order if isinstance(plan.sampler, Shuffled) else None)
    stays = dataset.is_elsewhere and dataset.nbytes > buffer
    if collectives.gather_arrays(stays).any():
        return _Streamed(dataset, plan, layout, drawing, buffer, at_once)
    return _Resident(by_all(dataset.load), plan, layout, drawing, at_once)


def _steps_per_epoch(plan: Plan) -> int:
    return -(-plan.sampler.examples // plan.sampler.batch_size)


def _most_steps(plan: Plan, at_once: int | None) -> int:
    most = _steps_per_epoch(plan)
    if at_once is not None:
        most = min(at_once, max(most, _MOST_PLACES // plan.sampler.capacity))
    return max(min(MOST_STEPS, most, plan.steps), 1)


class _Drawing(NamedTuple):
    """The randomness of a run's steps, as plain numbers that may go to any device."""

    keys: Keys
    order: str | None

    def sampling(self, steps: range) -> np.ndarray:
        root = self._taken(Stream.SAMPLING, steps)
        if self.order is None:
            return root
        digest = hashlib.blake2b(self.order.encode(), digest_size=root.nbytes, person=b"reticent order")
        return np.frombuffer(digest.digest(), root.dtype)

    def places(self, plan: Plan, units: int) -> Places:
        """Where the units of this process lie. Of several processes, each has them in the order they came."""
        if collectives.count() > 1:
            return in_order(units)
        return places_for(plan, units, self.keys.place_key())

    def noise(self, steps: range) -> np.ndarray:
        return self._taken(Stream.NOISE, steps)

    def views(self, steps: range) -> np.ndarray:
        return self._taken(Stream.VIEWS, steps)

    def loss(self, steps: range) -> np.ndarray:
        return self._taken(Stream.LOSS, steps)

    def _taken(self, stream: Stream, steps: range) -> np.ndarray:
        return np.asarray(jax.random.key_data(self.keys.take(stream, steps=steps)))


def _as_keys(roots: Roots) -> Roots:
    keys = (root if root is None else jax.random.wrap_key_data(root, impl="rbg") for root in roots[:-1])
    return Roots(*keys, amounts=roots.amounts)  # type: ignore[arg-type]


def _scanned(
    step: Step,
    state: TrainState,
    stop: jax.Array,
    roots: Roots,
    xs: Any,
    source_and_batch: Callable[[Any], tuple[DeviceRows, Batch]],
) -> tuple[TrainState, Unreleased]:
    """Steps from `stop` on are skipped, so that one shape serves all."""

    def taken(state: TrainState, source: DeviceRows, batch: Batch) -> tuple[TrainState, Unreleased]:
        return step(state, source, batch, roots)

    def one(state: TrainState, x: Any) -> tuple[TrainState, Unreleased]:
        nothing = Unreleased(jnp.float32(0), jnp.float32(0), jnp.int32(0), jnp.int32(0))
        return jax.lax.cond(
            state.step < stop,
            lambda now: taken(now, *source_and_batch(x)),
            lambda now: (now, nothing),
            state,
        )

    return jax.lax.scan(one, state, xs)


class _Resident:
    """All rows are on the device, or on the devices."""

    def __init__(self, dataset: Dataset, plan: Plan, layout: Layout, drawing: _Drawing, at_once: int) -> None:
        self._plan, self._drawing = plan, drawing
        given = brought(layout, dataset, plan)
        places = drawing.places(plan, given.own)
        self.units = given.units
        self._places = _all_places(layout, places.total)
        self._held = held_source(layout, dataset, given, places)
        self.steps_at_once = at_once

    def many(self, step: Step) -> ManySteps:
        return _resident_steps(step, self._plan.sampler, self._places, self.steps_at_once)

    @property
    def shape(self) -> Hashable:
        return "resident", self._places, self.steps_at_once

    def serve(self, steps: range, then: range) -> tuple[Any, Roots]:
        draw = self._drawing
        roots = draw.sampling(steps), draw.noise(steps), draw.views(steps), draw.loss(steps)
        return self._held, Roots(*roots)  # type: ignore[arg-type]

    def close(self) -> None:
        pass


def _resident_steps(step: Step, sampler: Sampler, places: int, count: int) -> ManySteps:
    """The steps of one call. They hold no data, so that they can be kept for another run."""

    def steps(state: TrainState, held: DeviceRows | Held, stop: jax.Array, raw: Roots) -> Any:
        roots = _as_keys(raw)
        drawn = sampler.draw(roots.sampling, state.step + jnp.arange(count, dtype=jnp.int32), places)

        def source_and_batch(batch: Batch) -> tuple[DeviceRows, Batch]:
            source = held.source if isinstance(held, Held) else held
            own = own_part(batch, held.range) if isinstance(held, Held) else batch
            return source, without_empty(own, source.is_taken)

        return _scanned(step, state, stop, roots, drawn, source_and_batch)

    return steps


class Window(NamedTuple):
    """The batches of some steps with their rows: a batch's index is the place of a row in its step."""

    rows: dict[str, Any]  # (steps, places, ...)
    batch: Batch  # (steps, places)


class _Streamed:
    """Rows stay on disk. Memory: three windows of rows, whatever the size of the files.

    Raises:
        InvalidArgument: the rows belong to users, or one step alone needs more than the buffer.
    """

    def __init__(
        self, dataset: Dataset, plan: Plan, layout: Layout, drawing: _Drawing, buffer: int, at_once: int
    ) -> None:
        if dataset.unit != plan.unit or plan.unit != "record":
            raise InvalidArgument(
                "Rows that stay on disk are records of their own, and these belong to users.",
                remedy="Load them into memory first, for example with numpy.asarray.",
            )
        self._plan, self._layout, self._drawing = plan, layout, drawing
        self._like: Mapping[str, np.ndarray] = {key: dataset[key] for key in dataset}
        self.units = brought(layout, dataset, plan).units
        places = drawing.places(plan, len(dataset))
        self._unit_at = places.unit_at()  # four bytes a place
        self._own = _own_ranges(layout, places.total)
        self._start = self._own[0].low
        self._all = _all_places(layout, places.total)
        self._places = _places(layout, plan, places.total)
        fitting = by_all(lambda: self._fitting(buffer, at_once))
        self.steps_at_once = int(collectives.gather_arrays(fitting).min())
        self._disk = by_all(lambda: DiskRows(self._like))
        self._draw = jax.jit(lambda root, numbers: plan.sampler.draw(root, numbers, self._all))
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="reticent-rows")
        self._next: tuple[range, Future[Any]] | None = None

    def _fitting(self, buffer: int, at_once: int) -> int:
        """How many steps a window has, so that all windows fit into the buffer."""
        a_row = sum(array.nbytes // max(len(array), 1) for array in self._like.values())
        a_step = _WINDOWS * a_row * self._places * len(self._own)
        if a_step > buffer:
            raise InvalidArgument(
                f"Rows of one step and the next take {a_step} bytes, and the buffer has {buffer}.",
                remedy="Pass a larger buffer, or a smaller batch_size.",
            )
        return min(at_once, buffer // max(a_step, 1))

    def many(self, step: Step) -> ManySteps:
        def steps(state: TrainState, window: Window, stop: jax.Array, raw: Roots) -> Any:
            return _scanned(
                step, state, stop, _as_keys(raw), window, lambda now: (DeviceRows(now.rows), now.batch)
            )

        return steps

    @property
    def shape(self) -> Hashable:
        return "streamed", self._places, self.steps_at_once

    def serve(self, steps: range, then: range) -> tuple[Any, Roots]:
        if self._next is None or self._next[0] != steps:
            self._next = (steps, self._reader.submit(self._window, steps))
        window = by_all(self._next[1].result)  # a file that one process cannot read stops all
        self._next = (then, self._reader.submit(self._window, then)) if len(then) else None
        draw = self._drawing
        noise, views, loss = draw.noise(steps), draw.views(steps), draw.loss(steps)
        placed = window[0] if self._layout.mesh is None else self._layout.in_pieces(window)
        return placed, Roots(np.zeros_like(noise), noise, views, loss)  # type: ignore[arg-type]

    def _window(self, steps: range) -> list[Window]:
        """The rows of these steps, for each device of this process."""
        root = jax.random.wrap_key_data(jnp.asarray(self._drawing.sampling(steps)), impl="rbg")
        numbers = steps.start + jnp.arange(self.steps_at_once, dtype=jnp.int32)
        drawn = self._draw(root, numbers)
        indices, is_real = np.asarray(drawn.indices), np.asarray(drawn.is_real).copy()
        is_real[len(steps) :] = False  # beyond the last step nothing is read
        return [self._rows_of(part, indices, is_real) for part in self._own]

    def _rows_of(self, part: Range, indices: np.ndarray, is_real: np.ndarray) -> Window:
        is_own = is_real & (indices >= part.low) & (indices < part.high)
        counts = is_own.sum(axis=1)
        if counts.max() > self._places:  # once in 1e25 draws
            raise DataError("A batch was drawn that does not fit.", remedy="Resume the run, or start again.")
        order = np.argsort(~is_own, axis=1, kind="stable").astype(np.int32)  # own places first, in order
        order = order[:, : self._places]
        rows = {
            key: np.zeros((*order.shape, *array.shape[1:]), array.dtype) for key, array in self._like.items()
        }
        slots = np.tile(np.arange(self._places, dtype=np.int32), (len(order), 1))
        is_real = slots < counts[:, None]
        for number, count in enumerate(counts.tolist()):
            wanted = self._unit_at[indices[number, order[number, :count]] - self._start]
            self._disk.take(np.maximum(wanted, 0), {key: array[number] for key, array in rows.items()})
            is_empty = wanted < 0
            is_real[number, :count] &= ~is_empty
            for array in rows.values():
                array[number, :count][is_empty] = 0
        places = None if self._layout.mesh is None else order
        return Window(rows, Batch(slots, is_real, places, counts.astype(np.int32)))  # type: ignore[arg-type]

    def close(self) -> None:
        self._reader.shutdown(wait=True, cancel_futures=True)
        self._disk.close()


def _own_ranges(layout: Layout, places: int) -> list[Range]:
    if layout.mesh is None:
        return [Range(0, places)]
    return layout.own_ranges(places)


def _places(layout: Layout, plan: Plan, places: int) -> int:
    """How many of a batch's places each device has room for."""
    if layout.mesh is None:
        return plan.sampler.capacity
    return places_among(plan.sampler, max(part.high - part.low for part in layout.ranges(places)))


def _all_places(layout: Layout, places: int) -> int:
    return places if layout.mesh is None else max(part.high for part in layout.ranges(places))
