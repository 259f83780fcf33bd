"""A small loss for every rule by which gradients are measured, and records whose terms cancel in it.

A model's own records may never make two huge terms meet. So each rule that it uses is tried with a loss made
for that: products of a record's numbers that cancel exactly, as long as nobody rounds them differently.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from reticent.audit.strange_records import Strange
from reticent.core.trees import ArrayTree
from reticent.training.gradients import LossFunction, Strategy

_ORDINARY, _CANCELLING = 32, 8
_SIZES = (1e3, 1e8, 1e18)

ProbeRows = dict[str, np.ndarray]


class Probe(NamedTuple):
    """A loss that one rule is used for, ordinary rows, and records that are not.

    Args:
        scalable: a record whose gradient grows as it does, for sums of any height.
    """

    loss: LossFunction
    params: Any
    data: ProbeRows
    records: list[Strange]
    scalable: Strange | None = None
    strategy: Strategy = "auto"


def probe_for(rule: str, rng: np.random.Generator) -> Probe | None:
    """The probe for a rule; None for a rule that measures nothing."""
    makers: dict[str, Callable[[np.random.Generator], Probe]] = {
        "explicit": lambda rng: _scalars(rng, "auto"),
        "vmap": lambda rng: _scalars(rng, "vmap"),
        "outer": lambda rng: _dense(rng, length=1),
        "product": lambda rng: _dense(rng, length=8),
        "gram": _wide,
        "rows": _rows,
        "bag": _bag,
    }
    return makers[rule](rng) if rule in makers else None


def _scalars(rng: np.random.Generator, strategy: Strategy) -> Probe:
    def loss(params: ArrayTree, e: Any) -> Any:
        x, u, v = e["x"], params["u"], params["v"]
        cancelling = (
            jnp.sum(u * x[4] * x[6]) - jnp.sum(u * x[0] * x[2]) + jnp.sum(u * x[3] * x[2])
            - jnp.sum(u * x[7] * x[6]) + jnp.sum(v * x[3] * x[2]) - jnp.sum(v * x[7] * x[6])
        )  # fmt: skip
        return cancelling + jnp.sum(params["w"] * e["c"])

    shapes = {"x": (8,), "c": (4,)}
    records = _strange(shapes, rng, lambda values: {"x": _twice(values["x"]), "c": 0 * values["c"]})
    params = {"u": jnp.full(2, 0.7), "v": jnp.full(2, 0.7), "w": jnp.zeros(4)}
    return Probe(loss, params, _ordinary(shapes, rng), records, _scalable(shapes), strategy)


def _dense(rng: np.random.Generator, length: int) -> Probe:
    """Two dense layers whose inputs cancel and share terms; on a sequence, its positions cancel too."""
    shape = (length,) if length > 1 else ()

    def loss(params: ArrayTree, e: Any) -> Any:
        x = [e["x"][..., at, :] for at in range(8)]
        shared = x[3] * x[2] - x[7] * x[6]
        whole = x[4] * x[6] - x[0] * x[2] + x[3] * x[2] - x[7] * x[6]
        return jnp.sum(e["a"] * ((whole + e["c"]) @ params["w"])) + jnp.sum(e["a"] * (shared @ params["v"]))

    def cancelling(values: ProbeRows) -> ProbeRows:
        first = values["x"][..., :4, :]
        sign = np.where(np.arange(length) % 2, -1, 1).astype(np.float32)[:, None]
        return {
            "x": np.concatenate([first, first], axis=-2),
            "a": np.ones_like(values["a"]) * (sign if length > 1 else 1),
            "c": 0 * values["c"],
        }

    shapes = {"x": (*shape, 8, 9), "a": (*shape, 9), "c": (*shape, 9)}
    params, records = {"w": jnp.zeros((9, 9)), "v": jnp.zeros((9, 9))}, _strange(shapes, rng, cancelling)
    return Probe(loss, params, _ordinary(shapes, rng), records, _scalable(shapes))


def _wide(rng: np.random.Generator) -> Probe:
    """A wide layer on two positions that nearly cancel."""

    def loss(params: ArrayTree, e: Any) -> Any:
        return jnp.sum(e["c"] * (e["x"] @ params["w"]))

    def cancelling(values: ProbeRows) -> ProbeRows:
        level, off = rng.uniform(1, 2), 10 ** rng.uniform(-4, -1.3)
        c = np.ones_like(values["c"]) * np.array([level, off - level], np.float32)[None, :, None]
        return {"c": c * np.abs(values["x"][0, 0, 0]), "x": np.ones_like(values["x"])}

    shapes = {"c": (2, 2048), "x": (2, 2)}
    records = _strange(shapes, rng, cancelling, sizes=(1.0, 1e3, 1e8))
    return Probe(loss, {"w": jnp.zeros((2, 2048))}, _ordinary(shapes, rng), records)


def _rows(rng: np.random.Generator) -> Probe:
    """One row of a table, looked up twice, whose two derivatives cancel."""
    return _lookups(rng, lambda params, e: jnp.sum(e["c"][:, None] * jnp.sin(params["e"][e["ids"]])))


def _bag(rng: np.random.Generator) -> Probe:
    return _lookups(rng, lambda params, e: jnp.sum(e["c"] @ params["e"][e["ids"]]))


def _lookups(rng: np.random.Generator, loss: LossFunction) -> Probe:
    def with_ids(values: ProbeRows, ids: np.ndarray) -> ProbeRows:
        return {**values, "ids": ids.astype(np.int32)}

    def cancelling(values: ProbeRows) -> ProbeRows:
        opposite = values["c"][:, :1] * np.array([1, -1], np.float32)
        return with_ids({"c": opposite}, np.zeros((1, 2)))

    data = with_ids(_ordinary({"c": (2,)}, rng), rng.integers(0, 2, (_ORDINARY, 2)))
    return Probe(loss, {"e": jnp.zeros((5, 4))}, data, _strange({"c": (2,)}, rng, cancelling))


def _ordinary(shapes: dict[str, tuple[int, ...]], rng: np.random.Generator) -> ProbeRows:
    return {key: rng.uniform(1, 2, (_ORDINARY, *shape)).astype(np.float32) for key, shape in shapes.items()}


def _strange(
    shapes: dict[str, tuple[int, ...]],
    rng: np.random.Generator,
    cancelling: Callable[[ProbeRows], ProbeRows],
    sizes: tuple[float, ...] = _SIZES,
) -> list[Strange]:
    found = []
    for size in sizes:
        for _ in range(_CANCELLING):
            values = {
                key: (size * rng.uniform(1, 2, (1, *shape))).astype(np.float32)
                for key, shape in shapes.items()
            }
            found.append(Strange(f"cancelling numbers of {size:.0e}", cancelling(values)))
    return found


def _scalable(shapes: dict[str, tuple[int, ...]]) -> Strange:
    """What cancels is zero, and the rest are ones."""
    ones = {key: np.full((1, *shape), float(key != "x"), np.float32) for key, shape in shapes.items()}
    return Strange("a record of ones", ones)


def _twice(values: np.ndarray) -> np.ndarray:
    """The first half of each row, and the same again."""
    first, _ = np.split(values, 2, axis=-1)
    return np.concatenate([first, first], axis=-1)
