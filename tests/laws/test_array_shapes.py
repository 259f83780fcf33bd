"""Shapes in signatures are true: what a function takes and returns has them, and other arrays are refused."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError
from shapes import check_shapes, has_shapes

from reticent.attacks.membership import likelihood, population, relative
from reticent.attacks.membership import threshold as thresholds
from reticent.attacks.metrics import per_record
from reticent.core import keys, whole_normals, words
from reticent.core.generators import generator_of
from reticent.mechanisms.response import estimate_shares
from reticent.models import layers
from reticent.pate import divergence
from reticent.synthetic.quality import utility
from reticent.synthetic.tables.codes import check_codes
from reticent.synthetic.tables.marginals import count
from reticent.training.clipping import Clipping, flat
from reticent.training.gradients import (
    GradientSum,
    clipped_gradient_sum,
    lookups,
    products,
    rules,
    totals,
)

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(0)
FLOATS, GRID = jnp.ones, totals.grid_for(8)


@cache
def key() -> jax.Array:
    return keys.Keys.seeded(0).take(keys.Stream.NOISE)


LOOK_UP: Any = SimpleNamespace(count=4)  # rows of a table: all that its places depend on
SHADOWS, HALVES = RNG.normal(size=(8, 30)), np.arange(8)[:, None] % 2 == np.arange(30) % 2
LABELS, CODES = np.arange(30) % 3, RNG.integers(0, 3, (20, 2)).astype(np.int32)
COUNTS, ORDERS, LOGS = np.array([[8, 2, 0], [5, 4, 1]]), np.array([2.0, 8.0]), np.array([-9.0, -1.0])

# Functions whose signatures have shapes, and arguments to call each with.
CALLS: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (keys.step_key, lambda: (key(), 3)),
    (keys.leaf_keys, lambda: (key(), {"w": 0, "b": 0})),
    (generator_of, lambda: (key(),)),
    (words.key_words, lambda: (key(),)),
    (words.words_from, lambda: (words.key_words(key()), 0, 64, 1)),
    (words.words_at, lambda: (words.key_words(key()), jnp.zeros((3, 2), jnp.uint32), 1)),
    (words.threefry, lambda: (words.key_words(key()), (jnp.zeros(2, jnp.uint32),) * 4)),
    (whole_normals.dither, lambda: (key(), 5)),
    (estimate_shares, lambda: (jnp.array([0, 1, 1]), _response())),
    (Clipping.factor, lambda: (flat(1.0), FLOATS(4), 1.0)),
    (lookups.meeting_places, lambda: (LOOK_UP, jnp.array([[0, 2, 0], [1, 1, 3]]))),
    (totals.sum_of_squares, lambda: (FLOATS((4, 3, 2)), jnp.ones(4, bool))),
    (totals.whole, lambda: (FLOATS((4, 3)), FLOATS((4, 1)))),
    (totals.whole_total, lambda: (FLOATS((4, 3, 2)), FLOATS(4))),
    (totals.whole_products, lambda: (FLOATS((4, 1, 5, 2)), FLOATS((4, 1, 5, 3)), FLOATS(4))),
    (totals.chunked_product, lambda: (FLOATS((1, 8, 2)), FLOATS((1, 8, 3)), GRID)),
    (rules.weighted, lambda: (FLOATS((4, 3)), FLOATS(4))),
    (rules.cleared, lambda: (FLOATS((4, 3)), FLOATS(4))),
    (products.multiply, lambda: (FLOATS((1, 5, 2)), FLOATS((1, 5, 3)))),
    (GradientSum.__call__, lambda: (_gradient_sum(), FLOATS(3), FLOATS((4, 3)), jnp.ones(4, bool))),
    (layers.dense, lambda: ({"w": FLOATS((3, 2)), "b": FLOATS(2)}, FLOATS(3))),
    (layers.max_pool, lambda: (FLOATS((4, 4, 1)), 2, 2)),
    (layers.normalise_groups, lambda: (FLOATS((4, 4, 2)), 1)),
    (likelihood.lira, lambda: (SHADOWS[0], SHADOWS, HALVES)),
    (likelihood.lira_offline, lambda: (SHADOWS[0], SHADOWS, HALVES)),
    (relative.online, lambda: (-1 - abs(SHADOWS[0]), -1 - abs(SHADOWS), HALVES)),
    (relative.offline, lambda: (-1 - abs(SHADOWS[0]), -1 - abs(SHADOWS), HALVES)),
    (population.deviations_above, lambda: (SHADOWS[0], LABELS, SHADOWS[1], LABELS)),
    (thresholds.from_shadows, lambda: (SHADOWS, HALVES)),
    (per_record, lambda: (SHADOWS, HALVES)),
    (divergence.log_wrong_gaussian, lambda: (COUNTS, 2.0)),
    (divergence.log_wrong_laplace, lambda: (COUNTS, 2.0)),
    (divergence.log_pass_probability, lambda: (COUNTS, 6.0, 2.0)),
    (divergence.gaussian_max, lambda: (LOGS, 2.0, ORDERS)),
    (divergence.gaussian_check, lambda: (LOGS, 2.0, ORDERS)),
    (divergence.pure_dp, lambda: (LOGS, 0.1, ORDERS)),
    (count, lambda: (CODES, (0, 1), (3, 3))),
    (check_codes, lambda: (CODES, (3, 3))),
    (utility.distances, lambda: (CODES, CODES[::2], (3, 3))),
    (utility.one_hot, lambda: (CODES, (3, 3))),
    (utility.total_variation, lambda: (np.ones((2, 3)), np.ones((2, 3)))),
]
# Called by the example of another function of their module.
INSIDE = {
    "reticent.mechanisms.gaussian.round_by_chance": "add_gaussian_noise",
    "reticent.mechanisms.whole.require_finite": "to_grid",
    "reticent.models.whitening.unit_rows": "whitening",
}
each_call = pytest.mark.parametrize(
    ("function", "arguments"), CALLS, ids=[f"{part.__module__}.{part.__name__}" for part, _ in CALLS]
)


def _response() -> Any:
    from reticent.mechanisms.events import RandomizedResponse

    return RandomizedResponse(truth=0.75)


@cache
def _gradient_sum() -> GradientSum:
    return clipped_gradient_sum(lambda w, x: w @ x, max_norm=1.0)


@each_call
def test_a_function_takes_and_returns_the_shapes_in_its_signature(function: Any, arguments: Any):
    check_shapes(function)(*arguments())


@each_call
def test_an_array_with_an_axis_more_is_refused(function: Any, arguments: Any):
    for place, name in enumerate(inspect.signature(function).parameters):
        shape = function.__annotations__.get(name, "")
        is_open = "..." in shape or "*" in shape  # to any number of axes
        if place < len(arguments()) and not is_open and re.search(r"\b(Array|ndarray), ", shape):
            wrong = list(arguments())
            wrong[place] = wrong[place][None]
            with pytest.raises(TypeCheckError):
                check_shapes(function)(*wrong)


def test_axes_of_one_name_have_one_length():
    with pytest.raises(TypeCheckError):
        check_shapes(likelihood.lira)(SHADOWS[0, :-1], SHADOWS, HALVES)
    with pytest.raises(TypeCheckError):
        check_shapes(totals.whole_total)(FLOATS((4, 3)), FLOATS(5))


def test_a_result_of_another_shape_is_noticed():
    def mean(rows: Float[np.ndarray, "rows features"]) -> Float[np.ndarray, " features"]:
        return rows.mean(axis=1)

    with pytest.raises(TypeCheckError):
        check_shapes(mean)(np.ones((2, 3)))


def test_every_signature_with_shapes_is_tried():
    """Here, or by the example in its docstring, which `test_snippets` runs with its shapes checked."""
    tried = {f"{function.__module__}.{function.__qualname__}" for function, _ in CALLS}
    silent = []
    for path in sorted((ROOT / "reticent").rglob("*.py")):
        if "from jaxtyping import" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        module = importlib.import_module(name)
        for value in vars(module).values():
            if not has_shapes(value) or value.__module__ != name or value.__name__.startswith("_"):
                continue
            full = f"{name}.{value.__qualname__}"
            if ">>> " not in (value.__doc__ or "") and full not in tried | INSIDE.keys():
                silent.append(full)
    assert not silent, silent
