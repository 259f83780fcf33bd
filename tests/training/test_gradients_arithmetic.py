"""The bound of an example's influence is true of the numbers that are computed, for the worst record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from reticent.core.errors import InvalidArgument
from reticent.mechanisms.gaussian import MOST_PARTS, Wide, add_whole_noise, carry, noise_grid, round_by_chance
from reticent.training.clipping import Clipping, automatic, flat, lipschitz, per_layer
from reticent.training.gradients import Strategy, bookkeeping, clipped_gradient_sum, vmapped
from reticent.training.gradients.choices import choices
from reticent.training.gradients.totals import (
    Grid,
    chunk_of,
    chunked_product,
    product_error,
    sum_of_squares,
    whole_products,
    whole_total,
)
from reticent.training.programs import quick_options

pytestmark = pytest.mark.usefixtures("compiled_as_shipped")

STRATEGIES: list[Strategy] = ["auto", "vmap"]
NORM = 1.0


def length(tree: Any) -> float:
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)]
    return float(np.linalg.norm(np.concatenate(leaves)))


def moved(function: Any, params: Any, batch: Any, hidden: int = 0) -> float:
    """How far one example moves the computed sum, the others being there."""
    rows = len(jax.tree.leaves(batch)[0])
    everybody = jnp.ones(rows, bool)
    totals = [function(params, batch, there)[0] for there in (everybody, everybody.at[hidden].set(False))]
    return length(jax.tree.map(lambda a, b: np.asarray(a, np.float64) - np.asarray(b, np.float64), *totals))


def cancelling(seed: int) -> tuple[Callable[[Any, Any], jax.Array], dict[str, jax.Array]]:
    """A random loss whose terms cancel exactly for records whose two halves are alike."""
    random = np.random.default_rng(seed)
    terms = [(name, *random.integers(0, 4, 2)) for name in ("u", "v", "u", "v") for _ in range(2)]
    swaps = random.integers(0, 2, len(terms))
    is_dense = bool(seed % 3 == 0)

    def loss(params: Any, example: Any) -> jax.Array:
        x, total = example["x"], jnp.float32(0)
        for (name, i, j), swap in zip(terms, swaps, strict=True):
            first, second = (i, j + 4) if swap else (i + 4, j)
            total += jnp.sum(params[name] * x[first] * x[second]) - jnp.sum(params[name] * x[i] * x[j])
        if is_dense:
            total += jnp.sum((x[:4] - x[4:]) @ params["w"]) + jnp.sum(
                (x[:4] * x[2] - x[4:] * x[6]) @ params["w"]
            )
        return total

    params = {"u": jnp.full(3, 0.7), "v": jnp.full(2, -0.3)}
    return loss, params | ({"w": jnp.full((4, 40), 0.1)} if is_dense else {})


def hostile(seed: int, rows: int = 8) -> dict[str, jax.Array]:
    random = np.random.default_rng(seed)
    half = (
        random.uniform(1, 2, (rows, 4))
        * np.where(np.arange(rows) == 0, 10.0 ** random.integers(4, 9), 1)[:, None]
    )
    return {"x": jnp.asarray(np.concatenate([half, half], axis=1), jnp.float32)}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_terms_that_cancel_are_clipped_as_they_are_summed(seed: int, strategy: Strategy) -> None:
    loss, params = cancelling(seed)
    function = jax.jit(clipped_gradient_sum(loss, max_norm=NORM, strategy=strategy))
    assert all(moved(function, params, hostile(seed * 10 + draw)) <= NORM for draw in range(4))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_quick_options_of_small_programs_clip_them_as_well(
    strategy: Strategy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XLA_FLAGS", raising=False)  # whoever sets some has no quick options
    loss, params = cancelling(4)
    summed = clipped_gradient_sum(loss, max_norm=NORM, strategy=strategy)
    function = jax.jit(summed, compiler_options=quick_options(1))
    assert all(moved(function, params, hostile(draw)) <= NORM for draw in range(100, 110))


def test_without_pinning_some_compiled_sum_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the compiler has changed, and the test above proves less: find other losses."""
    monkeypatch.setattr(bookkeeping, "pinned", lambda tree, is_real: tree)

    def loss(p: Any, e: Any) -> jax.Array:
        x = e["x"]
        return (
            jnp.sum(p["u"] * x[4] * x[6]) - jnp.sum(p["u"] * x[0] * x[2]) + jnp.sum(p["u"] * x[3] * x[2])
            - jnp.sum(p["u"] * x[7] * x[6]) + jnp.sum(p["v"] * x[3] * x[2]) - jnp.sum(p["v"] * x[7] * x[6])
        )  # fmt: skip

    function = jax.jit(clipped_gradient_sum(loss, max_norm=NORM))
    params = {"u": jnp.full(2, 0.7), "v": jnp.full(2, 0.7)}
    assert max(moved(function, params, hostile(draw)) for draw in range(12)) > 2 * NORM


def bag(params: Any, example: Any) -> jax.Array:
    return jnp.sum(example["weights"] @ params[example["ids"]])


def rows_alone(params: Any, example: Any) -> jax.Array:
    return jnp.sum(params[example["ids"]] * example["weights"][:, None])


@pytest.mark.parametrize(("rule", "loss"), [("bag", bag), ("rows", rows_alone)])
def test_look_ups_that_cancel_leave_everybody_elses_sum(rule: str, loss: Any) -> None:
    params, function = jnp.zeros((5, 4)), jax.jit(clipped_gradient_sum(loss, max_norm=NORM))
    for weights in ((1e18, -1e18), (1e30, -1e30), (1e-30, 1e8), (np.inf, 1.0), (np.nan, 0.0)):
        batch = {
            "ids": jnp.zeros((50, 2), jnp.int32),
            "weights": jnp.full((50, 2), 0.5).at[0].set(jnp.array(weights)),
        }
        first = jax.tree.map(lambda leaf: leaf[0], batch)
        assert {choice.rule for choice in choices(loss, params, first)} == {rule}
        assert moved(function, params, batch) <= NORM, weights
        total, _ = function(params, batch, jnp.ones(50, bool))
        assert float(total[0].sum()) / 2 > 48, weights


@pytest.mark.parametrize(("rows", "columns", "positions"), [(2, 8192, 2), (128, 512, 8)])
def test_wide_layers_never_call_a_gradient_short_that_cancels(
    rows: int, columns: int, positions: int
) -> None:
    def loss(params: Any, example: Any) -> jax.Array:
        return jnp.sum(example["c"] * (example["x"] @ params))

    function = jax.jit(clipped_gradient_sum(loss, max_norm=NORM))
    random, params = np.random.default_rng(0), jnp.zeros((rows, columns))
    sign = np.where(np.arange(positions) % 2 == 0, 1, -1)
    for _ in range(4):
        v, small = random.uniform(1, 2, (4, 1, 1)), 10 ** random.uniform(-4, -1.3, (4, 1, 1))
        c = (v - small * (sign < 0)[:, None]) * sign[:, None] * np.ones((4, positions, columns))
        batch = {"c": jnp.asarray(c, jnp.float32), "x": jnp.ones((4, positions, rows))}
        assert choices(loss, params, jax.tree.map(lambda leaf: leaf[0], batch))[0].rule == "gram"
        for example in range(4):
            assert length(function(params, batch, jnp.arange(4) == example)[0]) <= NORM


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("microbatch", [None, 16])
def test_sums_near_powers_of_two_lose_no_record(strategy: Strategy, microbatch: int | None) -> None:
    """A running sum in float32 drops what is below half of its last bit, for one neighbour of the two."""
    many, few = 1 << 13, 0.00197
    x = np.concatenate([[1.0, 0.5], np.ones(many - 1), np.zeros(15), np.full(many, -few / 16)])
    function = clipped_gradient_sum(
        lambda w, e: w * e, max_norm=NORM, strategy=strategy, microbatch=microbatch
    )
    assert moved(jax.jit(function), jnp.float32(0), jnp.asarray(x, jnp.float32)) <= NORM


@pytest.mark.parametrize("rows", [3000, 300])
def test_products_over_examples_stay_within_their_error(rows: int) -> None:
    """All examples alike, so that partial sums are as large as they get, and the numbers round badly."""
    grid = Grid(2.0**17, rows, rows=rows, moves_others=True)
    random = np.random.default_rng(1)
    unit = [part / np.linalg.norm(part) for part in random.uniform(0.5, 1, (2, 30))]
    g, a = (np.tile(part, (1, rows, 1)).astype(np.float32) for part in unit)
    exact = np.einsum("hrn,hrm->hnm", g.astype(np.float64), a.astype(np.float64))
    found = jax.jit(lambda g, a: chunked_product(g, a, grid))(g, a)
    assert np.linalg.norm(np.asarray(found, np.float64) - exact) <= product_error(grid) / 2
    assert product_error(grid) < 0.03


@pytest.mark.parametrize("rows", [40, 4353])
def test_one_row_less_moves_a_product_by_no_more_than_its_length_and_the_error(rows: int) -> None:
    """The others keep their rows: only the chunk of the one that goes is rounded anew."""
    grid = Grid(2.0**17, rows, rows=rows)
    random = np.random.default_rng(rows)
    g, a = random.uniform(0.5, 1, (2, 1, rows, 30))
    g, a = (
        (part / np.linalg.norm(part, axis=2, keepdims=True) / (1 + 2**-20)).astype(np.float32)
        for part in (g, a)
    )
    total = jax.jit(lambda g, a: chunked_product(g, a, grid))
    whole = np.asarray(total(g, a), np.float64)
    for row in random.integers(0, rows, 20):
        less = g.copy()
        less[0, row] = 0
        assert np.linalg.norm(whole - np.asarray(total(less, a), np.float64)) <= 1 + product_error(grid)
    assert product_error(grid) < 0.01


def test_a_product_of_the_same_numbers_is_the_same_while_others_change() -> None:
    """What the bound on products rests on: chunks without the one that goes are the same to the last bit.

    The other chunks are formed by the same operation. Half of their factors are zeros, so that nothing of
    them is in the sum, and the other half changes.
    """
    grid, rows = Grid(2.0**17, 1153, rows=1153), 1153
    random = np.random.default_rng(5)
    g, a = (random.normal(size=(1, rows, size)).astype(np.float32) for size in (200, 300))
    chunk = chunk_of(grid)
    total = jax.jit(lambda g, a: chunked_product(g, a, grid))
    for start in range(0, rows - chunk, chunk):
        own = slice(start, start + chunk)
        alone = np.zeros_like(g)
        alone[0, own] = g[0, own]
        lone = np.asarray(total(alone, a))
        for _ in range(3):
            changed = random.normal(size=a.shape).astype(np.float32)
            changed[0, own] = a[0, own]
            assert np.array_equal(lone, total(alone, changed))


def test_blocks_of_one_sum_are_clipped_alike() -> None:
    """An example that moves to a block of another size, when a record leaves, keeps what it adds."""
    size, main, chunk = 16, 255, 16

    def loss(w: jax.Array, row: Any) -> jax.Array:
        return jnp.sum((row["x"] @ w) * row["y"])

    # 128 examples bring the sum to 2^23, from where on each of the small ones is rounded away.
    grid = Grid(2.0**23 / 127.5 / (1 - 0.0043), main, additions=2, rows=main, moves_others=True)
    params, function = jnp.zeros((size, size)), clipped_gradient_sum(loss, max_norm=NORM)
    block = jax.jit(lambda batch, there: function.on_grid(params, batch, there, grid)[0])

    def total(values: np.ndarray) -> np.ndarray:
        found = np.zeros((size, size))
        for start, rows in ((0, main), (main, chunk)):
            x, y = np.zeros((2, rows, size), np.float32)
            there = np.arange(start, start + rows) < len(values)
            x[:, 0] = 1
            y[there, 0] = values[start : start + rows]
            found += np.asarray(block({"x": x, "y": y}, there), np.float64)
        return found

    values = np.full(main + 1, -0.4999 / grid.steps)
    values[:128] = values[main] = 1e3
    assert choices(loss, params, {"x": jnp.ones(size), "y": jnp.ones(size)})[0].rule == "outer"
    assert length(total(values) - total(values[1:])) <= grid.steps


def test_a_block_larger_than_the_grid_was_made_for_is_an_error() -> None:
    with pytest.raises(AssertionError, match="a block of 8 rows on a grid for 4"):
        clipped_gradient_sum(lambda w, e: w * e, max_norm=NORM).on_grid(
            jnp.float32(0), jnp.ones(8), jnp.ones(8, bool), Grid(2.0**17, 8, rows=4)
        )


def test_many_leaves_together_are_never_called_short() -> None:
    """The first square is 1, and each of the others too small to change a running sum of them."""
    count = 160
    grid, params = Grid(2.0**22, 1), [jnp.float32(0)] * count
    x = np.full((1, count), np.sqrt(2**-24.02) * 1024, np.float32)
    x[:, 0] = 1024
    function = clipped_gradient_sum(lambda p, e: jnp.dot(jnp.stack(p), e), max_norm=NORM, strategy="vmap")
    total = jax.jit(lambda x: function.on_grid(params, x, jnp.ones(1, bool), grid)[0])(x)
    assert 0.9999 * grid.steps <= length(total) <= grid.steps


CLIPPINGS: list[Callable[[float], Clipping]] = [
    flat,
    automatic,
    lipschitz,
    per_layer,
    lambda norm: per_layer({"a": norm, "b": norm * 1e-30}),
]


@pytest.mark.parametrize("make", CLIPPINGS)
@pytest.mark.parametrize("norm", [1e-45, 1e-38, 1e18])
def test_a_long_gradient_is_clipped_to_any_norm(norm: float, make: Callable[[float], Clipping]) -> None:
    """From a length to what is added no number is subnormal: it would be off by up to all of itself."""
    grid, params = Grid(2.0**17, 1), {"a": jnp.zeros(2), "b": jnp.zeros(2)}
    clipping = make(norm)
    function = clipped_gradient_sum(
        lambda p, e: jnp.sum(p["a"] * e[:2]) + jnp.sum(jnp.tanh(p["b"]) * e[2:]), clipping=clipping
    )

    @jax.jit
    def total(batch: jax.Array, max_norm: jax.Array) -> Any:
        there = jnp.ones(1, bool)
        fixed = function.on_grid(params, batch, there, grid)[0]
        return fixed, function.on_grid(params, batch, there, grid, max_norm=max_norm)[0]

    for size in (1.1e18, 5e18):
        for found in total(np.full((1, 4), size, np.float32), np.float32(max(norm, 1e-45))):
            assert 0.9999 * grid.steps <= length(found) <= grid.steps


@pytest.mark.parametrize(("noise_multiplier", "block"), [(1e-4, 4096), (0.05, 65536)])
def test_sums_over_as_many_devices_as_there_may_be_do_not_overflow(
    noise_multiplier: float, block: int
) -> None:
    grid = noise_grid(noise_multiplier, block * MOST_PARTS, block)
    assert grid.is_wide
    key = jax.random.key(0, impl="rbg")
    one = round_by_chance(key, jnp.array([2.0**16 - 2**-7, -1.5, 2.0**40 - 2**16]), grid)
    assert np.all(np.asarray(one.low) >= 0)
    assert np.all(np.asarray(one.low) < 2**16)
    noisy = jax.jit(lambda total: add_whole_noise(key, total, grid))
    for devices in (2, 1024, MOST_PARTS):
        low = jnp.full(3, devices * (2**16 - 1), jnp.int32)  # what a sum over devices gives at most
        total = Wide(jnp.zeros(3, jnp.int32), low)
        found, wanted = (noisy(each) for each in (total, carry(total)))
        exact = float(low[0]) / grid.steps
        assert np.array_equal(found, wanted)
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=12 * noise_multiplier)


def test_look_ups_are_found_in_64_bits_too() -> None:
    def loss(params: Any, example: Any) -> jax.Array:
        bag = jnp.sum(params["bag"][example["ids"]], axis=0)
        return jnp.sum(bag**2) + jnp.sum(params["rows"][example["ids"]] ** 2 * example["x"][:, None])

    with jax.enable_x64(True):
        params = {name: jnp.ones((5, 3), jnp.float32) for name in ("bag", "rows")}
        batch = {"ids": jnp.array([[0, 0, 1], [4, 2, 4]]), "x": jnp.ones((2, 3), jnp.float32)}
        first = jax.tree.map(lambda leaf: leaf[0], batch)
        assert [choice.rule for choice in choices(loss, params, first)] == ["bag", "rows"]
        function = clipped_gradient_sum(loss, max_norm=NORM)
        ours, theirs = (
            jax.jit(replace(function, strategy=strategy))(params, batch, jnp.ones(2, bool))[0]
            for strategy in STRATEGIES
        )
    for name in params:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-4)


def test_products_are_formed_where_they_are_not_those_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def loss(params: Any, example: Any) -> jax.Array:
        return jnp.sum(jnp.tanh(example["x"] @ params["outer"])) + jnp.sum(
            jnp.tanh(example["many"] @ params["gram"])
        )

    params = {"outer": jnp.ones((30, 30)), "gram": jnp.ones((100, 100))}
    example = {"x": jnp.ones(30), "many": jnp.ones((2, 100))}
    rules = lambda: {c.parameter: c.rule for c in choices(loss, params, example)}  # noqa: E731
    assert rules() == {"outer": "outer", "gram": "gram"}
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert rules() == {"outer": "product", "gram": "product"}


@pytest.mark.parametrize("moves_others", [False, True])
@pytest.mark.parametrize("rows", [1, 65, 1024, 3000])
def test_products_in_chunks_add_up_all_rows(rows: int, moves_others: bool) -> None:
    random = np.random.default_rng(rows)
    g, a = (random.integers(-3, 4, (2, rows, size)).astype(np.float32) for size in (3, 5))
    found = chunked_product(jnp.asarray(g), jnp.asarray(a), Grid(1.0, 10_000, moves_others=moves_others))
    assert np.array_equal(found, np.einsum("hrn,hrm->hnm", g, a))


@pytest.mark.parametrize(("rows", "size"), [(1, 7), (16, 2000), (37, 1500)])
def test_whole_sums_are_exact_and_cut_towards_zero(rows: int, size: int) -> None:
    random = np.random.default_rng(size)
    values = random.normal(size=(rows, size)).astype(np.float32) * 100
    scale = random.uniform(0, 3, rows).astype(np.float32) * (np.arange(rows) % 3 > 0)
    values[0] = np.nan  # its scale is 0
    wanted = np.trunc(np.where(scale[:, None] > 0, np.nan_to_num(values) * scale[:, None], 0)).sum(axis=0)
    found = jax.jit(whole_total)(values, scale)
    assert found.dtype == jnp.int32
    assert np.array_equal(found, wanted)


def test_whole_products_are_added_one_by_one() -> None:
    random = np.random.default_rng(0)
    g, a = (random.normal(size=(6, 2, 3, size)).astype(np.float32) for size in (4, 5))
    scale = np.arange(6, dtype=np.float32) * 10
    each = np.einsum("ehln,ehlm->ehnm", g, a) * scale[:, None, None, None]
    found = jax.jit(whole_products)(g, a, scale)
    assert np.abs(np.asarray(found) - np.trunc(each).sum(axis=0)).max() <= 1


@pytest.mark.parametrize("size", [3, 4096, 10_007, 1 << 18])
def test_squares_are_never_lost_behind_a_large_one(size: int) -> None:
    values = np.full((2, size), 2.0**-13, np.float32)
    values[:, 0] = 1.0
    exact = np.square(values.astype(np.float64)).sum(axis=1)
    found = np.asarray(jax.jit(sum_of_squares)(values, jnp.ones(2, bool)), np.float64)
    assert np.all(found >= exact)
    assert np.all(found <= exact * 1.002)


def mixing_losses() -> Iterator[tuple[str, Callable[[Any, Any], jax.Array]]]:
    def from_the_record(impl: str) -> Callable[[Any, Any], jax.Array]:
        def loss(p: Any, e: Any) -> jax.Array:
            key = jax.random.fold_in(jax.random.key(0, impl=impl), e)
            return jnp.sum(jnp.where(jax.random.bernoulli(key, 0.5, (8,)), p, 0.0))

        return loss

    def in_a_loop(p: Any, e: Any) -> jax.Array:
        key = jax.random.key(0, impl="rbg")
        more = lambda total, at: (  # noqa: E731
            total + jnp.sum(p * jax.random.normal(jax.random.fold_in(key, at + e), (8,))), None
        )  # fmt: skip
        return lax.scan(more, jnp.float32(0), jnp.arange(3))[0]

    @jax.custom_batching.custom_vmap
    def centred(x: jax.Array) -> jax.Array:
        return x

    centred.def_vmap(lambda size, batched, x: (x - x.mean(0, keepdims=True), True))

    def called(p: Any, e: Any) -> jax.Array:
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        return jnp.sum(p) * jax.pure_callback(np.float32, shape, e * 1.0, vmap_method="expand_dims")

    yield "rbg", from_the_record("rbg")
    yield "unsafe_rbg", from_the_record("unsafe_rbg")
    yield "a loop", in_a_loop
    yield "custom_vmap", lambda p, e: jnp.sum(p * centred(e * 1.0))
    yield "a callback", called
    yield "a collective", lambda p, e: jnp.sum(p) * lax.psum(e * 1.0, "records")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("case", list(mixing_losses()), ids=lambda case: case[0])
def test_losses_that_see_other_examples_are_refused(
    case: tuple[str, Callable[[Any, Any], jax.Array]], strategy: Strategy
) -> None:
    function = clipped_gradient_sum(case[1], max_norm=NORM, strategy=strategy)
    with pytest.raises(InvalidArgument, match="The loss"):
        function(jnp.ones(8), jnp.arange(4), jnp.ones(4, bool))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_keys_that_do_not_mix_examples_are_accepted(strategy: Strategy) -> None:
    def loss(p: Any, e: Any) -> jax.Array:
        own = jax.random.normal(jax.random.fold_in(jax.random.key(0), e), (8,))
        shared = jax.random.normal(jax.random.key(1, impl="rbg"), (8,))
        within = jax.vmap(lambda q: lax.psum(q * e, "positions"), axis_name="positions")(p)
        return jnp.sum(p * own * shared) + jnp.sum(within)

    function = jax.jit(clipped_gradient_sum(loss, max_norm=NORM, strategy=strategy))
    total, _ = function(jnp.ones(8), jnp.arange(4), jnp.ones(4, bool))
    assert length(total) > 0


@pytest.mark.parametrize(
    "loss",
    [
        lambda p, e: jnp.sum(jnp.abs(jnp.fft.fft(p["a"]) * jnp.fft.fft(e["x"])) ** 2),
        lambda p, e: jnp.sum(jnp.real((p["a"] + 1j * p["b"]) * e["x"] * (1 + 2j)) ** 2),
        lambda p, e: jnp.dot(p["a"][e["ids"]], p["b"][e["ids"][::-1]]),
        lambda p, e: jnp.dot(p["a"][e["ids"]], p["b"][e["ids"][::-1]]) + jnp.sum(p["b"][e["ids"]]),
    ],
    ids=["fourier", "complex", "two tables", "a table used twice"],
)
def test_gradients_that_were_zero_by_mistake_are_right(loss: Callable[[Any, Any], jax.Array]) -> None:
    random = np.random.default_rng(0)
    params = {name: jnp.asarray(random.normal(size=6), jnp.float32) for name in "ab"}
    batch = {"x": jnp.asarray(random.normal(size=(5, 6)), jnp.float32)}
    batch["ids"] = jnp.asarray(random.integers(0, 6, (5, 4)), jnp.int32)
    ours, theirs = (
        jax.jit(clipped_gradient_sum(loss, max_norm=0.3, strategy=strategy))(
            params, batch, jnp.ones(5, bool)
        )[0]
        for strategy in ("book-keeping", "vmap")
    )
    gradient = jax.jit(jax.grad(loss))
    apart = [gradient(params, jax.tree.map(lambda leaf, at=at: leaf[at], batch)) for at in range(5)]
    shares = [min(1.0, 0.3 / length(one)) for one in apart]
    exact = {name: sum(one[name] * by for one, by in zip(apart, shares, strict=True)) for name in "ab"}
    for name in "ab":
        np.testing.assert_allclose(ours[name], exact[name], atol=1e-4)
        np.testing.assert_allclose(theirs[name], exact[name], atol=1e-4)


def test_vmap_reads_what_it_measures_too(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(vmapped, "pinned", lambda tree, is_real: calls.append(len(tree)) or tree)
    clipped_gradient_sum(lambda p, e: jnp.sum(p * e), max_norm=NORM, strategy="vmap")(
        jnp.ones(3), jnp.ones((2, 3)), jnp.ones(2, bool)
    )
    assert calls == [1]
