"""Every rule of book-keeping against the definition, over shapes that hypothesis makes up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_oracle import assert_right, gradients, norms, random
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jax import lax

from reticent.training.gradients import bookkeeping, clipped_gradient_sum, explain
from reticent.training.gradients.choices import choices
from reticent.training.gradients.lookups import Lookup, meeting_places

# Each example of these tests compiles anew, which takes about a second.
few = settings(max_examples=5)
small = st.integers(1, 4)
seeds = st.integers(0, 1000)


def rules(loss: Callable[..., Any], params: Any, batch: Any) -> dict[str, str]:
    row = jax.tree.map(lambda leaf: leaf[0], batch)
    return {choice.parameter: choice.rule for choice in choices(loss, params, row)}


# Dense layers


@few
@given(st.integers(1, 40), small, small, st.booleans(), seeds)
def test_dense_layers_on_vectors_and_sequences(
    length: int, rows: int, columns: int, weight_first: bool, seed: int
):
    def loss(params: Any, x: jax.Array) -> jax.Array:
        kernel, bias = params["kernel"], params["bias"]
        out = (kernel.T @ x.T).T if weight_first else x @ kernel
        return jnp.sum(jnp.tanh(out + bias) ** 2)

    params = {"kernel": random(seed, rows, columns), "bias": random(seed + 1, columns)}
    batch = random(seed + 2, 4, length, rows)
    assert_right(loss, params, batch)
    assert rules(loss, params, batch)["kernel"] in ("outer", "gram", "product")


@few
@given(small, small, small, small, st.booleans(), seeds)
def test_products_over_several_axes_and_with_a_batch_axis(
    heads: int, length: int, rows: int, columns: int, swapped: bool, seed: int
):
    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        per_head = jnp.einsum("hkjc,htkj->hct" if swapped else "hkjc,htkj->htc", params, x)
        return jnp.sum(jnp.sin(per_head))

    assert_right(loss, random(seed, heads, rows, 2, columns), random(seed + 1, 3, heads, length, rows, 2))


def test_short_sequences_through_wide_layers_use_pairs_of_positions():
    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(x @ params) ** 2)

    params, batch = random(0, 60, 50), random(1, 6, 3, 60)
    assert rules(loss, params, batch) == {"": "gram"}
    assert_right(loss, params, batch, rounding=1e-3)  # lengths are rounded up by what may have cancelled


def test_pairs_of_positions_never_call_a_gradient_short_that_cancels():
    # The two positions have opposite gradients: the exact sum is tiny, its terms are not.
    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum((x @ params) * jnp.array([[1.0], [-1.0]]))

    params, x = random(0, 60, 50), random(1, 8, 1, 60)
    batch = jnp.concatenate([x, x + 1e-5 * random(2, 8, 1, 60)], axis=1)
    assert rules(loss, params, batch) == {"": "gram"}
    _, unreleased = jax.jit(clipped_gradient_sum(loss, max_norm=1.0))(params, batch, jnp.ones(8, bool))
    assert np.all(np.asarray(unreleased.norms) >= norms(gradients(loss, params, batch)) * (1 - 1e-5))


# Convolutions

axes = st.tuples(small, small)


@settings(max_examples=8)
@given(
    spatial=st.lists(st.integers(4, 7), min_size=1, max_size=2),
    window=axes,
    stride=axes,
    low=st.tuples(st.integers(-1, 2), st.integers(-1, 2)),
    high=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    input_dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    groups=st.integers(1, 3),
    channels_last=st.booleans(),
    seed=seeds,
)
def test_convolutions_of_any_stride_padding_dilation_and_groups(
    spatial: list[int], window: Any, stride: Any, low: Any, high: Any,
    dilation: Any, input_dilation: Any, groups: int, channels_last: bool, seed: int,
):  # fmt: skip
    places = len(spatial)
    assume(not any(first < 0 < last for first, last in zip(low, high, strict=True)))  # XLA itself is wrong
    inputs, outputs = 2 * groups, 3 * groups
    letters = "HW"[:places]
    layout = (f"N{letters}C", f"{letters}IO", f"N{letters}C") if channels_last else (
        f"NC{letters}", f"OI{letters}", f"NC{letters}")  # fmt: skip
    image = (*spatial, inputs) if channels_last else (inputs, *spatial)
    kernel = (*window[:places], inputs // groups, outputs)
    kernel = kernel if channels_last else (outputs, inputs // groups, *window[:places])

    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        out = lax.conv_general_dilated(
            x[None],
            params,
            stride[:places],
            list(zip(low, high, strict=True))[:places],
            lhs_dilation=input_dilation[:places],
            rhs_dilation=dilation[:places],
            dimension_numbers=layout,
            feature_group_count=groups,
        )
        return jnp.sum(jnp.tanh(out) ** 2) + jnp.sum(x)

    assert_right(loss, random(seed, *kernel), random(seed + 1, 3, *image))


def test_a_convolution_whose_kernel_is_the_example_is_right():
    def loss(params: jax.Array, kernel: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(lax.conv(params[None], kernel, (1, 1), "SAME")) ** 2)

    params, batch = random(0, 2, 5, 5), random(1, 4, 3, 2, 2, 2)
    assert rules(loss, params, batch) == {"": "explicit"}
    assert_right(loss, params, batch)


# Embeddings


@few
@given(
    st.integers(1, 6), st.integers(1, 12), small, st.sampled_from(["index", "take", "clip", "fill"]), seeds
)
def test_embeddings_with_repeated_and_outlying_rows(
    count: int, length: int, columns: int, how: str, seed: int
):
    def loss(params: jax.Array, ids: jax.Array) -> jax.Array:
        if how == "index":
            found = params[ids]
        else:
            found = jnp.take(params, ids, axis=0, mode="fill" if how == "fill" else "clip", fill_value=0)
        return jnp.sum(jnp.tanh(found.sum(0)) ** 2) + jnp.sum(jnp.sin(found))

    low, high = (0, count) if how == "index" else (-1, count + 2)
    ids = jnp.asarray(np.random.default_rng(seed).integers(low, high, (4, length)))
    params = random(seed, count, columns)
    assert rules(loss, params, ids) == {"": "rows"}
    assert_right(loss, params, ids)


def test_a_look_up_along_another_axis():
    def loss(params: jax.Array, ids: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(params[:, ids]) ** 2)

    ids = jnp.array([[[0, 1], [1, 4]], [[2, 2], [2, 2]], [[3, 0], [1, 2]]])
    assert_right(loss, random(0, 3, 5, 2), ids)


@few
@given(st.integers(1, 300), st.integers(1, 8), st.sampled_from(["sum", "mean", "shares", "fill"]), seeds)
def test_bags_of_rows_of_small_and_large_tables(count: int, length: int, how: str, seed: int):
    def loss(params: jax.Array, example: Any) -> jax.Array:
        ids, shares = example
        found = jnp.take(params, ids, axis=0, mode="fill", fill_value=0) if how == "fill" else params[ids]
        bag = {"mean": found.mean(0), "shares": jnp.abs(shares) @ found}.get(how, found.sum(0))
        return jnp.sum(jnp.tanh(bag) ** 2)

    ids = np.random.default_rng(seed).integers(0, count + 2 * (how == "fill"), (4, length))
    batch, params = (jnp.asarray(ids), random(seed, 4, length)), random(seed + 1, count, 3)
    assert rules(loss, params, batch) == {"": "bag"}
    assert_right(loss, params, batch)


def test_rows_that_go_into_a_sum_and_elsewhere_are_no_bag():
    def loss(params: Any, ids: jax.Array) -> jax.Array:
        found = params[ids]
        return jnp.sum(jnp.tanh(found.sum(0))) + jnp.sum(found[0] ** 2) + jnp.sum(jnp.sin(found).sum(0))

    params, ids = random(0, 5, 3), jnp.array([[0, 0, 1], [4, 4, 4], [1, 2, 3]])
    assert rules(loss, params, ids) == {"": "rows"}
    assert_right(loss, params, ids)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bag_with_shares_that_are_not_finite_counts_for_nothing(bad: float):
    def loss(params: jax.Array, example: Any) -> jax.Array:
        ids, shares = example
        return jnp.sum(jnp.tanh(shares @ params[ids]))

    ids, shares, all_real = jnp.array([[0, 1], [1, 1], [2, 0]]), jnp.ones((3, 2)), jnp.ones(3, bool)
    function = jax.jit(clipped_gradient_sum(loss, max_norm=1.0))
    total, _ = function(random(0, 3, 2), (ids, shares.at[1, 0].set(bad)), all_real)
    wanted, _ = function(random(0, 3, 2), (ids, shares), all_real.at[1].set(False))
    np.testing.assert_array_equal(total, wanted)


def test_one_row_for_each_example_and_rows_taken_one_by_one():
    def loss(params: Any, place: jax.Array) -> jax.Array:
        many = jax.vmap(lambda i: params["b"][i])(place + jnp.array([0, 1, 0]))
        return (
            jnp.sum(jnp.tanh(params["a"][place])) + jnp.sum(jnp.sin(params["c"][:, place])) + jnp.sum(many**2)
        )

    params = {"a": random(0, 6, 4), "b": random(1, 6, 2), "c": random(2, 3, 6)}
    places = jnp.array([0, 3, 4, 4])
    assert set(rules(loss, params, places).values()) == {"rows"}
    assert_right(loss, params, places)


def test_slices_at_a_place_that_the_example_names():
    def loss(params: jax.Array, start: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(lax.dynamic_slice(params, (start, 0), (2, 3))) ** 2)

    assert_right(loss, random(0, 6, 4), jnp.array([0, 3, 4, 9]))


# Whatever has no rule of its own: the derivative of the one equation


def test_biases_and_scales_of_every_shape():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        y = (x + params["row"]) * params["column"][:, None] - params["all"]
        y = y / (1 + params["scalar"] ** 2) + params["full"]
        return jnp.sum(jnp.maximum(y, params["floor"]) ** 3)

    params = {"row": random(0, 4), "column": random(1, 3), "all": random(2, 1, 1), "scalar": random(3),
              "full": random(4, 3, 4), "floor": random(5, 4)}  # fmt: skip
    assert_right(loss, params, random(6, 5, 3, 4))


def test_tied_weights_add_up_before_they_are_measured():
    def loss(params: Any, ids: jax.Array) -> jax.Array:
        hidden = jnp.tanh(params["table"][ids] @ params["square"]) @ params["square"] @ params["square"].T
        return -jnp.mean(jax.nn.log_softmax(hidden @ params["table"].T)[:, 0])

    params = {"table": random(0, 6, 3), "square": random(1, 3, 3)}
    ids = jnp.asarray(np.random.default_rng(0).integers(0, 6, (5, 4)))
    assert set(rules(loss, params, ids).values()) == {"explicit"}
    assert_right(loss, params, ids)


def test_a_leaf_cut_into_overlapping_and_concatenated_parts():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        both = jnp.concatenate([params["a"][:3], params["b"]])
        return jnp.sum(jnp.tanh(x @ both) ** 2) + jnp.sum(jnp.sin(x[:2] @ params["a"][1:3]))

    assert_right(loss, {"a": random(0, 4, 2), "b": random(1, 2, 2)}, random(2, 4, 5))


def test_weights_that_are_standardised_transposed_and_cast_on_the_way():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        kernel = params["kernel"]
        kernel = (kernel - kernel.mean((0, 1, 2))) * lax.rsqrt(kernel.var((0, 1, 2)) + 1e-4) * params["gain"]
        out = lax.conv_general_dilated(
            x[None], kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )[0]
        groups = out.reshape(-1, 2, 3)
        groups = (groups - groups.mean((0, 2), keepdims=True)) / groups.std((0, 2), keepdims=True)
        normed = groups.reshape(out.shape) * params["scale"] + params["shift"]
        dense = jnp.reshape(params["dense"], (10, 6))[::-1].T
        return jnp.sum(jnp.tanh(normed.mean((0, 1)) @ dense) ** 2)

    params = {"kernel": random(0, 3, 3, 2, 6), "gain": random(1, 6), "scale": random(2, 6),
              "shift": random(3, 6), "dense": random(4, 2, 5, 6)}  # fmt: skip
    batch = random(5, 4, 6, 6, 2)
    assert rules(loss, params, batch)["dense"] == "product"
    assert_right(loss, params, batch)


@pytest.mark.parametrize("length", [1, 9])
def test_attention_with_layer_norm(length: int):
    seed = length

    def normed(params: Any, x: jax.Array) -> jax.Array:
        return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * params

    def loss(params: Any, x: jax.Array) -> jax.Array:
        y = normed(params["scale"], x)
        q, k, v = jnp.split(jnp.einsum("td,dhc->htc", y, params["qkv"]), 3, axis=-1)
        weights = jax.nn.softmax(jnp.einsum("htc,hsc->hts", q, k))
        x = x + jnp.einsum("hts,hsc,hcd->td", weights, v, params["out"])
        return jnp.mean(jnp.square(normed(params["scale2"], x) @ params["head"]))

    params = {"scale": random(seed, 4), "scale2": random(seed + 1, 4), "qkv": random(seed + 2, 4, 2, 9),
              "out": random(seed + 3, 2, 3, 4), "head": random(seed + 4, 4, 2)}  # fmt: skip
    assert_right(loss, params, random(seed + 5, 3, length, 4), rounding=3e-5)


def test_recurrent_loops_and_branches_are_whole_equations():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        def step(state: Any, token: jax.Array) -> Any:
            return jnp.tanh(state @ params["inner"] + token @ params["outer"]), state.sum()

        last, seen = lax.scan(step, jnp.zeros(3), x)
        branch = lax.cond(x[0, 0] > 0, lambda: last * params["left"], lambda: last + params["right"])
        return jnp.sum(branch**2) + jnp.sum(seen)

    params = {"inner": random(0, 3, 3), "outer": random(1, 2, 3), "left": random(2, 3), "right": random(3, 3)}
    assert_right(loss, params, random(4, 6, 5, 2))


def test_stacked_layers_under_scan():
    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, params)[0] ** 2)

    assert_right(loss, random(0, 4, 3, 3), random(1, 5, 3))


def test_derivatives_given_by_hand_are_kept():
    @jax.custom_vjp
    def straight_through(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.round(x * w)

    straight_through.defvjp(
        lambda x, w: (straight_through(x, w), (x, w)), lambda kept, g: (g * kept[1], 2 * g * kept[0])
    )

    @jax.custom_jvp
    def clipped(x: jax.Array) -> jax.Array:
        return jnp.clip(x, -1, 1)

    clipped.defjvp(lambda primals, tangents: (clipped(*primals), 3 * tangents[0]))

    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(clipped(straight_through(x, clipped(params["w"]))) * clipped(params["v"]) * x)

    assert_right(loss, {"w": random(0, 4), "v": random(1, 4)}, random(2, 5, 4))


def test_stopped_gradients_stay_stopped():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.sum((x @ lax.stop_gradient(params["w"]) @ params["v"]) ** 2) + jnp.sum(x @ params["w"])

    assert_right(loss, {"w": random(0, 3, 4), "v": random(1, 4, 2)}, random(2, 5, 3))


def test_jit_checkpoint_and_functions_called_twice_are_seen_through():
    dense = jax.jit(lambda w, x: jnp.tanh(x @ w))

    def loss(params: Any, x: jax.Array) -> jax.Array:
        hidden = jax.checkpoint(lambda p, y: dense(p["b"], dense(p["a"], y)))(params, x)
        return jax.jit(lambda h: jnp.sum(h**2))(hidden)

    params, batch = {"a": random(0, 3, 3), "b": random(1, 3, 3)}, random(2, 5, 3)
    assert rules(loss, params, batch) == {"a": "product", "b": "product"}
    assert_right(loss, params, batch)


def test_a_penalty_on_the_parameters_is_part_of_every_gradient():
    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(x @ params)) + 0.1 * jnp.sum(params**2)

    assert_right(loss, random(0, 4, 3), random(1, 5, 4))


@pytest.mark.parametrize("width", [jnp.bfloat16, jnp.float16])
def test_half_precision_inside_the_loss(width: Any):
    def loss(params: Any, x: jax.Array) -> jax.Array:
        cast = jax.tree.map(lambda leaf: leaf.astype(width), params)
        hidden = jnp.tanh(x.astype(width) @ cast["a"] + cast["bias"])
        return jnp.sum((hidden @ cast["b"]).astype(jnp.float32) ** 2)

    params = {"a": random(0, 6, 5), "bias": random(1, 5), "b": random(2, 5, 4)}
    assert_right(loss, params, random(3, 8, 6), rounding=2e-2)


def test_parameters_in_half_precision_are_summed_in_float32():
    def loss(params: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum((x.astype(jnp.bfloat16) @ params).astype(jnp.float32))

    # bfloat16 has no 513: a sum kept in it would forget the last example.
    rows = jnp.ones((513, 1))
    function = jax.jit(clipped_gradient_sum(loss, max_norm=10.0))
    total, _ = function(jnp.ones((1, 1), jnp.bfloat16), rows, jnp.ones(513, bool))
    assert total.dtype == jnp.float32
    assert 512.9 < float(total[0, 0]) <= 513.0


# The table


def test_the_table_names_every_parameter_its_rule_and_its_cost():
    def loss(params: Any, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.tanh(x @ params["kernel"] + params["bias"]))

    params = {"kernel": jnp.ones((30, 20)), "bias": jnp.ones(20), "spare": jnp.ones(())}
    lines = explain(loss, params, jnp.ones(30)).splitlines()
    assert lines.pop() == (
        "Sums over 1,024 examples: whole numbers, exact, but for kernel (float32, in chunks of 256). "
        "Gradients are clipped to (1 - 5.6e-03) of the norm."
    )
    assert lines.pop().startswith("No gradient reaches 'spare'")
    assert [line.split() for line in lines] == [
        ["parameter", "shape", "rule", "norm", "sum"],
        ["bias", "20", "explicit", "40", "40"],
        ["kernel", "30", "x", "20", "outer", "100", "1,200"],
        ["spare", "scalar", "unused", "0", "0"],
    ]


def test_the_table_says_when_book_keeping_is_refused():
    assert "vmap" in explain(lambda params, x: jnp.sum(params) * jnp.sum(params), jnp.ones(3), jnp.ones(2))


@pytest.mark.parametrize("rows", [7, 10_000], ids=["tables that are never emptied", "pairs"])
def test_rows_of_one_example_meet_where_they_are_equal_and_nowhere_else(rows: int) -> None:
    # 40 examples of one small table: each finds what earlier ones left in it, in the next group of 16, too.
    ids = np.random.default_rng(0).integers(0, min(rows, 7), (40, 5)).astype(np.int32)
    lookup = Lookup(rows, 1, 5, lambda places: (places, places >= 0), lambda g: g, lambda rows: rows)
    places = np.asarray(jax.jit(lambda ids: meeting_places(lookup, ids))(ids))
    for numbers, found in zip(ids, places, strict=True):
        assert np.array_equal(numbers[found], numbers)
        assert np.array_equal(found[:, None] == found, numbers[:, None] == numbers)


@pytest.mark.parametrize("is_raw", [True, False], ids=["the batch itself", "what the loss makes of it"])
def test_both_factors_are_read_from_memory_whoever_computed_the_batch(
    is_raw: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch may be the result of arithmetic that a compiler would repeat and round otherwise."""

    def loss(params: Any, example: Any) -> jax.Array:
        return jnp.sum(params @ (example if is_raw else 3 * example))

    params, batch, is_real = jnp.ones((8, 12)), jnp.ones((4, 12)), jnp.ones(4, bool)
    total = clipped_gradient_sum(loss, max_norm=1.0)
    assert "outer" in str(explain(loss, params, batch[0]))
    norms = total(params, batch, is_real)[1].norms
    # Pinning that doubles shows in a length once for each factor that went through it, and no more often.
    monkeypatch.setattr(bookkeeping, "pinned", lambda tree, _: jax.tree.map(lambda leaf: 2 * leaf, tree))
    doubled = clipped_gradient_sum(loss, max_norm=1.0)(params, batch, is_real)[1].norms
    assert np.allclose(doubled, 4 * norms, rtol=1e-4)


def test_a_bias_and_its_weight_share_what_they_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a bias is a factor of the weight's: one array in memory, measured once."""
    pinned, given = bookkeeping.pinned, []
    monkeypatch.setattr(bookkeeping, "pinned", lambda tree, real: given.append(tree) or pinned(tree, real))

    def loss(params: Any, example: Any) -> jax.Array:
        return jnp.sum(jnp.tanh(example @ params["w"] + params["b"]))

    params = {"w": jnp.ones((30, 20)), "b": jnp.ones(20)}
    batch, is_real = jnp.ones((4, 30)), jnp.ones(4, bool)
    clipped_gradient_sum(loss, max_norm=1.0)(params, batch, is_real)
    kept = [leaf for leaf in jax.tree.leaves(given[-1]) if leaf.shape == (4, 20)]
    assert len(kept) == 2
    again = jax.tree.leaves(pinned(kept, is_real))
    assert kept[0] is kept[1]
    assert again[0] is again[1]
