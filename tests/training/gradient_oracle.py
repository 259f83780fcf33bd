"""The sum of clipped gradients by its definition: one example at a time, in float64 NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from reticent.training.clipping import Clipping
from reticent.training.gradients import Strategy, clipped_gradient_sum

ROUNDING = 1e-5  # of norms and of sums, relative
STRATEGIES: tuple[Strategy, ...] = ("vmap", "book-keeping")


def gradients(loss: Callable[..., Any], params: Any, batch: Any) -> list[list[np.ndarray]]:
    """For every example, its gradient leaf by leaf."""
    one = jax.jit(jax.grad(loss))
    rows = jax.tree.leaves(batch)[0].shape[0]
    return [
        [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(one(params, row))]
        for row in (jax.tree.map(lambda leaf, i=i: leaf[i], batch) for i in range(rows))
    ]


def norms(found: list[list[np.ndarray]]) -> np.ndarray:
    return np.array([np.sqrt(sum(np.sum(leaf**2) for leaf in example)) for example in found])


def assert_right(
    loss: Callable[..., Any],
    params: Any,
    batch: Any,
    *,
    strategy: Strategy = "book-keeping",
    rounding: float = ROUNDING,
    clipping: Clipping | None = None,
) -> None:
    """The public function, compiled, against the definition; half of the examples are clipped."""
    found = gradients(loss, params, batch)
    lengths = norms(found)
    bound = float(np.median(lengths)) or 1.0
    factors = np.minimum(1.0, bound / np.maximum(lengths, 1e-30))
    exact = [sum(factor * example[i] for factor, example in zip(factors, found, strict=True))
             for i in range(len(found[0]))]  # fmt: skip
    which = {"clipping": clipping} if clipping else {"max_norm": bound}
    function = jax.jit(clipped_gradient_sum(loss, strategy=strategy, **which))  # type: ignore[arg-type]
    total, unreleased = function(params, batch, jnp.ones(len(found), bool))
    scale = np.maximum(lengths, bound * 1e-3)
    assert np.all(np.abs(unreleased.norms - lengths) <= rounding * scale + 1e-6 * bound)
    if clipping is None:
        for leaf, wanted in zip(jax.tree.leaves(total), exact, strict=True):
            assert leaf.dtype == jnp.float32
            np.testing.assert_allclose(leaf, wanted, rtol=0, atol=rounding * bound * len(found))


def random(seed: int, *shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)
