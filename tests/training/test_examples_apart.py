"""No example of a batch moves what another one adds, whatever XLA makes of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import optax
import pytest
from gradient_oracle import random
from jax import lax
from jax.custom_batching import custom_vmap
from jax.experimental import pallas
from jax.extend.core import Primitive
from jax.interpreters import batching

import reticent as rt
from reticent.core.errors import InvalidArgument
from reticent.core.keys import Keys, Stream
from reticent.training.gradients import Strategy, clipped_gradient_sum, inputs

STRATEGIES = ("vmap", "book-keeping")
SIZE = (5, 6, 2)  # of an image


def convolution(
    padding: list[tuple[int, int]], *, window: int = 2, stride: int = 1, apart: int = 1, spread: int = 1
) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """The loss of a layer whose kernel has shape (window, window, 2, 3)."""

    def loss(kernel: jax.Array, image: jax.Array) -> jax.Array:
        found = lax.conv_general_dilated(
            image[None],
            kernel[:window, :window],
            (stride, stride),
            padding,
            rhs_dilation=(apart, apart),
            lhs_dilation=(spread, spread),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return jnp.sum(jnp.tanh(found) ** 2)

    return loss


def norms(loss: Callable[..., Any], images: jax.Array, strategy: Strategy) -> np.ndarray:
    kernel = random(0, 3, 3, 2, 3)
    function = jax.jit(clipped_gradient_sum(loss, max_norm=1.0, strategy=strategy))
    return np.asarray(function(kernel, images, jnp.ones(len(images), bool))[1].norms)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "loss",
    [
        convolution([(0, 0), (0, 0)]),
        convolution([(1, 1), (1, 1)], window=3),
        convolution([(0, 1), (0, 2)], stride=2),
        convolution([(2, 1), (2, 2)], apart=2),
        convolution([(1, 1), (1, 1)], spread=2),
        convolution([(0, 0), (-1, 0)]),
        convolution([(-1, -1), (-2, 0)], stride=2),
        convolution([(1, -1), (2, -1)], window=3),
        convolution([(1, 1), (1, 1)], window=1),
    ],
)
def test_what_an_example_adds_does_not_depend_on_the_others(loss: Any, strategy: Strategy):
    images = random(1, 4, *SIZE)
    before = norms(loss, images, strategy)
    for other in (100.0, np.nan):
        after = norms(loss, images.at[1].set(other).at[3].set(-other), strategy)
        assert after[[0, 2]].tolist() == before[[0, 2]].tolist()


cropped = convolution([(0, 0), (-1, 1)])


def in_a_loop(kernel: jax.Array, image: jax.Array) -> jax.Array:
    return lax.scan(lambda total, row: (total + cropped(kernel, row), None), jnp.float32(0), image[None])[0]


def in_a_branch(kernel: jax.Array, image: jax.Array) -> jax.Array:
    return lax.cond(image[0, 0, 0] > 0, cropped, convolution([(0, 0), (0, 0)]), kernel, image)


@pytest.mark.parametrize("strategy", [*STRATEGIES, "auto"])
@pytest.mark.parametrize(
    "loss",
    [
        cropped,
        jax.jit(cropped),
        jax.checkpoint(cropped),
        in_a_loop,
        in_a_branch,
        convolution([(-2, 1), (0, 0)], stride=2),
        # Harmless forwards, but the gradient by the image is a convolution with padding (-2, 1).
        lambda kernel, image: convolution([(0, 0), (2, 0)], window=1, stride=3)(
            kernel, image * kernel[0, 0, 0, 0]
        ),
    ],
)
def test_a_convolution_that_would_read_other_examples_is_refused(loss: Any, strategy: Strategy):
    with pytest.raises(InvalidArgument, match=r"reads the memory of other examples.*[Cc]rop the image"):
        norms(loss, random(1, 4, *SIZE), strategy)


def test_training_refuses_it_before_anything_is_drawn():
    keys = Keys.seeded(0)
    plan = rt.Plan.for_budget(
        epsilon=1.0, delta=1e-5, examples=40, batch_size=10, noise_multiplier=2.0, max_norm=1.0
    )
    data = {"image": np.asarray(random(1, 40, *SIZE))}
    with pytest.raises(InvalidArgument, match="memory of other examples"):
        rt.train(
            lambda kernel, row: cropped(kernel, row["image"]),
            random(0, 3, 3, 2, 3),
            data,
            plan,
            optimizer=optax.sgd(0.1),
            keys=keys,
        )
    keys.take(Stream.NOISE)  # which is refused if a part of it was taken


@custom_vmap
def added_up(x: jax.Array) -> jax.Array:
    return x


added_up.def_vmap(lambda size, batched, x: (jnp.broadcast_to(x.sum(0, keepdims=True), x.shape), True))


def called_back(x: jax.Array) -> jax.Array:
    return jax.pure_callback(
        lambda v: v, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="expand_dims"
    )


def over_devices(x: jax.Array) -> jax.Array:
    return lax.psum(x, "records")


def drawn_alike(x: jax.Array) -> jax.Array:
    key = jax.random.fold_in(jax.random.key(0, impl="rbg"), x.astype(jnp.int32))
    return x * jax.random.normal(key)


def kernel(x: jax.Array) -> jax.Array:
    def double(from_: Any, to: Any) -> None:
        to[...] = from_[...] * 2

    return pallas.pallas_call(double, jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)


# Named as one of JAX's own, which it is not.
_sin = Primitive("sin")
_sin.def_abstract_eval(lambda x: x)
batching.primitive_batchers[_sin] = lambda operands, axes: (added_up(operands[0]), axes[0])


def through_a_reference(x: jax.Array) -> jax.Array:
    place = jax.new_ref(x)
    place[...] += x
    return place[...]


MIXING = [added_up, called_back, over_devices, drawn_alike, kernel, _sin.bind, through_a_reference]


def in_the_loss(mix: Callable[[jax.Array], jax.Array]) -> Callable[[Any, Any], jax.Array]:
    return lambda w, x: w * mix(x)


def in_a_backward_rule(mix: Callable[[jax.Array], jax.Array]) -> Callable[[Any, Any], jax.Array]:
    @jax.custom_vjp
    def product(w: jax.Array, x: jax.Array) -> jax.Array:
        return w * x

    product.defvjp(lambda w, x: (w * x, (w, x)), lambda kept, g: (g * mix(kept[1]), g * kept[0]))
    return lambda w, x: product(w, x)


def in_a_forward_rule(mix: Callable[[jax.Array], jax.Array]) -> Callable[[Any, Any], jax.Array]:
    @jax.custom_jvp
    def product(w: jax.Array, x: jax.Array) -> jax.Array:
        return w * x

    product.defjvp(
        lambda values, dots: (values[0] * values[1], dots[0] * mix(values[1]) + dots[1] * values[0])
    )
    return lambda w, x: lax.scan(lambda total, _: (total + product(w, x), None), jnp.float32(0), length=2)[0]


def behind_public_coins(mix: Callable[[jax.Array], jax.Array]) -> Callable[[Any, Any], jax.Array]:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        coin = jax.random.bernoulli(jax.random.key(0, impl="rbg"))  # the same for everybody: allowed
        return w * mix(x) + 0.0 * w * coin

    return loss


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("where", [in_the_loss, in_a_backward_rule, in_a_forward_rule, behind_public_coins])
@pytest.mark.parametrize("mix", MIXING, ids=lambda mix: getattr(mix, "__name__", "custom_vmap"))
def test_what_may_see_other_examples_is_refused_wherever_it_is(mix: Any, where: Any, strategy: Strategy):
    function = clipped_gradient_sum(where(mix), max_norm=1.0, strategy=strategy)
    with pytest.raises(InvalidArgument, match="The loss"):
        function(jnp.float32(1), jnp.ones(4), jnp.ones(4, bool))


def test_a_derivative_that_asks_what_varies_is_taken_as_it_was_looked_at():
    """Book-keeping would ask for the derivative by one input alone, which here is another function."""

    @jax.custom_vjp
    def product(w: jax.Array, h: jax.Array) -> jax.Array:
        return w * h

    def forward(w: Any, h: Any) -> Any:
        both = w.perturbed and h.perturbed
        return w.value * h.value, (w.value, h.value if both else added_up(h.value))

    product.defvjp(forward, lambda kept, g: (g * kept[1], g * kept[0]), symbolic_zeros=True)
    loss = lambda w, x: product(w, w * x)  # noqa: E731
    batch = jnp.array([100.0, 0.1, 0.1, 0.1])
    totals = [
        clipped_gradient_sum(loss, max_norm=1.0)(jnp.float32(1), batch, there)[0]
        for there in (jnp.ones(4, bool), jnp.arange(4) > 0)
    ]
    assert abs(totals[0] - totals[1]) <= 1
    with pytest.raises(InvalidArgument, match="symbolic_zeros"):
        clipped_gradient_sum(loss, max_norm=1.0, strategy="book-keeping")(
            jnp.float32(1), batch, jnp.ones(4, bool)
        )


KEY = jax.random.key(0)
MATRIX = np.eye(4, dtype=np.float32) + 0.1 * np.arange(16, dtype=np.float32).reshape(4, 4)
SQUARE = MATRIX @ MATRIX.T

ORDINARY: dict[str, Callable[[jax.Array, jax.Array], jax.Array]] = {
    "loops": lambda w, x: lax.scan(jax.checkpoint(lambda c, x: (jnp.tanh(c * x), c)), w, x)[0].sum(),
    "fori": lambda w, x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), w * x).sum(),
    "while": lambda w, x: lax.while_loop(lambda c: c < 3, lambda c: c + 1, x[0]) * w.sum(),
    "branches": lambda w, x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, w).sum()
    + lax.switch(x[0].astype(jnp.int32), [jnp.sin, jnp.cos], w).sum(),
    "platforms": lambda w, x: lax.platform_dependent(w * x, cpu=jnp.sin, default=jnp.cos).sum(),
    "remat": lambda w, x: jax.checkpoint(lambda w: jnp.sin(jnp.sin(w * x)).sum())(w),
    "scans": lambda w, x: lax.associative_scan(jnp.add, w * x).sum()
    + jnp.cumsum(w).sum() + jnp.cumprod(w).sum() + lax.cummax(w).sum() + lax.cumlogsumexp(w).sum(),
    "fourier": lambda w, x: jnp.abs(jnp.fft.fft(w * x)).sum() + jnp.abs(jnp.fft.irfft(jnp.fft.rfft(w))).sum(),
    "eigenvalues": lambda w, x: jnp.linalg.eigh(SQUARE * w * x)[1].sum(),
    "singular": lambda w, x: jnp.linalg.svd(MATRIX * w, full_matrices=False)[0].sum() * x[0],
    "cholesky": lambda w, x: jnp.linalg.cholesky(SQUARE + jnp.diag(w * x)).sum(),
    "solves": lambda w, x: jsp.linalg.solve_triangular(MATRIX, w).sum() * x[0]
    + jnp.linalg.solve(MATRIX, w).sum() + jnp.linalg.inv(MATRIX * w).sum()
    + jnp.linalg.lstsq(MATRIX, w)[0].sum(),
    "determinants": lambda w, x: jnp.linalg.det(MATRIX * w) * x[0] + jnp.linalg.slogdet(MATRIX * w)[1],
    "lu, qr": lambda w, x: jsp.linalg.lu(MATRIX * w)[1].sum() * x[0] + jnp.linalg.qr(MATRIX * w)[0].sum(),
    "iterative": lambda w, x: jsp.sparse.linalg.cg(SQUARE, w * x)[0].sum(),
    "order": lambda w, x: (jnp.sort(w) * x).sum() + w[jnp.argsort(x)][0] + lax.top_k(w, 2)[0].sum()
    + jnp.median(w) + jnp.searchsorted(x, w).sum() * w[0],
    "shapes": lambda w, x: sum(jnp.sum(part) * i for i, part in enumerate(jnp.split(w * x, 2)))
    + jnp.stack([w, w * 2]).sum() + jnp.tile(w, 3).sum() + jnp.unstack(w)[0] + jnp.repeat(w, 3).sum()
    + (jnp.roll(w, 1) * x).sum() + jnp.pad(w, 1, mode="reflect").sum() + jnp.copy(w).sum(),
    "scatters": lambda w, x: w.at[0].set(1.0).at[1].add(x[0]).at[2].mul(3.0).at[3].min(0.0).at[1].max(2.0)
    .at[1].subtract(2.0).sum(),
    "segments": lambda w, x: jax.ops.segment_max(w, x.astype(jnp.int32), 5).sum(),
    "slices": lambda w, x: lax.dynamic_update_slice(w, jnp.ones(2), (x[0].astype(jnp.int32),)).sum(),
    "windows": lambda w, x: lax.reduce_window(w * x, -jnp.inf, lax.max, (2,), (2,), "VALID").sum()
    + lax.reduce_window(w, 0.0, lax.add, (2,), (1,), "SAME").sum(),
    "random": lambda w, x: w[0] * jax.random.normal(jax.random.fold_in(KEY, x[0].astype(jnp.int32)))
    + jax.random.gamma(KEY, w).sum() + jax.random.permutation(KEY, w)[0]
    + jax.random.categorical(KEY, w) * x[0],
    "old keys": lambda w, x: (jax.random.normal(jax.random.PRNGKey(3), (4,)) * w * x).sum()
    + jax.random.key_data(jax.random.clone(KEY)).sum() * w[0],
    "special": lambda w, x: (jsp.special.erfinv(w / 10) + jsp.special.gammainc(w, x) + jsp.special.gammaln(w)
    + jsp.special.polygamma(1, w) + jsp.special.i0e(w) + jsp.special.ndtri(w / 10)
    + jsp.special.betainc(x, x, w / 10) + jsp.special.log_ndtr(w)).sum(),
    "activations": lambda w, x: jax.nn.gelu(w * x).sum() + jax.nn.log_softmax(w)[0] + jax.nn.relu6(w).sum()
    + jax.nn.glu(w).sum() + (jax.nn.one_hot(2, 4) * w).sum(),
    "attention": lambda w, x: jax.nn.dot_product_attention(
        *[(MATRIX * w * x).reshape(1, 4, 1, 4)] * 3
    ).sum(),
    "precision": lambda w, x: lax.reduce_precision(w * x, 5, 5).sum()
    + (w.astype(jnp.bfloat16) * 2).sum().astype(jnp.float32),
    "clipped": lambda w, x: jnp.clip(w * x, 0, 1).sum() + lax.optimization_barrier(w).sum(),
    "images": lambda w, x: jax.image.resize(MATRIX * w * x, (8, 8), "bilinear").sum(),
    "inner derivatives": lambda w, x: jax.hessian(lambda w: (w**3 * x).sum())(w).sum(),
    "inner batches": lambda w, x: jax.vmap(lambda a: lax.psum(a * w, "inner"), axis_name="inner")(x).sum(),
    "losses": lambda w, x: optax.softmax_cross_entropy_with_integer_labels(w, x[0].astype(jnp.int32))
    + optax.huber_loss(w, x).sum() + optax.sigmoid_binary_cross_entropy(w, x).sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDINARY)
def test_operations_of_jax_are_accepted(name: str):
    inputs.check_loss(ORDINARY[name], jnp.arange(1.0, 5.0), jnp.arange(1.0, 5.0))
