"""The gradient sum through its public function, compiled: edge cases first, for both strategies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gradient_oracle import ROUNDING, STRATEGIES, assert_right, gradients, norms, random

from reticent.core.errors import InvalidArgument
from reticent.training.clipping import Clipping, automatic, flat, per_layer
from reticent.training.gradients import Strategy, UnreleasedExamples, clipped_gradient_sum, inputs

PARAMS = {
    "hidden": {"kernel": random(0, 6, 5), "bias": random(1, 5)},
    "scale": random(2, 5),
    "table": random(3, 4, 6),
}
ROWS = 7
BATCH = {"x": random(4, ROWS, 3, 6), "ids": jnp.arange(ROWS * 3).reshape(ROWS, 3) % 4}
ALL = jnp.ones(ROWS, bool)

both = pytest.mark.parametrize("strategy", STRATEGIES)


def loss(params: Any, example: Any) -> jax.Array:
    inside = example["x"] + params["table"][example["ids"]]
    hidden = jnp.tanh(inside @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return jnp.sum(jnp.square(hidden * params["scale"]))


@cache
def compiled(strategy: Strategy, max_norm: float) -> Any:
    return jax.jit(clipped_gradient_sum(loss, max_norm=max_norm, strategy=strategy))


def summed(
    strategy: Strategy, batch: Any, is_real: Any, *, max_norm: float = 0.5
) -> tuple[Any, UnreleasedExamples]:
    return compiled(strategy, max_norm)(PARAMS, batch, is_real)


def length(tree: Any) -> float:
    return float(norms([[np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]])[0])


def difference(left: Any, right: Any) -> float:
    return length(jax.tree.map(lambda a, b: a - b, left, right))


@both
def test_an_empty_batch_sums_to_zero(strategy: Strategy):
    total, unreleased = summed(strategy, BATCH, jnp.zeros(ROWS, bool))
    assert length(total) == 0
    assert not np.any(unreleased.norms)
    assert not np.any(unreleased.losses)


@both
def test_a_batch_without_rows_sums_to_zero(strategy: Strategy):
    nothing = jax.tree.map(lambda leaf: leaf[:0], BATCH)
    total, unreleased = summed(strategy, nothing, ALL[:0])
    assert length(total) == 0
    assert unreleased.norms.shape == (0,)


@both
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_example_that_is_not_finite_counts_for_nothing_and_harms_no_other(strategy: Strategy, bad: float):
    spoilt = {**BATCH, "x": BATCH["x"].at[2, 1, 0].set(bad)}
    total, _ = summed(strategy, spoilt, ALL)
    without, _ = summed(strategy, BATCH, ALL.at[2].set(False))
    assert difference(total, without) <= ROUNDING


@both
@pytest.mark.parametrize("filling", [np.nan, np.inf, 0.0, 1e30])
def test_padding_adds_exactly_nothing_whatever_it_holds(strategy: Strategy, filling: float):
    padded = {**BATCH, "x": BATCH["x"].at[3:].set(filling)}
    is_real = ALL.at[3:].set(False)
    found, _ = summed(strategy, padded, is_real)
    wanted, _ = summed(strategy, BATCH, is_real)
    assert difference(found, wanted) == 0


@both
def test_zero_gradients_sum_to_zero(strategy: Strategy):
    flat_loss = lambda params, x: 0.0 * jnp.sum(params * x) + jnp.sum(x)  # noqa: E731
    total, unreleased = jax.jit(clipped_gradient_sum(flat_loss, max_norm=1.0, strategy=strategy))(
        jnp.ones(3), jnp.ones((4, 3)), jnp.ones(4, bool)
    )
    assert length(total) == 0
    assert np.all(unreleased.norms < 1e-6)


@both
def test_one_example_is_clipped_to_the_bound(strategy: Strategy):
    one = jax.tree.map(lambda leaf: leaf[:1], BATCH)
    total, unreleased = summed(strategy, one, ALL[:1])
    assert unreleased.norms[0] > 0.5
    assert length(total) == pytest.approx(0.5, rel=ROUNDING)


@both
def test_identical_examples_add_up(strategy: Strategy):
    same = jax.tree.map(lambda leaf: jnp.stack([leaf[0]] * ROWS), BATCH)
    total, _ = summed(strategy, same, ALL)
    assert length(total) == pytest.approx(0.5 * ROWS, rel=ROUNDING)


@both
def test_one_example_moves_the_sum_by_at_most_the_bound(strategy: Strategy):
    # The neighbours of differential privacy: the same batch with and without one row.
    total, _ = summed(strategy, BATCH, ALL)
    for row in range(ROWS):
        without, _ = summed(strategy, BATCH, ALL.at[row].set(False))
        assert difference(total, without) <= 0.5 * (1 + ROUNDING)


WIDE = jnp.ones((300, 300))
IN_THE_MIDDLE = jnp.arange(300)


@both
@pytest.mark.parametrize(
    ("extreme", "params", "size", "max_norm"),
    [
        (lambda w, x: 1e17 * jnp.sum(x @ w), WIDE, 3e-20, 0.1),
        (lambda w, x: 1e17 * jnp.sum(jnp.stack([x, x, x]) @ w), WIDE, 3e-20, 0.1),
        (lambda w, x: 1e17 * jnp.sum(x @ w[IN_THE_MIDDLE + jnp.int32(x[0])]), WIDE, 3e-20, 0.1),
        (lambda w, x: jnp.sum(jnp.sin(w[IN_THE_MIDDLE + jnp.int32(x[0])]) * x[0]), WIDE, 1e-25, 1e-24),
        (lambda w, x: jnp.sum(w * x), WIDE[0], 1e-25, 1e-25),
        (lambda w, x: jnp.sum(x @ w), WIDE, 1e25, 0.1),
        (lambda w, x: jnp.sum(w * x), WIDE[0], 1e38, 0.1),
    ],
    ids=["outer", "gram", "bag", "rows", "explicit", "outer, huge", "explicit, huge"],
)
def test_the_bound_holds_where_squares_are_lost_in_float32(
    strategy: Strategy, extreme: Any, params: jax.Array, size: float, max_norm: float
):
    # A norm that takes the square of 3e-20 for zero would let an example through unclipped.
    rows = jnp.full((1, 300), size, jnp.float32)
    assert float(norms(gradients(extreme, params, rows))[0]) > 2 * max_norm
    function = jax.jit(clipped_gradient_sum(extreme, max_norm=max_norm, strategy=strategy))
    total, _ = function(params, rows, jnp.ones(1, bool))
    assert length(total) <= max_norm * (1 + ROUNDING)


@both
def test_the_sum_is_that_of_the_definition(strategy: Strategy):
    assert_right(loss, PARAMS, BATCH, strategy=strategy)


@both
def test_losses_are_those_of_the_loss(strategy: Strategy):
    _, unreleased = summed(strategy, BATCH, ALL)
    np.testing.assert_allclose(
        unreleased.losses, jax.vmap(loss, in_axes=(None, 0))(PARAMS, BATCH), rtol=ROUNDING
    )


@both
@pytest.mark.parametrize("microbatch", [1, 3, 100])
def test_microbatches_change_only_the_rounding(strategy: Strategy, microbatch: int):
    is_real = ALL.at[4].set(False)
    function = clipped_gradient_sum(loss, max_norm=0.5, strategy=strategy, microbatch=microbatch)
    total, unreleased = jax.jit(function)(PARAMS, BATCH, is_real)
    wanted, whole = summed(strategy, BATCH, is_real)
    assert difference(total, wanted) <= ROUNDING
    np.testing.assert_allclose(unreleased.norms, whole.norms, rtol=ROUNDING)


@pytest.mark.parametrize(
    "clipping", [flat(0.5), per_layer(0.5), per_layer({"hidden": 0.3, "": 0.4}), automatic(0.5)], ids=str
)
def test_strategies_agree_on_every_clipping(clipping: Clipping):
    found = [
        jax.jit(clipped_gradient_sum(loss, clipping=clipping, strategy=strategy))(PARAMS, BATCH, ALL)[0]
        for strategy in STRATEGIES
    ]
    assert difference(*found) <= ROUNDING * ROWS
    assert length(found[0]) <= ROWS * clipping.sensitivity


@both
def test_a_bound_given_with_the_call_replaces_the_other(strategy: Strategy):
    function = clipped_gradient_sum(loss, max_norm=5.0, strategy=strategy)
    found, _ = jax.jit(lambda bound: function(PARAMS, BATCH, ALL, max_norm=bound))(jnp.float32(0.5))
    wanted, _ = summed(strategy, BATCH, ALL)
    assert difference(found, wanted) <= ROUNDING


@both
def test_parameters_that_the_loss_ignores_get_zeros(strategy: Strategy):
    params = {"used": random(0, 3), "unused": random(1, 2, 2), "empty": jnp.zeros((0, 3))}
    function = clipped_gradient_sum(lambda p, x: jnp.sum(p["used"] * x), max_norm=1.0, strategy=strategy)
    total, _ = jax.jit(function)(params, jnp.ones((4, 3)), jnp.ones(4, bool))
    assert np.all(total["unused"] == 0)
    assert total["empty"].shape == (0, 3)
    assert length(total["used"]) == pytest.approx(4.0, rel=1e-4)


@both
def test_examples_may_carry_keys_of_their_own(strategy: Strategy):
    def dropped(params: Any, example: Any) -> jax.Array:
        x, key = example
        return jnp.sum(jnp.square((x * jax.random.bernoulli(key, 0.5, x.shape)) @ params))

    keys = jax.random.split(jax.random.key(0), 5)
    function = clipped_gradient_sum(dropped, max_norm=1.0, strategy=strategy)
    total, _ = jax.jit(function)(random(0, 6, 2), (random(1, 5, 6), keys), jnp.ones(5, bool))
    assert 0 < length(total) <= 5


# What is refused


@both
@pytest.mark.parametrize("leaf", [jnp.arange(3), jnp.array([True]), jnp.array([1j])])
def test_parameters_without_a_gradient_are_refused_by_name(strategy: Strategy, leaf: jax.Array):
    function = clipped_gradient_sum(lambda params, x: jnp.sum(x), max_norm=1.0, strategy=strategy)
    with pytest.raises(InvalidArgument, match=r"Parameter 'layer/count' holds"):
        function({"layer": {"count": leaf}}, jnp.ones((2, 2)), ALL[:2])


@both
@pytest.mark.parametrize(
    ("bad_loss", "said"),
    [
        (lambda params, x: params * x, r"shape \(2,\)"),
        (lambda params, x: (jnp.sum(params * x), x), "one number"),
        (lambda params, x: jnp.sum(x > 0), "int32"),
    ],
)
def test_a_loss_that_is_not_one_number_is_refused(strategy: Strategy, bad_loss: Any, said: str):
    with pytest.raises(InvalidArgument, match=said):
        clipped_gradient_sum(bad_loss, max_norm=1.0, strategy=strategy)(
            jnp.ones(2), jnp.ones((3, 2)), ALL[:3]
        )


@pytest.mark.parametrize("max_norm", [0.0, -1.0, np.nan, np.inf])
def test_a_bound_that_is_not_positive_is_refused(max_norm: float):
    with pytest.raises(InvalidArgument, match="max_norm must be a positive number"):
        clipped_gradient_sum(loss, max_norm=max_norm)
    with pytest.raises(InvalidArgument, match="max_norm must be a positive number"):
        clipped_gradient_sum(loss, max_norm=1.0)(PARAMS, BATCH, ALL, max_norm=max_norm)


@pytest.mark.parametrize(
    "arguments",
    [{}, {"max_norm": 1.0, "clipping": flat(1.0)}, {"max_norm": 1.0, "strategy": "ghost"},
     {"max_norm": 1.0, "microbatch": 0}],
)  # fmt: skip
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any]):
    with pytest.raises(InvalidArgument):
        clipped_gradient_sum(loss, **arguments)


@pytest.mark.parametrize(
    ("batch", "is_real"),
    [(BATCH, ALL[:3]), (BATCH, jnp.ones(ROWS)), (BATCH, jnp.ones((ROWS, 1), bool)), ({}, ALL),
     ({**BATCH, "ids": BATCH["ids"][:2]}, ALL)],
)  # fmt: skip
def test_a_batch_whose_rows_do_not_fit_is_refused(batch: Any, is_real: Any):
    with pytest.raises(InvalidArgument):
        clipped_gradient_sum(loss, max_norm=1.0)(PARAMS, batch, is_real)


def test_a_loss_that_book_keeping_refuses_is_summed_by_vmap_or_refused_when_asked_for_by_name():
    def ignorant(params: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.square(params))

    params, rows = jnp.array([3.0, 4.0]), jnp.ones((5, 2))
    total, _ = jax.jit(clipped_gradient_sum(ignorant, max_norm=1.0))(params, rows, ALL[:5])
    np.testing.assert_allclose(total, [3.0, 4.0], rtol=ROUNDING)
    with pytest.raises(InvalidArgument, match="does not depend on the example"):
        clipped_gradient_sum(ignorant, max_norm=1.0, strategy="book-keeping")(params, rows, ALL[:5])


# Planted bugs: each of these must be caught by the tests above


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Puts a bug in; nothing that was compiled without it, or with it, is used on the other side."""
    compiled.cache_clear()
    yield monkeypatch
    compiled.cache_clear()


def caught(strategy: Strategy) -> bool:
    """Whether one of three tests from above notices something."""
    for test in (
        test_one_example_is_clipped_to_the_bound,
        test_one_example_moves_the_sum_by_at_most_the_bound,
        test_the_sum_is_that_of_the_definition,
    ):
        try:
            test(strategy)
        except AssertionError:
            return True
    return False


@both
def test_nothing_is_caught_where_nothing_is_wrong(strategy: Strategy):
    assert not caught(strategy)


@both
def test_a_skipped_clip_is_caught(strategy: Strategy, planted: pytest.MonkeyPatch):
    planted.setattr(Clipping, "factor", lambda self, norm, bound, at_most: jnp.full_like(norm, at_most))
    assert caught(strategy)


@pytest.mark.parametrize("missing", range(4))
def test_a_norm_that_misses_one_leaf_is_caught(missing: int, planted: pytest.MonkeyPatch):
    layers = Clipping.layers

    def short(self: Clipping, paths: Any) -> Any:
        (layer,) = layers(self, paths)
        rest = tuple(leaf for leaf in layer.leaves if leaf != missing)
        return (layer._replace(leaves=rest), layer._replace(leaves=(missing,)))

    planted.setattr(Clipping, "layers", short)
    assert caught("book-keeping")
    assert caught("vmap")


@both
def test_padding_that_counts_is_caught(strategy: Strategy, planted: pytest.MonkeyPatch):
    checked = inputs.checked
    planted.setattr(inputs, "checked", lambda *args: (checked(*args)[0], jnp.ones_like(args[-1])))
    with pytest.raises(AssertionError):
        test_padding_adds_exactly_nothing_whatever_it_holds(strategy, 1e30)
    with pytest.raises(AssertionError):
        test_an_empty_batch_sums_to_zero(strategy)
