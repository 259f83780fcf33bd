"""Trains many shadow models at once, on random halves of the records, and keeps their outputs.

A recipe is a function (key, x, y, mask) -> params that trains one model on the rows where the mask is
True. It is vectorised over keys and masks, so all its randomness has to come from its key. Keys here are
of the threefry kind: under `vmap` XLA draws for all keys of the `rbg` kind from the first one, and every
model would get the same noise. Where there are several devices, each trains some of the models.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.attacks.shadows.outputs import Shadows, balanced_halves
from reticent.attacks.shadows.pace import Chunk, Clock, Progress, Sizes
from reticent.attacks.shadows.recipes import DisturbTraced, ShadowRecipe
from reticent.core import checks
from reticent.core.errors import DataError, InvalidArgument
from reticent.core.trees import ArrayTree
from reticent.distributed import collectives
from reticent.distributed.consensus import by_first
from reticent.distributed.spread import Spread

ApplyModel = Callable[[Any, jax.Array], jax.Array]

_ROWS_AT_ONCE = 2048
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True, kw_only=True)
class Queries:
    """Disturbed copies of every record, asked of every model for the label-only attack.

    Args:
        disturb: of a key and one record, the record a little changed: `flip_bits`, `add_noise`, or an
            augmentation of your own.

    Example:
        >>> from reticent.attacks.shadows.recipes import add_noise
        >>> Queries(disturb=add_noise(0.1), copies=4).copies
        4
    """

    disturb: DisturbTraced = field(repr=False)
    copies: int = 16

    def __post_init__(self) -> None:
        checks.count(copies=self.copies)


def train_shadows(
    recipe: ShadowRecipe,
    predict: ApplyModel,
    data: Mapping[str, Any],
    *,
    shadows: int = 64,
    seed: int = 0,
    always: Mapping[str, Any] | None = None,
    queries: Queries | None = None,
    chunk: Chunk = "auto",
    minutes: float | None = None,
    cache: Path | None = None,
    name: str = "",
    on_progress: Callable[[Progress], None] | None = None,
) -> Shadows:
    """Trains shadow models with one recipe and asks each about every record.

    Args:
        recipe: trains one model; see the module. Make it the target's own, with its noise and set size.
        predict: from parameters and ONE record, the logits.
        data: `x` and `y` of the records to play with; every model is trained on half of them.
        always: `x` and `y` of more records that every model is trained on, so that set sizes match.
        chunk: how many models are vectorised, at least one on each device; `auto` tries sizes while that
            pays. 1 trains one by one.
        minutes: stops before a chunk that would end later; what was trained comes back.
        cache: a .npz file. Models in it are not trained again; new ones are added chunk by chunk. Several
            processes need one that all of them see.
        name: tells apart recipes that the cache cannot: it knows the traced program and its constants.
        on_progress: called after each chunk, first after the smallest, with an estimate of the time left.

    Guarantee:
        Every record is in exactly half of the models. Model m depends on the seed and on m, not on how many
        are trained; in another chunk, and on more devices, it is the same up to rounding.

    Raises:
        DataError, InvalidArgument: the data, the number of models or the cache do not fit.
    """
    rows, labels, audited = join_records(data, always)
    x, y = jnp.asarray(rows), jnp.asarray(labels)
    spread = Spread()
    matrix = balanced_halves(audited, shadows, seed=seed)
    trainer = _Trainer(recipe, predict, x, y, audited, seed, queries, spread, one_by_one=chunk == 1)
    fingerprint = "" if cache is None else trainer.fingerprint(name)
    found = _load_cache(cache, fingerprint)
    _require_same_cache(cache, found)
    if found is not None and found.models >= shadows:
        return found.first(shadows)
    clock = Clock(minutes, shadows, on_progress)
    sizes = Sizes(chunk, devices=spread.count)
    done = 0 if found is None else found.models
    while done < shadows:
        size = trainer.size_for(sizes.next(), left=shadows - done)
        if clock.is_over(size):
            break
        rows = np.arange(done, min(done + size, shadows))
        seconds, logits, robustness = trainer.train(rows, matrix[rows], size)
        fresh = Shadows(
            logits=logits,
            is_member=matrix[rows],
            labels=np.asarray(y[:audited]),
            robustness=robustness,
            fingerprint=fingerprint,
        )
        found = fresh if found is None else found.and_more(fresh)
        done = found.models
        sizes.note(size, seconds / size, trainer.compile_seconds, (shadows - done) * seconds / size)
        clock.note(done, seconds / size)
        if cache is not None:
            by_first(partial(found.save, cache))
    if found is None:
        raise InvalidArgument(
            f"{minutes} minutes are too short for two shadow models.", remedy="Allow more minutes."
        )
    return found


class _Trainer:
    """Compiles the training of some models at once, and runs it."""

    def __init__(
        self,
        recipe: ShadowRecipe,
        predict: ApplyModel,
        x: jax.Array,
        y: jax.Array,
        audited: int,
        seed: int,
        queries: Queries | None,
        spread: Spread,
        *,
        one_by_one: bool,
    ) -> None:
        self._x, self._y = spread.replicate((x, y))
        self._audited, self._seed, self._spread = audited, seed, spread
        self._models_key, self._copies_key = jax.random.split(jax.random.key(seed, impl="threefry2x32"))
        self._one = self._one_model(recipe, predict, queries)
        self._is_vectorised = not one_by_one
        self._compiled: dict[int, Any] = {}
        self.compile_seconds = 0.0

    def train(
        self, models: np.ndarray, masks: np.ndarray, size: int
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        """Seconds, logits (models, records, classes) and robustness (models, records) of these models.

        Fewer than `size` are filled up with the first: that is cheaper than to compile again.
        """
        count, fill = len(models), np.zeros(size - len(models), int)
        models, masks = np.append(models, models[fill]), np.concatenate([masks, masks[fill]])
        keys = jax.vmap(lambda model: jax.random.fold_in(self._models_key, model))(jnp.asarray(models))
        extra = len(self._y) - self._audited
        wide = jnp.asarray(np.pad(masks, ((0, 0), (0, extra)), constant_values=True))
        arguments = (*self._spread.place((keys, wide)), self._x, self._y)
        run = self._compiled.get(size) or self._compile(size, arguments)
        started = time.perf_counter()
        answers = jax.block_until_ready(run(*arguments))
        seconds = _slowest_seconds(time.perf_counter() - started)
        logits, robustness = self._spread.gather(answers)
        return seconds, logits[:count], None if robustness is None else robustness[:count]

    def fingerprint(self, name: str) -> str:
        """The fingerprint of what is computed, not of the devices that compute it."""
        mask = jax.ShapeDtypeStruct(self._y.shape, jnp.bool_)
        x, y = (jax.ShapeDtypeStruct(array.shape, array.dtype) for array in (self._x, self._y))
        traced = jax.make_jaxpr(self._one)(self._models_key, mask, x, y)
        return _fingerprint(str(traced.jaxpr), traced.consts, self._x, self._y, self._seed, name)

    def size_for(self, size: int, *, left: int) -> int:
        """No more than are left, unless a chunk of that size is compiled already and can be filled up."""
        return size if size in self._compiled else min(size, self._spread.room_for(left))

    def _compile(self, size: int, arguments: tuple[jax.Array, ...]) -> Any:
        started = time.perf_counter()
        try:
            lowered = self._program().lower(*arguments)
        except NotImplementedError:  # a primitive that has no rule to vectorise it
            if not self._is_vectorised:
                raise
            self._is_vectorised = False
            lowered = self._program().lower(*arguments)
        self._compiled[size] = lowered.compile()
        self.compile_seconds = _slowest_seconds(time.perf_counter() - started)
        return self._compiled[size]

    def _program(self) -> Any:
        return jax.jit(self._spread.divide(self._many(), shared=2))

    def _many(self) -> Callable[..., Any]:
        if self._is_vectorised:
            return jax.vmap(self._one, in_axes=(0, 0, None, None))
        return lambda keys, masks, x, y: jax.lax.map(lambda pair: self._one(*pair, x, y), (keys, masks))

    def _one_model(
        self, recipe: ShadowRecipe, predict: ApplyModel, queries: Queries | None
    ) -> Callable[..., Any]:
        audited, root = self._audited, self._copies_key

        def ask(params: ArrayTree, x: jax.Array) -> jax.Array:
            rows = min(_ROWS_AT_ONCE, audited)
            return jax.lax.map(lambda record: predict(params, record), x, batch_size=rows)

        def one(key: jax.Array, mask: jax.Array, x: jax.Array, y: jax.Array) -> Any:
            params = recipe(key, x, y, mask)
            x, y = x[:audited], y[:audited]
            logits = ask(params, x).astype(jnp.float32)
            return logits, None if queries is None else robustness_of(params, x, y, queries)

        def robustness_of(params: ArrayTree, x: jax.Array, y: jax.Array, queries: Queries) -> jax.Array:
            def count_right(right: jax.Array, copy: jax.Array) -> tuple[jax.Array, None]:
                keys = jax.random.split(jax.random.fold_in(root, copy), audited)  # the same for all models
                copies = jax.vmap(queries.disturb)(keys, x)
                return right + (jnp.argmax(ask(params, copies), axis=-1) == y), None

            nobody = jnp.zeros(audited, jnp.float32)
            right, _ = jax.lax.scan(count_right, nobody, jnp.arange(queries.copies))
            return right / queries.copies

        return one


def _slowest_seconds(seconds: float) -> float:
    """What all processes take the time for, so that they choose the same chunk next."""
    return float(collectives.gather_arrays(seconds).max())


def join_records(
    data: Mapping[str, Any], always: Mapping[str, Any] | None
) -> tuple[np.ndarray, np.ndarray, int]:
    """Joins all records, those to attack first; also returns the number of these."""
    parts = [data] if always is None else [data, always]
    for part in parts:
        if "x" not in part or "y" not in part or len(part["x"]) != len(part["y"]):
            raise DataError(
                "Shadow models need `x` and `y` with as many rows.", remedy='Pass {"x": ..., "y": ...}.'
            )
    x = np.concatenate([np.asarray(part["x"]) for part in parts])
    y = np.concatenate([np.asarray(part["y"]) for part in parts])
    return x, y, len(data["y"])


def _load_cache(cache: Path | None, fingerprint: str) -> Shadows | None:
    if cache is None or not cache.exists():
        return None
    found = Shadows.load(cache)
    if found.fingerprint != fingerprint:
        raise DataError(
            f"{cache} holds shadow models of another recipe, other data or another seed.",
            remedy="Name another file, or delete this one.",
        )
    return found


def _require_same_cache(cache: Path | None, found: Shadows | None) -> None:
    if (
        cache is not None
        and len(set(collectives.gather_arrays(0 if found is None else found.models).tolist())) > 1
    ):
        raise DataError(
            f"Not all processes see the same shadow models in {cache}.",
            remedy="Name a file on a disk that all of them share.",
        )


def _fingerprint(program: str, constants: list[Any], x: jax.Array, y: jax.Array, seed: int, name: str) -> str:
    """The digest of the traced recipe and queries, the records and the seed, without addresses in memory."""
    text = f"{name}|{seed}|{x.shape}|{_ADDRESS.sub('', program)}"
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for array in (*constants, x, y):
        is_key = isinstance(array, jax.Array) and jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
        digest.update(np.asarray(jax.random.key_data(array) if is_key else array).tobytes())
    return digest.hexdigest()
